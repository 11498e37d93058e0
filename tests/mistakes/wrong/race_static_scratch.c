// SPDX-License-Identifier: Apache-2.0
// mistake: The shares of one call use one static scratch row.
// expect: reverse_rows - race|state|threads|chunk

#include "../../modules/operators.h"

enum { N, D };

static volatile float scratch[4096];
static void reverse_share(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = begin; r < end; ++r) {
    for (int64_t i = 0; i < width; ++i) scratch[i] = x[r * width + i];
    for (int64_t i = 0; i < width; ++i)
      y[r * width + i] = scratch[width - 1 - i];
  }
}

static og_status reverse_rows(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 1, reverse_share);
}

MODULE(race_static_scratch, {.schema = "reverse_rows(Tensor x) -> Tensor",
                             .shape = "x[*N, D] -> [*N, D]",
                             .where = "D <= 4096",
                             RUN("f32", reverse_rows)})
