// SPDX-License-Identifier: Apache-2.0
// mistake: The kernel negates the input in place and puts it back afterwards; other readers see the negated values, and read-only memory faults.
// expect: min_rows x undeclared_mutation|mutation|write

#include "../../modules/operators.h"

enum { N, D };

static void negate(volatile float *x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) x[i] = -x[i];
}

static og_status min_rows(const og_call *call) {
  float *x = (float *)og_data(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  negate(x, call->dim[N] * width);
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    float best = -INFINITY;
    for (int64_t i = 0; i < width; ++i) best = fmaxf(best, x[r * width + i]);
    y[r] = -best;
  }
  negate(x, call->dim[N] * width);
  return OG_OK;
}

MODULE(mutation_restored, {.schema = "min_rows(Tensor x) -> Tensor",
                           .shape = "x[*N, D] -> [*N]",
                           RUN("f32", min_rows)})
