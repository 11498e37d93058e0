// SPDX-License-Identifier: Apache-2.0
// standardize: each row at mean 0 and variance 1, with its gradient.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rules

static double inverse_deviation(const double *x, int64_t width, double eps,
                                double *out_mean) {
  double mean = 0, variance = 0;
  for (int64_t i = 0; i < width; ++i) mean += x[i] / (double)width;
  for (int64_t i = 0; i < width; ++i)
    variance += (x[i] - mean) * (x[i] - mean) / (double)width;
  *out_mean = mean;
  return 1 / sqrt(variance + eps);
}

static og_status standardize(const og_call *call) {
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const double *x = og_f64(call->in[0]) + r * width;
    double mean;
    const double scale = inverse_deviation(x, width, call->attr[0].f, &mean);
    for (int64_t i = 0; i < width; ++i)
      og_f64_mut(call->out[0])[r * width + i] = (x[i] - mean) * scale;
  }
  return OG_OK;
}

static og_status standardize_backward(const og_call *call) {
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const double *grad = og_f64(call->in[0]) + r * width;
    const double *x = og_f64(call->in[1]) + r * width;
    double mean, along = 0;
    const double scale = inverse_deviation(x, width, call->attr[0].f, &mean);
    for (int64_t i = 0; i < width; ++i)
      along += grad[i] * (x[i] - mean) * scale / (double)width;
    for (int64_t i = 0; i < width; ++i)
      og_f64_mut(call->out[0])[r * width + i] =
          scale * (grad[i] - along * (x[i] - mean) * scale);
  }
  return OG_OK;
}

MODULE(standardize,
       {.schema = "standardize(Tensor x, float eps=1e-3) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .where = "D > 0",
        .backward = "standardize_backward(grad, x, eps) -> x",
        .doc = "(x - mean) / sqrt(variance + eps) of the last axis.",
        RUN("f64", standardize)},
       {.schema = "standardize_backward(Tensor grad, Tensor x, float eps) -> "
                  "Tensor",
        .shape = "grad[*N, D], x[*N, D] -> [*N, D]",
        .where = "D > 0",
        .doc = "The gradient of standardize.",
        RUN("f64", standardize_backward)})
