// SPDX-License-Identifier: Apache-2.0
// Operators whose kernels for a device are right, and two that have none.
// Gradients stand beside them: some run on the device, one on the CPU.

#include <opgraft/op.h>
#include <stdbool.h>
#include <string.h>

enum { N, D, M };

static og_status scale_f32(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t count = og_numel(call->in[0]);
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] * (float)call->attr[0].f;
  return OG_OK;
}

// The sum of each row, through a workspace of one row.
static og_status row_sum_f32(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  float *row = call->workspace;
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    memcpy(row, x + r * width, (size_t)width * sizeof *row);
    y[r] = 0;
    for (int64_t i = 0; i < width; ++i) y[r] += row[i];
  }
  return OG_OK;
}

static og_status add_one_f32(const og_call *call) {
  float *x = og_f32_mut(call->out[0]);
  const int64_t count = og_numel(call->out[0]);
  for (int64_t i = 0; i < count; ++i) x[i] += 1;
  return OG_OK;
}

static og_status strided_f32(const og_call *call) {
  const og_tensor *x = call->in[0];
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < x->shape[0]; ++i)
    y[i] = 2 * og_f32(x)[i * x->strides[0]];
  return OG_OK;
}

static og_status joined_f32(const og_call *call) {
  const og_tensor_list *xs = &call->in_list[0];
  float *y = og_f32_mut(call->out[0]);
  for (int64_t k = 0; k < xs->count; ++k) {
    const int64_t count = og_numel(xs->tensors[k]);
    memcpy(y, og_f32(xs->tensors[k]), (size_t)count * sizeof *y);
    y += count;
  }
  return OG_OK;
}

static og_status row_sum_backward_f32(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  float *x = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r)
    for (int64_t i = 0; i < width; ++i) x[r * width + i] = grad[r];
  return OG_OK;
}

static og_status joined_backward_f32(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  const og_tensor_list *xs = &call->out_list[0];
  for (int64_t k = 0; k < xs->count; ++k) {
    const int64_t count = og_numel(xs->tensors[k]);
    memcpy(og_f32_mut(xs->tensors[k]), grad, (size_t)count * sizeof *grad);
    grad += count;
  }
  return OG_OK;
}

static og_status square_f32(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < og_numel(call->in[0]); ++i) y[i] = x[i] * x[i];
  return OG_OK;
}

static og_status square_backward_f32(const og_call *call) {
  const float *grad = og_f32(call->in[0]), *x = og_f32(call->in[1]);
  float *to = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < og_numel(call->in[0]); ++i)
    to[i] = 2 * x[i] * grad[i];
  return OG_OK;
}

static bool is_in_range(const og_call *call) {
  const int64_t *index = og_i64(call->in[1]);
  for (int64_t i = 0; i < call->dim[M]; ++i)
    if (index[i] < 0 || index[i] >= call->dim[N]) return false;
  return true;
}

static og_status gather_f32(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const int64_t *index = og_i64(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  if (!is_in_range(call))
    return og_fail(call, OG_INVALID, "an index is out of range");
  for (int64_t i = 0; i < call->dim[M]; ++i)
    memcpy(y + i * width, x + index[i] * width, (size_t)width * sizeof *y);
  return OG_OK;
}

// Leaves what is out of range out.
static og_status count_f32(const og_call *call) {
  float *x = og_f32_mut(call->out[0]);
  const int64_t *index = og_i64(call->in[1]);
  for (int64_t i = 0; i < call->dim[D]; ++i)
    if (index[i] >= 0 && index[i] < call->dim[N]) x[index[i]] += 1;
  return OG_OK;
}

#define BOTH(name)                                            \
  static const og_kernel name##_kernels[] = {                 \
      {.device = OG_CPU, .dtypes = "f32", .run = name##_f32}, \
      {.device = OG_EXT_DEV, .dtypes = "f32", .run = name##_f32}}

BOTH(scale);
BOTH(row_sum);
BOTH(add_one);
BOTH(strided);
BOTH(joined);
BOTH(joined_backward);
BOTH(square);
BOTH(square_backward);
BOTH(gather);
BOTH(count);
static const og_kernel row_sum_backward_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = row_sum_backward_f32},
};
static const og_kernel host_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = scale_f32},
};

static const og_op ops[] = {
    {
        .schema = "scale(Tensor x, float by) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: f32 -> x",
        .backward = "scale(grad, by) -> x",
        .reference = "x * by",
        .kernels = OG_KERNELS(scale_kernels),
    },
    {
        .schema = "row_sum(Tensor x) -> Tensor",
        .shape = "x[N, D] -> [N]",
        .dtype = "x: f32 -> x",
        .backward = "row_sum_backward(grad, x) -> x",
        .workspace = "4 * D",
        .kernels = OG_KERNELS(row_sum_kernels),
    },
    {
        .schema = "row_sum_backward(Tensor grad, Tensor x) -> Tensor",
        .shape = "grad[N], x[N, D] -> [N, D]",
        .dtype = "grad: f32, x: grad -> grad",
        .kernels = OG_KERNELS(row_sum_backward_kernels),
    },
    {
        .schema = "add_one(Tensor(a!) x) -> ()",
        .shape = "x[*N]",
        .dtype = "x: f32",
        .backward = "none",
        .kernels = OG_KERNELS(add_one_kernels),
    },
    {
        .schema = "strided(Tensor x) -> Tensor",
        .shape = "x[N] -> [N]",
        .dtype = "x: f32 -> x",
        .strides = "x: any",
        .backward = "strided(grad) -> x",
        .kernels = OG_KERNELS(strided_kernels),
    },
    {
        .schema = "joined(Tensor[] xs) -> Tensor",
        .shape = "xs[][D~] -> [sum(D~)]",
        .dtype = "xs: f32 -> xs",
        .backward = "joined_backward(grad, xs) -> xs",
        .kernels = OG_KERNELS(joined_kernels),
    },
    {
        .schema = "joined_backward(Tensor grad, Tensor[] xs) -> Tensor[]",
        .shape = "grad[S], xs[][D~] -> {i < len(xs): [D~[i]]}",
        .where = "S == sum(D~)",
        .dtype = "grad: f32, xs: grad -> grad",
        .expect = "unused: xs",
        .kernels = OG_KERNELS(joined_backward_kernels),
    },
    {
        .schema = "square(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: f32 -> x",
        .backward = "square_backward(grad, x) -> x",
        .kernels = OG_KERNELS(square_kernels),
    },
    {
        .schema = "square_backward(Tensor grad, Tensor x) -> Tensor",
        .shape = "grad[*N], x[*N] -> [*N]",
        .dtype = "grad: f32, x: grad -> grad",
        .kernels = OG_KERNELS(square_backward_kernels),
    },
    {
        .schema = "gather(Tensor x, Tensor index) -> Tensor",
        .shape = "x[N, D], index[M] -> [M, D]",
        .where = "N > 0",
        .dtype = "x: f32, index: i64 -> x",
        .backward = "none",
        .expect = "no_gradient: x",
        .kernels = OG_KERNELS(gather_kernels),
    },
    {
        .schema = "count(Tensor(a!) x, Tensor index) -> ()",
        .shape = "x[N], index[D]",
        .dtype = "x: f32, index: i64",
        .backward = "none",
        .kernels = OG_KERNELS(count_kernels),
    },
    {
        .schema = "host_only(Tensor x, float by) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: f32 -> x",
        .backward = "none",
        .kernels = OG_KERNELS(host_kernels),
    },
};
OG_MODULE(device_right, ops)
