# SPDX-License-Identifier: Apache-2.0
# og_kernels, og_core (both static), libopgraft and libopgraft_graph.

# Micro-kernels: linked into operator modules and into the core. Each sets its
# instruction set by a function attribute, so no file needs flags of its own.
file(GLOB_RECURSE opgraft_kernel_sources CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/src/kernel/*.c)
set(opgraft_kernel_libraries)
if(opgraft_kernel_sources)
  include(cmake/isa.cmake)
  foreach(family rows gemm attention conv winograd)
    opgraft_isa_sources(opgraft_kernel_sources ${CMAKE_SOURCE_DIR}/src
      kernel/${family})
  endforeach()
  list(APPEND opgraft_kernel_sources ${CMAKE_SOURCE_DIR}/src/base/isa.c
    ${opgraft_coverage_source})
  add_library(og_kernels STATIC ${opgraft_kernel_sources})
  target_include_directories(og_kernels PUBLIC ${CMAKE_SOURCE_DIR}/src)
  if(NOT OPGRAFT_SANITIZE)
    target_compile_options(og_kernels PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O3>)
  endif()
  # Not the tiles: their loops take the same way for every input.
  set(plans ${opgraft_kernel_sources})
  list(FILTER plans INCLUDE REGEX "/attention(_direct|_grad|_packed|_plan|_rows|)\\.c$")
  set_source_files_properties(${plans} PROPERTIES
    COMPILE_OPTIONS "${opgraft_coverage}")
  target_link_libraries(og_kernels PUBLIC opgraft_headers m)
  set(opgraft_kernel_libraries og_kernels)
endif()

# The core declares, loads, calls and checks operators; the engine builds, plans
# and replays graphs of them.
set(opgraft_core_folders base scalar loop decl module device call)
set(opgraft_engine_folders loop graph import pass plan exec trace report)
# The encoder of row programs is the engine's; the core interprets them.
set(opgraft_encoder
  "/src/loop/(allocate|code|encode|invariants|listing|x86)[a-z_]*\\.c$")

function(opgraft_add_objects target)
  set(all)
  foreach(folder IN LISTS ARGN)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS
      ${CMAKE_SOURCE_DIR}/src/${folder}/*.c)
    list(APPEND all ${sources})
  endforeach()
  set(loops ${all})
  list(FILTER all EXCLUDE REGEX "/src/loop/")
  list(FILTER loops INCLUDE REGEX "/src/loop/")
  if(NOT target STREQUAL "og_engine_objects")
    list(FILTER loops EXCLUDE REGEX "${opgraft_encoder}")
  else()
    list(FILTER loops INCLUDE REGEX "${opgraft_encoder}")
  endif()
  list(APPEND all ${loops})
  # The engine's plain loops: nobody reads errno or floating-point flags.
  if(NOT OPGRAFT_SANITIZE)
    set(sources ${all})
    list(FILTER sources INCLUDE REGEX "/src/(exec/plain/pointwise|exec/plain/pointwise_loops|exec/step/nest|decl/formula_loops)\\.c$")
    set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS
      "$<$<NOT:$<CONFIG:Debug>>:-O3;-fno-math-errno;-fno-trapping-math>")
    # Vector code without copies of the loops for each count.
    set(sources ${all})
    list(FILTER sources INCLUDE REGEX "/src/loop/lanes\\.c$")
    set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS
      "$<$<NOT:$<CONFIG:Debug>>:-O2;-fno-math-errno;-fno-trapping-math>;$<$<C_COMPILER_ID:GNU>:-fvect-cost-model=cheap>")
  endif()
  add_library(${target} OBJECT ${all})
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${target} PUBLIC opgraft_headers)
  # Debuggers take frames from -g; nothing is thrown through these.
  target_compile_options(${target} PRIVATE -ffunction-sections -fdata-sections
    $<$<NOT:$<CONFIG:Debug>>:-fno-asynchronous-unwind-tables>
    ${opgraft_coverage})
endfunction()
opgraft_add_objects(og_objects ${opgraft_core_folders})
target_sources(og_objects PRIVATE ${opgraft_coverage_source})
opgraft_add_objects(og_check_objects check)
opgraft_add_objects(og_engine_objects ${opgraft_engine_folders})
file(GLOB_RECURSE opgraft_raced CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/src/kernel/*.* ${CMAKE_SOURCE_DIR}/src/exec/*.*
  ${CMAKE_SOURCE_DIR}/src/loop/*.*)
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/kernels_key.c
  COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR}/src
    -DOUTPUT=${CMAKE_BINARY_DIR}/kernels_key.c
    -P ${CMAKE_SOURCE_DIR}/cmake/kernels_key.cmake
  DEPENDS ${opgraft_raced} ${CMAKE_SOURCE_DIR}/cmake/kernels_key.cmake)
target_sources(og_engine_objects PRIVATE ${CMAKE_BINARY_DIR}/kernels_key.c)

# What the program, the Python extension and the C tests link.
add_library(og_core STATIC $<TARGET_OBJECTS:og_objects>
  $<TARGET_OBJECTS:og_check_objects> $<TARGET_OBJECTS:og_engine_objects>)
target_include_directories(og_core PUBLIC ${CMAKE_SOURCE_DIR}/src)
target_link_libraries(og_core PUBLIC opgraft_headers ${opgraft_kernel_libraries}
  Threads::Threads ${CMAKE_DL_LIBS} m)

# What an embedder links, one of the three: libopgraft has the core,
# libopgraft_check the core and the verifier, libopgraft_graph the core and the
# engine. They export opgraft_* and nothing else; calls into the core are not an
# interface, so each has its own.
function(opgraft_add_shared target name)
  add_library(${target} SHARED ${ARGN})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name})
  if(NOT SKBUILD)  # a wheel holds no links, so there it is one plain file
    set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION}
      SOVERSION 1)
  endif()
  target_link_libraries(${target} PUBLIC opgraft_headers
    PRIVATE Threads::Threads ${CMAKE_DL_LIBS} m)
  target_link_options(${target} PRIVATE
    -Wl,--exclude-libs,ALL -Wl,--gc-sections)
endfunction()
opgraft_add_shared(opgraft_shared opgraft $<TARGET_OBJECTS:og_objects>)
set_target_properties(opgraft_shared PROPERTIES EXPORT_NAME opgraft)
add_library(opgraft::opgraft ALIAS opgraft_shared)
opgraft_add_shared(opgraft_check opgraft_check $<TARGET_OBJECTS:og_objects>
  $<TARGET_OBJECTS:og_check_objects>)
set_target_properties(opgraft_check PROPERTIES EXPORT_NAME check)
add_library(opgraft::check ALIAS opgraft_check)
opgraft_add_shared(opgraft_graph opgraft_graph $<TARGET_OBJECTS:og_objects>
  $<TARGET_OBJECTS:og_engine_objects>)
target_link_libraries(opgraft_graph PRIVATE ${opgraft_kernel_libraries})
set_target_properties(opgraft_graph PROPERTIES EXPORT_NAME graph)
add_library(opgraft::graph ALIAS opgraft_graph)
