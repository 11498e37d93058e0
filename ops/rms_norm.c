// SPDX-License-Identifier: Apache-2.0
// rms_norm: y = x / sqrt(mean(x^2) + eps) * weight, over the last axis.
// Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.

#include <opgraft/op.h>

#include "base/grain.h"
#include "cuda/launch.h"
#include "cuda/norm.h"
#include "shared/norm_rows.h"

enum { N, D };  // dims of the shape rule

static void rows_run(const og_call *call, int64_t begin, int64_t end) {
  og_norm_rows(call, begin, end, 0);
}

static og_status rms_norm(const og_call *call) {
  return og_parallel_for(call, call->dim[N],
                         og_grain(OG_GRAIN_LIGHT, call->dim[D]), rows_run);
}

OG_KERNELS_BY_ISA(kernels, "f32|bf16|f16", rms_norm,
                  OG_CUDA_KERNEL("f32|bf16|f16", NULL, og_rms_norm_cuda));

static const og_op ops[] = {
    {
        .schema = "rms_norm(Tensor x, Tensor weight, float eps=1e-6) -> Tensor",
        .shape = "x[*N, D], weight[D] -> [*N, D]",
        .where = "D > 0",
        .dtype = "x: f32|bf16|f16, weight: x -> x",
        .backward = "rms_norm_backward(grad, x, weight, eps) -> x, weight",
        .inplace = "x",
        .flags = OG_DETERMINISTIC,
        .doc = "Root mean square normalisation of the last axis: "
               "x / sqrt(mean(x^2) + eps) * weight.",
        .kernels = OG_KERNELS(kernels),
    },
    {
        .schema = "rms_norm_backward(Tensor grad, Tensor x, Tensor weight, "
                  "float eps) -> (Tensor grad_x, Tensor grad_weight)",
        .shape = "grad[*N, D], x[*N, D], weight[D] -> [*N, D], [D]",
        .where = "D > 0",
        .dtype = "grad: x, x: f32|bf16|f16, weight: x -> x, x",
        .row = "scale = 1 / sqrt(row_mean(x * x) + eps); g = grad * weight; "
               "back = row_mean(g * x) * scale * scale * scale; "
               "grad_x = g * scale - x * back; "
               "grad_weight = sum_rows(grad * (x * scale))",
        .flags = OG_DETERMINISTIC,
        .doc = "The gradient of rms_norm for x and weight.",
    },
};
OG_MODULE(rms_norm, ops)
