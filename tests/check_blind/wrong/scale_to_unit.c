// SPDX-License-Identifier: Apache-2.0
// scale_to_unit: divides by the largest magnitude of the vector.

#include <math.h>
#include <opgraft/op.h>

enum { N };  // dim of the shape rule

static void elements(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  float top = 0;
  for (int64_t i = begin; i < end; ++i) top = fmaxf(top, fabsf(x[i]));
  for (int64_t i = begin; i < end; ++i)
    og_f32_mut(call->out[0])[i] = top > 0 ? x[i] / top : 0;
}

static og_status scale_to_unit(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 256, elements);
}

static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = scale_to_unit}};

static const og_op ops[] = {
    {
        .schema = "scale_to_unit(Tensor x) -> Tensor",
        .shape = "x[N] -> [N]",
        .doc = "x over its largest magnitude; zeros stay zeros.",
        .kernels = OG_KERNELS(kernels),
    },
};
OG_MODULE(scale_to_unit, ops)
