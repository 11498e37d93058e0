# SPDX-License-Identifier: Apache-2.0
# Sanitizers apply to everything that is built, modules included. Beside ASan
# the project's own code says where it is (opgraft_coverage), for the fuzzers;
# cmake/coverage.c hears it elsewhere.
set(opgraft_coverage)
set(opgraft_coverage_source)
if(OPGRAFT_SANITIZE STREQUAL "address")
  set(opgraft_sanitize_flags -fsanitize=address,undefined,float-cast-overflow
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  set(opgraft_coverage -fsanitize-coverage=trace-pc)
  set(opgraft_coverage_source ${CMAKE_SOURCE_DIR}/cmake/coverage.c)
elseif(OPGRAFT_SANITIZE STREQUAL "thread")
  set(opgraft_sanitize_flags -fsanitize=thread -fno-omit-frame-pointer)
elseif(OPGRAFT_SANITIZE)
  message(FATAL_ERROR "OPGRAFT_SANITIZE is '${OPGRAFT_SANITIZE}'; "
    "it may be empty, address or thread")
endif()
if(OPGRAFT_SANITIZE)
  add_compile_options(${opgraft_sanitize_flags} -g)
  add_link_options(${opgraft_sanitize_flags})
endif()
