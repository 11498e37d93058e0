// SPDX-License-Identifier: Apache-2.0
// Caches, routing, sampling and codes, of the kinds that FlashInfer and vLLM
// have.

#include "kinds.h"

KERNEL(write_slots) {  // x[N, D], slots[N], cache[C, D]: written
  const int64_t width = DIM(1), *slots = og_i64(call->in[1]);
  REQUIRE_RANGE(1, "slots", -1, DIM(2));
  for (int64_t i = 0; i < DIM(0) * width; ++i)
    if (slots[i / width] >= 0)
      OUT(0)[slots[i / width] * width + i % width] = IN(0)[i];
  return OG_OK;
}

KERNEL(read_pages) {  // cache[P, S, D], table[N, M]
  const int64_t page = DIM(1) * DIM(2), *table = og_i64(call->in[1]);
  REQUIRE_RANGE(1, "table", 0, DIM(0));
  for (int64_t i = 0; i < DIM(3) * DIM(4) * page; ++i)
    OUT(0)[i] = IN(0)[table[i / page] * page + i % page];
  return OG_OK;
}

KERNEL(merge_two) {  // va[N, H, D], sa[N, H], vb, sb
  for (int64_t i = 0; i < DIM(0) * DIM(1); ++i) {
    const float most = fmaxf(IN(1)[i], IN(3)[i]);
    const float a = expf(IN(1)[i] - most), b = expf(IN(3)[i] - most);
    for (int64_t d = i * DIM(2); d < (i + 1) * DIM(2); ++d)
      OUT(0)[d] = (a * IN(0)[d] + b * IN(2)[d]) / (a + b);
    OUT(1)[i] = most + logf(a + b);
  }
  return OG_OK;
}

KERNEL(min_p_renorm) {  // probs[N, V]; p
  for (int64_t r = 0; r < DIM(0); ++r) {
    const float *x = IN(0) + r * DIM(1);
    float *y = OUT(0) + r * DIM(1), most = 0, sum = 0;
    for (int64_t i = 0; i < DIM(1); ++i) most = fmaxf(most, fabsf(x[i]));
    for (int64_t i = 0; i < DIM(1); ++i)
      sum += y[i] = fabsf(x[i]) >= NUMBER(0) * most ? fabsf(x[i]) : 0;
    for (int64_t i = 0; i < DIM(1) && sum > 0; ++i) y[i] /= sum;
  }
  return OG_OK;
}

KERNEL(group_codes) {  // x[*N, D]; group -> codes, scales
  const int64_t group = INT(0);
  int8_t *codes = og_data(call->out[0]);
  for (int64_t g = 0; g < DIM(0) * (DIM(1) / group); ++g) {
    float most = 0;
    for (int64_t i = g * group; i < (g + 1) * group; ++i)
      most = fmaxf(most, fabsf(IN(0)[i]));
    const float scale = most > 0 ? most / 127 : 1;
    for (int64_t i = g * group; i < (g + 1) * group; ++i)
      codes[i] = (int8_t)lrintf(fminf(fmaxf(IN(0)[i] / scale, -127), 127));
    OUT(1)[g] = scale;
  }
  return OG_OK;
}

KERNEL(expert_offsets) {  // ids[N, T]; experts
  int64_t *offsets = og_i64_mut(call->out[0]);
  REQUIRE_RANGE(0, "ids", 0, INT(0));
  for (int64_t e = 0; e <= INT(0); ++e) {
    offsets[e] = 0;
    for (int64_t i = 0; i < DIM(0) * DIM(1); ++i)
      offsets[e] += og_i64(call->in[0])[i] < e;
  }
  return OG_OK;
}

KERNEL(sum_experts) {  // x[N, T, D], weight[N, T]
  for (int64_t i = 0; i < DIM(0) * DIM(2); ++i) {
    float sum = 0;
    for (int64_t t = 0; t < DIM(1); ++t) {
      const int64_t row = i / DIM(2) * DIM(1) + t;
      sum += IN(1)[row] * IN(0)[row * DIM(2) + i % DIM(2)];
    }
    OUT(0)[i] = sum;
  }
  return OG_OK;
}

