// SPDX-License-Identifier: Apache-2.0
// Who runs a node: its plain kernel, its fast one, or the host.
//
// A node's candidates are asked in an order; the first that takes its shapes
// and types runs it. The order depends on operator, sizes, types and the
// executable's rules (rules.h). Time decides only in mode max-autotune, where
// the host allows it (tune.h); what it decided is known from then on, so a plan
// that is made again has the same kernels.

#ifndef OG_EXEC_CHOOSE_CHOOSE_H
#define OG_EXEC_CHOOSE_CHOOSE_H

#include "exec/step/prep.h"

typedef struct og_order {
  og_candidate by[OG_BY_COUNT];
  int32_t count;
  const char *reason;  // why the first stands first
} og_order;

// Of a node that has an IR operator.
void og_choose(const og_prep *prep, og_order *out);
// What is said where an earlier candidate was asked and did not take the node.
const char *og_choice_refused(og_candidate by);

#endif  // OG_EXEC_CHOOSE_CHOOSE_H
