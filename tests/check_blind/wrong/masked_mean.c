// SPDX-License-Identifier: Apache-2.0
// masked_mean: mean over time of the frames that a mask keeps.

#include "../../modules/operators.h"

enum { B, T, D };  // dims of the shape rule

static void batches(const og_call *call, int64_t begin, int64_t end) {
  const uint8_t *mask = og_bool(call->in[1]);
  const int64_t length = call->dim[T], width = call->dim[D];
  int64_t count = 0;
  for (int64_t t = 0; t < length; ++t) count += mask[t];
  for (int64_t b = begin; b < end; ++b) {
    const float *x = og_f32(call->in[0]) + b * length * width;
    float *y = og_f32_mut(call->out[0]) + b * width;
    for (int64_t d = 0; d < width; ++d) {
      float sum = 0;
      for (int64_t t = 0; t < length; ++t)
        if (mask[t]) sum += x[t * width + d];
      y[d] = count > 0 ? sum / (float)count : 0;
    }
  }
}

static og_status masked_mean(const og_call *call) {
  return og_parallel_for(call, call->dim[B], 1, batches);
}

MODULE(masked_mean,
       {.schema = "masked_mean(Tensor x, Tensor mask) -> Tensor",
        .shape = "x[B, T, D], mask[B, T] -> [B, D]",
        .dtype = "x: f32, mask: bool -> x",
        .doc = "The mean of the frames whose mask is true, 0 where there are "
               "none.",
        RUN("f32", masked_mean)})
