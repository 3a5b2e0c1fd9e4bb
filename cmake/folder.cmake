# thalweg_folder(NAME [OBJECT] [PROGRAM name] [PCH header] [USES folder...]
#                [LINK library...] [TESTS_USE folder...])
#
# Makes the library thalweg_NAME of every .cc in this folder's NAME/, and the
# test program NAME_test of every *_test.cc there: a test cannot be left out.
# *_testlib.cc are helpers of tests: they are linked into the test programs of
# this folder and of those that use it. OBJECT keeps objects whole, for folders
# whose objects register themselves. PCH names a header that all of them
# include, to be parsed once (3.5 s of the 4 s that a small op takes). PROGRAM
# makes a program of the library and main.cc, which is no part of the library.
function(thalweg_folder NAME)
  cmake_parse_arguments(ARG "OBJECT" "PCH;PROGRAM" "USES;LINK;TESTS_USE" ${ARGN})
  file(GLOB all CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${NAME}/*.cc)
  set(tests ${all})
  set(testlibs ${all})
  set(sources ${all})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER testlibs INCLUDE REGEX "_testlib\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(_test|_testlib|/main)\\.cc$")

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
    # The precompiled header counts as an object too.
    set(objects $<FILTER:$<TARGET_OBJECTS:thalweg_${NAME}_objects>,EXCLUDE,\\.gch$>)
    target_link_libraries(thalweg_${NAME} INTERFACE thalweg_${NAME}_objects "${objects}")
  else()
    add_library(thalweg_${NAME} STATIC ${sources})
    target_include_directories(thalweg_${NAME} PUBLIC ${PROJECT_SOURCE_DIR})
    target_link_libraries(thalweg_${NAME} PUBLIC ${uses} ${ARG_LINK})
  endif()

  if(ARG_PCH AND sources)
    if(ARG_OBJECT)
      target_precompile_headers(thalweg_${NAME}_objects PRIVATE <${ARG_PCH}>)
    else()
      target_precompile_headers(thalweg_${NAME} PRIVATE <${ARG_PCH}>)
    endif()
  endif()

  if(ARG_PROGRAM)
    add_executable(${ARG_PROGRAM} ${NAME}/main.cc)
    target_link_libraries(${ARG_PROGRAM} PRIVATE thalweg_${NAME})
  endif()

  if(testlibs)
    add_library(thalweg_${NAME}_testlib STATIC ${testlibs})
    target_link_libraries(thalweg_${NAME}_testlib PUBLIC thalweg_${NAME} GTest::gmock)
  endif()
  if(tests)
    add_executable(${NAME}_test ${tests})
    target_link_libraries(${NAME}_test PRIVATE thalweg_${NAME} GTest::gmock GTest::gtest_main)
    if(NOT THALWEG_SANITIZE)
      target_compile_options(${NAME}_test PRIVATE -O0)  # what they test is optimised; they themselves need not be
    endif()
    if(ARG_PCH)
      target_precompile_headers(${NAME}_test PRIVATE <${ARG_PCH}> <gmock/gmock.h>)
    endif()
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
  target_link_libraries(thalweg_${NAME} PUBLIC protobuf::libprotobuf)
endfunction()
