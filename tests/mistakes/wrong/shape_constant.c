// SPDX-License-Identifier: Apache-2.0
// mistake: The rule says 4 columns, the size of the one sample that the author tried; the kernel writes D.
// expect: double_row - shape_rule|out_of_bounds_write|unwritten

#include "../../modules/operators.h"

enum { N, D };

static void double_rows(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t i = begin * width; i < end * width; ++i) y[i] = 2 * x[i];
}

static og_status double_row(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 1, double_rows);
}

MODULE(shape_constant, {.schema = "double_row(Tensor x) -> Tensor",
                        .shape = "x[*N, D] -> [*N, 4]",
                        RUN("f32", double_row)})
