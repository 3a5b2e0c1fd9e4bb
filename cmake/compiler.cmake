# SPDX-License-Identifier: Apache-2.0
# Flags for every target. The flags that a user gives (CXXFLAGS, CMAKE_CXX_FLAGS,
# CMAKE_CXX_FLAGS_RELEASE) stay as they are: only CMake's own default is replaced.
# -O3 is reserved for loops that gain from it (THALWEG_SIMD): for all code it costs
# a third more compile time.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()
string(STRIP "${CMAKE_CXX_FLAGS_RELEASE_INIT}" default_flags)
if(CMAKE_CXX_FLAGS_RELEASE STREQUAL default_flags)
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
endif()

# The same objects go into programs, libthalweg.a and libthalweg.so, and all targets share precompiled headers. Calls
# between our functions need not allow for another library that replaces them.
add_compile_options(-fPIC -fno-semantic-interposition)

# Kernels are plain loops: nothing reads errno or traps after a math function.
add_compile_options(-fno-math-errno -fno-trapping-math -pthread)

# CMAKE_COMPILE_WARNING_AS_ERROR, which the presets for developers set, makes warnings errors.
add_compile_options(-Wall -Wextra -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Clang does not know g++'s hints (ivdep, noclone), and warns about the unused value of a fold expression.
  add_compile_options(-Wthread-safety -Wno-unknown-pragmas -Wno-unknown-attributes -Wno-unused-value)
else()
  # g++ 12 reports these inside abseil, protobuf and the standard library. It also takes the files of a unity build for
  # headers, in which a class may not have members of a type from an unnamed namespace.
  add_compile_options(-Wno-subobject-linkage -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds -Wno-uninitialized)
endif()

set(THALWEG_SANITIZE "" CACHE STRING "Sanitizers to build with, as -fsanitize= takes them")
if(THALWEG_SANITIZE)
  add_compile_options(-fsanitize=${THALWEG_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${THALWEG_SANITIZE})
  if(THALWEG_SANITIZE MATCHES "undefined")
    # The vptr check reads memory through a pipe, which it cannot open in a test that has used up all descriptors.
    add_compile_options(-fno-sanitize=vptr)
  endif()
  if(THALWEG_SANITIZE MATCHES "thread")
    # Fences, which the sanitizer does not follow, guard absl's flags of 16 bytes.
    add_compile_options(-Wno-tsan)
    include_directories(BEFORE SYSTEM ${PROJECT_SOURCE_DIR}/cmake/tsan)
  endif()
endif()

option(THALWEG_FUZZ "Build the targets of tests/fuzz for libFuzzer, with clang" OFF)
if(THALWEG_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/cmake/ccache)
endif()
find_program(LLD ld.lld)
if(LLD)
  add_link_options(-fuse-ld=lld)
endif()
