# find_package(sinew) and pkg-config: sinew::sinew is all installed layers together, and sinew::c is the C API. The component conformance is the
# suite for transports, sinew::conformance.
include(CMakePackageConfigHelpers)
get_property(layers GLOBAL PROPERTY SINEW_LAYERS)
list(TRANSFORM layers PREPEND sinew:: OUTPUT_VARIABLE SINEW_LAYER_TARGETS)
list(REVERSE layers)
list(TRANSFORM layers PREPEND -lsinew_ OUTPUT_VARIABLE SINEW_LAYER_FLAGS)
list(JOIN SINEW_LAYER_FLAGS " " SINEW_LAYER_FLAGS)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sinew)
install(EXPORT sinew_targets NAMESPACE sinew:: DESTINATION ${config_dir} COMPONENT libsinew-dev)
if(TARGET sinew_conformance)
  install(EXPORT sinew_conformance_targets NAMESPACE sinew:: DESTINATION ${config_dir} COMPONENT libsinew-dev)
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/sinew-config.cmake.in ${PROJECT_BINARY_DIR}/sinew-config.cmake
  INSTALL_DESTINATION ${config_dir}
  PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sinew-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/sinew-config.cmake ${PROJECT_BINARY_DIR}/sinew-config-version.cmake
  ${PROJECT_SOURCE_DIR}/cmake/sinew-add-module.cmake DESTINATION ${config_dir} COMPONENT libsinew-dev)
file(RELATIVE_PATH SINEW_PC_TO_PREFIX /x/${CMAKE_INSTALL_LIBDIR}/pkgconfig /x)  # an install can be moved
configure_file(${PROJECT_SOURCE_DIR}/cmake/sinew.pc.in ${PROJECT_BINARY_DIR}/sinew.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/sinew.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT libsinew-dev)
