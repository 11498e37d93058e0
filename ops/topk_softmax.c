// SPDX-License-Identifier: Apache-2.0
// topk_softmax: softmax over experts, then the k largest.
// Source: Shazeer et al., "Outrageously Large Neural Networks", 2017; vLLM's
// topk_softmax.

#include <opgraft/op.h>

#include "base/grain.h"
#include "kernel/kernel.h"

enum { T, E };               // dims of the shape rule
enum { TOPK, RENORMALIZE };  // attributes

static void rows_choose(void *state, int64_t begin, int64_t end,
                        int32_t worker) {
  const og_call *call = state;
  const int element = og_element_of(call->in[0]);
  const int64_t experts = call->dim[E], topk = call->attr[TOPK].i;
  float *p = (float *)call->workspace + worker * experts;
  for (int64_t row = begin; row < end; ++row) {
    float *weights = og_f32_mut(call->out[0]) + row * topk;
    int32_t *ids = og_i32_mut(call->out[1]) + row * topk;
    double sum = 0;
    og_rows()->softmax(og_at(og_data(call->in[0]), row * experts, element), p,
                       experts, 1, element);
    for (int64_t k = 0; k < topk; ++k) {
      // The first of equals; a row of NaN gives its first entries.
      int64_t best = -1;
      for (int64_t e = 0; e < experts; ++e)
        if (p[e] >= 0 && (best < 0 || p[e] > p[best])) best = e;
      if (best < 0) best = k;
      weights[k] = p[best];
      ids[k] = (int32_t)best;
      sum += (double)p[best];
      p[best] = -1;
    }
    for (int64_t k = 0; call->attr[RENORMALIZE].i && k < topk; ++k)
      weights[k] /= (float)sum;
  }
}

static og_status topk_softmax(const og_call *call) {
  return og_parallel_tasks(call, call->dim[T],
                           og_grain(OG_GRAIN_HEAVY, 2 * call->dim[E]),
                           rows_choose, (void *)(uintptr_t)call);
}

OG_KERNELS_BY_ISA(kernels, "f32|bf16|f16", topk_softmax);

static const og_op ops[] = {
    {
        .schema = "topk_softmax(Tensor gating, int topk, "
                  "bool renormalize=False) "
                  "-> (Tensor weights, Tensor ids)",
        .shape = "gating[T, E] -> [T, topk], [T, topk]",
        .where = "topk >= 0, topk <= E",
        .dtype = "gating: f32|bf16|f16 -> f32, i32",
        .workspace = "threads * E * 4",
        .flags = OG_DETERMINISTIC,
        .reduce = "T",
        .doc = "Softmax over the last axis, then its topk largest entries and "
               "where they are, largest first; of equals the first. "
               "renormalize makes each row's weights sum to 1.",
        .kernels = OG_KERNELS(kernels),
    },
};
OG_MODULE(topk_softmax, ops)