KERNEL(penalize_seen) {  // logits[N, V], seen[N, L]; penalty
  const int64_t vocabulary = DIM(1);
  REQUIRE_RANGE(1, "seen", 0, vocabulary);
  for (int64_t i = 0; i < DIM(0) * vocabulary; ++i) {
    const int64_t *seen = og_i64(call->in[1]) + i / vocabulary * DIM(2);
    bool is_seen = false;
    for (int64_t k = 0; k < DIM(2); ++k) is_seen |= seen[k] == i % vocabulary;
    const float x = IN(0)[i];
    OUT(0)[i] = !is_seen ? x : x > 0 ? x / NUMBER(0) : x * NUMBER(0);
  }
  return OG_OK;
}

KERNEL(mean_of_requests) {  // x[N, D], indptr[B1]
  const int64_t *at = og_i64(call->in[1]);
  REQUIRE_OFFSETS(1, DIM(0));
  for (int64_t i = 0; i < (DIM(2) - 1) * DIM(1); ++i) {
    const int64_t b = i / DIM(1), count = at[b + 1] - at[b];
    float sum = 0;
    for (int64_t r = at[b]; r < at[b + 1]; ++r)
      sum += IN(0)[r * DIM(1) + i % DIM(1)];
    OUT(0)[i] = count > 0 ? sum / (float)count : 0;
  }
  return OG_OK;
}

KERNEL(unpack_codes) {  // packed[O, P], scale[O]
  const uint8_t *packed = og_data(call->in[0]);
  for (int64_t i = 0; i < DIM(0) * DIM(1) * 2; ++i) {
    const int code = packed[i / 2] >> (i % 2 * 4) & 15;
    OUT(0)[i] = (float)(code - 8) * IN(1)[i / (2 * DIM(1))];
  }
  return OG_OK;
}

MODULE(kinds_serving,
       {.schema = "write_slots(Tensor x, Tensor slots, Tensor(a!) cache) -> ()",
        .shape = "x[N, D], slots[N], cache[C, D]",
        .where = "slots in [-1, C)",
        ONE("x: f32, slots: i64, cache: x", write_slots)},
       {.schema = "read_pages(Tensor cache, Tensor table) -> Tensor",
        .shape = "cache[P, S, D], table[N, M] -> [N, M * S, D]",
        .where = "table in [0, P)",
        ONE("cache: f32, table: i64 -> cache", read_pages)},
       {.schema = "merge_two(Tensor va, Tensor sa, Tensor vb, Tensor sb) -> "
                  "(Tensor, Tensor)",
        .shape = "va[N, H, D], sa[N, H], vb[N, H, D], sb[N, H] -> [N, H, D], "
                 "[N, H]",
        ONE("va: f32, sa: va, vb: va, sb: va -> va, va", merge_two)},
       {.schema = "min_p_renorm(Tensor probs, float p) -> Tensor",
        .shape = "probs[N, V] -> [N, V]",
        .where = "p >= 0 and p < 1",
        ONE("probs: f32 -> probs", min_p_renorm)},
       {.schema = "group_codes(Tensor x, int group) -> (Tensor, Tensor)",
        .shape = "x[*N, D] -> [*N, D], [*N, D // group]",
        .where = "group > 0, D % group == 0",
        ONE("x: f32 -> i8, f32", group_codes)},
       {.schema = "expert_offsets(Tensor ids, int experts) -> Tensor",
        .shape = "ids[N, T] -> [experts + 1]",
        .where = "experts > 0, ids in [0, experts)",
        ONE("ids: i64 -> ids", expert_offsets)},
       {.schema = "sum_experts(Tensor x, Tensor weight) -> Tensor",
        .shape = "x[N, T, D], weight[N, T] -> [N, D]",
        ONE("x: f32, weight: x -> x", sum_experts)},
       {.schema = "penalize_seen(Tensor logits, Tensor seen, float penalty) -> "
                  "Tensor",
        .shape = "logits[N, V], seen[N, L] -> [N, V]",
        .where = "penalty > 0, seen in [0, V)",
        ONE("logits: f32, seen: i64 -> logits", penalize_seen)},
       {.schema = "mean_of_requests(Tensor x, Tensor indptr) -> Tensor",
        .shape = "x[N, D], indptr[B1] -> [B1 - 1, D]",
        .where = "B1 > 0, indptr in offsets(N)",
        ONE("x: f32, indptr: i64 -> x", mean_of_requests)},
       {.schema = "unpack_codes(Tensor packed, Tensor scale) -> Tensor",
        .shape = "packed[O, P], scale[O] -> [O, 2 * P]",
        ONE("packed: u8, scale: f32 -> scale", unpack_codes)})
