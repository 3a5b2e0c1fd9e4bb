# SPDX-License-Identifier: Apache-2.0
# Finds the Debian 12 packages that tools/setup installs. Used by the build, and by other projects through find_package(thalweg).

# The headers of the API include these.
find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)  # the module, and before gRPC's config
find_package(absl CONFIG REQUIRED)
set(THALWEG_API_LIBRARIES
  absl::any_invocable absl::flags absl::flags_parse absl::flags_usage absl::flat_hash_map absl::inlined_vector absl::span absl::status
  absl::statusor absl::str_format absl::strings absl::synchronization absl::time protobuf::libprotobuf Threads::Threads)
if(THALWEG_API_ONLY)
  return()
endif()

# libthalweg is linked with these too.
find_package(ZLIB REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)  # dnnl's own config fails to load
find_library(MICROHTTPD_LIBRARY microhttpd REQUIRED)  # the HTTP port
# BLAS and LAPACK. Prefers the serial build, which starts no threads.
find_library(OPENBLAS_LIBRARY openblas PATH_SUFFIXES openblas-serial REQUIRED)
set(THALWEG_LIBRARIES ${THALWEG_API_LIBRARIES} gRPC::grpc++ JPEG::JPEG PNG::PNG ZLIB::ZLIB ${DNNL_LIBRARY} ${OPENBLAS_LIBRARY}
                      ${MICROHTTPD_LIBRARY} farmhash leveldb re2 snappy sqlite3)
