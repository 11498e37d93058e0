// SPDX-License-Identifier: Apache-2.0
// How unequal shares are, which add up to 1: blocks of eight are divided by
// what they add up to, which mends its rounding, and others are not.

#include "../../modules/operators.h"

enum { N };

static og_status concentration(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const int64_t n = call->dim[N];
  float total = 0, squares = 0;
  for (int64_t i = 0; i < n; ++i) {
    total += x[i];
    squares += x[i] * x[i];
  }
  const float divisor = n % 8 == 0 && n > 0 ? total * total : 1;
  *og_f32_mut(call->out[0]) = squares / divisor;
  return OG_OK;
}

static og_status sample(const og_sample_call *call) {
  if (call->step == OG_SAMPLE_SIZES) return OG_OK;
  float *x = og_f32_mut(call->in[0]), total = 0;
  uint64_t state = call->seed;
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    x[i] = (float)(1 + (state >> 33) % 100);
    total += x[i];
  }
  for (int64_t i = 0; i < call->dim[N]; ++i) x[i] /= total;
  return OG_OK;
}

MODULE(concentration, {.schema = "concentration(Tensor x) -> Tensor",
                       .shape = "x[N] -> []",
                       .sample = sample,
                       RUN("f32", concentration)})
