// SPDX-License-Identifier: Apache-2.0
// mistake: Rows of up to 20 elements take a path that forgets the sharpness.
// expect: sharpen - size|unused|ignored

#include "../../modules/operators.h"

enum { N, D };
enum { SHORT = 20 };

static og_status sharpen(const og_call *call) {
  const int64_t width = call->dim[D];
  const double sharpness = width <= SHORT ? 1 : call->attr[0].f;
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const double *x = og_f64(call->in[0]) + r * width;
    double *y = og_f64_mut(call->out[0]) + r * width;
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += fabs(x[i]);
    for (int64_t i = 0; i < width; ++i)
      y[i] = x[i] + sharpness * (x[i] - sum / (double)width);
  }
  return OG_OK;
}

MODULE(sharpness_of_long_rows,
       {.schema = "sharpen(Tensor x, float sharpness=0.5) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        RUN("f64", sharpen)})
