// SPDX-License-Identifier: Apache-2.0
// append_paged_kv_cache, reshape_and_cache: new keys and values into a paged
// cache, in place.
// Source: FlashInfer's append_paged_kv_cache, vLLM's reshape_and_cache_flash.

#include <inttypes.h>
#include <opgraft/op.h>
#include <string.h>

#include "base/grain.h"
#include "cuda/cache.h"
#include "cuda/launch.h"
#include "kernel/kernel.h"
#include "shared/attention_args.h"

// A token goes to a page and a place in it; page -1: nowhere.
typedef struct place {
  int64_t page, offset;
} place;

typedef struct copy {
  const og_call *call;
  const og_tensor *key, *value;  // [N, H, D]
  og_tensor *k_cache, *v_cache;  // [P, page size, H, D]
  place (*place_of)(const og_call *call, int64_t token);
  int32_t narrow;  // of a cache of 8 bits, or 0
  const og_tensor *k_scale, *v_scale;
} copy;

// --- Elements of 8 bits

// To the nearest, ties to even; |x| < 2^22.
static float rounded(float x) { return x + 0x1.8p23f - 0x1.8p23f; }

static float within(float x, float most) {
  return x > most ? most : x < -most ? -most : x;
}

// What is beyond the type's largest becomes that.
static uint8_t byte_of(float x, int32_t narrow) {
  if (narrow == OG_E4M3) return og_e4m3_from_float(x).bits;
  if (narrow == OG_E5M2) return og_e5m2_from_float(within(x, 57344)).bits;
  if (x != x) return 0;
  return (uint8_t)(int8_t)rounded(within(x, 127));
}

static void row_narrow(const void *from, uint8_t *to, int64_t width,
                       int element, float scale, int32_t narrow) {
  enum { PART = 256 };
  float x[PART];
  for (int64_t at = 0; at < width; at += PART) {
    const int64_t n = width - at < PART ? width - at : PART;
    og_rows()->to_f32(og_at(from, at, element), x, n, element);
    for (int64_t i = 0; i < n; ++i) to[at + i] = byte_of(x[i] / scale, narrow);
  }
}

// `scale` is NULL where the cache has the element type of `from`.
static void token_copy(const copy *c, const og_tensor *from, og_tensor *to,
                       const og_tensor *scale, int64_t token, place at) {
  const int element = og_element_of(from);
  const int64_t heads = from->shape[1], width = from->shape[2];
  for (int64_t h = 0; h < heads; ++h) {
    void *row = og_at(og_data(to),
                      at.page * to->strides[0] + at.offset * to->strides[1] +
                          h * to->strides[2],
                      scale != NULL ? OG_I8 : element);
    const void *x =
        og_at(og_data(from), token * from->strides[0] + h * from->strides[1],
              element);
    if (scale != NULL)
      row_narrow(x, row, width, element,
                 og_f32(scale)[h * scale->shape[0] / heads], c->narrow);
    else
      memcpy(row, x, (size_t)width * og_element_bytes(element));
  }
}

static void tokens_copy(void *state, int64_t begin, int64_t end,
                        int32_t worker) {
  const copy *c = state;
  (void)worker;
  for (int64_t token = begin; token < end; ++token) {
    const place at = c->place_of(c->call, token);
    if (at.page < 0) continue;
    token_copy(c, c->key, c->k_cache, c->k_scale, token, at);
    token_copy(c, c->value, c->v_cache, c->v_scale, token, at);
  }
}

static int64_t token_bytes(const og_tensor *x) {
  return x->shape[1] * x->shape[2] *
         (int64_t)og_element_bytes(og_element_of(x));
}

enum { KEY, VALUE };  // of both operators

static og_status tokens_run(const og_call *call, copy *c, int64_t count) {
  c->call = call;
  c->key = call->in[KEY];
  c->value = call->in[VALUE];
  c->k_cache = call->out[0];
  c->v_cache = call->out[1];
  const int64_t bytes = token_bytes(c->key) + token_bytes(c->value);
  return og_parallel_tasks(
      c->call, count, og_grain(OG_GRAIN_CACHED_BYTES, bytes), tokens_copy, c);
}

static og_status bad_entry(const og_call *call, const char *name, int64_t i,
                           int64_t found, int64_t limit) {
  return og_failf(call, OG_INVALID,
                  "%s[%" PRId64 "] is %" PRId64 ", expected 0 to %" PRId64,
                  name, i, found, limit - 1);
}

// --- append_paged_kv_cache

// Tensor arguments.
enum { BATCH = VALUE + 1, POSITION, K_CACHE, V_CACHE, INDICES, INDPTR, LAST };

static place appended_place(const og_call *call, int64_t token) {
  const int64_t page_size = call->in[K_CACHE]->shape[1];
  const int32_t position = og_i32(call->in[POSITION])[token];
  const int32_t entry =
      og_i32(call->in[INDPTR])[og_i32(call->in[BATCH])[token]] +
      (int32_t)(position / page_size);
  return (place){og_i32(call->in[INDICES])[entry], position % page_size};
}

