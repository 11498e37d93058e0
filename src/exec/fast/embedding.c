// SPDX-License-Identifier: Apache-2.0
// embedding where the elements of each row of the table stand together, and the
// indices and the results are dense. Of a table in the graph's file the rows
// that are read are checked, not all of it.

#include <string.h>

#include "base/grain.h"
#include "call/call.h"
#include "exec/step/checked.h"
#include "exec/step/indexed.h"

// weight [V, D], index [..] -> [.., D]
typedef struct lookup {
  og_operands io;
  int64_t places;  // that choose a row
  int64_t row_bytes, stride_bytes;
  const og_blocks *blocks;  // that hold the table; NULL: there are none
  bool is_altered;          // atomic
} lookup;

static int64_t chosen_at(const lookup *s, int64_t place) {
  const og_tensor *index = s->io.in[1];
  return og_element_int(index->dtype,
                        og_bytes(index) + place * og_item_bytes(index));
}

static void share_rows(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  lookup *s = state;
  const char *table = og_bytes(s->io.in[0]);
  char *to = og_bytes(s->io.out[0]) + begin * s->row_bytes;
  (void)worker;
  for (int64_t i = begin; i < end; ++i, to += s->row_bytes) {
    const char *row = table + chosen_at(s, i) * s->stride_bytes;
    if (s->blocks != NULL &&
        !og_blocks_hold(s->blocks, row, (size_t)s->row_bytes))
      __atomic_store_n(&s->is_altered, true, __ATOMIC_RELAXED);
    memcpy(to, row, (size_t)s->row_bytes);
  }
}

static og_status run_lookup(void *state, const og_run *run) {
  lookup *s = state;
  const int64_t size = s->io.in[0]->shape[0];
  s->is_altered = false;
  for (int64_t i = 0; i < s->places; ++i) {
    const int64_t chosen = chosen_at(s, i);
    if (chosen < 0 || chosen >= size) return og_index_refuse(run, chosen, size);
  }
  OG_TRY(og_run_parallel(run, s->places, og_grain(OG_GRAIN_BYTES, s->row_bytes),
                         share_rows, state));
  return s->is_altered ? og_blocks_altered(s->blocks, run->error) : OG_OK;
}

static bool is_taken(const og_tensor *table, const og_tensor *index,
                     const og_tensor *rows) {
  bool fits = index != NULL && og_is_int(index) &&
              og_dtype_equal(table->dtype, rows->dtype) && table->ndim == 2 &&
              rows->ndim == index->ndim + 1 &&
              rows->shape[index->ndim] == table->shape[1];
  for (int32_t d = 0; fits && d < index->ndim; ++d)
    fits = rows->shape[d] == index->shape[d];
  return fits && (table->shape[1] == 1 || table->strides[1] == 1) &&
         og_tensor_is_contiguous(index) && og_tensor_is_contiguous(rows);
}

og_status og_prepare_row_lookup(og_prep *prep) {
  lookup *s = og_state_begin(prep, sizeof *s, run_lookup);
  if (s == NULL) return OG_MEMORY;
  if (!is_taken(prep->in[0], prep->in[1], prep->out[0])) return OG_UNSUPPORTED;
  const int64_t item = og_item_bytes(prep->in[0]);
  s->places = og_numel(prep->in[1]);
  s->row_bytes = prep->in[0]->shape[1] * item;
  s->stride_bytes = prep->in[0]->strides[0] * item;
  s->blocks = og_checked_blocks(prep->plan->graph, prep->node->in[0]);
  if (s->blocks != NULL) prep->unread = 0;
  return OG_OK;
}
