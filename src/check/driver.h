// SPDX-License-Identifier: Apache-2.0
// The driver that the options name, as the parent knows it.

#ifndef OG_CHECK_DRIVER_H
#define OG_CHECK_DRIVER_H

#include <opgraft/check.h>

#include "decl/decl.h"

// What operators are checked on.
typedef struct og_target {
  int32_t device;  // OG_CPU, OG_EXT_DEV, ...
  char name[32];   // the driver's; "": the CPU
} og_target;

// Loads the driver in a child, which may crash or hang, and asks what it
// drives; the CPU where the options name none.
og_status og_target_find(const opgraft_check_options *options,
                         const opgraft_check_sink *sink, og_target *out_target,
                         opgraft_error *error);
// Why none of the operator's calls runs there; NULL: they do.
const char *og_target_lacks(const og_target *target, const og_decl *decl);

#endif  // OG_CHECK_DRIVER_H
