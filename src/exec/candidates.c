// SPDX-License-Identifier: Apache-2.0
// The kernels that ops.def names.

#include "exec/candidates.h"

#include "exec/step/kernels.h"

#define og_prepare_never NULL
#define OG_OP(id, in_min, in_max, outs, flags, attrs, plain, fast) \
  [OG_IR_##id] = {og_prepare_##plain, og_prepare_##fast},
#define OG_PW(id, arity, flags, rule, classes, expression) \
  [OG_IR_##id] = {og_prepare_pointwise, NULL},
static const og_prepare_fn kernels[OG_IR_COUNT][2] = {
#include "graph/ops.def"
};
#undef OG_OP
#undef OG_PW

og_prepare_fn og_candidate_kernel(int32_t op, og_candidate by) {
  return kernels[op][by == OG_BY_FAST];
}

og_status og_prepare_none(og_prep *prep) {
  return og_prep_wrong(prep, "a view has no kernel");
}

og_status og_prepare_host_only(og_prep *prep) {
  return og_prep_wrong(prep,
                       "it draws from the host's random numbers; run it "
                       "where the host is");
}
