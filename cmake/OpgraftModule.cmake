# SPDX-License-Identifier: Apache-2.0
# opgraft_add_module(NAME FILE...)
#
# One operator module, NAME.so, from C files. It links to libc and libm only,
# so that every host can load it; what else it needs is added with
# target_compile_options or target_link_libraries as for any target.
#
# Files that end in .cu, .ptx, .cubin or .fatbin are CUDA code, which is embedded
# for <opgraft/cuda.h>; .cu files include what is beside them or in a folder of
# the list OPGRAFT_CUDA_INCLUDES.
set(OPGRAFT_EMBED_CUDA ${CMAKE_CURRENT_LIST_DIR}/EmbedCuda.cmake)

# Replaces each file of CUDA code in `list` by a C file that defines its bytes.
function(opgraft_cuda_embed list)
  set(made)
  string(REPLACE ";" "," includes "${OPGRAFT_CUDA_INCLUDES}")
  foreach(source IN LISTS ${list})
    if(NOT source MATCHES "\\.(cu|ptx|cubin|fatbin)$")
      list(APPEND made ${source})
      continue()
    endif()
    get_filename_component(source ${source} ABSOLUTE)
    get_filename_component(name ${source} NAME_WE)
    set(output ${CMAKE_CURRENT_BINARY_DIR}/cuda/${name}_code.c)
    add_custom_command(OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -DFILE=${source} -DOUTPUT=${output}
        -DINCLUDES=${includes} -DDEPFILE=${output}.d -P ${OPGRAFT_EMBED_CUDA}
      DEPENDS ${source} ${OPGRAFT_EMBED_CUDA} DEPFILE ${output}.d VERBATIM)
    list(APPEND made ${output})
  endforeach()
  set(${list} ${made} PARENT_SCOPE)
endfunction()

function(opgraft_add_module name)
  set(sources ${ARGN})
  if(NOT OPGRAFT_CUDA_INCLUDES)
    get_target_property(OPGRAFT_CUDA_INCLUDES opgraft::headers
      INTERFACE_INCLUDE_DIRECTORIES)
  endif()
  opgraft_cuda_embed(sources)
  add_library(${name} MODULE ${sources})
  if(NOT sources STREQUAL "${ARGN}")
    target_link_libraries(${name} PRIVATE opgraft::cuda)
  endif()
  set_target_properties(${name} PROPERTIES
    PREFIX "" SUFFIX ".so" C_VISIBILITY_PRESET hidden
    POSITION_INDEPENDENT_CODE ON)
  if(NOT DEFINED CMAKE_C_STANDARD)
    set_target_properties(${name} PROPERTIES C_STANDARD 11)
  endif()
  # After the build type's own level, so it wins; a build that is for finding
  # mistakes keeps its own.
  if(NOT OPGRAFT_SANITIZE)
    target_compile_options(${name} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O3>)
  endif()
  target_link_libraries(${name} PRIVATE opgraft::headers m)
  if(NOT OPGRAFT_SANITIZE)
    # A function that is missing shows here, not at load.
    target_link_options(${name} PRIVATE -Wl,-z,defs)
  endif()
  if(OPGRAFT_LOADER AND NOT CMAKE_CROSSCOMPILING AND NOT OPGRAFT_SANITIZE)
    add_custom_command(TARGET ${name} POST_BUILD VERBATIM
      COMMAND sh -c "\"$0\" inspect \"$1\" > /dev/null"
        ${OPGRAFT_LOADER} $<TARGET_FILE:${name}>)
  endif()
endfunction()
