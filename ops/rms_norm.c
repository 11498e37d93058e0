// SPDX-License-Identifier: Apache-2.0
// rms_norm: y = x / sqrt(mean(x^2) + eps) * weight, over the last axis.
// Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.

#include <opgraft/op.h>

#include "kernel/kernel.h"
#include "kernel/norm.h"

static og_status rms_norm(const og_call *call) {
  return og_rms_norm_run(call, 0);
}

static og_status rms_norm_backward(const og_call *call) {
  return og_rms_norm_grad_run(call, 0);
}

OG_KERNELS_BY_ISA(kernels, "f32|bf16|f16", rms_norm);
OG_KERNELS_BY_ISA(backward_kernels, "f32|bf16|f16", rms_norm_backward);

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
        .workspace = "prod(N) * 4",
        .flags = OG_DETERMINISTIC,
        .doc = "The gradient of rms_norm for x and weight.",
        .kernels = OG_KERNELS(backward_kernels),
    },
};
OG_MODULE(rms_norm, ops)
