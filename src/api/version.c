// SPDX-License-Identifier: Apache-2.0
// The library's version and the texts of its codes.

#include <opgraft/opgraft.h>

uint32_t opgraft_abi_version(void) { return OG_ABI_VERSION; }

#define STATUS_TEXT(name, value, text) \
  case name:                           \
    return text;
const char *opgraft_status_text(og_status code) {
  switch (code) { OG_STATUS_LIST(STATUS_TEXT) }
  return "unknown status";
}
