// SPDX-License-Identifier: Apache-2.0
// What OPGRAFT_ISA asks for, as an error.

#ifndef OG_BASE_ISA_CHECK_H
#define OG_BASE_ISA_CHECK_H

#include "base/status.h"

// OG_INVALID where OPGRAFT_ISA is not a name of isa.def.
og_status og_isa_check(opgraft_error *error);

#endif  // OG_BASE_ISA_CHECK_H
