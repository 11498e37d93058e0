// SPDX-License-Identifier: Apache-2.0
// Elements are weighted by how far they are from the end of the row.

#include <math.h>
#include <opgraft/op.h>

enum { N, D };

static og_status age(const og_call *call) {
  const int64_t width = call->dim[D];
  for (int64_t i = 0; i < call->dim[N] * width; ++i)
    og_f64_mut(call->out[0])[i] =
        og_f64(call->in[0])[i] *
        exp(-call->attr[0].f * (double)(width - 1 - i % width));
  return OG_OK;
}

static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f64", .run = age},
};

static const og_op ops[] = {
    {
        .schema = "age(Tensor x, float decay=0.1) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .kernels = OG_KERNELS(kernels),
    },
};
OG_MODULE(age_weights, ops)
