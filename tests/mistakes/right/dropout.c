// SPDX-License-Identifier: Apache-2.0
// Dropout whose mask is a hash of the seed and the position; the gradient makes
// the same mask again. A batch would share the positions, so it is a loop.

#include "../../modules/operators.h"

enum { N };

static int is_kept(uint64_t seed, uint64_t place, double drop) {
  uint64_t z = seed * 0x9e3779b97f4a7c15u + place + 1;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return (double)(z >> 11) * 0x1p-53 >= drop;
}

static og_status dropout(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const double drop = call->attr[0].f;
  const uint64_t seed = (uint64_t)call->attr[1].i;
  if (!(drop >= 0 && drop <= 1))
    return og_fail(call, OG_INVALID, "dropout: p is not a probability");
  const float scale = drop < 1 ? (float)(1 / (1 - drop)) : 0;
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y[i] = is_kept(seed, (uint64_t)i, drop) ? x[i] * scale : 0;
  return OG_OK;
}

MODULE(dropout,
       {.schema = "dropout(Tensor x, float p, int seed) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .backward = "dropout_backward(grad, p, seed) -> x",
        RUN("f32", dropout),
        .flags = OG_RANDOM | OG_BATCH_LOOP},
       {.schema = "dropout_backward(Tensor grad, float p, int seed) -> Tensor",
        .shape = "grad[*N] -> [*N]",
        RUN("f32", dropout),
        .flags = OG_RANDOM | OG_BATCH_LOOP})
