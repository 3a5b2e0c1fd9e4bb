# What `make install` installs.
include(GNUInstallDirs)
if(TARGET thalweg)
  install(TARGETS thalweg RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY python/shim/ DESTINATION ${CMAKE_INSTALL_DATADIR}/thalweg/python FILES_MATCHING PATTERN "*.py")
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
