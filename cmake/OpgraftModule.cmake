# SPDX-License-Identifier: Apache-2.0
# opgraft_add_module(NAME FILE...)
#
# One operator module, NAME.so, from C files. It links to libc and libm only,
# so that every host can load it; what else it needs is added with
# target_compile_options or target_link_libraries as for any target.
function(opgraft_add_module name)
  add_library(${name} MODULE ${ARGN})
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
endfunction()
