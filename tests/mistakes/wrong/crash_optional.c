// SPDX-License-Identifier: Apache-2.0
// mistake: The optional bias is dereferenced without a look at whether it was given.
// expect: add_optional bias crash|optional|null

#include <opgraft/op.h>

enum { N, D };

static og_status add_optional(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const float *bias = og_f32(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t i = 0; i < call->dim[N] * width; ++i)
    y[i] = x[i] + bias[i % width];
  return OG_OK;
}

static const og_kernel add_optional_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = add_optional},
};

static const og_op ops[] = {
    {
        .schema = "add_optional(Tensor x, Tensor? bias=None) -> Tensor",
        .shape = "x[*N, D], bias?[D] -> [*N, D]",
        .kernels = OG_KERNELS(add_optional_kernels),
    },
};
OG_MODULE(crash_optional, ops)
