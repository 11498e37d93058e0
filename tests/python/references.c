// SPDX-License-Identifier: Apache-2.0
// Operators with kernels for the CPU alone: one has a reference, one does not.

#include <math.h>
#include <opgraft/op.h>

enum { N, D };

static og_status norm(const og_call *call) {
  const float *x = og_f32(call->in[0]), *w = og_f32(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t n = 0; n < call->dim[N]; ++n, x += call->dim[D])
    for (int64_t d = 0; d < call->dim[D]; ++d) {
      double sum = 0;
      for (int64_t k = 0; k < call->dim[D]; ++k) sum += x[k] * x[k];
      *y++ = (float)(x[d] * w[d] / sqrt(sum / (double)call->dim[D] + 1));
    }
  return OG_OK;
}

static og_status twice(const og_call *call) {
  for (int64_t n = 0; n < call->dim[N]; ++n)
    og_f32_mut(call->out[0])[n] = og_f32(call->in[0])[n] * 2;
  return OG_OK;
}

static const og_kernel norm_kernels[] = {{.device = OG_CPU, .run = norm}};
static const og_kernel twice_kernels[] = {{.device = OG_CPU, .run = twice}};

static const og_op ops[] = {
    {.schema = "norm(Tensor x, Tensor w) -> Tensor",
     .shape = "x[*N, D], w[D] -> [*N, D]",
     .dtype = "x: f32, w: x -> x",
     .reference = "x * w * rsqrt(mean(x * x, D) + 1)",
     .kernels = OG_KERNELS(norm_kernels)},
    {.schema = "twice(Tensor x) -> Tensor",
     .shape = "x[*N] -> [*N]",
     .dtype = "x: f32 -> x",
     .kernels = OG_KERNELS(twice_kernels)},
};
OG_MODULE(with_reference, ops)
