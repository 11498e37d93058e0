// SPDX-License-Identifier: Apache-2.0
// Something that was given cannot be right: a string of a declaration, the
// value of an argument, the content of a file. Here the schema names a type
// that PyTorch's grammar lacks, and the module is refused.

#include "example.h"

static const og_op op = {
#ifndef REPAIRED
    .schema = "twice(Tenser x) -> Tensor",
#else
    .schema = "twice(Tensor x) -> Tensor",
#endif
    .shape = "x[N] -> [N]",
    .kernels = OG_KERNELS(twice_f32),
};

int main(void) {
  float data[3] = {1, 2, 3};
  int64_t size = 3, stride = 1;
  const og_tensor x = floats(data, &size, &stride);
  return load_and_call(&op, &x, NULL);
}
