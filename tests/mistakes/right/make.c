// SPDX-License-Identifier: Apache-2.0
// Operators without tensor arguments: arange, eye and full.

#include "../../modules/operators.h"

static og_status arange(const og_call *call) {
  int64_t *y = og_i64_mut(call->out[0]);
  for (int64_t i = 0; i < og_numel(call->out[0]); ++i)
    y[i] = call->attr[0].i + i * call->attr[2].i;
  return OG_OK;
}

static void eye_rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t width = call->out[0]->shape[1];
  float *y = og_f32_mut(call->out[0]);
  for (int64_t r = begin; r < end; ++r)
    for (int64_t c = 0; c < width; ++c) y[r * width + c] = r == c ? 1.0f : 0.0f;
}

static og_status eye(const og_call *call) {
  return og_parallel_for(call, call->out[0]->shape[0], 1, eye_rows);
}
static og_status full(const og_call *call) {
  og_tensor *y = call->out[0];
  const double value = call->attr[1].f;
  if (!og_is(y, OG_CODE_FLOAT, 32) && !og_is(y, OG_CODE_FLOAT, 64))
    return og_fail(call, OG_UNSUPPORTED, "full: dtype is neither f32 nor f64");
  for (int64_t i = 0; i < og_numel(y); ++i) {
    if (y->dtype.bits == 64)
      og_f64_mut(y)[i] = value;
    else
      og_f32_mut(y)[i] = (float)value;
  }
  return OG_OK;
}

MODULE(make,
       {.schema = "arange(int start, int end, int step=1) -> Tensor",
        .shape = "-> [max(0, ceildiv(end - start, step))]",
        .where = "step > 0",
        .dtype = "-> i64",
        RUN(NULL, arange)},
       {.schema = "eye(int n, int m) -> Tensor",
        .shape = "-> [n, m]",
        .where = "n >= 0, m >= 0",
        .dtype = "-> f32",
        RUN(NULL, eye)},
       {.schema = "full(int[] sizes, float value, ScalarType dtype) -> Tensor",
        .shape = "-> [*sizes]",
        .dtype = "-> dtype",
        RUN(NULL, full)})
