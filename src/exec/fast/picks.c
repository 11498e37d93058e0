// SPDX-License-Identifier: Apache-2.0
// index and index_put where the indices stand together, in dense tensors: the
// og_indexed tensor is [outer, span, inner], and what the indices reach is
// [outer, picks, inner].

#include <string.h>

#include "base/grain.h"
#include "base/loops.h"
#include "call/call.h"
#include "exec/step/indexed.h"

typedef struct picking {
  og_indexed base;
  const og_tensor *whole, *part;
  int64_t outer, span, picks, inner;
  int64_t *chosen;  // by pick: where in the span
  og_nest *nests;   // by index
} picking;

// Adds index k's part of where a row of picks is.
static og_status row_find(const picking *s, const og_run *run, int32_t k,
                          int64_t *to, const char *asked_at, int64_t step) {
  const int64_t size = s->whole->shape[s->base.dims[k]];
  const og_dtype dtype = s->base.indices[k]->dtype;
  const int64_t width = og_nest_width(&s->nests[k]);
  const bool is_long = dtype.bits == 64;
  for (int64_t i = 0; i < width; ++i, asked_at += step) {
    const int64_t asked = is_long ? *(const int64_t *)(const void *)asked_at
                                  : og_element_int(dtype, asked_at);
    int64_t found = asked;
    if (!og_index_find(&s->base, size, &found))
      return og_index_refuse(run, asked, size);
    to[i] = (k > 0 ? to[i] * size : 0) + found;
  }
  return OG_OK;
}

static og_status picks_find(const picking *s, const og_run *run) {
  for (int32_t k = 0; k < s->base.dim_count; ++k) {
    const og_nest *nest = &s->nests[k];
    const int32_t inner = nest->ndim - 1;
    for (int64_t r = 0; r < og_nest_rows(nest); ++r) {
      int64_t offset[OG_NEST_OPERANDS];
      og_nest_offsets(nest, r, offset);
      OG_TRY(row_find(s, run, k,
                      s->chosen + offset[0] / (int64_t)sizeof *s->chosen,
                      og_bytes(s->base.indices[k]) + offset[1],
                      inner >= 0 ? nest->stride[1][inner] : 0));
    }
  }
  return OG_OK;
}

// The picks, row-major, and each index beside them.
static bool nests_make(og_prep *prep, picking *s) {
  og_indexed *base = &s->base;
  int64_t strides[OPGRAFT_RANK_MAX];
  s->nests = og_prep_alloc(prep, (size_t)base->dim_count * sizeof *s->nests);
  if (s->nests == NULL) return false;
  og_row_major(base->index_shape, base->index_rank, strides);
  const og_tensor picks = {.ndim = base->index_rank,
                           .dtype = {OG_CODE_INT, 64, 1},
                           .shape = base->index_shape,
                           .strides = strides};
  for (int32_t k = 0; k < base->dim_count; ++k) {
    const og_tensor *const both[2] = {&picks, base->indices[k]};
    if (!og_nest_init(&s->nests[k], base->index_rank, base->index_shape, both,
                      2))
      return false;
  }
  return true;
}

#define PICK(type)                                              \
  do {                                                          \
    const type *from = (const type *)(const void *)whole;       \
    type *to = (type *)(void *)part;                            \
    for (int64_t p = 0; p < s->picks; ++p) to[p] = from[at[p]]; \
  } while (0)

// One element a pick.
static void pick_elements(const picking *s, const char *whole, char *part) {
  const int64_t *at = s->chosen;
  switch (og_item_bytes(s->part)) {
    case 1:
      PICK(uint8_t);
      break;
    case 2:
      PICK(uint16_t);
      break;
    case 4:
      PICK(uint32_t);
      break;
    default:
      PICK(uint64_t);
  }
}

#undef PICK

static void share_index(void *state, int64_t begin, int64_t end,
                        int32_t worker) {
  const picking *s = state;
  const int64_t item = og_item_bytes(s->part), run = s->inner * item;
  const char *whole = og_bytes(s->whole);
  char *part = og_bytes(s->part);
  (void)worker;
  for (int64_t o = begin; s->inner == 1 && o < end; ++o)
    pick_elements(s, whole + o * s->span * item, part + o * s->picks * item);
  for (int64_t i = begin; s->inner > 1 && i < end; ++i)
    memcpy(part + i * run,
           whole + (i / s->picks * s->span + s->chosen[i % s->picks]) * run,
           (size_t)run);
}

static og_status run_picks(void *state, const og_run *run) {
  const picking *s = state;
  const int64_t bytes = s->inner * og_item_bytes(s->part);
  OG_TRY(picks_find(s, run));
  return s->inner == 1 ? og_run_parallel(run, s->outer,
                                         og_grain(OG_GRAIN_LIGHT, s->picks),
                                         share_index, state)
                       : og_run_parallel(run, s->outer * s->picks,
                                         og_grain(OG_GRAIN_BYTES, bytes),
                                         share_index, state);
}

