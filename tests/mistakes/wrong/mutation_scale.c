// SPDX-License-Identifier: Apache-2.0
// mistake: The kernel scales x in place on its way to the result, and the schema does not say so.
// expect: scale x undeclared_mutation|mutation

#include <opgraft/op.h>

enum { N };

static og_status scale(const og_call *call) {
  float *x = (float *)og_data(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    x[i] *= (float)call->attr[0].f;
    y[i] = x[i];
  }
  return OG_OK;
}

static const og_kernel scale_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = scale},
};

static const og_op ops[] = {
    {
        .schema = "scale(Tensor x, float by=2.0) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .kernels = OG_KERNELS(scale_kernels),
    },
};
OG_MODULE(mutation_scale, ops)
