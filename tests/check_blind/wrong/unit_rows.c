// SPDX-License-Identifier: Apache-2.0
// unit_rows: x / sqrt(mean(x^2) + eps) of each row, with its gradient.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rules

static og_status unit_rows(const og_call *call) {
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const double *x = og_f64(call->in[0]) + r * width;
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += x[i] * x[i];
    const double scale = 1 / sqrt(sum / (double)width + 1e-3);
    for (int64_t i = 0; i < width; ++i)
      og_f64_mut(call->out[0])[r * width + i] = x[i] * scale;
    og_f64_mut(call->out[1])[r] = scale;
  }
  return OG_OK;
}

static og_status unit_rows_backward(const og_call *call) {
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const double *grad = og_f64(call->in[0]) + r * width;
    const double *x = og_f64(call->in[1]) + r * width;
    const double scale = og_f64(call->in[2])[r];
    double along = 0;
    for (int64_t i = 0; i < width; ++i) along += grad[i] * x[i];
    for (int64_t i = 0; i < width; ++i)
      og_f64_mut(call->out[0])[r * width + i] =
          scale * (grad[i] - x[i] * along * scale * scale);
  }
  return OG_OK;
}

MODULE(unit_rows,
       {.schema = "unit_rows(Tensor x) -> (Tensor y, Tensor scale)",
        .shape = "x[*N, D] -> [*N, D], [*N]",
        .where = "D > 0",
        .backward = "unit_rows_backward(grad_y, x, scale) -> x",
        .expect = "no_gradient: scale",
        .doc = "Rows with a mean square of 1, and what they were multiplied "
               "by.",
        RUN("f64", unit_rows)},
       {.schema = "unit_rows_backward(Tensor grad, Tensor x, Tensor scale) "
                  "-> Tensor",
        .shape = "grad[*N, D], x[*N, D], scale[*N] -> [*N, D]",
        .where = "D > 0",
        .doc = "The gradient of unit_rows.",
        RUN("f64", unit_rows_backward)})
