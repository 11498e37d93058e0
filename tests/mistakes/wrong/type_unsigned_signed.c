// SPDX-License-Identifier: Apache-2.0
// mistake: The u8 path reads signed bytes: values from 128 on come out negative.
// expect: to_float - dtype|type|u8|value

#include <opgraft/op.h>

enum { N };

static og_status to_float(const og_call *call) {
  float *y = og_f32_mut(call->out[0]);
  const og_tensor *x = call->in[0];
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y[i] = og_is(x, OG_CODE_INT, 32) ? (float)og_i32(x)[i] : (float)og_i8(x)[i];
  return OG_OK;
}

static const og_kernel to_float_kernels[] = {
    {.device = OG_CPU, .dtypes = "i32|u8", .run = to_float},
};

static const og_op ops[] = {
    {
        .schema = "to_float(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: i32|u8 -> f32",
        .kernels = OG_KERNELS(to_float_kernels),
    },
};
OG_MODULE(type_unsigned_signed, ops)