static og_status appended_check(const og_call *call) {
  const int64_t batch = call->in[LAST]->shape[0];
  const int64_t page_size = call->in[K_CACHE]->shape[1];
  const int64_t pages = call->in[K_CACHE]->shape[0];
  const int64_t index_count = call->in[INDICES]->shape[0];
  const int32_t *indptr = og_i32(call->in[INDPTR]);
  for (int64_t i = 0; i <= batch; ++i)
    if (indptr[i] < (i > 0 ? indptr[i - 1] : 0) || indptr[i] > index_count)
      return bad_entry(call, "kv_indptr (not decreasing, within kv_indices)", i,
                       indptr[i], index_count + 1);
  for (int64_t i = 0; i < call->in[KEY]->shape[0]; ++i) {
    const int32_t b = og_i32(call->in[BATCH])[i];
    const int32_t position = og_i32(call->in[POSITION])[i];
    if (b < 0 || b >= batch)
      return bad_entry(call, "batch_indices", i, b, batch);
    const int64_t room = (indptr[b + 1] - indptr[b]) * page_size;
    if (position < 0 || position >= room)
      return bad_entry(call, "positions", i, position, room);
    const int64_t page = appended_place(call, i).page;
    if (page < 0 || page >= pages)
      return bad_entry(call, "kv_indices", indptr[b] + position / page_size,
                       page, pages);
  }
  return OG_OK;
}

static og_status appended_run(const og_call *call, copy c) {
  const og_status status = appended_check(call);
  if (status != OG_OK) return status;
  c.place_of = appended_place;
  return tokens_run(call, &c, call->in[KEY]->shape[0]);
}

static og_status append_paged_kv_cache(const og_call *call) {
  return appended_run(call, (copy){0});
}

// What a cache of 8 bits has besides, its scales behind argument `last`.
static copy scaled(const og_call *call, int last) {
  return (copy){.narrow = og_narrow_of(call->out[0]),
                .k_scale = call->in[last + 1],
                .v_scale = call->in[last + 2]};
}

static og_status append_paged_kv_cache_scaled(const og_call *call) {
  return appended_run(call, scaled(call, LAST));
}

// --- reshape_and_cache

enum { SLOT_K_CACHE = 2, SLOT_V_CACHE, SLOTS };

static place slot_place(const og_call *call, int64_t token) {
  const int64_t page_size = call->in[SLOT_K_CACHE]->shape[1];
  const int64_t slot = og_i64(call->in[SLOTS])[token];
  return slot < 0 ? (place){-1, 0}
                  : (place){slot / page_size, slot % page_size};
}

static og_status reshaped_run(const og_call *call, copy c) {
  const int64_t limit =
      call->in[SLOT_K_CACHE]->shape[0] * call->in[SLOT_K_CACHE]->shape[1];
  const int64_t count = call->in[SLOTS]->shape[0];
  for (int64_t i = 0; i < count; ++i)
    if (og_i64(call->in[SLOTS])[i] >= limit)
      return bad_entry(call, "slot_mapping", i, og_i64(call->in[SLOTS])[i],
                       limit);
  c.place_of = slot_place;
  return tokens_run(call, &c, count);
}

static og_status reshape_and_cache(const og_call *call) {
  return reshaped_run(call, (copy){0});
}

static og_status reshape_and_cache_scaled(const og_call *call) {
  return reshaped_run(call, scaled(call, SLOTS));
}

static const og_kernel append_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32|bf16|f16", .run = append_paged_kv_cache},
    OG_CUDA_KERNEL("f32|bf16|f16", NULL, og_append_paged_kv_cache_cuda)};
static const og_kernel reshape_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32|bf16|f16", .run = reshape_and_cache},
    OG_CUDA_KERNEL("f32|bf16|f16", NULL, og_reshape_and_cache_cuda)};

static const og_kernel append_scaled_kernels[] = {
    {.device = OG_CPU, .run = append_paged_kv_cache_scaled}};
static const og_kernel reshape_scaled_kernels[] = {
    {.device = OG_CPU, .run = reshape_and_cache_scaled}};

