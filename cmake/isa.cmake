# SPDX-License-Identifier: Apache-2.0
# One source for each instruction set of src/base/isa.def: a file that includes
# another with OG_ISA_VEC (the set's header) and OG_ISA_TABLE(family), the name
# of the table to define.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/src/base/isa.def)
file(STRINGS ${CMAKE_SOURCE_DIR}/src/base/isa.def opgraft_isa_rows
  REGEX "^OG_ISA\\(")

# Appends the sources to `list`. `include` is as in #include; where a file
# include_NAME.inc stands beside include.inc, that is the set's.
function(opgraft_isa_sources list folder include)
  set(made ${${list}})
  foreach(row IN LISTS opgraft_isa_rows)
    string(REGEX REPLACE "^OG_ISA\\(([a-z0-9_]+), .*" "\\1" name ${row})
    set(text "${include}.inc")
    if(EXISTS ${folder}/${include}_${name}.inc)
      set(text "${include}_${name}.inc")
    endif()
    set(guard "1")
    if(row MATCHES ", OG_X86, ")
      set(guard "defined(__x86_64__) && defined(__GNUC__)")
    endif()
    set(source ${CMAKE_BINARY_DIR}/isa/${include}_${name}.c)
    file(CONFIGURE OUTPUT ${source} CONTENT "// Made by cmake/isa.cmake.
#if @guard@
#define OG_ISA_VEC \"kernel/vec_@name@.h\"
#define OG_ISA_TABLE(family) family##_@name@
#include \"@text@\"
#endif
" @ONLY)
    list(APPEND made ${source})
  endforeach()
  set(${list} ${made} PARENT_SCOPE)
endfunction()
