// SPDX-License-Identifier: Apache-2.0
// cumprod_axis: running product along an axis.

#include "../../modules/operators.h"

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

MODULE(cumprod_axis, {.schema = "cumprod_axis(Tensor x, int dim=-1) -> Tensor",
                      .shape = "x[*A, D@dim, *B] -> [*A, D, *B]",
                      .doc = "The inclusive running product along dim.",
                      RUN("f64", cumprod_axis)})
