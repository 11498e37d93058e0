// SPDX-License-Identifier: Apache-2.0
// A tensor does not match the shape rule. Here both arguments name the dim N,
// and their sizes differ.

#include "example.h"

static og_status add(const og_call *call) {
  const float *x = og_f32(call->in[0]), *y = og_f32(call->in[1]);
  float *sum = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[0]; ++i) sum[i] = x[i] + y[i];
  return OG_OK;
}

static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = add}};

static const og_op op = {
    .schema = "add(Tensor x, Tensor y) -> Tensor",
    .shape = "x[N], y[N] -> [N]",
    .kernels = OG_KERNELS(kernels),
};

int main(void) {
  float data[4] = {1, 2, 3, 4};
#ifndef REPAIRED
  int64_t size = 3, other = 4, stride = 1;
#else
  int64_t size = 3, other = 3, stride = 1;
#endif
  const og_tensor x = floats(data, &size, &stride);
  const og_tensor y = floats(data, &other, &stride);
  return load_and_call(&op, &x, &y);
}
