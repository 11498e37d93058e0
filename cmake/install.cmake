# SPDX-License-Identifier: Apache-2.0
# Installs headers, libraries, modules and what find_package(opgraft) and
# pkg-config read. Inside a wheel the same layout stands under opgraft/.
include(CMakePackageConfigHelpers)

install(DIRECTORY include/opgraft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS opgraft_headers opgraft_shared opgraft_check opgraft_graph
  EXPORT opgraft-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT opgraft-targets NAMESPACE opgraft::
  DESTINATION ${OPGRAFT_INSTALL_CMAKEDIR})
install(FILES cmake/OpgraftModule.cmake cmake/EmbedCuda.cmake
  DESTINATION ${OPGRAFT_INSTALL_CMAKEDIR})
configure_package_config_file(cmake/opgraft-config.cmake.in
  ${CMAKE_BINARY_DIR}/opgraft-config.cmake
  INSTALL_DESTINATION ${OPGRAFT_INSTALL_CMAKEDIR})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/opgraft-config-version.cmake
  COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/opgraft-config.cmake
  ${CMAKE_BINARY_DIR}/opgraft-config-version.cmake
  DESTINATION ${OPGRAFT_INSTALL_CMAKEDIR})
# Relative to the file itself, so that the folder can be moved.
file(RELATIVE_PATH OPGRAFT_PC_TO_PREFIX
  /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
foreach(library opgraft opgraft_check opgraft_graph)
  set(OPGRAFT_PC_NAME ${library})
  configure_file(cmake/opgraft.pc.in ${CMAKE_BINARY_DIR}/${library}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${library}.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

if(TARGET opgraft_cli)
  install(TARGETS opgraft_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(SKBUILD AND TARGET opgraft_python)
  install(TARGETS opgraft_python LIBRARY DESTINATION .)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/python/opgraft/cxx DESTINATION .)
endif()
if(opgraft_op_targets)
  install(TARGETS ${opgraft_op_targets}
    LIBRARY DESTINATION ${OPGRAFT_INSTALL_MODULEDIR})
endif()
