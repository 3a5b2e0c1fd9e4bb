# Rules for `make install`: the program, and the C++ API for other projects (find_package(thalweg)).
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)
if(TARGET thalweg)
  install(TARGETS thalweg RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY python/shim/ DESTINATION ${CMAKE_INSTALL_DATADIR}/thalweg/python FILES_MATCHING PATTERN "*.py")
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Combines all folders in one archive.
get_property(objects GLOBAL PROPERTY THALWEG_OBJECTS)
add_library(thalweg_archive STATIC ${objects})
set_target_properties(thalweg_archive PROPERTIES OUTPUT_NAME thalweg LINKER_LANGUAGE CXX)
install(TARGETS thalweg_archive ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
file(STRINGS thalweg/public_headers.txt headers REGEX "^thalweg/")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS thalweg/public_headers.txt)
foreach(header ${headers})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
endforeach()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/thalweg)
configure_package_config_file(cmake/thalweg-config.cmake.in ${PROJECT_BINARY_DIR}/thalweg-config.cmake
                              INSTALL_DESTINATION ${package} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/thalweg-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/thalweg-config.cmake ${PROJECT_BINARY_DIR}/thalweg-config-version.cmake
              cmake/dependencies.cmake DESTINATION ${package})
