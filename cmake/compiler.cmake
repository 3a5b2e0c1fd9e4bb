# Flags for every target. Kernels are plain loops, so the optimizer may assume that errno and traps of math
# functions are not used. -O3 is used only for loops that gain from it (THALWEG_SIMD): for all code, it
# would take a third more compile time.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")

add_compile_options(-Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers -fno-math-errno
                    -fno-trapping-math -pthread)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Hints that only g++ knows (ivdep, noclone) and the value of a fold that nobody wants are no mistakes.
  add_compile_options(-Wthread-safety -Werror=thread-safety -Wno-unknown-pragmas -Wno-unknown-attributes -Wno-unused-value)
else()
  # g++ 12 reports these inside abseil, protobuf and the standard library; and a batch of files (folder.cmake) it takes
  # for a header, in which no class may hold one of an unnamed namespace.
  add_compile_options(-Wno-subobject-linkage -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds -Wno-uninitialized)
endif()

set(THALWEG_SANITIZE "" CACHE STRING "Sanitizers to build with, as -fsanitize= takes them")
if(THALWEG_SANITIZE)
  add_compile_options(-fsanitize=${THALWEG_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${THALWEG_SANITIZE})
  if(THALWEG_SANITIZE MATCHES "undefined")
    # Looks at memory through a pipe, which it cannot open where a test has used all descriptors up.
    add_compile_options(-fno-sanitize=vptr)
  endif()
  if(THALWEG_SANITIZE MATCHES "thread")
    # Fences, which the sanitizer does not follow, guard absl's flags of 16 bytes.
    add_compile_options(-Wno-tsan)
    include_directories(BEFORE SYSTEM ${PROJECT_SOURCE_DIR}/cmake/tsan)
  endif()
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/cmake/ccache)
endif()
find_program(LLD ld.lld)
if(LLD)
  add_link_options(-fuse-ld=lld)
endif()
