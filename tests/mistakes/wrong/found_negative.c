// SPDX-License-Identifier: Apache-2.0
// mistake: Where nothing is found the count is set to -1.
// expect: peaks - data_dependent|negative|bound

#include <opgraft/op.h>

enum { N, K };

static og_status peaks(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  int64_t *y = og_i64_mut(call->out[0]);
  int64_t count = 0;
  for (int64_t i = 1; i + 1 < call->dim[N]; ++i)
    if (x[i] > x[i - 1] && x[i] > x[i + 1]) y[count++] = i;
  og_set_dim(call, K, count > 0 ? count : -1);
  return OG_OK;
}

static const og_kernel peaks_kernels[] = {
    {.device = OG_CPU, .run = peaks},
};

static const og_op ops[] = {
    {
        .schema = "peaks(Tensor x) -> Tensor",
        .shape = "x[N] -> [K <= N]",
        .dtype = "x: f32 -> i64",
        .kernels = OG_KERNELS(peaks_kernels),
    },
};
OG_MODULE(found_negative, ops)
