// SPDX-License-Identifier: Apache-2.0
// rms_norm over the last dim with its gradient; rows are shared out, the
// gradient of the weight is a fixed-order sum.

#include "../../modules/operators.h"

enum { N, D };

static float row_scale(const float *x, int64_t width, double eps) {
  double sum = 0;
  for (int64_t i = 0; i < width; ++i) sum += (double)x[i] * (double)x[i];
  return (float)(1 / sqrt(sum / (double)width + eps));
}

static void forward_rows(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  const float *w = og_f32(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = begin; r < end; ++r) {
    const float scale = row_scale(x + r * width, width, call->attr[0].f);
    for (int64_t i = 0; i < width; ++i)
      y[r * width + i] = x[r * width + i] * scale * w[i];
  }
}

static og_status forward(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 4, forward_rows);
}
static void backward_rows(const og_call *call, int64_t begin, int64_t end) {
  const float *grad = og_f32(call->in[0]);
  const float *x = og_f32(call->in[1]);
  const float *w = og_f32(call->in[2]);
  float *dx = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = begin; r < end; ++r) {
    const float *row = x + r * width;
    const float *grad_row = grad + r * width;
    const float scale = row_scale(row, width, call->attr[0].f);
    double dot = 0;
    for (int64_t i = 0; i < width; ++i)
      dot += (double)(grad_row[i] * w[i]) * (double)row[i];
    const float back = (float)(dot / (double)width) * scale * scale * scale;
    for (int64_t i = 0; i < width; ++i)
      dx[r * width + i] = grad_row[i] * w[i] * scale - row[i] * back;
  }
}

static void weight_gradient(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  const float *x = og_f32(call->in[1]);
  float *dw = og_f32_mut(call->out[1]);
  const int64_t width = call->dim[D];
  for (int64_t i = 0; i < width; ++i) dw[i] = 0;
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const float scale = row_scale(x + r * width, width, call->attr[0].f);
    for (int64_t i = 0; i < width; ++i)
      dw[i] += grad[r * width + i] * x[r * width + i] * scale;
  }
}

static og_status backward(const og_call *call) {
  weight_gradient(call);
  return og_parallel_for(call, call->dim[N], 4, backward_rows);
}

MODULE(rms_norm,
       {.schema = "rms_norm(Tensor x, Tensor weight, float eps=1e-6) -> Tensor",
        .shape = "x[*N, D], weight[D] -> [*N, D]",
        .where = "D > 0",
        .backward = "rms_norm_backward(grad, x, weight, eps) -> x, weight",
        RUN("f32", forward),
        .flags = OG_DETERMINISTIC},
       {.schema = "rms_norm_backward(Tensor grad, Tensor x, Tensor weight, "
                  "float eps) -> (Tensor dx, Tensor dw)",
        .shape = "grad[*N, D], x[*N, D], weight[D] -> [*N, D], [D]",
        .where = "D > 0",
        RUN("f32", backward),
        .flags = OG_DETERMINISTIC})
