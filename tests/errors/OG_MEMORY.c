// SPDX-License-Identifier: Apache-2.0
// The system has too little memory. Here one number stands for 2^50 elements
// (stride 0), and the operator takes contiguous arguments: they are copied
// first.

#include "example.h"

static const og_op op = {
    .schema = "twice(Tensor x) -> Tensor",
    .shape = "x[N] -> [N]",
    .kernels = OG_KERNELS(twice_f32),
};

int main(void) {
  float data[1] = {1};
#ifndef REPAIRED
  int64_t size = (int64_t)1 << 50, stride = 0;
#else
  int64_t size = 8, stride = 0;
#endif
  const og_tensor x = floats(data, &size, &stride);
  return load_and_call(&op, &x, NULL);
}
