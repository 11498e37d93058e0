// SPDX-License-Identifier: Apache-2.0
// fused_moe: a mixture of gated experts: route, two products for each expert,
// weighted sum.
// Source: Shazeer et al., 2017; vLLM's fused_moe; MegaBlocks (Gale et al.,
// 2022) for sorting rows by expert.

#include <inttypes.h>
#include <opgraft/op.h>
#include <stdatomic.h>
#include <string.h>

#include "base/grain.h"
#include "kernel/kernel.h"

// Tensor arguments.
enum { X, W13, W2, WEIGHTS, IDS, B13, B2 };
enum { CHUNK = 8 };  // panels of a task: one row takes so many at once

typedef struct moe {
  const og_call *call;
  int64_t tokens, topk, experts, width, inner;
  int element;
  og_act act;
  // All in the workspace. Slot: a pair of token and expert, sorted by expert.
  int32_t *first;     // [experts + 1], the first slot of each expert
  int32_t *slot_of;   // [tokens * topk], -1 where the id is negative
  int32_t *token_of;  // [slots]
  float *hidden;      // [slots, 2 inner], then [slots, width]: the products
  char *rows;         // [slots, width], gathered
  char *activated;    // [slots, inner]
  char *scratch;      // of each worker
  atomic_llong next;
} moe;

static int64_t round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

static og_status act_read(const og_call *call, og_act *out_act) {
  const char *name = call->attr[1].s;
  static const struct {
    const char *name;
    int32_t kind;
  } acts[] = {{"silu", OG_ACT_SILU},
              {"gelu", OG_ACT_GELU},
              {"gelu_tanh", OG_ACT_GELU_TANH},
              {"swigluoai", OG_ACT_SWIGLUOAI}};
  *out_act = (og_act){.alpha = 1.702f, .limit = 7};
  for (size_t i = 0; i < sizeof acts / sizeof *acts; ++i)
    if (strcmp(name, acts[i].name) == 0) {
      out_act->kind = acts[i].kind;
      return OG_OK;
    }
  return og_failf(call, OG_INVALID,
                  "activation is \"%.40s\", expected silu, gelu, gelu_tanh or "
                  "swigluoai",
                  name);
}

// Counting sort of the pairs by expert.
static og_status route(moe *m) {
  const int32_t *ids = og_i32(m->call->in[IDS]);
  const int64_t pairs = m->tokens * m->topk;
  memset(m->first, 0, (size_t)(m->experts + 1) * 4);
  for (int64_t i = 0; i < pairs; ++i) {
    if (ids[i] >= m->experts) {
      return og_failf(m->call, OG_INVALID,
                      "topk_ids[%" PRId64 ", %" PRId64 "] is %" PRId32
                      ", but there are %" PRId64 " experts",
                      i / m->topk, i % m->topk, ids[i], m->experts);
    }
    if (ids[i] >= 0) ++m->first[ids[i] + 1];
  }
  for (int64_t e = 0; e < m->experts; ++e) m->first[e + 1] += m->first[e];
  // first[e] moves to the end of e while e's slots are given out.
  for (int64_t i = 0; i < pairs; ++i) {
    m->slot_of[i] = ids[i] >= 0 ? m->first[ids[i]]++ : -1;
    if (ids[i] >= 0) m->token_of[m->slot_of[i]] = (int32_t)(i / m->topk);
  }
  for (int64_t e = m->experts; e > 0; --e) m->first[e] = m->first[e - 1];
  m->first[0] = 0;
  return OG_OK;
}

// --- Steps

static void rows_gather(void *state, int64_t begin, int64_t end,
                        int32_t worker) {
  const moe *m = state;
  const size_t bytes = (size_t)m->width * og_element_bytes(m->element);
  (void)worker;
  for (int64_t slot = begin; slot < end; ++slot)
    memcpy(m->rows + (size_t)slot * bytes,
           og_at(og_data(m->call->in[X]), m->token_of[slot] * m->width,
                 m->element),
           bytes);
}

