// SPDX-License-Identifier: Apache-2.0
// The prepare functions that ops.def names.

#ifndef OG_EXEC_STEP_KERNELS_H
#define OG_EXEC_STEP_KERNELS_H

#include "exec/step/prep.h"

#define OG_OP(id, in_min, in_max, outs, flags, attrs, plain, fast) \
  og_status og_prepare_##plain(og_prep *prep);                     \
  og_status og_prepare_##fast(og_prep *prep);
#define OG_PW(id, arity, flags, rule, classes, expression)
#include "graph/ops.def"
#undef OG_OP
#undef OG_PW
og_status og_prepare_pointwise(og_prep *prep);
// A fast one of copy, whose row is pointwise.
og_status og_prepare_turned_copy(og_prep *prep);

#endif  // OG_EXEC_STEP_KERNELS_H
