# SPDX-License-Identifier: Apache-2.0
# opgraft._C: the PyTorch host, one extension for every Python from 3.10 on.
# It needs Python's headers only. Frames are kept walkable because exceptions
# of the framework's C++ pass through it.
file(GLOB opgraft_torch_sources CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/hosts/torch/*.c ${CMAKE_SOURCE_DIR}/hosts/torch/*/*.c)
if(opgraft_torch_sources)
  find_package(Python3 3.10 QUIET COMPONENTS Interpreter Development.Module)
  if(NOT Python3_Development.Module_FOUND)
    message(WARNING "Python.h was not found: opgraft._C is not built")
    return()
  endif()
  if(Python3_SOABI MATCHES "^cpython-[0-9]+t")
    message(FATAL_ERROR "found the free-threaded Python ${Python3_SOABI}, "
      "which lacks the limited API: build opgraft with an ordinary Python")
  endif()
  add_library(opgraft_python MODULE ${opgraft_torch_sources})
  set_target_properties(opgraft_python PROPERTIES
    OUTPUT_NAME _C PREFIX "" SUFFIX ".abi3.so"
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python/opgraft)
  target_compile_definitions(opgraft_python PRIVATE
    Py_LIMITED_API=0x030A0000 OPGRAFT_VERSION="${PROJECT_VERSION}")
  target_compile_options(opgraft_python PRIVATE
    -fexceptions -fasynchronous-unwind-tables)
  target_include_directories(opgraft_python SYSTEM PRIVATE
    ${Python3_INCLUDE_DIRS})
  target_include_directories(opgraft_python PRIVATE ${CMAKE_SOURCE_DIR}/hosts)
  # Adopted C functions with more arguments than go by register need libffi.
  opgraft_link_optional(opgraft_python ffi ffi.h OG_HAVE_FFI)
  target_link_libraries(opgraft_python PRIVATE og_core)
  target_link_options(opgraft_python PRIVATE -Wl,--exclude-libs,ALL)
  # What is compiled on the user's machine, beside the extension.
  foreach(source registry.cpp registry.h memory_stats.h)
    configure_file(${CMAKE_SOURCE_DIR}/hosts/torch/device/${source}
      ${CMAKE_BINARY_DIR}/python/opgraft/cxx/${source} COPYONLY)
  endforeach()
endif()
