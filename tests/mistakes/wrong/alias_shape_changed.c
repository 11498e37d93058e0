// SPDX-License-Identifier: Apache-2.0
// mistake: The kernel shrinks the result by writing its shape; the rule has no data-dependent size.
// expect: compress - shape|metadata|unwritten

#include <opgraft/op.h>

enum { N };

static og_status compress(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  int64_t count = 0;
  for (int64_t i = 0; i < call->dim[N]; ++i)
    if (x[i] > 0) y[count++] = x[i];
  call->out[0]->shape[0] = count;
  return OG_OK;
}

static const og_kernel compress_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = compress},
};

static const og_op ops[] = {
    {
        .schema = "compress(Tensor x) -> Tensor",
        .shape = "x[N] -> [N]",
        .kernels = OG_KERNELS(compress_kernels),
    },
};
OG_MODULE(alias_shape_changed, ops)
