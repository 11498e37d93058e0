// SPDX-License-Identifier: Apache-2.0
// mistake: every token takes the scale of the first one's adapter
// expect: scale_by_adapter adapter unused_end

#include "../../modules/operators.h"

enum { A, D, N };

static og_status scale_by_adapter(const og_call *call) {
  const int64_t width = call->dim[D], *adapter = og_i64(call->in[1]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    if (adapter[i] < 0 || adapter[i] >= call->dim[A])
      return og_fail(call, OG_INVALID, "no such adapter");
  for (int64_t i = 0; i < call->dim[N] * width; ++i)
    og_f32_mut(call->out[0])[i] =
        og_f32(call->in[2])[i] *
        og_f32(call->in[0])[adapter[0] * width + i % width];
  return OG_OK;
}

// Adapters that are there, from a number that the seed chooses.
static og_status sample(const og_sample_call *call) {
  if (call->step == OG_SAMPLE_SIZES) {
    if (call->dim[A] == 0) call->dim[A] = 1;
    return OG_OK;
  }
  for (int64_t i = 0; i < og_numel(call->in[1]); ++i)
    og_i64_mut(call->in[1])[i] =
        (int64_t)((call->seed + (uint64_t)i * 7) % (uint64_t)call->dim[A]);
  return OG_OK;
}

MODULE(sampled_first_row,
       {.schema = "scale_by_adapter(Tensor scale, Tensor adapter, Tensor x) -> "
                  "Tensor",
        .shape = "scale[A, D], adapter[N], x[N, D] -> [N, D]",
        .dtype = "scale: f32, adapter: i64, x: scale -> x",
        RUN("f32", scale_by_adapter),
        .sample = sample})
