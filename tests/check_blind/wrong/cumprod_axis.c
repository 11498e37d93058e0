// SPDX-License-Identifier: Apache-2.0
// cumprod_axis: running product along an axis.

#include <opgraft/op.h>

static og_status cumprod_axis(const og_call *call) {
  const og_tensor *x = call->in[0];
  const int64_t width = x->shape[x->ndim - 1];
  const double *from = og_f64(x);
  double *y = og_f64_mut(call->out[0]);
  const int64_t count = og_numel(x);
  for (int64_t i = 0; i < count; i += width) {
    double product = 1;
    for (int64_t j = 0; j < width; ++j) y[i + j] = product *= from[i + j];
  }
  return OG_OK;
}

static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f64", .run = cumprod_axis}};

static const og_op ops[] = {
    {
        .schema = "cumprod_axis(Tensor x, int dim=-1) -> Tensor",
        .shape = "x[*A, D@dim, *B] -> [*A, D, *B]",
        .doc = "The inclusive running product along dim.",
        .kernels = OG_KERNELS(kernels),
    },
};
OG_MODULE(cumprod_axis, ops)