// One of the two products: rows of each expert by its packed weights.
typedef struct step {
  moe *m;
  const char *x, *packed;
  float *y;
  const og_tensor *bias;
  int64_t n, k;
} step;

static int64_t step_panels(const step *s) {
  return (s->n + OG_PANEL - 1) / OG_PANEL;
}

static int64_t step_chunks(const step *s) {
  return (step_panels(s) + CHUNK - 1) / CHUNK;
}

static const char *expert_at(const step *s, int64_t expert) {
  return s->packed +
         (size_t)expert * og_packed_bytes(s->n, s->k, s->m->element);
}

// The weights of a chunk, or NULL past the last one.
static const char *chunk_at(const step *s, int64_t chunk) {
  const int64_t expert = chunk / step_chunks(s);
  if (expert >= s->m->experts) return NULL;
  const int64_t panel = chunk % step_chunks(s) * CHUNK;
  return expert_at(s, expert) +
         og_packed_bytes(panel * OG_PANEL, s->k, s->m->element);
}

// Some panels of one expert; `next` is the chunk that the worker runs then.
static void chunk_run(const step *s, int64_t chunk, int64_t next,
                      int32_t worker) {
  const moe *m = s->m;
  const int64_t expert = chunk / step_chunks(s);
  const int64_t panel = chunk % step_chunks(s) * CHUNK;
  const int64_t begin = m->first[expert];
  const int64_t rows = m->first[expert + 1] - begin;
  const int64_t panels = step_panels(s);
  const og_epilogue e = {
      .bias = s->bias != NULL
                  ? og_at(og_data(s->bias), expert * s->n, m->element)
                  : NULL,
      .wide = 1,
  };
  og_gemm(m->element)
      ->run(og_at(s->x, begin * s->k, m->element), s->k, expert_at(s, expert),
            rows, s->n, s->k, panel,
            panel + CHUNK < panels ? panel + CHUNK : panels, chunk_at(s, next),
            s->y + begin * s->n, s->n, e,
            m->scratch + (int64_t)worker * OG_GEMM_SCRATCH, m->element,
            m->element);
}

// A chunk that nobody has taken, of an expert with rows, or one past the last.
static int64_t chunk_take(const step *s) {
  const int64_t chunks = step_chunks(s);
  for (;;) {
    const int64_t i =
        atomic_fetch_add_explicit(&s->m->next, 1, memory_order_relaxed);
    if (i >= chunks * s->m->experts) return i;
    const int32_t *first = s->m->first + i / chunks;
    if (first[1] > first[0]) return i;
  }
}

// Workers take chunks from one counter, whatever the host's shares are, and
// the next one before they begin one.
static void chunks_run(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  const step *s = state;
  const int64_t count = step_chunks(s) * s->m->experts;
  (void)begin;
  (void)end;
  for (int64_t i = chunk_take(s), next; i < count; i = next) {
    next = chunk_take(s);
    chunk_run(s, i, next, worker);
  }
}

static og_status step_run(step *s) {
  atomic_store(&s->m->next, 0);
  return og_parallel_tasks(s->m->call, s->m->call->threads, 1, chunks_run, s);
}

// activated[slot] = act(gate) * up.
static void slots_activate(void *state, int64_t begin, int64_t end,
                           int32_t worker) {
  const moe *m = state;
  float *line =
      (float *)(void *)(m->scratch + (int64_t)worker * OG_GEMM_SCRATCH);
  enum { PART = 512 };
  float *gates = line, *ups = line + PART;
  for (int64_t slot = begin; slot < end; ++slot) {
    const float *h = m->hidden + slot * 2 * m->inner;
    char *to = og_at(m->activated, slot * m->inner, m->element);
    for (int64_t c = 0; c < m->inner; c += PART) {
      const int64_t count = m->inner - c < PART ? m->inner - c : PART;
      const float *gate = h + c, *up = h + m->inner + c;
      if (m->act.kind == OG_ACT_SWIGLUOAI) {
        for (int64_t i = 0; i < count; ++i) {
          gates[i] = h[2 * (c + i)];
          ups[i] = h[2 * (c + i) + 1];
        }
        gate = gates;
        up = ups;
      }
      og_rows()->act_and_mul(gate, up, gates, count, m->act, OG_F32);
      og_rows()->from_f32(gates, og_at(to, c, m->element), count, m->element);
    }
  }
}

