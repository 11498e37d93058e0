// SPDX-License-Identifier: Apache-2.0
// Operators of corners.py: each has one thing that few operators have.

#include "../modules/operators.h"

// repeat_rows: its sizes come from a callback.
static og_status repeat_infer(const og_infer_call *call) {
  const og_tensor *x = call->in[0];
  if (x->ndim != 2) return OG_SHAPE;
  call->ndim[0] = 2;
  call->shape[0][0] = x->shape[0] * call->attr[0].i;
  call->shape[0][1] = x->shape[1];
  return OG_OK;
}
static og_status repeat_f32(const og_call *call) {
  const int64_t count = og_numel(call->in[0]);
  for (int64_t i = 0; i < call->attr[0].i; ++i)
    memcpy(og_f32_mut(call->out[0]) + i * count, og_f32(call->in[0]),
           (size_t)count * sizeof(float));
  return OG_OK;
}

// dots: the sum of the products of each x with w; a list is saved.
enum { N };
static og_status dots_f32(const og_call *call) {
  const og_tensor_list xs = call->in_list[0];
  float sum = 0;
  for (int64_t i = 0; i < xs.count; ++i)
    for (int64_t n = 0; n < call->dim[N]; ++n)
      sum += og_f32(xs.tensors[i])[n] * og_f32(call->in[1])[n];
  *og_f32_mut(call->out[0]) = sum;
  return OG_OK;
}
static og_status dots_backward_f32(const og_call *call) {
  const float grad = *og_f32(call->in[0]);
  const og_tensor_list xs = call->in_list[1];
  float *grad_w = og_f32_mut(call->out[1]);
  for (int64_t n = 0; n < call->dim[N]; ++n) grad_w[n] = 0;
  for (int64_t i = 0; i < xs.count; ++i) {
    float *grad_x = og_f32_mut(call->out_list[0].tensors[i]);
    for (int64_t n = 0; n < call->dim[N]; ++n) {
      grad_x[n] = grad * og_f32(call->in[2])[n];
      grad_w[n] += grad * og_f32(xs.tensors[i])[n];
    }
  }
  return OG_OK;
}

// pick: two arguments of fixed types, one entry in .dtypes.
static og_status pick_f32(const og_call *call) {
  const int64_t *index = og_i64(call->in[1]);
  for (int64_t m = 0; m < call->dim[1]; ++m) {
    if (index[m] < 0 || index[m] >= call->dim[0])
      return og_fail(call, OG_INVALID, "pick: an index is out of range");
    og_f32_mut(call->out[0])[m] = og_f32(call->in[0])[index[m]];
  }
  return OG_OK;
}

static og_status zeros_f32(const og_call *call) {
  memset(og_data(call->out[0]), 0, (size_t)call->attr[0].i * sizeof(float));
  return OG_OK;
}

// tick: counts its calls. noise: stands for a random operator.
static int64_t tick_count;
static og_status tick_run(const og_call *call) {
  *og_i64_mut(call->out[0]) = ++tick_count;
  return OG_OK;
}
static og_status noise_f32(const og_call *call) {
  memcpy(og_data(call->out[0]), og_data(call->in[0]),
         (size_t)og_numel(call->in[0]) * sizeof(float));
  return OG_OK;
}

MODULE(corners,
       {.schema = "repeat_rows(Tensor x, SymInt times) -> Tensor",
        .dtype = "x: f32 -> x",
        .backward = "none",
        RUN("f32", repeat_f32),
        .infer = repeat_infer},
       {.schema = "dots(Tensor[] xs, Tensor w) -> Tensor",
        .shape = "xs[][N], w[N] -> []",
        .where = "itemsize(xs) == 4",
        .dtype = "xs: f32, w: xs -> xs",
        .backward = "dots_backward(grad, xs, w) -> xs, w",
        RUN("f32", dots_f32)},
       {.schema = "dots_backward(Tensor grad, Tensor[] xs, Tensor w) "
                  "-> (Tensor[], Tensor)",
        .shape = "grad[], xs[][N], w[N] -> {i < len(xs): [N]}, [N]",
        .dtype = "grad: f32, xs: grad, w: grad -> grad, grad",
        RUN("f32", dots_backward_f32)},
       {.schema = "pick(Tensor x, Tensor index) -> Tensor",
        .shape = "x[N], index[M] -> [M]",
        .dtype = "x: f32, index: i64 -> x",
        .backward = "none",
        RUN("f32", pick_f32)},
       {.schema = "tick(Tensor x) -> Tensor",
        .shape = "x[*N] -> []",
        .dtype = "x: f32 -> i64",
        .backward = "none",
        RUN(NULL, tick_run),
        .flags = OG_SIDE_EFFECT},
       {.schema = "noise(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: f32 -> x",
        .strides = "x: last",
        .backward = "none",
        RUN("f32", noise_f32),
        .flags = OG_RANDOM | OG_CAPTURE_NEVER},
       {.schema = "zeros(SymInt n, Device device=\"cuda:1\") -> Tensor",
        .shape = "-> [n]",
        .where = "n >= 0",
        .dtype = "-> f32",
        .backward = "none",
        RUN(NULL, zeros_f32)})
