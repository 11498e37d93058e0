// SPDX-License-Identifier: Apache-2.0
// merge_state, merge_states: joins attention over parts of the keys.
// Source: FlashInfer's recursive attention (Ye et al., 2025), online softmax
// (Milakov and Gimelshein, 2018).

#include <math.h>
#include <opgraft/op.h>

#include "base/grain.h"
#include "kernel/kernel.h"

// Rows of `states` results each: v [row, state, head, size], lse the same
// without the size.
typedef struct merge {
  const og_call *call;
  const void *v[2];  // one tensor for each state, or v[0] for all
  const float *lse[2];
  int64_t states, heads, width;
  float to_base_2;
  int element, is_pair;
} merge;

static int64_t entry_of(const merge *m, int64_t row, int64_t state,
                        int64_t head) {
  return m->is_pair ? row * m->heads + head
                    : (row * m->states + state) * m->heads + head;
}

static void head_merge(const merge *m, int64_t row, int64_t head) {
  float out[OG_ATTENTION_MAX_DIM] = {0}, part[OG_ATTENTION_MAX_DIM];
  const og_call *call = m->call;
  float top = -INFINITY;
  double sum = 0;
  for (int64_t s = 0; s < m->states; ++s) {
    const float lse = m->lse[m->is_pair ? s : 0][entry_of(m, row, s, head)];
    if (lse > top) top = lse;
  }
  for (int64_t s = 0; s < m->states && top > -INFINITY; ++s) {
    const int64_t which = m->is_pair ? s : 0, at = entry_of(m, row, s, head);
    const float weight = exp2f((m->lse[which][at] - top) * m->to_base_2);
    if (weight == 0) continue;  // the value of an empty part is not looked at
    sum += (double)weight;
    og_rows()->to_f32(og_at(m->v[which], at * m->width, m->element), part,
                      m->width, m->element);
    og_rows()->accumulate(part, weight, out, m->width);
  }
  const float inverse = top > -INFINITY ? 1 / (float)sum : 0;
  for (int64_t i = 0; i < m->width; ++i) out[i] *= inverse;
  const int64_t to = row * m->heads + head;
  og_rows()->from_f32(out,
                      og_at(og_data(call->out[0]), to * m->width, m->element),
                      m->width, m->element);
  og_f32_mut(call->out[1])[to] =
      top > -INFINITY ? top + log2f((float)sum) / m->to_base_2 : top;
}

static void rows_merge(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  const merge *m = state;
  (void)worker;
  for (int64_t row = begin; row < end; ++row)
    for (int64_t h = 0; h < m->heads; ++h) head_merge(m, row, h);
}

static og_status merge_run(const og_call *call, merge *m, int64_t rows) {
  const char *base = call->attr[0].s;
  if ((base[0] != '2' && base[0] != 'e') || base[1] != '\0')
    return og_fail(call, OG_INVALID,
                   "lse_base is unknown, expected \"2\" or \"e\"");
  m->call = call;
  m->to_base_2 = base[0] == 'e' ? 1.44269504f : 1;
  m->element = og_element_of(call->in[0]);
  return og_parallel_tasks(
      call, rows, og_grain(OG_GRAIN_HEAVY, m->heads * m->width), rows_merge, m);
}

static og_status merge_state(const og_call *call) {
  enum { V_A, S_A, V_B, S_B };
  merge m = {
      .v = {og_data(call->in[V_A]), og_data(call->in[V_B])},
      .lse = {og_f32(call->in[S_A]), og_f32(call->in[S_B])},
      .states = 2,
      .heads = call->in[V_A]->shape[1],
      .width = call->in[V_A]->shape[2],
      .is_pair = 1,
  };
  return merge_run(call, &m, call->in[V_A]->shape[0]);
}

static og_status merge_states(const og_call *call) {
  merge m = {
      .v = {og_data(call->in[0])},
      .lse = {og_f32(call->in[1])},
      .states = call->in[0]->shape[1],
      .heads = call->in[0]->shape[2],
      .width = call->in[0]->shape[3],
  };
  return merge_run(call, &m, call->in[0]->shape[0]);
}

OG_KERNELS_BY_ISA(pair_kernels, "f32|bf16|f16", merge_state);
OG_KERNELS_BY_ISA(all_kernels, "f32|bf16|f16", merge_states);

static const og_op ops[] = {
    {
        .schema = "merge_state(Tensor v_a, Tensor s_a, Tensor v_b, "
                  "Tensor s_b, *, str lse_base=\"2\") "
                  "-> (Tensor v_merged, Tensor s_merged)",
        .shape = "v_a[N, H, D], s_a[N, H], v_b[N, H, D], s_b[N, H] "
                 "-> [N, H, D], [N, H]",
        .where = "D <= 256",
        .dtype = "v_a: f32|bf16|f16, s_a: f32, v_b: v_a, s_b: f32 "
                 "-> v_a, f32",
        .flags = OG_DETERMINISTIC,
        .reduce = "N, H; D: same",
        .doc = "Joins attention over two sets of keys: outputs and their log "
               "sum of exponentials. A part that saw no key has -inf.",
        .kernels = OG_KERNELS(pair_kernels),
    },
    {
        .schema = "merge_states(Tensor v, Tensor s, *, str lse_base=\"2\") "
                  "-> (Tensor v_merged, Tensor s_merged)",
        .shape = "v[N, S, H, D], s[N, S, H] -> [N, H, D], [N, H]",
        .where = "D <= 256",
        .dtype = "v: f32|bf16|f16, s: f32 -> v, f32",
        .flags = OG_DETERMINISTIC,
        .reduce = "N, H; D: same",
        .doc = "As merge_state, of any number of parts, in their order.",
        .kernels = OG_KERNELS(all_kernels),
    },
};
OG_MODULE(merge_states, ops)
