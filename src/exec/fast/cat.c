// SPDX-License-Identifier: Apache-2.0
// cat of parts whose last dims are runs of a cache line or more, on several
// threads: cut along a dim that all parts have, else by parts. In mode
// max-autotune also of parts that are read element by element: a host's copy
// would bring its threads. Of these, parts of 4-byte elements whose columns
// stand together are transposed a square at a time.

#include <string.h>

#include "base/grain.h"
#include "call/call.h"
#include "exec/step/kernels.h"
#include "exec/step/operands.h"
#include "kernel/kernel.h"

enum { LEAST_RUN_BYTES = 64 };

typedef struct cat {
  og_operands io;
  int32_t axis;  // that is cut; -1: by parts
  int64_t *at;   // by part: its first byte in the result
} cat;

// A tensor of one dim without elements joins anything.
static bool is_skipped(const og_tensor *part) {
  return part->ndim == 1 && part->shape[0] == 0;
}

// Whether the last two dims are the other way round in memory.
static bool is_transposed(const og_tensor *part) {
  const int32_t last = part->ndim - 1;
  return last > 0 && og_item_bytes(part) == 4 && part->strides[last] != 1 &&
         part->strides[last - 1] == 1;
}

static void planes_transpose(const og_tensor *to, const og_tensor *from) {
  const int32_t row = from->ndim - 2, column = row + 1;
  int64_t planes = 1;
  for (int32_t d = 0; d < row; ++d) planes *= from->shape[d];
  for (int64_t p = 0; p < planes; ++p) {
    int64_t to_at = 0, from_at = 0, left = p;
    for (int32_t d = row - 1; d >= 0; left /= from->shape[d--]) {
      to_at += left % from->shape[d] * to->strides[d];
      from_at += left % from->shape[d] * from->strides[d];
    }
    og_gemm(OG_F32)->transpose(
        (const float *)(const void *)og_bytes(from) + from_at,
        from->strides[column], from->shape[row], from->shape[column],
        (float *)(void *)og_bytes(to) + to_at, to->strides[row]);
  }
}

static void part_copy(const cat *c, int32_t i, int64_t begin, int64_t end) {
  const og_tensor *part = c->io.in[i], *out = c->io.out[0];
  const int64_t item = og_item_bytes(out);
  int64_t shape[OPGRAFT_RANK_MAX];
  og_tensor to = *part, from = *part;
  if (is_skipped(part)) return;
  memcpy(shape, part->shape, (size_t)part->ndim * sizeof *shape);
  to.strides = out->strides;
  to.data = og_bytes(out) + c->at[i];
  to.byte_offset = 0;
  if (c->axis >= 0) {
    shape[c->axis] = end - begin;
    to.data = (char *)to.data + begin * out->strides[c->axis] * item;
    from.data = og_bytes(part) + begin * part->strides[c->axis] * item;
    from.byte_offset = 0;
  }
  to.shape = from.shape = shape;
  if (is_transposed(&from))
    planes_transpose(&to, &from);
  else
    og_tensor_copy(&to, &from);
}

static void share_axis(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  const cat *c = state;
  (void)worker;
  for (int32_t i = 0; i < c->io.in_count; ++i) part_copy(c, i, begin, end);
}

static void share_parts(void *state, int64_t begin, int64_t end,
                        int32_t worker) {
  const cat *c = state;
  (void)worker;
  for (int64_t i = begin; i < end; ++i) part_copy(c, (int32_t)i, 0, 0);
}

static og_status run_cat(void *state, const og_run *run) {
  cat *c = state;
  const og_tensor *out = c->io.out[0];
  const bool is_cut = c->axis >= 0;
  const int64_t total = is_cut ? out->shape[c->axis] : c->io.in_count;
  const int64_t bytes = og_numel(out) * og_item_bytes(out) / total;
  return og_run_parallel(run, total, og_grain(OG_GRAIN_BYTES, bytes),
                         is_cut ? share_axis : share_parts, c);
}

// What is one run in a part and in the result.
static int64_t run_bytes(const og_tensor *part, const og_tensor *out) {
  int64_t run = part->shape[part->ndim - 1];
  for (int32_t d = part->ndim - 2; d >= 0; --d) {
    if (part->strides[d] != run || out->strides[d] != run) break;
    run *= part->shape[d];
  }
  return run * og_item_bytes(out);
}

static bool is_taken(const og_prep *prep, const og_tensor *out,
                     const og_tensor *const *parts, int32_t count) {
  const int32_t last = out->ndim - 1;
  const bool takes_any =
      (prep->plan->graph->option_flags & OPGRAFT_OPTION_MAX_AUTOTUNE) != 0;
  if (og_numel(out) == 0 || out->strides[last] != 1) return false;
  for (int32_t i = 0; i < count; ++i)
    if (!is_skipped(parts[i]) &&
        ((parts[i]->strides[last] != 1 && !takes_any) ||
         run_bytes(parts[i], out) < LEAST_RUN_BYTES))
      return false;
  return true;
}

// The longest of the dims before the one along which parts are joined; rows
// stay whole. -1 where these have one element.
static int32_t axis_find(const og_tensor *out, int32_t dim) {
  int32_t axis = -1;
  for (int32_t d = 0; d < dim; ++d)
    if (out->shape[d] > (axis >= 0 ? out->shape[axis] : 1)) axis = d;
  return axis;
}

og_status og_prepare_long_cat(og_prep *prep) {
  const og_tensor *out = prep->out[0];
  const int32_t count = prep->node->in_count;
  int32_t dim;
  int64_t at = 0;
  OG_TRY(og_prepare_cat(prep));  // which says what does not fit
  cat *c = og_state_begin(prep, sizeof *c, run_cat);
  if (c == NULL) return OG_MEMORY;
  if (!is_taken(prep, out, (const og_tensor *const *)prep->in, count))
    return OG_UNSUPPORTED;
  OG_TRY(og_prep_dim(prep, 0, out->ndim, &dim));
  c->axis = axis_find(out, dim);
  c->at = og_prep_alloc(prep, (size_t)count * sizeof *c->at);
  if (c->at == NULL) return og_prep_memory(prep);
  for (int32_t i = 0; i < count; ++i) {
    c->at[i] = at;
    if (!is_skipped(prep->in[i]))
      at += prep->in[i]->shape[dim] * out->strides[dim] * og_item_bytes(out);
  }
  return OG_OK;
}
