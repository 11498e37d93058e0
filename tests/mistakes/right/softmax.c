// SPDX-License-Identifier: Apache-2.0
// softmax along any dim; the gradient uses the saved result.

#include "../../modules/operators.h"

enum { A, D, B };

static void forward_lines(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t length = call->dim[D], inner = call->dim[B];
  for (int64_t line = begin; line < end; ++line) {
    const int64_t first = line / inner * length * inner + line % inner;
    const int64_t last = first + length * inner;
    float best = -INFINITY;
    double sum = 0;
    for (int64_t i = first; i < last; i += inner) best = fmaxf(best, x[i]);
    for (int64_t i = first; i < last; i += inner)
      sum += (double)(y[i] = expf(x[i] - best));
    for (int64_t i = first; i < last; i += inner)
      y[i] = (float)((double)y[i] / sum);
  }
}

static og_status forward(const og_call *call) {
  return og_parallel_for(call, call->dim[A] * call->dim[B], 1, forward_lines);
}
static void backward_lines(const og_call *call, int64_t begin, int64_t end) {
  const float *grad = og_f32(call->in[0]);
  const float *y = og_f32(call->in[1]);
  float *dx = og_f32_mut(call->out[0]);
  const int64_t length = call->dim[D], inner = call->dim[B];
  for (int64_t line = begin; line < end; ++line) {
    const int64_t first = line / inner * length * inner + line % inner;
    const int64_t last = first + length * inner;
    double dot = 0;
    for (int64_t i = first; i < last; i += inner)
      dot += (double)grad[i] * (double)y[i];
    for (int64_t i = first; i < last; i += inner)
      dx[i] = (float)(((double)grad[i] - dot) * (double)y[i]);
  }
}

static og_status backward(const og_call *call) {
  return og_parallel_for(call, call->dim[A] * call->dim[B], 1, backward_lines);
}

MODULE(softmax,
       {.schema = "softmax(Tensor x, int dim=-1) -> Tensor",
        .shape = "x[*A, D@dim, *B] -> [*A, D, *B]",
        .backward = "softmax_backward(grad, result, dim) -> x",
        RUN("f32", forward)},
       {.schema = "softmax_backward(Tensor grad, Tensor y, int dim) -> Tensor",
        .shape = "grad[*A, D@dim, *B], y[*A, D@dim, *B] -> [*A, D, *B]",
        RUN("f32", backward)})
