# cmake --install: headers below include/gradwire, libraries, the wire's contracts, and find_package(Gradwire).
include(CMakePackageConfigHelpers)
set(package "lib/cmake/Gradwire")
install(EXPORT GradwireTargets NAMESPACE gradwire:: DESTINATION ${package})
configure_package_config_file(scripts/cmake/GradwireConfig.cmake.in "${CMAKE_BINARY_DIR}/GradwireConfig.cmake"
  INSTALL_DESTINATION ${package} NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/GradwireConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/GradwireConfig.cmake" "${CMAKE_BINARY_DIR}/GradwireConfigVersion.cmake"
  scripts/cmake/GwTorch.cmake DESTINATION ${package})
install(DIRECTORY proto/gradwire DESTINATION share/gradwire/proto)
