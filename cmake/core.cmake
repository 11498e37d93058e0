# SPDX-License-Identifier: Apache-2.0
# og_kernels, og_core (both static) and libopgraft.

# Micro-kernels: linked into operator modules and into the core. Each sets its
# instruction set by a function attribute, so no file needs flags of its own.
file(GLOB_RECURSE opgraft_kernel_sources CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/src/kernel/*.c)
set(opgraft_kernel_libraries)
if(opgraft_kernel_sources)
  add_library(og_kernels STATIC ${opgraft_kernel_sources})
  target_include_directories(og_kernels PUBLIC ${CMAKE_SOURCE_DIR}/src)
  if(NOT OPGRAFT_SANITIZE)
    target_compile_options(og_kernels PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O3>)
  endif()
  target_link_libraries(og_kernels PUBLIC opgraft_headers m)
  set(opgraft_kernel_libraries og_kernels)
endif()

# What runs once a module, a graph or a report is built for size: the library
# has a limit (tools/abi.py). The rest is on the way of a call.
set(opgraft_small "/src/(check|graph|import|pass|trace|report)/"
  "|/src/decl/(backward|decl|describe|dtype|expr|kernels|lexer|names|schema"
  "|shape|types)\\.c$")
string(CONCAT opgraft_small ${opgraft_small})
set(opgraft_core_sources)
foreach(folder base decl module call check graph import pass plan loop exec
    trace report api)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS
    ${CMAKE_SOURCE_DIR}/src/${folder}/*.c)
  list(APPEND opgraft_core_sources ${sources})
endforeach()
if(NOT OPGRAFT_SANITIZE)
  set(sources ${opgraft_core_sources})
  list(FILTER sources INCLUDE REGEX "${opgraft_small}")
  set_source_files_properties(${sources} PROPERTIES
    COMPILE_OPTIONS $<$<NOT:$<CONFIG:Debug>>:-Os>)
endif()

add_library(og_objects OBJECT ${opgraft_core_sources})
target_include_directories(og_objects PUBLIC ${CMAKE_SOURCE_DIR}/src)
target_link_libraries(og_objects PUBLIC opgraft_headers)
target_compile_options(og_objects PRIVATE -ffunction-sections -fdata-sections)
if(OPGRAFT_COVERAGE_FEEDBACK)
  target_compile_options(og_objects PRIVATE -fsanitize-coverage=trace-pc)
endif()

# What the program, the Python extension and the C tests link.
add_library(og_core STATIC $<TARGET_OBJECTS:og_objects>)
target_include_directories(og_core PUBLIC ${CMAKE_SOURCE_DIR}/src)
target_link_libraries(og_core PUBLIC opgraft_headers ${opgraft_kernel_libraries}
  Threads::Threads ${CMAKE_DL_LIBS} m)

# What an embedder links: exports opgraft_* and nothing else.
add_library(opgraft_shared SHARED $<TARGET_OBJECTS:og_objects>)
add_library(opgraft::opgraft ALIAS opgraft_shared)
set_target_properties(opgraft_shared PROPERTIES
  OUTPUT_NAME opgraft EXPORT_NAME opgraft)
if(NOT SKBUILD)  # a wheel holds no links, so there it is one plain file
  set_target_properties(opgraft_shared PROPERTIES VERSION ${PROJECT_VERSION}
    SOVERSION 1)
endif()
target_link_libraries(opgraft_shared PUBLIC opgraft_headers
  PRIVATE ${opgraft_kernel_libraries} Threads::Threads ${CMAKE_DL_LIBS} m)
target_link_options(opgraft_shared PRIVATE
  -Wl,--exclude-libs,ALL -Wl,--gc-sections)
