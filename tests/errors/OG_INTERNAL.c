// SPDX-License-Identifier: Apache-2.0
// Code contradicts itself: a fault of opgraft's own, which we want to hear
// about, or of a kernel or driver. Here a kernel counts in two ways and gets
// two numbers.

#include "example.h"

static og_status keep_positive(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  int64_t kept = 0, left_out = 0;
  for (int64_t i = 0; i < call->dim[0]; ++i) {
    if (x[i] > 0) y[kept++] = x[i];
#ifndef REPAIRED
    if (x[i] < 0) ++left_out;
#else
    if (!(x[i] > 0)) ++left_out;
#endif
  }
  if (kept + left_out != call->dim[0])
    return og_fail(call, OG_INTERNAL,
                   "the numbers kept and left out are not all of x");
  og_set_dim(call, 1, kept);
  return OG_OK;
}

static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = keep_positive}};

static const og_op op = {
    .schema = "keep_positive(Tensor x) -> Tensor",
    .shape = "x[N] -> [K <= N]",
    .kernels = OG_KERNELS(kernels),
};

int main(void) {
  float data[3] = {1, 0, -1};
  int64_t size = 3, stride = 1;
  const og_tensor x = floats(data, &size, &stride);
  return load_and_call(&op, &x, NULL);
}
