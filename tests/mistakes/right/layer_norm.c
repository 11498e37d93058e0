// SPDX-License-Identifier: Apache-2.0
// layer_norm with an optional bias; the statistics are computed again in the
// backward operator, so that nothing but the arguments is saved.

#include "../../modules/operators.h"

enum { N, D };

static void statistics(const float *x, int64_t width, double eps, double *mean,
                       double *rstd) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < width; ++i) sum += (double)x[i];
  *mean = sum / (double)width;
  for (int64_t i = 0; i < width; ++i) {
    const double d = (double)x[i] - *mean;
    squares += d * d;
  }
  *rstd = 1 / sqrt(squares / (double)width + eps);
}

static void forward_rows(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  const float *w = og_f32(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  const float *bias = call->in[2] ? og_f32(call->in[2]) : NULL;
  const int64_t width = call->dim[D];
  for (int64_t r = begin; r < end; ++r) {
    double mean, rstd;
    statistics(x + r * width, width, call->attr[0].f, &mean, &rstd);
    for (int64_t i = 0; i < width; ++i) {
      const double hat = ((double)x[r * width + i] - mean) * rstd;
      y[r * width + i] = (float)hat * w[i] + (bias ? bias[i] : 0);
    }
  }
}

static og_status forward(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 8, forward_rows);
}
static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  const float *x = og_f32(call->in[1]);
  const float *w = og_f32(call->in[2]);
  float *dx = og_f32_mut(call->out[0]);
  float *dw = og_f32_mut(call->out[1]);
  float *db = og_f32_mut(call->out[2]);
  const int64_t width = call->dim[D];
  for (int64_t i = 0; i < width; ++i) dw[i] = db[i] = 0;
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const float *g = grad + r * width;
    double mean, rstd, sum = 0, dot = 0;
    statistics(x + r * width, width, call->attr[0].f, &mean, &rstd);
    for (int64_t i = 0; i < width; ++i) {
      const double hat = ((double)x[r * width + i] - mean) * rstd;
      sum += (double)(g[i] * w[i]);
      dot += (double)(g[i] * w[i]) * hat;
      dw[i] += g[i] * (float)hat;
      db[i] += g[i];
    }
    for (int64_t i = 0; i < width; ++i) {
      const double hat = ((double)x[r * width + i] - mean) * rstd;
      const double centred =
          (double)(g[i] * w[i]) - (sum + hat * dot) / (double)width;
      dx[r * width + i] = (float)(centred * rstd);
    }
  }
  return OG_OK;
}

MODULE(
    layer_norm,
    {.schema = "layer_norm(Tensor x, Tensor weight, Tensor? bias=None, "
               "float eps=1e-5) -> Tensor",
     .shape = "x[*N, D], weight[D], bias?[D] -> [*N, D]",
     .where = "D > 0",
     .backward = "layer_norm_backward(grad, x, weight, eps) -> x, weight, bias",
     RUN("f32", forward)},
    {.schema = "layer_norm_backward(Tensor grad, Tensor x, Tensor weight, "
               "float eps) -> (Tensor, Tensor, Tensor)",
     .shape = "grad[*N, D], x[*N, D], weight[D] -> [*N, D], [D], [D]",
     .where = "D > 0",
     RUN("f32", backward)})
