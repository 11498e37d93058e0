// SPDX-License-Identifier: Apache-2.0
// Operators at or beyond what a host can offer, and one of complex numbers.

#include "../modules/operators.h"

enum { N };

// --- product: x * y of complex numbers; the gradient is PyTorch's ------------

static void multiply(const float *x, const float *y, float sign, float *out) {
  const float real = x[0] * y[0] - sign * x[1] * y[1];
  out[1] = sign * x[0] * y[1] + x[1] * y[0];
  out[0] = real;
}

static og_status product(const og_call *call) {
  const float *x = call->in[0]->data, *y = call->in[1]->data;
  float *out = call->out[0]->data;
  for (int64_t i = 0; i < call->dim[N]; ++i)
    multiply(x + 2 * i, y + 2 * i, 1, out + 2 * i);
  return OG_OK;
}

static og_status product_backward(const og_call *call) {
  const float *grad = call->in[0]->data;
  for (int side = 0; side < 2; ++side) {
    const float *other = call->in[2 - side]->data;
    float *out = call->out[side]->data;
    for (int64_t i = 0; i < call->dim[N]; ++i)
      multiply(grad + 2 * i, other + 2 * i, -1, out + 2 * i);
  }
  return OG_OK;
}

// --- bump_, touch: writes that further hosts lack ----------------------------

static og_status bump(const og_call *call) {
  const og_tensor_list *xs = &call->out_list[0];
  for (int64_t k = 0; k < xs->count; ++k)
    for (int64_t i = 0; i < call->dim[N]; ++i)
      og_f32_mut(xs->tensors[k])[i] += 1;
  return OG_OK;
}

static og_status touch(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    og_f32_mut(call->out[1])[i] = og_f32(call->in[0])[i];
    if (call->out[0] != NULL) og_f32_mut(call->out[0])[i] += 1;
  }
  return OG_OK;
}

// --- first: x; its other arguments have types of their own -------------------

static og_status first(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_u8_mut(call->out[0])[i] = (uint8_t)i;
  return OG_OK;
}

static og_status same(const og_call *call) {
  const size_t width = call->in[0]->dtype.bits / 8u;
  const unsigned char *x = call->in[0]->data;
  unsigned char *y = call->out[0]->data;
  for (size_t i = 0; i < (size_t)call->dim[N] * width; ++i) y[i] = x[i];
  return OG_OK;
}

// --- lengths: the number of characters of each text --------------------------

static og_status lengths(const og_call *call) {
  const og_attr *texts = &call->attr[0];
  for (int64_t i = 0; i < call->dim[N]; ++i) og_f32_mut(call->out[0])[i] = -1;
  for (int64_t k = 0; k < texts->count && k < call->dim[N]; ++k) {
    float length = 0;
    for (const char *c = texts->strs[k]; *c != '\0'; ++c) length += 1;
    og_f32_mut(call->out[0])[k] = length;
  }
  return OG_OK;
}

// --- threads: which thread computed each element -----------------------------

static void threads_rows(const og_call *call, int64_t begin, int64_t end) {
  static _Thread_local char own;
  for (int64_t i = begin; i < end; ++i) {
    volatile int64_t spin = 4000;  // long enough for the others to come
    while (spin > 0) --spin;
    og_i64_mut(call->out[0])[i] = (int64_t)(intptr_t)&own;
  }
}

static og_status threads(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 1, threads_rows);
}

MODULE(
    limits,
    {.schema = "product(Tensor x, Tensor y) -> Tensor",
     .shape = "x[*N], y[*N] -> [*N]",
     .dtype = "x: c64, y: c64 -> c64",
     .backward = "product_backward(grad, x, y) -> x, y",
     RUN(NULL, product)},
    {.schema = "product_backward(Tensor grad, Tensor x, Tensor y) -> "
               "(Tensor, Tensor)",
     .shape = "grad[*N], x[*N], y[*N] -> [*N], [*N]",
     .dtype = "grad: c64, x: c64, y: c64 -> c64, c64",
     RUN(NULL, product_backward)},
    {.schema = "bump_(Tensor(a!)[] xs) -> ()",
     .shape = "xs[][*N]",
     .dtype = "xs: f32",
     RUN(NULL, bump)},
    {.schema = "touch(Tensor x, Tensor(a!)? y=None) -> Tensor",
     .shape = "x[*N], y?[*N] -> [*N]",
     .dtype = "x: f32, y: f32 -> x",
     RUN(NULL, touch)},
    {// 5 * 4 * 4 choices of types.
     .schema = "first(Tensor x, Tensor y, Tensor z) -> Tensor",
     .shape = "x[*N], y[*N], z[*N] -> [*N]",
     .dtype = "x: i8|i16|i32|i64|u8, y: f16|bf16|f32|f64, "
              "z: f16|bf16|f32|f64 -> u8",
     RUN(NULL, first)},
    {.schema = "same(Tensor x) -> Tensor",
     .shape = "x[*N] -> [*N]",
     .dtype = "x: f16|bf16|f32|f64|i32|i64 -> x",
     .kernels = KERNELS({.device = OG_CPU, .dtypes = "floating", .run = same},
                        {.device = OG_CPU, .dtypes = "i32|i64", .run = same})},
    {// torch.result_type of an integer and a number is not known at load.
     .schema = "scaled(Tensor x, Scalar s) -> Tensor",
     .shape = "x[*N] -> [*N]",
     .dtype = "x: i32|i64 -> promote(x, s)",
     RUN(NULL, same)},
    {.schema = "threads(Tensor x) -> Tensor",
     .shape = "x[*N] -> [*N]",
     .dtype = "x: f32 -> i64",
     RUN(NULL, threads)},
    {.schema = "lengths(Tensor x, str[] texts) -> Tensor",
     .shape = "x[*N] -> [*N]",
     .dtype = "x: f32 -> x",
     RUN(NULL, lengths)})
