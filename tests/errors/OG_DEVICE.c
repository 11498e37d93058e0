// SPDX-License-Identifier: Apache-2.0
// Tensors are on a device for which the operator has no kernel, or on several
// devices. Here the tensor says that its memory is a CUDA device's.

#include "example.h"

static const og_op op = {
    .schema = "twice(Tensor x) -> Tensor",
    .shape = "x[N] -> [N]",
    .kernels = OG_KERNELS(twice_f32),
};

int main(void) {
  float data[3] = {1, 2, 3};
  int64_t size = 3, stride = 1;
  og_tensor x = floats(data, &size, &stride);
#ifndef REPAIRED
  x.device.type = OG_CUDA;
#else
  x.device.type = OG_CPU;
#endif
  return load_and_call(&op, &x, NULL);
}