OG_LOOP_BODY void floats_add_body(int64_t n, const float *from, float *to) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}
OG_LOOP(floats_add, (int64_t n, const float *from, float *to), (n, from, to))

static void elements_add(const picking *s, const float *part, float *whole) {
  for (int64_t p = 0; p < s->picks; ++p) whole[s->chosen[p]] += part[p];
}

// Columns [begin, end) of each pick of one outer index, in the order of picks.
static void picks_put(const picking *s, int64_t outer, int64_t begin,
                      int64_t end) {
  const int64_t item = og_item_bytes(s->part);
  char *whole = og_bytes(s->whole) + outer * s->span * s->inner * item;
  const char *part = og_bytes(s->part) + outer * s->picks * s->inner * item;
  if (s->inner == 1 && s->base.adds) {
    elements_add(s, (const float *)(const void *)part, (float *)(void *)whole);
    return;
  }
  for (int64_t p = 0; p < s->picks; ++p) {
    char *to = whole + (s->chosen[p] * s->inner + begin) * item;
    const char *from = part + (p * s->inner + begin) * item;
    if (s->base.adds)
      floats_add(end - begin, (const float *)(const void *)from,
                 (float *)(void *)to);
    else
      memcpy(to, from, (size_t)((end - begin) * item));
  }
}

static void share_put_outer(void *state, int64_t begin, int64_t end,
                            int32_t worker) {
  const picking *s = state;
  (void)worker;
  for (int64_t o = begin; o < end; ++o) picks_put(s, o, 0, s->inner);
}

static void share_put_inner(void *state, int64_t begin, int64_t end,
                            int32_t worker) {
  const picking *s = state;
  (void)worker;
  for (int64_t o = 0; o < s->outer; ++o) picks_put(s, o, begin, end);
}

// Two workers never write the same element, so the order of sums is fixed.
static og_status run_picks_put(void *state, const og_run *run) {
  const picking *s = state;
  OG_TRY(picks_find(s, run));
  og_update_start(&s->base.io);
  if (s->outer >= s->inner)
    return og_run_parallel(run, s->outer,
                           og_grain(OG_GRAIN_LIGHT, s->picks * s->inner),
                           share_put_outer, state);
  return og_run_parallel(
      run, s->inner,
      og_grain(OG_GRAIN_LIGHT, s->picks * s->outer) + OG_GRAIN_COLUMNS,
      share_put_inner, state);
}

// Whether the node is of this kind.
static bool is_picking(og_prep *prep, picking *s, const og_tensor *whole,
                       const og_tensor *part) {
  const og_indexed *base = &s->base;
  const int32_t first = base->dims[0], last = base->dims[base->dim_count - 1];
  const int64_t item = og_item_bytes(whole);
  if (last - first != base->dim_count - 1 || og_numel(part) == 0 ||
      !og_same_shape(part, &base->reach) || !og_tensor_is_contiguous(whole) ||
      !og_tensor_is_contiguous(part) || item > 8 || (item & (item - 1)) != 0)
    return false;
  s->whole = whole;
  s->part = part;
  s->outer = s->span = s->picks = s->inner = 1;
  for (int32_t d = 0; d < whole->ndim; ++d)
    *(d < first   ? &s->outer
      : d <= last ? &s->span
                  : &s->inner) *= whole->shape[d];
  for (int32_t i = 0; i < base->index_rank; ++i)
    s->picks *= base->index_shape[i];
  s->chosen = og_prep_scratch(prep, (size_t)s->picks * sizeof *s->chosen);
  return s->chosen != NULL && nests_make(prep, s);
}

og_status og_prepare_picks(og_prep *prep) {
  picking *s = og_state_begin(prep, sizeof *s, run_picks);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_index_read(prep, &s->base));
  return is_picking(prep, s, prep->in[0], prep->out[0]) ? OG_OK
                                                        : OG_UNSUPPORTED;
}

og_status og_prepare_picks_put(og_prep *prep) {
  picking *s = og_state_begin(prep, sizeof *s, run_picks_put);
  if (s == NULL) return OG_MEMORY;
  const og_tensor *out = prep->out[0];
  OG_TRY(og_index_put_read(prep, &s->base));
  const bool is_float = out->dtype.code == OG_CODE_FLOAT &&
                        out->dtype.bits == 32 && out->dtype.lanes == 1;
  return (is_float || !s->base.adds) && is_picking(prep, s, out, prep->in[1])
             ? OG_OK
             : OG_UNSUPPORTED;
}
