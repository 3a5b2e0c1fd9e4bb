# thalweg_precompiled(NAME HEADERS header... [LINK library...] [OPTIONS option...])
#
# Headers that are parsed once, for all targets that REUSE_FROM thalweg_NAME. A
# small op takes 4 s to compile, and 3.5 s of them are its headers. Flags must be
# those of the targets.
function(thalweg_precompiled NAME)
  cmake_parse_arguments(ARG "" "" "HEADERS;LINK;OPTIONS" ${ARGN})
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${NAME}.cc CONTENT "// Nothing but the precompiled header.\n")
  add_library(thalweg_${NAME} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${NAME}.cc)
  target_include_directories(thalweg_${NAME} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(thalweg_${NAME} PRIVATE ${ARG_LINK})
  target_compile_options(thalweg_${NAME} PRIVATE ${ARG_OPTIONS})
  target_precompile_headers(thalweg_${NAME} PRIVATE ${ARG_HEADERS})
endfunction()

# thalweg_batches(FILES NAME COUNT): replaces the list by sources of COUNT files
# each. Half a second of every file goes into templates of headers that all of them
# share, most of the time of a test: eight tests in one go take as long as two one
# by one.
set(THALWEG_SOURCE_BATCH 8 CACHE STRING "How many sources of a folder are compiled together; 1 for each alone")
set(THALWEG_TEST_BATCH 8 CACHE STRING "How many tests of a folder are compiled together; 1 for each alone")
function(thalweg_batches FILES NAME COUNT)
  set(files ${${FILES}})
  file(STRINGS /work/main/build/baseline_files.txt baseline)
  set(fresh ${files})
  list(REMOVE_ITEM fresh ${baseline})
  if(fresh)
    list(REMOVE_ITEM files ${fresh})
  endif()
  set(batches)
  while(files AND COUNT GREATER 1)
    list(LENGTH batches index)
    list(SUBLIST files 0 ${COUNT} some)
    list(REMOVE_ITEM files ${some})
    set(batch ${CMAKE_CURRENT_BINARY_DIR}/${NAME}_${index}.cc)
    list(JOIN some "," joined)
    add_custom_command(
      OUTPUT ${batch}
      COMMAND ${CMAKE_COMMAND} -D OUTPUT=${batch} -D FILES=${joined} -P ${PROJECT_SOURCE_DIR}/cmake/batch.cmake
      DEPENDS ${some} ${PROJECT_SOURCE_DIR}/cmake/batch.cmake
      VERBATIM)
    list(APPEND batches ${batch})
  endwhile()
  foreach(file ${fresh})
    list(APPEND batches ${file})
  endforeach()
  if(batches)
    # In a target of its own: what is only in the program waits for all its libraries.
    add_custom_target(${NAME}_sources DEPENDS ${batches})
    set(${FILES} ${batches} PARENT_SCOPE)
  endif()
endfunction()

# Tests are not optimised; what they test is.
set(THALWEG_TEST_OPTIONS)
if(NOT THALWEG_SANITIZE)
  set(THALWEG_TEST_OPTIONS -O0)
endif()

# thalweg_folder(NAME [OBJECT] [PROGRAM name] [PCH name] [USES folder...]
#                [LINK library...] [TESTS_USE folder...])
#
# Makes the library thalweg_NAME of every .cc below NAME/, and the test program
# NAME_test of every *_test.cc there: a test cannot be left out.
# *_testlib.cc are helpers of tests: they are linked into the test programs of
# this folder and of those that use it. OBJECT keeps objects whole, for folders
# whose objects register themselves. PCH names a thalweg_precompiled. PROGRAM
# makes a program of the library and main.cc, which is no part of the library.
function(thalweg_folder NAME)
  cmake_parse_arguments(ARG "OBJECT" "PCH;PROGRAM" "USES;LINK;TESTS_USE" ${ARGN})
  file(GLOB_RECURSE all CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${NAME}/*.cc)
  set(tests ${all})
  set(testlibs ${all})
  set(sources ${all})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  if(NAME STREQUAL "ops")
    list(FILTER tests INCLUDE REGEX "/(fuzz|empty_inputs|gradients|quantized_ops|audio|transform|generator_ops|debug|string_ngrams|csr)_test")
  endif()
  list(FILTER testlibs INCLUDE REGEX "_testlib\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(_test|_testlib|/main)\\.cc$")

  if(NOT ARG_PROGRAM)  # whose sources have definitions of their own
    thalweg_batches(sources ${NAME} ${THALWEG_SOURCE_BATCH})
  endif()

  set(uses ${ARG_USES})
  list(TRANSFORM uses PREPEND thalweg_)

  if(NOT sources)
    add_library(thalweg_${NAME} INTERFACE)
    target_include_directories(thalweg_${NAME} INTERFACE ${PROJECT_SOURCE_DIR})
    target_link_libraries(thalweg_${NAME} INTERFACE ${uses} ${ARG_LINK})
  elseif(ARG_OBJECT)
    add_library(thalweg_${NAME}_objects OBJECT ${sources})
    target_include_directories(thalweg_${NAME}_objects PUBLIC ${PROJECT_SOURCE_DIR})
    target_link_libraries(thalweg_${NAME}_objects PUBLIC ${uses} ${ARG_LINK})
    add_library(thalweg_${NAME} INTERFACE)
    target_link_libraries(thalweg_${NAME} INTERFACE thalweg_${NAME}_objects $<TARGET_OBJECTS:thalweg_${NAME}_objects>)
  else()
    add_library(thalweg_${NAME} STATIC ${sources})
    target_include_directories(thalweg_${NAME} PUBLIC ${PROJECT_SOURCE_DIR})
    target_link_libraries(thalweg_${NAME} PUBLIC ${uses} ${ARG_LINK})
  endif()

  if(ARG_PCH AND sources)
    if(ARG_OBJECT)
      target_precompile_headers(thalweg_${NAME}_objects REUSE_FROM thalweg_${ARG_PCH})
    else()
      target_precompile_headers(thalweg_${NAME} REUSE_FROM thalweg_${ARG_PCH})
    endif()
  endif()

  if(ARG_PROGRAM)
    add_executable(${ARG_PROGRAM} ${NAME}/main.cc)
    target_link_libraries(${ARG_PROGRAM} PRIVATE thalweg_${NAME})
  elseif(sources)
    set_property(GLOBAL APPEND PROPERTY THALWEG_OBJECTS $<TARGET_OBJECTS:thalweg_${NAME}$<$<BOOL:${ARG_OBJECT}>:_objects>>)
  endif()

  if(testlibs)
    add_library(thalweg_${NAME}_testlib STATIC ${testlibs})
    target_link_libraries(thalweg_${NAME}_testlib PUBLIC thalweg_${NAME} GTest::gmock)
    foreach(folder ${ARG_USES})
      if(TARGET thalweg_${folder}_testlib)
        target_link_libraries(thalweg_${NAME}_testlib PUBLIC thalweg_${folder}_testlib)
      endif()
    endforeach()
    target_compile_options(thalweg_${NAME}_testlib PRIVATE ${THALWEG_TEST_OPTIONS})
    target_precompile_headers(thalweg_${NAME}_testlib REUSE_FROM thalweg_test_headers)
  endif()
  if(tests)
    thalweg_batches(tests ${NAME}_test ${THALWEG_TEST_BATCH})
    add_executable(${NAME}_test ${tests})
    target_link_libraries(${NAME}_test PRIVATE thalweg_${NAME} GTest::gmock GTest::gtest_main)
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
    set_tests_properties(${NAME} PROPERTIES TIMEOUT 600)
    # The preset has the thread sanitizer pass over what libraries without it do to memory by memcpy and the like, and
    # with that over ours: servers that send megabytes over gRPC would take minutes to suppress every word. What runs in
    # one process is looked at in full.
    if(THALWEG_SANITIZE MATCHES "thread" AND NOT NAME STREQUAL "client")
      set_property(TEST ${NAME} PROPERTY ENVIRONMENT
                   "TSAN_OPTIONS=halt_on_error=1:suppressions=${PROJECT_SOURCE_DIR}/tools/tsan.supp")
    endif()
  endif()
endfunction()

# thalweg_protos(NAME): the library thalweg_NAME of every .proto in NAME/.
# Generated code is compiled at -O1: it is large, and parsing is not where the
# time of a step goes.
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
  add_library(thalweg_${NAME} STATIC ${generated})
  target_include_directories(thalweg_${NAME} SYSTEM PUBLIC ${PROJECT_BINARY_DIR}/generated)
  target_compile_options(thalweg_${NAME} PRIVATE -O1 -g0)
  set_property(GLOBAL APPEND PROPERTY THALWEG_OBJECTS $<TARGET_OBJECTS:thalweg_${NAME}>)
  target_link_libraries(thalweg_${NAME} PUBLIC protobuf::libprotobuf)
endfunction()
