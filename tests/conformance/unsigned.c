// SPDX-License-Identifier: Apache-2.0
// The types that few operators of torch have: x + 1.

#include "../modules/operators.h"

#define KERNEL(type)                                                        \
  static og_status after_##type(const og_call *call) {                      \
    const type##_t *x = (const type##_t *)og_data(call->in[0]);             \
    type##_t *y = (type##_t *)og_data(call->out[0]);                        \
    for (int64_t i = 0; i < call->dim[0]; ++i) y[i] = (type##_t)(x[i] + 1); \
    return OG_OK;                                                           \
  }
KERNEL(uint16)
KERNEL(uint32)
KERNEL(uint64)

MODULE(unsigned_types,
       {.schema = "after(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: u16|u32|u64 -> x",
        .backward = "none",
        .kernels =
            KERNELS({.device = OG_CPU, .dtypes = "u16", .run = after_uint16},
                    {.device = OG_CPU, .dtypes = "u32", .run = after_uint32},
                    {.device = OG_CPU, .dtypes = "u64", .run = after_uint64})})
