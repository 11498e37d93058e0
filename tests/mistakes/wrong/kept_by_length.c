// SPDX-License-Identifier: Apache-2.0
// mistake: The weights are kept for a length, although they depend on the decay too.
// expect: fade - repeat|repeatable|state|static

#include <math.h>
#include <opgraft/op.h>

enum { N, L };
enum { MOST = 4096 };

static double weight[MOST];
static int64_t kept_length = -1;

static og_status fade(const og_call *call) {
  const int64_t length = call->dim[L];
  if (length != kept_length) {
    for (int64_t i = 0; i < length; ++i)
      weight[i] = exp(-call->attr[0].f * (double)i);
    kept_length = length;
  }
  for (int64_t i = 0; i < call->dim[N] * length; ++i)
    og_f64_mut(call->out[0])[i] = og_f64(call->in[0])[i] * weight[i % length];
  return OG_OK;
}

static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f64", .run = fade},
};

static const og_op ops[] = {
    {
        .schema = "fade(Tensor x, float decay=0.1) -> Tensor",
        .shape = "x[*N, L] -> [*N, L]",
        .where = "L <= 4096",
        .kernels = OG_KERNELS(kernels),
    },
};
OG_MODULE(kept_by_length, ops)
