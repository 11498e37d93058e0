// SPDX-License-Identifier: Apache-2.0
// mistake: The enum names the dims in another order than the rule, so that each has the other's size.
// expect: column_sums - out_of_bounds_read|out_of_bounds_write|output_not_written

#include "../../modules/operators.h"

enum { C, R };

static og_status column_sums(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t j = 0; j < call->dim[C]; ++j) {
    float sum = 0;
    for (int64_t i = 0; i < call->dim[R]; ++i) sum += x[i * call->dim[C] + j];
    y[j] = sum;
  }
  return OG_OK;
}

MODULE(column_sums, {.schema = "column_sums(Tensor x) -> Tensor",
                     .shape = "x[R, C] -> [C]",
                     .dtype = "x: f32 -> f32",
                     .flags = OG_DETERMINISTIC,
                     RUN("f32", column_sums)})