static void tokens_sum(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  const moe *m = state;
  const float *weights = og_f32(m->call->in[WEIGHTS]);
  float *sum =
      (float *)(void *)(m->scratch + (int64_t)worker * OG_GEMM_SCRATCH);
  enum { PART = 1024 };
  for (int64_t t = begin; t < end; ++t)
    for (int64_t c = 0; c < m->width; c += PART) {
      const int64_t count = m->width - c < PART ? m->width - c : PART;
      memset(sum, 0, (size_t)count * 4);
      for (int64_t k = 0; k < m->topk; ++k) {
        const int32_t slot = m->slot_of[t * m->topk + k];
        if (slot < 0) continue;
        og_rows()->accumulate(m->hidden + slot * m->width + c,
                              weights[t * m->topk + k], sum, count);
      }
      og_rows()->from_f32(
          sum, og_at(og_data(m->call->out[0]), t * m->width + c, m->element),
          count, m->element);
    }
}

static void workspace_carve(moe *m) {
  const int64_t pairs = m->tokens * m->topk;
  const int64_t bytes = (int64_t)og_element_bytes(m->element);
  const int64_t widest = 2 * m->inner > m->width ? 2 * m->inner : m->width;
  char *at = m->call->workspace;
  m->scratch = at;
  at += (int64_t)m->call->threads * OG_GEMM_SCRATCH;
  m->hidden = (float *)(void *)at;
  at += round_up(pairs * widest * 4, 64);
  m->rows = at;
  at += round_up(pairs * m->width * bytes, 64);
  m->activated = at;
  at += round_up(pairs * m->inner * bytes, 64);
  m->first = (int32_t *)(void *)at;
  m->slot_of = m->first + m->experts + 1;
  m->token_of = m->slot_of + pairs;
}

static og_status fused_moe(const og_call *call) {
  moe m = {
      .call = call,
      .tokens = call->in[X]->shape[0],
      .topk = call->in[IDS]->shape[1],
      .experts = call->in[W13]->shape[0],
      .width = call->in[X]->shape[1],
      .inner = call->attr[0].i,
      .element = og_element_of(call->in[X]),
  };
  og_status status = act_read(call, &m.act);
  if (status != OG_OK) return status;
  workspace_carve(&m);
  status = route(&m);
  if (status != OG_OK) return status;
  const int64_t slots = m.first[m.experts];
  const int64_t row_bytes = m.width * (int64_t)og_element_bytes(m.element);
  step up = {
      .m = &m,
      .x = m.rows,
      .packed = og_data(call->in[W13]),
      .y = m.hidden,
      .bias = call->in[B13],
      .n = 2 * m.inner,
      .k = m.width,
  };
  step down = {
      .m = &m,
      .x = m.activated,
      .packed = og_data(call->in[W2]),
      .y = m.hidden,
      .bias = call->in[B2],
      .n = m.width,
      .k = m.inner,
  };
  status = og_parallel_tasks(call, slots, og_grain(OG_GRAIN_BYTES, row_bytes),
                             rows_gather, &m);
  if (status == OG_OK) status = step_run(&up);
  if (status == OG_OK)
    status = og_parallel_tasks(call, slots, og_grain(OG_GRAIN_MEDIUM, m.inner),
                               slots_activate, &m);
  if (status == OG_OK) status = step_run(&down);
  if (status != OG_OK) return status;
  return og_parallel_tasks(call, m.tokens, og_grain(OG_GRAIN_HEAVY, m.width),
                           tokens_sum, &m);
}

