# SPDX-License-Identifier: Apache-2.0
# opgraft_link_optional(TARGET LIBRARY HEADER DEFINITION): links LIBRARY and
# defines DEFINITION where the machine has it; nothing where it has not. What is
# portable has the library inside: other machines need not have it.
option(OPGRAFT_PORTABLE "Link optional libraries statically or not at all" OFF)
function(opgraft_link_optional target library header definition)
  string(TOUPPER ${library} name)
  find_path(OPGRAFT_${name}_INCLUDE ${header}
    PATHS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE})
  set(names ${library})
  if(OPGRAFT_PORTABLE)
    set(names lib${library}_pic.a lib${library}.a)
  endif()
  find_library(OPGRAFT_${name}_LIBRARY NAMES ${names})
  mark_as_advanced(OPGRAFT_${name}_INCLUDE OPGRAFT_${name}_LIBRARY)
  if(OPGRAFT_${name}_INCLUDE AND OPGRAFT_${name}_LIBRARY)
    target_compile_definitions(${target} PRIVATE ${definition})
    target_include_directories(${target} SYSTEM PRIVATE
      ${OPGRAFT_${name}_INCLUDE})
    target_link_libraries(${target} PRIVATE ${OPGRAFT_${name}_LIBRARY})
  endif()
endfunction()
