// SPDX-License-Identifier: Apache-2.0
// mistake: Parts of a mean square are said to join by a sum.
// expect: mean_square - rule_disagrees|reduce

#include <opgraft/op.h>

enum { D };

static og_status mean_square(const og_call *call) {
  const double *x = og_f64(call->in[0]);
  double sum = 0;
  for (int64_t i = 0; i < call->dim[D]; ++i) sum += x[i] * x[i];
  og_f64_mut(call->out[0])[0] = sum / (double)call->dim[D];
  return OG_OK;
}

static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f64", .run = mean_square},
};

static const og_op ops[] = {
    {
        .schema = "mean_square(Tensor x) -> Tensor",
        .shape = "x[D] -> []",
        .where = "D > 0",
        .reduce = "D: sum",
        .kernels = OG_KERNELS(kernels),
    },
};
OG_MODULE(joined_by_sum, ops)
