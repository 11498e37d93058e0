// SPDX-License-Identifier: Apache-2.0
// Reference kernels of several index tensors.

#include <string.h>

#include "exec/step/indexed.h"

// Where an element of the values stands in the indexed tensor; false with the
// index if it is out of range.
static bool indexed_position(const og_indexed *s, const og_tensor *whole,
                             const int64_t *at, int64_t *out, int64_t *bad,
                             int64_t *bad_size) {
  int32_t j = 0;  // the next dim of `at` that is not the indices'
  int32_t k = 0;  // the next index
  for (int32_t d = 0; d < whole->ndim; ++d) {
    if (k < s->dim_count && s->dims[k] == d) {
      out[d] = og_index_asked(s, k++, at + s->first);
      *bad = out[d];
      *bad_size = whole->shape[d];
      if (!og_index_find(s, whole->shape[d], &out[d])) return false;
      continue;
    }
    if (j == s->first) j += s->index_rank;
    out[d] = at[j++];
  }
  return true;
}

static og_status run_index(void *state, const og_run *run) {
  const og_indexed *s = state;
  const og_tensor *in = s->io.in[0], *out = s->io.out[0];
  int64_t at[OPGRAFT_RANK_MAX], from[OPGRAFT_RANK_MAX], bad, size;
  for (int64_t i = 0; i < og_numel(out); ++i) {
    og_position_of(out, i, at);
    if (!indexed_position(s, in, at, from, &bad, &size))
      return og_index_refuse(run, bad, size);
    memcpy(og_element_at(out, at), og_element_at(in, from),
           (size_t)og_item_bytes(out));
  }
  return OG_OK;
}

static og_status run_index_put(void *state, const og_run *run) {
  const og_indexed *s = state;
  const og_tensor *out = s->io.out[0], *values = s->io.in[1];
  int64_t at[OPGRAFT_RANK_MAX], to[OPGRAFT_RANK_MAX], from[OPGRAFT_RANK_MAX];
  int64_t bad, size;
  og_update_start(&s->io);
  for (int64_t i = 0; i < og_numel(&s->reach); ++i) {
    og_position_of(&s->reach, i, at);
    if (!indexed_position(s, out, at, to, &bad, &size))
      return og_index_refuse(run, bad, size);
    for (int32_t d = 0; d < values->ndim; ++d)
      from[d] =
          values->shape[d] == 1 ? 0 : at[s->reach.ndim - values->ndim + d];
    if (s->adds)
      og_element_add(out->dtype, og_element_at(out, to),
                     og_element_at(values, from), 1);
    else
      memcpy(og_element_at(out, to), og_element_at(values, from),
             (size_t)og_item_bytes(out));
  }
  return OG_OK;
}

og_status og_prepare_index(og_prep *prep) {
  og_indexed *s = og_state_begin(prep, sizeof *s, run_index);
  return s != NULL ? og_index_read(prep, s) : OG_MEMORY;
}

og_status og_prepare_index_put(og_prep *prep) {
  og_indexed *s = og_state_begin(prep, sizeof *s, run_index_put);
  return s != NULL ? og_index_put_read(prep, s) : OG_MEMORY;
}
