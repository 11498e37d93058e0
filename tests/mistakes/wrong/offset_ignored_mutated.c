// SPDX-License-Identifier: Apache-2.0
// mistake: The mutated argument is written at its data pointer, without byte_offset.
// expect: decay_ x byte_offset|offset|out_of_bounds_write|layout

#include <opgraft/op.h>

enum { N };

static og_status decay(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = (float *)call->out[0]->data;
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y[i] = x[i] * (float)call->attr[0].f;
  return OG_OK;
}

static const og_kernel decay__kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = decay},
};

static const og_op ops[] = {
    {
        .schema = "decay_(Tensor(a!) x, float rate=0.9) -> ()",
        .shape = "x[*N] ->",
        .kernels = OG_KERNELS(decay__kernels),
    },
};
OG_MODULE(offset_ignored_mutated, ops)
