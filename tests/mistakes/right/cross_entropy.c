// SPDX-License-Identifier: Apache-2.0
// Cross entropy of rows against class numbers, which are checked.

#include "../../modules/operators.h"

enum { N, C };

static og_status check_targets(const og_call *call, const og_tensor *target,
                               int64_t classes) {
  for (int64_t n = 0; n < og_numel(target); ++n)
    if (og_i64(target)[n] < 0 || og_i64(target)[n] >= classes)
      return og_fail(call, OG_INVALID, "cross_entropy: target is no class");
  return OG_OK;
}

static double log_sum(const float *row, int64_t classes, double *best) {
  double sum = 0;
  *best = (double)row[0];
  for (int64_t c = 1; c < classes; ++c) *best = fmax(*best, (double)row[c]);
  for (int64_t c = 0; c < classes; ++c) sum += exp((double)row[c] - *best);
  return log(sum);
}

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t classes = call->dim[C];
  const og_status status = check_targets(call, call->in[1], classes);
  for (int64_t n = 0; n < call->dim[N] && status == OG_OK; ++n) {
    double best;
    const double sum = log_sum(x + n * classes, classes, &best);
    y[n] =
        (float)(sum + best - (double)x[n * classes + og_i64(call->in[1])[n]]);
  }
  return status;
}

static og_status backward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const float *grad = og_f32(call->in[2]);
  float *dx = og_f32_mut(call->out[0]);
  const int64_t classes = call->dim[C];
  const og_status status = check_targets(call, call->in[1], classes);
  for (int64_t n = 0; n < call->dim[N] && status == OG_OK; ++n) {
    double best;
    const double sum = log_sum(x + n * classes, classes, &best);
    for (int64_t c = 0; c < classes; ++c) {
      const double p = exp((double)x[n * classes + c] - best - sum);
      dx[n * classes + c] =
          (float)((double)grad[n] * (p - (c == og_i64(call->in[1])[n])));
    }
  }
  return status;
}

MODULE(cross_entropy,
       {.schema = "cross_entropy(Tensor x, Tensor target) -> Tensor",
        .shape = "x[*N, C], target[*N] -> [*N]",
        .where = "C > 0",
        .dtype = "x: f32, target: i64 -> x",
        .backward = "cross_entropy_backward(x, target, grad) -> x",
        RUN(NULL, forward)},
       {.schema = "cross_entropy_backward(Tensor x, Tensor target, Tensor "
                  "grad) -> Tensor",
        .shape = "x[*N, C], target[*N], grad[*N] -> [*N, C]",
        .where = "C > 0",
        .dtype = "x: f32, target: i64, grad: x -> x",
        RUN(NULL, backward)})
