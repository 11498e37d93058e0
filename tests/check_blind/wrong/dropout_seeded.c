// SPDX-License-Identifier: Apache-2.0
// dropout_seeded: inverted dropout whose mask is a hash of seed and place.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rule

// A number in [0, 1) from a seed and a place, by splitmix64.
static double uniform_of(uint64_t seed, uint64_t place) {
  uint64_t z = seed + (place + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static void elements(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const double p = call->attr[1].f;
  for (int64_t i = begin; i < end; ++i) {
    const double u = uniform_of((uint64_t)call->attr[0].i, (uint64_t)i);
    y[i] = u < p ? 0 : x[i];
  }
}

static og_status dropout_seeded(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 512, elements);
}

MODULE(dropout_seeded,
       {.schema = "dropout_seeded(Tensor x, int seed, float p=0.5) -> Tensor",
        .shape = "x[N] -> [N]",
        .doc = "Zeroes each element with probability p and divides the others "
               "by 1 - p. Equal seeds give equal masks: element i is zeroed "
               "where splitmix64(seed, i) is below p.",
        RUN("f32", dropout_seeded)})
