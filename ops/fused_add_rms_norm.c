// SPDX-License-Identifier: Apache-2.0
// fused_add_rms_norm: residual += x; x = rms_norm(residual), both in place.
// Source: vLLM's and FlashInfer's fused_add_rms_norm; Zhang and Sennrich, 2019.

#include <opgraft/op.h>

#include "base/grain.h"
#include "cuda/launch.h"
#include "cuda/norm.h"
#include "kernel/kernel.h"

enum { N, D };  // dims of the shape rule

static void rows_run(const og_call *call, int64_t begin, int64_t end,
                     float offset) {
  const int element = og_element_of(call->in[0]);
  const int64_t width = call->dim[D];
  const float eps = (float)call->attr[0].f;
  for (int64_t r = begin; r < end; ++r) {
    void *x = og_at(og_data(call->out[0]), r * width, element);
    void *residual = og_at(og_data(call->out[1]), r * width, element);
    og_rows()->add(residual, x, width, element);
    og_rows()->rms_norm(residual, og_data(call->in[2]), x, width, eps, offset,
                        element);
  }
}

static void plain_rows(const og_call *call, int64_t begin, int64_t end) {
  rows_run(call, begin, end, 0);
}

static void gemma_rows(const og_call *call, int64_t begin, int64_t end) {
  rows_run(call, begin, end, 1);
}

static og_status fused_add_rms_norm(const og_call *call) {
  return og_parallel_for(call, call->dim[N],
                         og_grain(OG_GRAIN_LIGHT, call->dim[D]), plain_rows);
}

static og_status gemma_fused_add_rms_norm(const og_call *call) {
  return og_parallel_for(call, call->dim[N],
                         og_grain(OG_GRAIN_LIGHT, call->dim[D]), gemma_rows);
}

OG_KERNELS_BY_ISA(kernels, "f32|bf16|f16", fused_add_rms_norm,
                  OG_CUDA_KERNEL("f32|bf16|f16", NULL,
                                 og_fused_add_rms_norm_cuda));
OG_KERNELS_BY_ISA(gemma_kernels, "f32|bf16|f16", gemma_fused_add_rms_norm,
                  OG_CUDA_KERNEL("f32|bf16|f16", NULL,
                                 og_gemma_fused_add_rms_norm_cuda));

static const og_op ops[] = {
    {
        .schema = "fused_add_rms_norm(Tensor(a!) x, Tensor(b!) residual, "
                  "Tensor weight, float eps=1e-6) -> (Tensor(a!), Tensor(b!))",
        .shape = "x[*N, D], residual[*N, D], weight[D]",
        .where = "D > 0",
        .dtype = "x: f32|bf16|f16, residual: x, weight: x",
        .flags = OG_DETERMINISTIC,
        .reduce = "N",
        .doc = "Adds x to residual in place, then writes "
               "rms_norm(residual) * weight to x.",
        .kernels = OG_KERNELS(kernels),
    },
    {
        .schema = "gemma_fused_add_rms_norm(Tensor(a!) x, "
                  "Tensor(b!) residual, Tensor weight, float eps=1e-6) "
                  "-> (Tensor(a!), Tensor(b!))",
        .shape = "x[*N, D], residual[*N, D], weight[D]",
        .where = "D > 0",
        .dtype = "x: f32|bf16|f16, residual: x, weight: x",
        .flags = OG_DETERMINISTIC,
        .reduce = "N",
        .doc = "As fused_add_rms_norm, with weight + 1 for weight.",
        .kernels = OG_KERNELS(gemma_kernels),
    },
};
OG_MODULE(fused_add_rms_norm, ops)
