# SPDX-License-Identifier: Apache-2.0
# What `opgraft build --hosts` links into a module: libopgraft_host.a, which
# reads the module's own declarations and makes calls, and an adapter for each
# row of hosts/hosts.def that has one.
set(OPGRAFT_HOST_DIR lib/opgraft/hosts)  # below a prefix and a build folder

function(opgraft_add_host_library target)
  add_library(${target} STATIC ${ARGN} ${opgraft_coverage_source})
  set_target_properties(${target} PROPERTIES
    ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${OPGRAFT_HOST_DIR})
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/hosts)
  target_link_libraries(${target} PUBLIC opgraft_headers)
  target_compile_options(${target} PRIVATE -ffunction-sections -fdata-sections
    ${opgraft_coverage})
  install(TARGETS ${target} ARCHIVE DESTINATION ${OPGRAFT_HOST_DIR})
endfunction()

function(opgraft_add_host name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/hosts/${name}/*.c)
  opgraft_add_host_library(opgraft_host_${name} ${sources})
endfunction()

file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/hosts/shared/*.c)
opgraft_add_host_library(opgraft_host $<TARGET_OBJECTS:og_objects> ${sources})
# What a module with CUDA code is linked with: <opgraft/cuda.h>.
opgraft_add_host_library(opgraft_cuda
  ${CMAKE_SOURCE_DIR}/devices/cuda/api.c
  ${CMAKE_SOURCE_DIR}/devices/cuda/module.c
  ${CMAKE_SOURCE_DIR}/devices/cuda/nvrtc.c)
target_link_libraries(opgraft_cuda PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
add_library(opgraft::cuda ALIAS opgraft_cuda)

set(OPGRAFT_HOSTS ${CMAKE_SOURCE_DIR}/hosts/hosts.def)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${OPGRAFT_HOSTS})
file(STRINGS ${OPGRAFT_HOSTS} rows REGEX "^HOST\\(.*, 1, [01],$")
foreach(row ${rows})
  string(REGEX REPLACE "^HOST\\(([a-z0-9_]+),.*" "\\1" name "${row}")
  opgraft_add_host(${name})
endforeach()
