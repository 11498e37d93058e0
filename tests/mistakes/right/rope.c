// SPDX-License-Identifier: Apache-2.0
// Rotates pairs of the last dim; x may be a slice of a packed projection
// (strides: last). All three arguments have gradients.

#include "../../modules/operators.h"

enum { Z, S, H, D };

static const float *row_of(const og_call *call, const og_tensor *t,
                           int64_t row) {
  const int64_t heads = call->dim[H], tokens = call->dim[S];
  return og_f32(t) + row / heads / tokens * t->strides[0] +
         row / heads % tokens * t->strides[1] + row % heads * t->strides[2];
}

static og_status forward(const og_call *call) {
  const float *cosine = og_f32(call->in[1]);
  const float *sine = og_f32(call->in[2]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t heads = call->dim[H], half = call->dim[D] / 2;
  for (int64_t row = 0; row < call->dim[Z] * call->dim[S] * heads; ++row) {
    const float *x = row_of(call, call->in[0], row);
    const int64_t table = row / heads % call->dim[S] * half;
    for (int64_t i = 0; i < half; ++i) {
      const float c = cosine[table + i], s = sine[table + i];
      y[row * 2 * half + i] = x[i] * c - x[half + i] * s;
      y[row * 2 * half + half + i] = x[half + i] * c + x[i] * s;
    }
  }
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *cosine = og_f32(call->in[2]);
  const float *sine = og_f32(call->in[3]);
  float *dx = og_f32_mut(call->out[0]);
  float *dc = og_f32_mut(call->out[1]);
  float *ds = og_f32_mut(call->out[2]);
  const int64_t heads = call->dim[H], half = call->dim[D] / 2;
  for (int64_t i = 0; i < call->dim[S] * half; ++i) dc[i] = ds[i] = 0;
  for (int64_t row = 0; row < call->dim[Z] * call->dim[S] * heads; ++row) {
    const float *g = row_of(call, call->in[0], row);
    const float *x = row_of(call, call->in[1], row);
    const int64_t table = row / heads % call->dim[S] * half;
    for (int64_t i = 0; i < half; ++i) {
      const float c = cosine[table + i], s = sine[table + i];
      dx[row * 2 * half + i] = g[i] * c + g[half + i] * s;
      dx[row * 2 * half + half + i] = g[half + i] * c - g[i] * s;
      dc[table + i] += g[i] * x[i] + g[half + i] * x[half + i];
      ds[table + i] += g[half + i] * x[i] - g[i] * x[half + i];
    }
  }
  return OG_OK;
}

MODULE(rope,
       {.schema = "rope(Tensor x, Tensor cosine, Tensor sine) -> Tensor",
        .shape =
            "x[Z, S, H, D], cosine[S, D // 2], sine[S, D // 2] -> [Z, S, H, D]",
        .where = "D % 2 == 0",
        .backward = "rope_backward(grad, x, cosine, sine) -> x, cosine, sine",
        .strides = "x: last",
        RUN("f32", forward)},
       {.schema = "rope_backward(Tensor grad, Tensor x, Tensor cosine, Tensor "
                  "sine) -> (Tensor, Tensor, Tensor)",
        .shape = "grad[Z, S, H, D], x[Z, S, H, D], cosine[S, D // 2], sine[S, "
                 "D // 2] -> [Z, S, H, D], [S, D // 2], [S, D // 2]",
        .where = "D % 2 == 0",
        .strides = "grad: last, x: last",
        RUN("f32", backward)})
