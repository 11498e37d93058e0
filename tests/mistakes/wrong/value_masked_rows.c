// SPDX-License-Identifier: Apache-2.0
// mistake: A row that is masked out whole gives 0 / 0.
// expect: masked_softmax - nan|finite|value

#include "../../modules/operators.h"

enum { N, D };

static og_status masked_softmax(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const uint8_t *mask = og_bool(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    float best = -INFINITY, sum = 0;
    for (int64_t i = r * width; i < (r + 1) * width; ++i)
      if (mask[i]) best = fmaxf(best, x[i]);
    for (int64_t i = r * width; i < (r + 1) * width; ++i)
      sum += y[i] = mask[i] ? expf(x[i] - best) : 0;
    for (int64_t i = r * width; i < (r + 1) * width; ++i) y[i] /= sum;
  }
  return OG_OK;
}

MODULE(value_masked_rows,
       {.schema = "masked_softmax(Tensor x, Tensor mask) -> Tensor",
        .shape = "x[*N, D], mask[*N, D] -> [*N, D]",
        .dtype = "x: f32, mask: bool -> x",
        RUN(NULL, masked_softmax)})
