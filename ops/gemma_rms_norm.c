// SPDX-License-Identifier: Apache-2.0
// gemma_rms_norm: y = x / sqrt(mean(x^2) + eps) * (weight + 1).
// Source: the Gemma models; Zhang and Sennrich, 2019.

#include <opgraft/op.h>

#include "kernel/kernel.h"

enum { N, D };  // dims of the shape rule

static void gemma_rows(const og_call *call, int64_t begin, int64_t end) {
  const int element = og_element_of(call->in[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = begin; r < end; ++r)
    og_rows()->rms_norm(og_at(og_data(call->in[0]), r * width, element),
                        og_data(call->in[1]),
                        og_at(og_data(call->out[0]), r * width, element), width,
                        (float)call->attr[0].f, 1, element);
}

static og_status gemma_rms_norm(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 1 + 16384 / call->dim[D],
                         gemma_rows);
}

OG_KERNELS_BY_ISA(kernels, "f32|bf16|f16", gemma_rms_norm);

static const og_op ops[] = {
    {
        .schema = "gemma_rms_norm(Tensor x, Tensor weight, float eps=1e-6) "
                  "-> Tensor",
        .shape = "x[*N, D], weight[D] -> [*N, D]",
        .where = "D > 0",
        .dtype = "x: f32|bf16|f16, weight: x -> x",
        .inplace = "x",
        .flags = OG_DETERMINISTIC,
        .doc = "rms_norm with weight + 1 for weight.",
        .kernels = OG_KERNELS(kernels),
    },
};
OG_MODULE(gemma_rms_norm, ops)
