// SPDX-License-Identifier: Apache-2.0
// Operators of test_float8.py: to the types of 8 bits and back.

#include <opgraft/op.h>

enum { N };

static og_status to_e4m3(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  og_e4m3 *y = og_f8e4m3_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = og_e4m3_from_float(x[i]);
  return OG_OK;
}

static og_status to_e5m2(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  og_e5m2 *y = og_f8e5m2_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = og_e5m2_from_float(x[i]);
  return OG_OK;
}

static og_status from_e4m3(const og_call *call) {
  const og_e4m3 *x = og_f8e4m3(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = og_e4m3_to_float(x[i]);
  return OG_OK;
}

static og_status from_e5m2(const og_call *call) {
  const og_e5m2 *x = og_f8e5m2(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = og_e5m2_to_float(x[i]);
  return OG_OK;
}

static const og_kernel narrow_kernels[] = {{.device = OG_CPU, .run = to_e4m3}};
static const og_kernel small_kernels[] = {{.device = OG_CPU, .run = to_e5m2}};
static const og_kernel widen_kernels[] = {
    {.device = OG_CPU, .dtypes = "f8e4m3", .run = from_e4m3},
    {.device = OG_CPU, .dtypes = "f8e5m2", .run = from_e5m2}};

static const og_op ops[] = {
    {.schema = "narrow(Tensor x) -> Tensor",
     .shape = "x[*N] -> [*N]",
     .dtype = "x: f32 -> f8e4m3",
     .reference = "x",
     .kernels = OG_KERNELS(narrow_kernels)},
    {.schema = "small(Tensor x) -> Tensor",
     .shape = "x[*N] -> [*N]",
     .dtype = "x: f32 -> float8_e5m2",
     .reference = "x",
     .kernels = OG_KERNELS(small_kernels)},
    {.schema = "widen(Tensor x) -> Tensor",
     .shape = "x[*N] -> [*N]",
     .dtype = "x: f8e4m3|f8e5m2 -> f32",
     .reference = "x",
     .kernels = OG_KERNELS(widen_kernels)},
};
OG_MODULE(float8, ops)
