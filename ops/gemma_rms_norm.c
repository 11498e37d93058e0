// SPDX-License-Identifier: Apache-2.0
// gemma_rms_norm: y = x / sqrt(mean(x^2) + eps) * (weight + 1).
// Source: the Gemma models; Zhang and Sennrich, 2019.

#include <opgraft/op.h>

#include "cuda/launch.h"
#include "cuda/norm.h"
#include "kernel/kernel.h"
#include "kernel/norm.h"
#include "shared/call_env.h"

enum { N, D };  // dims of the shape rules, in order of first appearance

// Of the arguments at these positions.
static og_rms_norm norm_of(const og_call *call, int32_t x, int32_t weight) {
  return (og_rms_norm){
      .x = og_data(call->in[x]),
      .weight = og_data(call->in[weight]),
      .rows = call->dim[N],
      .width = call->dim[D],
      .eps = (float)call->attr[0].f,
      .offset = 1,
      .element = og_element_of(call->in[x]),
  };
}

static og_status gemma_rms_norm(const og_call *call) {
  enum { X, WEIGHT };
  const og_kernel_env env = og_call_env(call);
  og_rms_norm norm = norm_of(call, X, WEIGHT);
  norm.y = og_data(call->out[0]);
  return og_rms_norm_run(&env, &norm);
}

static og_status gemma_rms_norm_backward(const og_call *call) {
  enum { GRAD, X, WEIGHT };
  const og_kernel_env env = og_call_env(call);
  const og_rms_norm norm = norm_of(call, X, WEIGHT);
  return og_rms_norm_grad_run(&env, &norm, og_data(call->in[GRAD]),
                              og_data(call->out[0]), og_data(call->out[1]));
}

OG_KERNELS_BY_ISA(kernels, "f32|bf16|f16", gemma_rms_norm,
                  OG_CUDA_KERNEL("f32|bf16|f16", NULL, og_gemma_rms_norm_cuda));
OG_KERNELS_BY_ISA(backward_kernels, "f32|bf16|f16", gemma_rms_norm_backward);

static const og_op ops[] = {
    {
        .schema = "gemma_rms_norm(Tensor x, Tensor weight, float eps=1e-6) "
                  "-> Tensor",
        .shape = "x[*N, D], weight[D] -> [*N, D]",
        .where = "D > 0",
        .dtype = "x: f32|bf16|f16, weight: x -> x",
        .backward = "gemma_rms_norm_backward(grad, x, weight, eps) "
                    "-> x, weight",
        .inplace = "x",
        .flags = OG_DETERMINISTIC,
        .doc = "rms_norm with weight + 1 for weight.",
        .kernels = OG_KERNELS(kernels),
    },
    {
        .schema = "gemma_rms_norm_backward(Tensor grad, Tensor x, "
                  "Tensor weight, float eps) "
                  "-> (Tensor grad_x, Tensor grad_weight)",
        .shape = "grad[*N, D], x[*N, D], weight[D] -> [*N, D], [D]",
        .where = "D > 0",
        .dtype = "grad: x, x: f32|bf16|f16, weight: x -> x, x",
        .workspace = "prod(N) * 4",
        .flags = OG_DETERMINISTIC,
        .reduce = "N: sum",
        .doc = "The gradient of gemma_rms_norm for x and weight.",
        .kernels = OG_KERNELS(backward_kernels),
    },
};
OG_MODULE(gemma_rms_norm, ops)
