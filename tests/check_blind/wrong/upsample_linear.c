// SPDX-License-Identifier: Apache-2.0
// upsample_linear: linear interpolation of the last axis to a size.

#include "../../modules/operators.h"

enum { N, L };  // dims of the shape rule

static void lines(const og_call *call, int64_t begin, int64_t end) {
  const int64_t length = call->dim[L], size = call->attr[0].i;
  const double step = (double)length / (double)size;
  for (int64_t n = begin; n < end; ++n) {
    const double *x = og_f64(call->in[0]) + n * length;
    double *y = og_f64_mut(call->out[0]) + n * size;
    for (int64_t i = 0; i < size; ++i) {
      double at = (double)i * step;
      if (at < 0) at = 0;
      int64_t low = (int64_t)at;
      if (low > length - 1) low = length - 1;
      const int64_t high = low + 1 < length ? low + 1 : low;
      const double part = at - (double)low;
      y[i] = x[low] * (1 - part) + x[high] * part;
    }
  }
}

static og_status upsample_linear(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 1, lines);
}

MODULE(upsample_linear,
       {.schema = "upsample_linear(Tensor x, SymInt size) -> Tensor",
        .shape = "x[*N, L] -> [*N, size]",
        .where = "L > 0, size > 0",
        .doc = "Interpolates between the centres of cells: result i is taken "
               "at (i + 1/2) L / size - 1/2, clamped to the line.",
        RUN("f64", upsample_linear)})
