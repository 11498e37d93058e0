# SPDX-License-Identifier: Apache-2.0
# Sanitizers apply to everything that is built, modules included.
if(OPGRAFT_SANITIZE STREQUAL "address")
  set(opgraft_sanitize_flags -fsanitize=address,undefined,float-cast-overflow
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
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
