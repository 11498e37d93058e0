// SPDX-License-Identifier: Apache-2.0
// dropout_stream: zeroes a part of the elements, by a seed.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rule

static uint64_t calls;

static uint32_t next_of(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33);
}

static og_status dropout_stream(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const double p = call->attr[1].f;
  uint64_t state = (uint64_t)call->attr[0].i + calls++;
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    const double u = (double)next_of(&state) * 0x1p-31;
    y[i] = u < p ? 0 : x[i] / (float)(1 - p);
  }
  return OG_OK;
}

MODULE(dropout_stream,
       {.schema = "dropout_stream(Tensor x, int seed, float p=0.1) -> Tensor",
        .shape = "x[N] -> [N]",
        .doc = "Inverted dropout; the seed alone decides the mask.",
        RUN("f32", dropout_stream)})
