// SPDX-License-Identifier: Apache-2.0
// argmax_first: where the largest entry of each row is, the first of equals.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

#define ARGMAX(name, accessor)                                                \
  static void rows_##name(const og_call *call, int64_t begin, int64_t end) {  \
    const int64_t width = call->dim[D];                                       \
    for (int64_t r = begin; r < end; ++r) {                                   \
      int64_t best = r * width;                                               \
      for (int64_t i = best + 1; i < (r + 1) * width; ++i)                    \
        if (accessor(call->in[0])[i] > accessor(call->in[0])[best]) best = i; \
      og_i64_mut(call->out[0])[r] = best - r * width;                         \
    }                                                                         \
  }                                                                           \
  static og_status argmax_##name(const og_call *call) {                       \
    return og_parallel_for(call, call->dim[N], 4, rows_##name);               \
  }
ARGMAX(f32, og_f32)
ARGMAX(i64, og_i64)

MODULE(argmax_first,
       {.schema = "argmax_first(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N]",
        .where = "D > 0",
        .dtype = "x: f32|i64 -> i64",
        .backward = "none",
        .doc = "The lowest index of the largest entry of the last axis.",
        .kernels =
            KERNELS({.device = OG_CPU, .dtypes = "f32", .run = argmax_f32},
                    {.device = OG_CPU, .dtypes = "i64", .run = argmax_i64})})
