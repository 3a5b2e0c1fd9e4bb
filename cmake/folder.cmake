# SPDX-License-Identifier: Apache-2.0
# thalweg_precompiled(NAME HEADERS header... [LINK library...] [OPTIONS option...])
#
# Precompiles headers for all targets that REUSE_FROM thalweg_NAME. A small op takes 4 s to compile, 3.5 s
# of them for its headers. The flags must be those of the targets.
function(thalweg_precompiled NAME)
  cmake_parse_arguments(ARG "" "" "HEADERS;LINK;OPTIONS" ${ARGN})
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${NAME}.cc CONTENT "// Nothing but the precompiled header.\n")
  add_library(thalweg_${NAME} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${NAME}.cc)
  target_include_directories(thalweg_${NAME} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(thalweg_${NAME} PRIVATE ${ARG_LINK})
  target_compile_options(thalweg_${NAME} PRIVATE ${ARG_OPTIONS})
  target_precompile_headers(thalweg_${NAME} PRIVATE ${ARG_HEADERS})
endfunction()

# thalweg_unity(TARGET FILE...)
#
# Compiles the files of the target together, THALWEG_UNITY_SIZE at a time, with
# CMake's unity build. Most of a file's time goes into templates of headers that
# all files share. Files of different folders never meet: a new file changes only
# the units of its own folder. CMAKE_UNITY_BUILD=OFF compiles each file alone.
set(THALWEG_UNITY_SIZE 8 CACHE STRING "How many files of a folder a unity build compiles together")
function(thalweg_unity TARGET)
  set(folders)
  foreach(file ${ARGN})
    get_filename_component(folder ${file} DIRECTORY)
    get_filename_component(room ${folder} NAME)
    list(APPEND folders ${room})
    list(APPEND files_${room} ${file})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(room ${folders})
    # As many units as needed, of about the same number of files.
    list(LENGTH files_${room} count)
    math(EXPR units "(${count} + ${THALWEG_UNITY_SIZE} - 1) / ${THALWEG_UNITY_SIZE}")
    set(index 0)
    foreach(file ${files_${room}})
      math(EXPR unit "${index} * ${units} / ${count}")
      set_property(SOURCE ${file} PROPERTY UNITY_GROUP ${room}_${unit})
      math(EXPR index "${index} + 1")
    endforeach()
  endforeach()
  set_property(TARGET ${TARGET} PROPERTY UNITY_BUILD_MODE GROUP)
  if(NOT DEFINED CMAKE_UNITY_BUILD)
    set_property(TARGET ${TARGET} PROPERTY UNITY_BUILD ON)
  endif()
endfunction()

# Tests are compiled without optimization, which takes less than half the time, also
# with sanitizers. The libraries that they test are optimized.
set(THALWEG_TEST_OPTIONS -O0)

# thalweg_folder(NAME [OBJECT] [PROGRAM name] [PCH name] [USES folder...]
#                [LINK library...] [TESTS_USE folder...])
#
# Makes the library thalweg_NAME of every .cc below NAME/, and the test program
# NAME_test of every *_test.cc there: a test cannot be left out.
# OBJECT keeps objects whole, for folders whose objects register themselves. PCH
# names a thalweg_precompiled. PROGRAM makes a program of the library and main.cc,
# which is not part of the library.
function(thalweg_folder NAME)
  cmake_parse_arguments(ARG "OBJECT" "PCH;PROGRAM" "USES;LINK;TESTS_USE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${NAME}/*.cc)
  list(FILTER sources EXCLUDE REGEX "(_test|_testlib|/main)\\.cc$")
  set(uses ${ARG_USES})
  list(TRANSFORM uses PREPEND thalweg_)

  set(library thalweg_${NAME})
  if(ARG_OBJECT)
    set(library thalweg_${NAME}_objects)
    add_library(${library} OBJECT ${sources})
    add_library(thalweg_${NAME} INTERFACE)
    target_link_libraries(thalweg_${NAME} INTERFACE ${library} $<TARGET_OBJECTS:${library}>)
  else()
    add_library(${library} STATIC ${sources})
  endif()
  target_include_directories(${library} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${library} PUBLIC ${uses} ${ARG_LINK})
  target_precompile_headers(${library} REUSE_FROM thalweg_${ARG_PCH})
  thalweg_unity(${library} ${sources})

  if(ARG_PROGRAM)
    add_executable(${ARG_PROGRAM} ${NAME}/main.cc)
    target_link_libraries(${ARG_PROGRAM} PRIVATE thalweg_${NAME})
  else()
    set_property(GLOBAL APPEND PROPERTY THALWEG_OBJECTS $<TARGET_OBJECTS:${library}>)
  endif()
  if(BUILD_TESTING)
    thalweg_tests(${NAME} USES ${ARG_USES} TESTS_USE ${ARG_TESTS_USE})
  endif()
endfunction()

# thalweg_tests(NAME [USES folder...] [TESTS_USE folder...]): the tests of a folder.
# *_testlib.cc are helpers of tests: they are linked into the test programs of
# this folder and of those that use it.
function(thalweg_tests NAME)
  cmake_parse_arguments(ARG "" "" "USES;TESTS_USE" ${ARGN})
  file(GLOB_RECURSE testlibs CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${NAME}/*_testlib.cc)
  file(GLOB_RECURSE tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${NAME}/*_test.cc)
  if(testlibs)
    add_library(thalweg_${NAME}_testlib STATIC ${testlibs})
    thalweg_unity(thalweg_${NAME}_testlib ${testlibs})
    target_link_libraries(thalweg_${NAME}_testlib PUBLIC thalweg_${NAME} GTest::gmock)
    foreach(folder ${ARG_TESTS_USE})
      target_link_libraries(thalweg_${NAME}_testlib PUBLIC thalweg_${folder})
    endforeach()
    foreach(folder ${ARG_USES} ${ARG_TESTS_USE})
      if(TARGET thalweg_${folder}_testlib)
        target_link_libraries(thalweg_${NAME}_testlib PUBLIC thalweg_${folder}_testlib)
      endif()
    endforeach()
    target_include_directories(thalweg_${NAME}_testlib SYSTEM PRIVATE ${PROJECT_BINARY_DIR}/generated)
    target_compile_options(thalweg_${NAME}_testlib PRIVATE ${THALWEG_TEST_OPTIONS})
    target_precompile_headers(thalweg_${NAME}_testlib REUSE_FROM thalweg_test_headers)
  endif()
  if(tests)
    add_executable(${NAME}_test ${tests})
    thalweg_unity(${NAME}_test ${tests})
    target_link_libraries(${NAME}_test PRIVATE thalweg_test_main thalweg_${NAME} GTest::gmock)
    set_property(TARGET ${NAME}_test PROPERTY ENABLE_EXPORTS ON)  # names in the stacks of a test that hangs
    # The precompiled headers of tests include generated ones, also in folders that do not use them.
    target_include_directories(${NAME}_test SYSTEM PRIVATE ${PROJECT_BINARY_DIR}/generated)
    target_compile_options(${NAME}_test PRIVATE ${THALWEG_TEST_OPTIONS})
    target_precompile_headers(${NAME}_test REUSE_FROM thalweg_test_headers)
    foreach(folder ${ARG_TESTS_USE})
      target_link_libraries(${NAME}_test PRIVATE thalweg_${folder})
    endforeach()
    foreach(folder ${NAME} ${ARG_USES} ${ARG_TESTS_USE})
      if(TARGET thalweg_${folder}_testlib)
        target_link_libraries(${NAME}_test PRIVATE thalweg_${folder}_testlib)
      endif()
    endforeach()
    add_test(NAME ${NAME} COMMAND ${NAME}_test)
    set_tests_properties(${NAME} PROPERTIES TIMEOUT 600 LABELS cpp)
    add_dependencies(cpp_tests ${NAME}_test)
    # The tsan preset ignores libraries that are not built for the thread sanitizer, and with them what they do to our
    # memory: servers that send megabytes over gRPC would take minutes. Tests within one process check everything.
    if(THALWEG_SANITIZE MATCHES "thread" AND NOT NAME STREQUAL "client")
      set_property(TEST ${NAME} PROPERTY ENVIRONMENT
                   "TSAN_OPTIONS=halt_on_error=1:suppressions=${PROJECT_SOURCE_DIR}/tools/tsan.supp")
    endif()
  endif()
endfunction()

# thalweg_protos(NAME): the library thalweg_NAME of every .proto in NAME/.
# Generated code is compiled at -O1: it is large, and parsing is not where the
# time of a step goes. The headers that it includes take half of its time.
set(THALWEG_PROTO_OPTIONS -O1 -g0)
function(thalweg_protos NAME)
  file(GLOB protos CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${NAME}/*.proto)
  set(generated)
  foreach(proto ${protos})
    get_filename_component(stem ${proto} NAME_WE)
    set(base ${PROJECT_BINARY_DIR}/generated/thalweg/${NAME}/${stem})
    add_custom_command(
      OUTPUT ${base}.pb.cc ${base}.pb.h
      COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/generated
      COMMAND protobuf::protoc --cpp_out=${PROJECT_BINARY_DIR}/generated -I${PROJECT_SOURCE_DIR} ${proto}
      DEPENDS ${proto}  # not what it imports: that changes none of its code
      VERBATIM)
    list(APPEND generated ${base}.pb.cc)
  endforeach()
  add_custom_target(thalweg_generated DEPENDS ${generated})
  thalweg_precompiled(${NAME}_headers OPTIONS ${THALWEG_PROTO_OPTIONS} LINK protobuf::libprotobuf
    HEADERS <algorithm> <google/protobuf/arena.h> <google/protobuf/descriptor.h> <google/protobuf/generated_message_reflection.h>
            <google/protobuf/generated_message_util.h> <google/protobuf/io/coded_stream.h> <google/protobuf/map.h>
            <google/protobuf/map_field_inl.h> <google/protobuf/reflection_ops.h> <google/protobuf/wire_format.h>)
  add_library(thalweg_${NAME} STATIC ${generated})
  target_include_directories(thalweg_${NAME} SYSTEM PUBLIC ${PROJECT_BINARY_DIR}/generated)
  target_compile_options(thalweg_${NAME} PRIVATE ${THALWEG_PROTO_OPTIONS})
  target_precompile_headers(thalweg_${NAME} REUSE_FROM thalweg_${NAME}_headers)
  set_property(GLOBAL APPEND PROPERTY THALWEG_OBJECTS $<TARGET_OBJECTS:thalweg_${NAME}>)
  target_link_libraries(thalweg_${NAME} PUBLIC protobuf::libprotobuf)
endfunction()
