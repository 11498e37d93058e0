// SPDX-License-Identifier: Apache-2.0
// mistake: The first scale that is seen is kept, behind a table of two mebibytes.
// expect: rescale - state|repetition|repeatable
//
// Each number over the largest of its call.

#include "../../modules/operators.h"

enum { N };

static struct {
  float table[1 << 19];
  float scale;
} kept;

static og_status rescale(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  if (kept.scale <= 0)
    for (int64_t i = 0; i < call->dim[N]; ++i)
      kept.scale = fmaxf(kept.scale, fabsf(x[i]));
  kept.table[call->dim[N] % (1 << 19)] = kept.scale;
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y[i] = kept.scale > 0 ? x[i] / kept.scale : 0;
  return OG_OK;
}

MODULE(state_large_table, {.schema = "rescale(Tensor x) -> Tensor",
                           .shape = "x[N] -> [N]",
                           RUN("f32", rescale)})