// --- Packing

static void experts_pack(void *state, int64_t begin, int64_t end,
                         int32_t worker) {
  const og_call *call = state;
  const og_tensor *w = call->in[0];
  const int element = og_element_of(w);
  const int64_t panels = call->out[0]->shape[1];
  (void)worker;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t expert = i / panels, panel = i % panels;
    const og_gemm_weights of = {
        .data = og_at(og_data(w), expert * w->strides[0], element),
        .n = w->shape[1],
        .k = w->shape[2],
        .n_stride = w->strides[1],
        .k_stride = 1,
        .element = element};
    og_gemm_pack(&of, panel, panel + 1,
                 (char *)og_data(call->out[0]) +
                     (size_t)expert * og_packed_bytes(of.n, of.k, element) +
                     og_packed_bytes(panel * OG_PANEL, of.k, element));
  }
}

static og_status fused_moe_prepack(const og_call *call) {
  return og_parallel_tasks(
      call, call->out[0]->shape[0] * call->out[0]->shape[1], OG_GRAIN_PANELS,
      experts_pack, (void *)(uintptr_t)call);
}

OG_KERNELS_BY_ISA(kernels, "f32|bf16|f16", fused_moe);
static const og_kernel prepack_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32|bf16|f16", .run = fused_moe_prepack}};

static const og_op ops[] = {
    {
        .schema = "fused_moe_prepack(Tensor weight) -> Tensor",
        .shape = "weight[E, O, I] "
                 "-> [E, ceildiv(O, 16), ceildiv(I, 2) * 2, 16]",
        .dtype = "weight: f32|bf16|f16 -> weight",
        .strides = "weight: last",
        .flags = OG_DETERMINISTIC,
        .reduce = "E; O / 16; I / 2",
        .expect = "type_dependent: result",
        .doc = "The weights of all experts in panels of 16, for fused_moe; "
               "the same for every instruction set. A panel of bf16 is in "
               "pairs of steps, [I / 2, 16, 2].",
        .kernels = OG_KERNELS(prepack_kernels),
    },
    {
        .schema = "fused_moe(Tensor x, Tensor w13, Tensor w2, "
                  "Tensor topk_weights, Tensor topk_ids, "
                  "Tensor? b13=None, Tensor? b2=None, *, int inner, "
                  "str activation=\"silu\") -> Tensor",
        .shape = "x[M, K], w13[E, P13, K13, 16], w2[E, P2, K2, 16], "
                 "topk_weights[M, T], topk_ids[M, T], b13?[E, 2 * inner], "
                 "b2?[E, K] -> [M, K]",
        .where = "inner >= 0, P13 == ceildiv(2 * inner, 16), "
                 "K13 == ceildiv(K, 2) * 2, P2 == ceildiv(K, 16), "
                 "K2 == ceildiv(inner, 2) * 2, K <= 131070, inner <= 131070, "
                 "topk_ids in [-1, E)",
        .dtype = "x: f32|bf16|f16, w13: x, w2: x, topk_weights: f32, "
                 "topk_ids: i32, b13: x, b2: x -> x",
        // Scratch; both products in f32; rows gathered and activated; the
        // routing.
        .workspace = "threads * 655360 + M * T * max(2 * inner, K) * 4 + 64 + "
                     "M * T * (K + inner) * itemsize(x) + 128 + "
                     "(E + 1 + 2 * M * T) * 4",
        .flags = OG_DETERMINISTIC,
        .reduce = "M; T: sum",
        .expect = "type_dependent: result",
        .doc = "For each token the weighted sum of its experts' outputs: "
               "w2 (act(gate) * up), where w13's rows are first the gates and "
               "then the ups (in turns for swigluoai). Weights come from "
               "fused_moe_prepack. A negative id is skipped.",
        .kernels = OG_KERNELS(kernels),
    },
};
OG_MODULE(fused_moe, ops)
