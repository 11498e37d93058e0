// SPDX-License-Identifier: Apache-2.0
// Zeros at both ends of the last dim, and the gradient that cuts them off.

#include "../../modules/operators.h"

enum { N, D };

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D], before = call->attr[0].ints[0];
  const int64_t total = width + before + call->attr[0].ints[1];
  for (int64_t i = 0; i < call->dim[N] * total; ++i) {
    const int64_t c = i % total - before;
    y[i] = c >= 0 && c < width ? x[i / total * width + c] : 0;
  }
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[1]);
  float *dx = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D], before = call->attr[0].ints[0];
  const int64_t total = width + before + call->attr[0].ints[1];
  for (int64_t i = 0; i < call->dim[N] * width; ++i)
    dx[i] = grad[i / width * total + before + i % width];
  return OG_OK;
}

MODULE(
    pad_last,
    {.schema = "pad_last(Tensor x, int[2] pad=[0, 0]) -> Tensor",
     .shape = "x[*N, D] -> [*N, D + pad[0] + pad[1]]",
     .where = "len(pad) == 2, pad[0] >= 0, pad[1] >= 0",
     .backward = "pad_last_backward(x, grad, pad) -> x",
     RUN("f32", forward)},
    {.schema = "pad_last_backward(Tensor x, Tensor grad, int[2] pad) -> Tensor",
     .shape = "x[*N, D], grad[*N, D + pad[0] + pad[1]] -> [*N, D]",
     .where = "len(pad) == 2, pad[0] >= 0, pad[1] >= 0",
     RUN("f32", backward)})
