# Finds the Debian 12 packages that tools/setup installs. Used by the build, and by other projects through find_package(thalweg).
find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)  # the module, and before gRPC's config
find_package(absl CONFIG REQUIRED)
find_package(ZLIB REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)  # dnnl's own config fails to load
# BLAS and LAPACK. Prefers the serial build, which starts no threads.
find_library(OPENBLAS_LIBRARY openblas PATH_SUFFIXES openblas-serial REQUIRED)

# The libraries that programs of the C++ API link to.
set(THALWEG_LIBRARIES
  absl::any_invocable absl::flags absl::flags_parse absl::flags_usage absl::flat_hash_map absl::inlined_vector absl::span absl::status
  absl::statusor absl::str_format absl::strings absl::synchronization absl::time gRPC::grpc++ JPEG::JPEG PNG::PNG
  protobuf::libprotobuf Threads::Threads ZLIB::ZLIB ${DNNL_LIBRARY} ${OPENBLAS_LIBRARY} farmhash leveldb re2 snappy)
