// SPDX-License-Identifier: Apache-2.0
// A kernel refuses a call for what only values show, with `og_fail`. The text
// is the kernel's; say in it what was found, what was expected, and where.

#include <math.h>

#include "example.h"

static og_status root(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[0]; ++i) {
    if (x[i] < 0)
      return og_fail(call, OG_KERNEL,
                     "x has a negative number, expected numbers from 0");
    y[i] = sqrtf(x[i]);
  }
  return OG_OK;
}

static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = root}};

static const og_op op = {
    .schema = "root(Tensor x) -> Tensor",
    .shape = "x[N] -> [N]",
    .kernels = OG_KERNELS(kernels),
};

int main(void) {
#ifndef REPAIRED
  float data[3] = {1, -2, 3};
#else
  float data[3] = {1, 2, 3};
#endif
  int64_t size = 3, stride = 1;
  const og_tensor x = floats(data, &size, &stride);
  return load_and_call(&op, &x, NULL);
}
