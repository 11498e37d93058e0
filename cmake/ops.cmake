# SPDX-License-Identifier: Apache-2.0
# The operator library. ops/ops.def has one line per file, MACRO(module, file),
# and files of one module are linked together; without it every file of ops/
# is a module of its own. Each links what it uses of ops/shared.
file(GLOB opgraft_shared_sources CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/ops/shared/*.c)
add_library(og_op_shared STATIC ${opgraft_shared_sources})
target_include_directories(og_op_shared PUBLIC ${CMAKE_SOURCE_DIR}/ops)
target_link_libraries(og_op_shared PUBLIC ${opgraft_kernel_libraries})
if(NOT OPGRAFT_SANITIZE)
  target_compile_options(og_op_shared PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O3>)
endif()
target_compile_options(og_op_shared PRIVATE ${opgraft_coverage})

# CUDA kernels: ops/cuda/*.cu as text in the modules, and what launches them.
file(GLOB opgraft_op_cuda_sources CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/ops/cuda/*.c ${CMAKE_SOURCE_DIR}/ops/cuda/*.cu)
set(OPGRAFT_CUDA_INCLUDES ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
opgraft_cuda_embed(opgraft_op_cuda_sources)
add_library(og_op_cuda STATIC ${opgraft_op_cuda_sources})
target_include_directories(og_op_cuda PUBLIC ${CMAKE_SOURCE_DIR}/ops)
target_link_libraries(og_op_cuda PUBLIC og_op_shared opgraft_cuda)

set(opgraft_op_modules)
if(EXISTS ${CMAKE_SOURCE_DIR}/ops/ops.def)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    ${CMAKE_SOURCE_DIR}/ops/ops.def)
  file(STRINGS ${CMAKE_SOURCE_DIR}/ops/ops.def lines
    REGEX "^[A-Z_]+\\([a-z0-9_]+, *[a-z0-9_]+\\)")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^[A-Z_]+\\(([a-z0-9_]+), *([a-z0-9_]+)\\).*"
      "\\1;\\2" pair "${line}")
    list(GET pair 0 module)
    list(GET pair 1 file)
    list(APPEND opgraft_op_modules ${module})
    list(APPEND opgraft_op_files_${module} ${CMAKE_SOURCE_DIR}/ops/${file}.c)
  endforeach()
  list(REMOVE_DUPLICATES opgraft_op_modules)
else()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/ops/*.c)
  foreach(source IN LISTS sources)
    get_filename_component(module ${source} NAME_WE)
    list(APPEND opgraft_op_modules ${module})
    set(opgraft_op_files_${module} ${source})
  endforeach()
endif()

set(opgraft_op_targets)
foreach(module IN LISTS opgraft_op_modules)
  set(target opgraft_ops_${module})
  opgraft_add_module(${target} ${opgraft_op_files_${module}}
    ${opgraft_coverage_source})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${module}
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/modules)
  target_link_libraries(${target} PRIVATE og_op_cuda)
  target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL)
  target_compile_options(${target} PRIVATE ${opgraft_coverage})
  list(APPEND opgraft_op_targets ${target})
endforeach()
