// SPDX-License-Identifier: Apache-2.0
// mistake: The values are divided by the greatest of their share, so that the result depends on how the loop is cut.
// expect: scale_to_max - chunk|threads

#include <math.h>
#include <opgraft/op.h>

enum { N };

static void scale_share(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  float best = 1e-6f;
  for (int64_t i = begin; i < end; ++i) best = fmaxf(best, fabsf(x[i]));
  for (int64_t i = begin; i < end; ++i) y[i] = x[i] / best;
}

static og_status scale_to_max(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 8, scale_share);
}

static const og_kernel scale_to_max_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = scale_to_max},
};

static const og_op ops[] = {
    {
        .schema = "scale_to_max(Tensor x) -> Tensor",
        .shape = "x[N] -> [N]",
        .kernels = OG_KERNELS(scale_to_max_kernels),
    },
};
OG_MODULE(chunk_as_group, ops)
