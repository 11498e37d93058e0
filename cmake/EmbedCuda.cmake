# SPDX-License-Identifier: Apache-2.0
# cmake -DFILE=a.cu -DOUTPUT=a_cu.c -DINCLUDES=folder,folder -P EmbedCuda.cmake
#
# Writes a C file that defines og_cuda_code_a, the bytes of a.cu (or a.ptx,
# a.cubin, a.fatbin), which it includes from a file beside it. NVRTC has no
# include path, so that what a .cu file includes is put into it: the files that
# are found beside it or in INCLUDES. Others stay as they are.
cmake_minimum_required(VERSION 3.20)
string(REPLACE "," ";" INCLUDES "${INCLUDES}")
get_filename_component(name "${FILE}" NAME_WE)
get_filename_component(suffix "${FILE}" LAST_EXT)
get_filename_component(folder "${OUTPUT}" DIRECTORY)

# The text of `file`, with what it includes, into `out`. Each file once. No
# list holds text: a ';' or '[' in it would be read as the list's.
function(flatten file out)
  set_property(GLOBAL APPEND PROPERTY seen "${file}")
  get_filename_component(own "${file}" DIRECTORY)
  file(READ "${file}" rest)
  set(text "")
  while(rest MATCHES "(^|\n)[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"\n]+)[>\"]")
    set(line "${CMAKE_MATCH_0}")
    set(wanted "${CMAKE_MATCH_2}")
    set(mark "${CMAKE_MATCH_1}")
    string(FIND "${rest}" "${line}" at)
    string(LENGTH "${line}" length)
    math(EXPR behind "${at} + ${length}")
    string(SUBSTRING "${rest}" 0 ${at} before)
    string(SUBSTRING "${rest}" ${behind} -1 rest)
    set(found "")
    foreach(place IN LISTS own INCLUDES)
      if(NOT found AND EXISTS "${place}/${wanted}")
        get_filename_component(found "${place}/${wanted}" REALPATH)
      endif()
    endforeach()
    get_property(seen GLOBAL PROPERTY seen)
    if(NOT found)
      string(APPEND text "${before}${line}")
    elseif(found IN_LIST seen)
      string(APPEND text "${before}${mark}")
    else()
      flatten("${found}" inner)
      string(APPEND text "${before}${mark}${inner}")
    endif()
  endwhile()
  set(${out} "${text}${rest}" PARENT_SCOPE)
endfunction()

set(data "${FILE}")
if(suffix STREQUAL ".cu")
  set(data "${folder}/${name}.flat.cu")
  get_filename_component(FILE "${FILE}" REALPATH)
  flatten("${FILE}" text)
  file(WRITE "${data}" "${text}")
endif()
get_property(seen GLOBAL PROPERTY seen)
if(DEPFILE)
  string(REPLACE ";" " " seen "${seen}")
  file(WRITE "${DEPFILE}" "${OUTPUT}: ${seen}\n")
endif()
file(WRITE "${OUTPUT}" "// Made by EmbedCuda.cmake.
#include <opgraft/cuda.h>
OG_CUDA_EMBED(${name}, \"${name}${suffix}\", \"${data}\");
")
