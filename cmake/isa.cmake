# SPDX-License-Identifier: Apache-2.0
# One source for each instruction set of src/base/isa.def: a file that includes
# another with OG_ISA_VEC (the set's header) and OG_ISA_TABLE(family), the name
# of the table to define.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/src/base/isa.def)
file(STRINGS ${CMAKE_SOURCE_DIR}/src/base/isa.def opgraft_isa_rows
  REGEX "^OG_ISA\\(")

# A sanitizer finds nothing in code that this machine cannot run, and takes four
# times as long to compile it: sets behind the machine's own do without.
set(opgraft_isa_here)
if(OPGRAFT_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  set(ENV{OPGRAFT_ISA})
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/isa/here.c CONTENT "\
#include <stdio.h>
#include \"base/isa.c\"
int main(void) { return printf(\"%s\", og_isa_name(og_isa_used())) < 0; }
" @ONLY)
  try_run(status is_compiled ${CMAKE_BINARY_DIR}/isa
    ${CMAKE_BINARY_DIR}/isa/here.c
    CMAKE_FLAGS -DINCLUDE_DIRECTORIES=${CMAKE_SOURCE_DIR}/src
    RUN_OUTPUT_VARIABLE opgraft_isa_here)
endif()

# Appends the sources to `list`. `include` is as in #include; where a file
# include_NAME.inc stands beside include.inc, that is the set's.
function(opgraft_isa_sources list folder include)
  set(made ${${list}})
  set(is_behind FALSE)
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
    if(is_behind)
      set_source_files_properties(${source} PROPERTIES
        COMPILE_OPTIONS -fno-sanitize=all)
    elseif(name STREQUAL opgraft_isa_here)
      set(is_behind TRUE)
    endif()
  endforeach()
  set(${list} ${made} PARENT_SCOPE)
endfunction()
