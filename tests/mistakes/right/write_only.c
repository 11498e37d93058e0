// SPDX-License-Identifier: Apache-2.0
// Operators without results: they only write their arguments, through any
// strides.

#include <opgraft/op.h>

static int64_t place(const og_tensor *t, int64_t i) {
  int64_t at = 0;
  for (int32_t d = t->ndim - 1; d >= 0; --d) {
    at += i % t->shape[d] * t->strides[d];
    i /= t->shape[d];
  }
  return at;
}

static og_status zero(const og_call *call) {
  og_tensor *x = call->out[0];
  for (int64_t i = 0; i < og_numel(x); ++i) og_f32_mut(x)[place(x, i)] = 0;
  return OG_OK;
}

static og_status clip(const og_call *call) {
  og_tensor *x = call->out[0];
  const float low = (float)call->attr[0].f, high = (float)call->attr[1].f;
  for (int64_t i = 0; i < og_numel(x); ++i) {
    float *at = og_f32_mut(x) + place(x, i);
    *at = *at < low ? low : *at > high ? high : *at;
  }
  return OG_OK;
}

static const og_kernel zero__kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = zero},
};
static const og_kernel clip__kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = clip},
};

static const og_op ops[] = {
    {
        .schema = "zero_(Tensor(a!) x) -> ()",
        .shape = "x[*N] ->",
        .strides = "any",
        .kernels = OG_KERNELS(zero__kernels),
    },
    {
        .schema = "clip_(Tensor(a!) x, float low=-0.5, float high=0.5) -> ()",
        .shape = "x[*N] ->",
        .strides = "x: any",
        .kernels = OG_KERNELS(clip__kernels),
    },
};
OG_MODULE(write_only, ops)
