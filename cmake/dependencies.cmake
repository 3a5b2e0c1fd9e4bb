# Debian 12 packages; tools/setup installs them.
find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)  # the module, and before gRPC's config
find_package(absl CONFIG REQUIRED)
find_package(GTest REQUIRED)
find_package(ZLIB REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)  # dnnl's own config fails to load
