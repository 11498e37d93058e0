// SPDX-License-Identifier: Apache-2.0
// The call is right, and nothing here can do it. Here the only kernel takes
// multiples of four alone; a plain kernel behind it takes the rest.

#include "example.h"

static int32_t is_in_fours(const og_call *call) {
  return call->dim[0] % 4 == 0;
}

static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .supports = is_in_fours, .run = twice},
#ifdef REPAIRED
    {.device = OG_CPU, .dtypes = "f32", .run = twice},
#endif
};

static const og_op op = {
    .schema = "twice(Tensor x) -> Tensor",
    .shape = "x[N] -> [N]",
    .kernels = OG_KERNELS(kernels),
};

int main(void) {
  float data[3] = {1, 2, 3};
  int64_t size = 3, stride = 1;
  const og_tensor x = floats(data, &size, &stride);
  return load_and_call(&op, &x, NULL);
}
