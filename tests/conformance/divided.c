// SPDX-License-Identifier: Apache-2.0
// Operators whose calls devices share: rows, columns, a contraction with a bias
// that counts once, a maximum, and an argument that is written.

#include "../modules/operators.h"

static og_status affine(const og_call *call) {
  enum { N, I, O };
  const int64_t rows = call->dim[N], width = call->dim[I], out = call->dim[O];
  const float *x = og_f32(call->in[0]), *weight = og_f32(call->in[1]);
  const float *bias = call->in[2] != NULL ? og_f32(call->in[2]) : NULL;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t o = 0; o < out; ++o) {
      float sum = bias != NULL ? bias[o] : 0;
      for (int64_t i = 0; i < width; ++i)
        sum += x[r * width + i] * weight[o * width + i];
      og_f32_mut(call->out[0])[r * out + o] = sum;
    }
  return OG_OK;
}

static og_status softmax(const og_call *call) {
  enum { N, D };
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const float *x = og_f32(call->in[0]) + r * width;
    float *y = og_f32_mut(call->out[0]) + r * width;
    float most = -INFINITY, sum = 0;
    for (int64_t d = 0; d < width; ++d) most = fmaxf(most, x[d]);
    for (int64_t d = 0; d < width; ++d) sum += y[d] = expf(x[d] - most);
    for (int64_t d = 0; d < width; ++d) y[d] /= sum;
  }
  return OG_OK;
}

static og_status largest(const og_call *call) {
  enum { R, C };
  const int64_t width = call->dim[C];
  for (int64_t c = 0; c < width; ++c) {
    float most = -INFINITY;
    for (int64_t r = 0; r < call->dim[R]; ++r)
      most = fmaxf(most, og_f32(call->in[0])[r * width + c]);
    og_f32_mut(call->out[0])[c] = most;
  }
  return OG_OK;
}

static og_status scaled(const og_call *call) {
  enum { N, D };
  const int64_t width = call->dim[D];
  for (int64_t i = 0; i < call->dim[N] * width; ++i)
    og_f32_mut(call->out[0])[i] =
        og_f32(call->in[0])[i] * og_f32(call->in[1])[i % width];
  return OG_OK;
}

static og_status scaled_backward(const og_call *call) {
  enum { N, D };
  const int64_t width = call->dim[D];
  const float *grad = og_f32(call->in[0]), *x = og_f32(call->in[1]);
  const float *weight = og_f32(call->in[2]);
  float *to_weight = og_f32_mut(call->out[1]);
  for (int64_t d = 0; d < width; ++d) to_weight[d] = 0;
  for (int64_t i = 0; i < call->dim[N] * width; ++i) {
    og_f32_mut(call->out[0])[i] = grad[i] * weight[i % width];
    to_weight[i % width] += grad[i] * x[i];
  }
  return OG_OK;
}

static og_status grouped(const og_call *call) {
  enum { T, HQ, D, HK };
  const int64_t heads = call->dim[HQ], width = call->dim[D];
  const int64_t groups = call->dim[HK];
  for (int64_t t = 0; t < call->dim[T]; ++t)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t d = 0; d < width; ++d)
        og_f32_mut(call->out[0])[(t * heads + h) * width + d] =
            og_f32(call->in[0])[(t * heads + h) * width + d] *
            og_f32(call->in[1])[(t * groups + h * groups / heads) * width + d];
  return OG_OK;
}

static og_status add_into(const og_call *call) {
  enum { N };
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_f32_mut(call->out[0])[i] += og_f32(call->in[1])[i];
  return OG_OK;
}

MODULE(
    divided,
    {.schema = "affine(Tensor x, Tensor weight, Tensor? bias=None) -> Tensor",
     .shape = "x[*N, I], weight[O, I], bias?[O] -> [*N, O]",
     .dtype = "x: f32, weight: x, bias: x -> x",
     .reduce = "O; I: sum(bias)",
     RUN("f32", affine)},
    {.schema = "softmax(Tensor x) -> Tensor",
     .shape = "x[*N, D] -> [*N, D]",
     .dtype = "x: f32 -> x",
     RUN("f32", softmax)},
    {.schema = "largest(Tensor x) -> Tensor",
     .shape = "x[R, C] -> [C]",
     .dtype = "x: f32 -> x",
     .reduce = "C; R: max",
     RUN("f32", largest)},
    {.schema = "scaled(Tensor x, Tensor weight) -> Tensor",
     .shape = "x[*N, D], weight[D] -> [*N, D]",
     .dtype = "x: f32, weight: x -> x",
     .backward = "scaled_backward(grad, x, weight) -> x, weight",
     .reduce = "D",
     RUN("f32", scaled)},
    {.schema = "scaled_backward(Tensor grad, Tensor x, Tensor weight) -> "
               "(Tensor, Tensor)",
     .shape = "grad[*N, D], x[*N, D], weight[D] -> [*N, D], [D]",
     .dtype = "grad: f32, x: grad, weight: grad -> grad, grad",
     .reduce = "N: sum; D",
     RUN("f32", scaled_backward)},
    {.schema = "grouped(Tensor q, Tensor k) -> Tensor",
     .shape = "q[T, HQ, D], k[T, HK, D] -> [T, HQ, D]",
     .where = "HK > 0, HQ % max(HK, 1) == 0",
     .dtype = "q: f32, k: q -> q",
     .reduce = "T; HQ + HK; D",
     RUN("f32", grouped)},
    {.schema = "add_into(Tensor(a!) total, Tensor x) -> Tensor(a!)",
     .shape = "total[*N], x[*N]",
     .dtype = "total: f32, x: total",
     .reduce = "N",
     RUN("f32", add_into)})
