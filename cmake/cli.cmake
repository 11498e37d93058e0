# SPDX-License-Identifier: Apache-2.0
# The program. cli/commands.def names the subcommands for the C side; each is
# one file of cli/.
file(GLOB_RECURSE opgraft_cli_sources CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/cli/*.c)
if(opgraft_cli_sources)
  add_executable(opgraft_cli ${opgraft_cli_sources})
  set_target_properties(opgraft_cli PROPERTIES OUTPUT_NAME opgraft)
  target_include_directories(opgraft_cli PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(opgraft_cli PRIVATE
    OPGRAFT_VERSION="${PROJECT_VERSION}")
  target_link_libraries(opgraft_cli PRIVATE og_core)
  # `opgraft gen` reads YAML by libyaml, and through Python where it is absent.
  opgraft_link_optional(opgraft_cli yaml yaml.h HAVE_LIBYAML)
  # The page of `inspect --html` is in the program.
  set(opgraft_assets ${CMAKE_SOURCE_DIR}/python/opgraft/assets)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/cli/inspect_page.c PROPERTIES
    COMPILE_OPTIONS "-Wa,-I${opgraft_assets}"
    OBJECT_DEPENDS "${opgraft_assets}/graph.html;${opgraft_assets}/d3.min.js")
endif()
