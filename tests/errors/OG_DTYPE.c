// SPDX-License-Identifier: Apache-2.0
// A tensor has a type that the declaration does not take. Nothing is cast:
// the caller converts the tensor, or the operator gets a kernel for the type.

#include "example.h"

static const og_op op = {
    .schema = "twice(Tensor x) -> Tensor",
    .shape = "x[N] -> [N]",
    .kernels = OG_KERNELS(twice_f32),
};

int main(void) {
#ifndef REPAIRED
  double data[3] = {1, 2, 3};
#else
  float data[3] = {1, 2, 3};
#endif
  int64_t size = 3, stride = 1;
  og_tensor x = floats(NULL, &size, &stride);
  x.data = data;
  x.dtype.bits = 8 * sizeof data[0];
  return load_and_call(&op, &x, NULL);
}
