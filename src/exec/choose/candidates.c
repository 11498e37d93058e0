// SPDX-License-Identifier: Apache-2.0
// The kernels that ops.def names, and how a candidate is asked.

#include "exec/choose/candidates.h"

#include "exec/fast/tile_reader.h"
#include "exec/fast/winograd.h"
#include "exec/runners/hosted.h"
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
  const og_prepare_fn fast = kernels[op][1];
  if (by == OG_BY_EPILOGUE)
    return op == OG_IR_fused ? og_prepare_epilogue : NULL;
  if (by == OG_BY_WINOGRAD)
    return op == OG_IR_convolution ? og_prepare_winograd : NULL;
  if (by == OG_BY_FAST && op == OG_IR_copy) return og_prepare_turned_copy;
  if (by == OG_BY_PACKED) return fast == og_prepare_packed_matmul ? fast : NULL;
  return by == OG_BY_FAST ? fast : kernels[op][0];
}

og_status og_candidate_ask(og_prep *prep, og_candidate by, bool may_be_slow) {
  bool is_taken;
  prep->step = (og_step){0};
  prep->is_pinned = false;
  prep->work = 0;
  prep->refusal = NULL;
  prep->keeps_weights = by == OG_BY_PACKED;
  if (by != OG_BY_HOST) return og_candidate_kernel(prep->node->op, by)(prep);
  OG_TRY(og_prepare_hosted(prep, may_be_slow, &is_taken));
  return is_taken ? OG_OK : OG_UNSUPPORTED;
}

og_status og_prepare_none(og_prep *prep) {
  return og_prep_wrong(prep, "a view has no kernel");
}

og_status og_prepare_host_only(og_prep *prep) {
  return og_prep_wrong(prep,
                       "it draws from the host's random numbers; run it "
                       "where the host is");
}
