# What is installed of the library: both forms, the public headers, and what finds
# them, lowmemConfig.cmake and lowmem.pc. The installed tree may be moved. lowmem-run
# is installed where it is built.
include(CMakePackageConfigHelpers)

install(TARGETS lowmem_static lowmem_shared EXPORT lowmemTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/engine/include/lowmem
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(lowmem_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lowmem)
install(EXPORT lowmemTargets NAMESPACE lowmem:: DESTINATION ${lowmem_config_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/lowmemConfig.cmake.in
  ${PROJECT_BINARY_DIR}/lowmemConfig.cmake
  INSTALL_DESTINATION ${lowmem_config_dir}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lowmemConfigVersion.cmake
  COMPATIBILITY SameMajorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/lowmemConfig.cmake
  ${PROJECT_BINARY_DIR}/lowmemConfigVersion.cmake
  DESTINATION ${lowmem_config_dir})

# pkg-config: Abseil's modules are named absl_x for the target absl::x. The prefix is
# found from where lowmem.pc lies.
string(REPLACE ";" ", " LOWMEM_PC_REQUIRES "${lowmem_public_absl_targets}")
string(REPLACE "::" "_" LOWMEM_PC_REQUIRES "${LOWMEM_PC_REQUIRES}")
string(REPLACE ";" ", " LOWMEM_PC_REQUIRES_PRIVATE "${lowmem_absl_targets}")
string(REPLACE "::" "_" LOWMEM_PC_REQUIRES_PRIVATE "${LOWMEM_PC_REQUIRES_PRIVATE}")
file(RELATIVE_PATH LOWMEM_PC_PREFIX
  "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file(${CMAKE_CURRENT_LIST_DIR}/lowmem.pc.in
  ${PROJECT_BINARY_DIR}/lowmem.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/lowmem.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