static const og_op ops[] = {
    {
        .schema =
            "append_paged_kv_cache(Tensor append_key, Tensor append_value, "
            "Tensor batch_indices, Tensor positions, Tensor(a!) k_cache, "
            "Tensor(b!) v_cache, Tensor kv_indices, Tensor kv_indptr, "
            "Tensor kv_last_page_len) -> (Tensor(a!), Tensor(b!))",
        .shape = "append_key[N, H, DK], append_value[N, H, DV], "
                 "batch_indices[N], positions[N], k_cache[P, PS, H, DK], "
                 "v_cache[P, PS, H, DV], kv_indices[I], kv_indptr[B + 1], "
                 "kv_last_page_len[B]",
        .where = "PS > 0, batch_indices in [0, B), kv_indices in [0, P), "
                 "kv_indptr in offsets(I)",
        .dtype = "append_key: k_cache, append_value: k_cache, "
                 "batch_indices: i32, positions: i32, "
                 "k_cache: f32|bf16|f16, v_cache: k_cache, kv_indices: i32, "
                 "kv_indptr: i32, kv_last_page_len: i32",
        .strides = "append_key: last, append_value: last, k_cache: last, "
                   "v_cache: last",
        .flags = OG_DETERMINISTIC,
        .reduce = "H; DK, DV: same",
        .doc = "Writes the key and value of token i to position positions[i] "
               "of request batch_indices[i]. The cache is written in place, "
               "views included, and returned.",
        .kernels = OG_KERNELS(append_kernels),
    },
    {
        .schema = "reshape_and_cache(Tensor key, Tensor value, "
                  "Tensor(a!) k_cache, Tensor(b!) v_cache, "
                  "Tensor slot_mapping) -> (Tensor(a!), Tensor(b!))",
        .shape = "key[N, H, DK], value[N, H, DV], k_cache[P, PS, H, DK], "
                 "v_cache[P, PS, H, DV], slot_mapping[N]",
        .where = "PS > 0, slot_mapping in [-1, P * PS)",
        .dtype = "key: k_cache, value: k_cache, k_cache: f32|bf16|f16, "
                 "v_cache: k_cache, slot_mapping: i64",
        .strides = "key: last, value: last, k_cache: last, v_cache: last",
        .flags = OG_DETERMINISTIC,
        .reduce = "H; DK, DV: same",
        .doc = "Writes the key and value of token i to slot slot_mapping[i] "
               "(page times page size plus place); a negative slot skips the "
               "token. The cache is written in place and returned.",
        .kernels = OG_KERNELS(reshape_kernels),
    },
    {
        .schema =
            "append_paged_kv_cache_scaled(Tensor append_key, "
            "Tensor append_value, Tensor batch_indices, Tensor positions, "
            "Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor kv_indices, "
            "Tensor kv_indptr, Tensor kv_last_page_len, Tensor k_scale, "
            "Tensor v_scale) -> (Tensor(a!), Tensor(b!))",
        .shape = "append_key[N, H, DK], append_value[N, H, DV], "
                 "batch_indices[N], positions[N], k_cache[P, PS, H, DK], "
                 "v_cache[P, PS, H, DV], kv_indices[I], kv_indptr[B + 1], "
                 "kv_last_page_len[B], k_scale[S], v_scale[S]",
        .where = "PS > 0, S > 0, H % max(S, 1) == 0, batch_indices in [0, B), "
                 "kv_indices in [0, P), kv_indptr in offsets(I)",
        .dtype =
            "append_key: f32|bf16|f16, append_value: append_key, "
            "batch_indices: i32, positions: i32, k_cache: i8|f8e4m3|f8e5m2, "
            "v_cache: k_cache, kv_indices: i32, kv_indptr: i32, "
            "kv_last_page_len: i32, k_scale: f32, v_scale: f32",
        .strides = "append_key: last, append_value: last, k_cache: last, "
                   "v_cache: last",
        .flags = OG_DETERMINISTIC,
        .reduce = "DK, DV: same",
        .doc = "append_paged_kv_cache into a cache of 8 bits, as "
               "reshape_and_cache_scaled.",
        .kernels = OG_KERNELS(append_scaled_kernels),
    },
    {
        .schema = "reshape_and_cache_scaled(Tensor key, Tensor value, "
                  "Tensor(a!) k_cache, Tensor(b!) v_cache, "
                  "Tensor slot_mapping, Tensor k_scale, Tensor v_scale) "
                  "-> (Tensor(a!), Tensor(b!))",
        .shape = "key[N, H, DK], value[N, H, DV], k_cache[P, PS, H, DK], "
                 "v_cache[P, PS, H, DV], slot_mapping[N], k_scale[S], "
                 "v_scale[S]",
        .where = "PS > 0, S > 0, H % max(S, 1) == 0, "
                 "slot_mapping in [-1, P * PS)",
        .dtype = "key: f32|bf16|f16, value: key, k_cache: i8|f8e4m3|f8e5m2, "
                 "v_cache: k_cache, slot_mapping: i64, k_scale: f32, "
                 "v_scale: f32",
        .strides = "key: last, value: last, k_cache: last, v_cache: last",
        .flags = OG_DETERMINISTIC,
        .reduce = "DK, DV: same",
        .doc = "reshape_and_cache into a cache of 8 bits: numbers over "
               "k_scale and v_scale, one for as many heads as there are of "
               "them, are rounded to the nearest, ties to even, and what is "
               "beyond the type's largest becomes that. int8 is -127 to 127.",
        .kernels = OG_KERNELS(reshape_scaled_kernels),
    },
};
OG_MODULE(kv_cache, ops)
