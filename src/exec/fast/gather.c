// SPDX-License-Identifier: Apache-2.0
// gather of int64 places along any dim, row by row of the result.

#include "base/grain.h"
#include "exec/step/indexed.h"

typedef struct fast_gather {
  og_operands io;
  og_nest nest;        // the result, the index, the operand without the dim
  int64_t size, step;  // of the dim: elements, and bytes from one to the next
  // An index out of range that a worker found (atomic).
  bool is_refused;
  int64_t refused;
} fast_gather;

// A row: how far its elements lie apart, in bytes.
typedef struct row {
  int64_t count, to_step, index_step, from_step;
  const char *index;
  const char *from;
  char *to;
} row;

#define GATHER(type)                                                    \
  for (int64_t i = 0; i < r->count; ++i) {                              \
    const int64_t at =                                                  \
        *(const int64_t *)(const void *)(r->index + i * r->index_step); \
    const bool is_in = at >= 0 && at < s->size;                         \
    if (!is_in) bad = at;                                               \
    all_in &= is_in;                                                    \
    *(type *)(void *)(r->to + i * r->to_step) =                         \
        *(const type *)(const void *)(r->from + i * r->from_step +      \
                                      (is_in ? at : 0) * s->step);      \
  }

static void row_gather(fast_gather *s, const row *r, int64_t item) {
  bool all_in = true;
  int64_t bad = 0;
  if (item == 4 && r->to_step == 4 && r->index_step == 8 && r->from_step == 0) {
    const row run = {r->count, 4, 8, 0, r->index, r->from, r->to};
    r = &run;
    GATHER(uint32_t)
  } else if (item == 4) {
    GATHER(uint32_t)
  } else if (item == 8) {
    GATHER(uint64_t)
  } else if (item == 2) {
    GATHER(uint16_t)
  } else {
    GATHER(uint8_t)
  }
  if (all_in) return;
  __atomic_store_n(&s->refused, bad, __ATOMIC_RELAXED);
  __atomic_store_n(&s->is_refused, true, __ATOMIC_RELAXED);
}

static void share_rows(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  fast_gather *s = state;
  const og_nest *nest = &s->nest;
  const int32_t inner = nest->ndim - 1;
  (void)worker;
  for (int64_t i = begin; i < end; ++i) {
    int64_t offset[OG_NEST_OPERANDS], step[3] = {0};
    og_nest_offsets(nest, i, offset);
    for (int32_t k = 0; inner >= 0 && k < 3; ++k)
      step[k] = nest->stride[k][inner];
    const row r = {.count = og_nest_width(nest),
                   .to_step = step[0],
                   .index_step = step[1],
                   .from_step = step[2],
                   .to = og_bytes(s->io.out[0]) + offset[0],
                   .index = og_bytes(s->io.in[1]) + offset[1],
                   .from = og_bytes(s->io.in[0]) + offset[2]};
    row_gather(s, &r, og_item_bytes(s->io.out[0]));
  }
}

static og_status run_fast_gather(void *state, const og_run *run) {
  fast_gather *s = state;
  s->is_refused = false;
  OG_TRY(og_run_parallel(run, og_nest_rows(&s->nest),
                         og_grain(OG_GRAIN_LIGHT, og_nest_width(&s->nest)),
                         share_rows, state));
  return s->is_refused ? og_index_refuse(run, s->refused, s->size) : OG_OK;
}

og_status og_prepare_fast_gather(og_prep *prep) {
  const og_tensor *in = prep->in[0], *index = prep->in[1], *out = prep->out[0];
  const int64_t item = og_item_bytes(out);
  int64_t strides[OPGRAFT_RANK_MAX];
  int32_t dim;
  fast_gather *s = og_state_begin(prep, sizeof *s, run_fast_gather);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_need_same_type(prep, in, out));
  OG_TRY(og_prep_dim(prep, 0, in->ndim, &dim));
  OG_TRY(og_need_int(prep, index));
  if (in->ndim == 0 || index->ndim != in->ndim || index->dtype.bits != 64 ||
      !og_same_shape(index, out) || !og_index_fits(index, in, dim) ||
      item > 8 || (item & (item - 1)) != 0 || og_numel(out) == 0)
    return OG_UNSUPPORTED;
  og_tensor apart = *in;
  apart.shape = out->shape;
  apart.strides = strides;
  for (int32_t d = 0; d < in->ndim; ++d)
    strides[d] = d == dim ? 0 : in->strides[d];
  s->size = in->shape[dim];
  s->step = in->strides[dim] * item;
  const og_tensor *const tensors[3] = {out, index, &apart};
  // An index of an empty dim is out of range: the plain kernel says so.
  return s->size > 0 &&
                 og_nest_init(&s->nest, out->ndim, out->shape, tensors, 3)
             ? OG_OK
             : OG_UNSUPPORTED;
}
