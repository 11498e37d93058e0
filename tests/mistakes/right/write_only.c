// SPDX-License-Identifier: Apache-2.0
// Operators without results: they only write their arguments, through any
// strides.

#include "../../modules/operators.h"

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

MODULE(write_only,
       {.schema = "zero_(Tensor(a!) x) -> ()",
        .shape = "x[*N] ->",
        .strides = "any",
        RUN("f32", zero)},
       {.schema = "clip_(Tensor(a!) x, float low=-0.5, float high=0.5) -> ()",
        .shape = "x[*N] ->",
        .strides = "x: any",
        RUN("f32", clip)})
