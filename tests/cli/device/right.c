// SPDX-License-Identifier: Apache-2.0
// Operators whose kernels for a device are right, and two that have none.

#include <opgraft/op.h>
#include <string.h>

enum { N, D };

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

#define BOTH(name)                                            \
  static const og_kernel name##_kernels[] = {                 \
      {.device = OG_CPU, .dtypes = "f32", .run = name##_f32}, \
      {.device = OG_EXT_DEV, .dtypes = "f32", .run = name##_f32}}

BOTH(scale);
BOTH(row_sum);
BOTH(add_one);
BOTH(strided);
BOTH(joined);
static const og_kernel host_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = scale_f32},
};

static const og_op ops[] = {
    {
        .schema = "scale(Tensor x, float by) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: f32 -> x",
        .backward = "none",
        .reference = "x * by",
        .kernels = OG_KERNELS(scale_kernels),
    },
    {
        .schema = "row_sum(Tensor x) -> Tensor",
        .shape = "x[N, D] -> [N]",
        .dtype = "x: f32 -> x",
        .backward = "none",
        .workspace = "4 * D",
        .kernels = OG_KERNELS(row_sum_kernels),
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
        .backward = "none",
        .kernels = OG_KERNELS(strided_kernels),
    },
    {
        .schema = "joined(Tensor[] xs) -> Tensor",
        .shape = "xs[][D~] -> [sum(D~)]",
        .dtype = "xs: f32 -> xs",
        .backward = "none",
        .kernels = OG_KERNELS(joined_kernels),
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
