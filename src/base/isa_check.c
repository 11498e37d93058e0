// SPDX-License-Identifier: Apache-2.0
// What OPGRAFT_ISA asks for, as an error.

#include "base/isa_check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/isa.h"

og_status og_isa_check(opgraft_error *error) {
  const char *asked = getenv("OPGRAFT_ISA");
  if (og_isa_parse(asked) != OG_ISA_UNKNOWN) return OG_OK;
  char names[160] = "";
  size_t used = 0;
  for (int i = 0; i < OG_ISA_UNKNOWN; ++i) {
    const char *join = i == 0 ? "" : i + 1 < OG_ISA_UNKNOWN ? ", " : " or ";
    used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", join,
                             og_isa_name((og_isa)i));
    if (used >= sizeof names) break;
  }
  return og_error_set(error, OG_INVALID, NULL, NULL,
                      "the environment's OPGRAFT_ISA is '%.64s', expected %s; "
                      "unset it to use what the machine has",
                      asked, names);
}
