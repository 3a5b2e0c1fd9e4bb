# SPDX-License-Identifier: Apache-2.0
# Rules for `make install`: the program, and the C++ API for other projects,
# as a shared and as a static library (find_package(thalweg), pkg-config).
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# Both libraries hold the objects of all folders. Ops register themselves, so none may be left out.
get_property(objects GLOBAL PROPERTY THALWEG_OBJECTS)
add_library(thalweg_static STATIC ${objects})
add_library(thalweg_shared SHARED ${objects})
target_link_libraries(thalweg_shared PRIVATE ${THALWEG_LIBRARIES})
target_link_options(thalweg_shared PRIVATE -Wl,-Bsymbolic-functions)
if(NOT THALWEG_SANITIZE)  # whose functions are the program's
  target_link_options(thalweg_shared PRIVATE -Wl,--no-undefined)
endif()
set_target_properties(thalweg_static thalweg_shared PROPERTIES OUTPUT_NAME thalweg LINKER_LANGUAGE CXX)
# Releases that differ in the last number only are compatible.
set_target_properties(thalweg_shared PROPERTIES VERSION ${PROJECT_VERSION}
                      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
install(TARGETS thalweg_static thalweg_shared ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION
                                              ${CMAKE_INSTALL_LIBDIR})

# The public headers.
file(STRINGS thalweg/public_headers.txt headers REGEX "^thalweg/")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS thalweg/public_headers.txt)
foreach(header ${headers})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
endforeach()

# The program, and the Python files that it needs.
if(TARGET thalweg)
  install(TARGETS thalweg RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY python/shim/ DESTINATION ${CMAKE_INSTALL_DATADIR}/thalweg/python FILES_MATCHING PATTERN "*.py")
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# find_package(thalweg)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/thalweg)
configure_package_config_file(cmake/thalweg-config.cmake.in ${PROJECT_BINARY_DIR}/thalweg-config.cmake
                              INSTALL_DESTINATION ${package} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/thalweg-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/thalweg-config.cmake ${PROJECT_BINARY_DIR}/thalweg-config-version.cmake
              cmake/dependencies.cmake DESTINATION ${package})

# pkg-config thalweg, pkg-config thalweg-static
set(THALWEG_PC_REQUIRES ${THALWEG_API_LIBRARIES})
list(FILTER THALWEG_PC_REQUIRES INCLUDE REGEX "^absl::")
list(TRANSFORM THALWEG_PC_REQUIRES REPLACE "::" "_")
list(JOIN THALWEG_PC_REQUIRES " " THALWEG_PC_REQUIRES)
string(APPEND THALWEG_PC_REQUIRES " protobuf")
file(RELATIVE_PATH THALWEG_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
foreach(name thalweg thalweg-static)
  configure_file(cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
