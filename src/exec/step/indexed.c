// SPDX-License-Identifier: Apache-2.0
// Index tensors: what they ask for, and the shape that they reach.

#include "exec/step/indexed.h"

#include <inttypes.h>
#include <string.h>

#include "call/call.h"

og_status og_index_refuse(const og_run *run, int64_t index, int64_t size) {
  return og_run_fail(run, OG_INVALID,
                     "index %" PRId64
                     " is out of range for a dim of size "
                     "%" PRId64,
                     index, size);
}

void og_element_add(og_dtype dtype, char *to, const char *from, double alpha) {
  if (og_dtype_class(dtype) == OG_CLASS_I64)
    og_element_set_int(dtype, to,
                       (int64_t)((uint64_t)og_element_int(dtype, to) +
                                 (uint64_t)og_double_to_int(alpha) *
                                     (uint64_t)og_element_int(dtype, from)));
  else
    og_element_set_double(
        dtype, to,
        og_element_double(dtype, to) + alpha * og_element_double(dtype, from));
}

int64_t og_index_asked(const og_indexed *s, int32_t k, const int64_t *point) {
  const og_tensor *index = s->indices[k];
  int64_t at[OPGRAFT_RANK_MAX];
  for (int32_t i = 0; i < index->ndim; ++i)
    at[i] = index->shape[i] == 1 ? 0 : point[s->index_rank - index->ndim + i];
  return og_element_int(index->dtype, og_element_at(index, at));
}

// The shape that the indices broadcast to.
static og_status indices_broadcast(og_prep *prep, og_indexed *s) {
  int64_t *shape = s->index_shape;
  for (int32_t k = 0; k < s->dim_count; ++k) {
    OG_TRY(og_need_int(prep, s->indices[k]));
    if (s->indices[k]->dtype.code == OG_CODE_BOOL)
      return og_prep_wrong(prep, "a mask as an index has no fixed shape");
    if (s->indices[k]->ndim > s->index_rank)
      s->index_rank = s->indices[k]->ndim;
  }
  for (int32_t d = 0; d < s->index_rank; ++d) shape[d] = 1;
  for (int32_t k = 0; k < s->dim_count; ++k) {
    const og_tensor *index = s->indices[k];
    for (int32_t i = 0; i < index->ndim; ++i) {
      int64_t *size = &shape[s->index_rank - index->ndim + i];
      if (*size == 1) *size = index->shape[i];
      if (index->shape[i] != *size && index->shape[i] != 1)
        return og_prep_wrong(prep, "the indices do not broadcast");
    }
  }
  return OG_OK;
}

// Collects the indices of `whole` and finds the shape that they reach: the
// dims without an index, and the indices' own dims where the first index
// stands, or in front where other dims lie between them.
static og_status indices_read(og_prep *prep, og_indexed *s,
                              const og_tensor *whole, int32_t skipped) {
  const int32_t count = prep->node->in_count - skipped;
  int64_t kept[OPGRAFT_RANK_MAX];
  int32_t kept_count = 0;
  if (whole == NULL || count > whole->ndim)
    return og_prep_wrong(prep, "it has more indices than dims");
  og_tensor **indices =
      og_prep_alloc(prep, sizeof *indices * (size_t)(count + 1));
  int64_t *reach = og_prep_alloc(prep, 2 * OPGRAFT_RANK_MAX * sizeof *reach);
  if (indices == NULL || reach == NULL) return og_prep_memory(prep);
  s->indices = indices;
  for (int32_t d = 0; d < whole->ndim; ++d) {
    if (d < count && prep->in[skipped + d] != NULL) {
      if (s->dim_count == 0) s->first = kept_count;
      indices[s->dim_count] = prep->in[skipped + d];
      s->dims[s->dim_count++] = d;
    } else {
      kept[kept_count++] = whole->shape[d];
    }
  }
  if (s->dim_count == 0) return og_prep_wrong(prep, "it has no index");
  if (s->dims[s->dim_count - 1] - s->dims[0] != s->dim_count - 1) s->first = 0;
  OG_TRY(indices_broadcast(prep, s));
  if (kept_count + s->index_rank > OPGRAFT_RANK_MAX)
    return og_prep_wrong(prep, "it has too many dims");
  s->reach = (og_tensor){.ndim = kept_count + s->index_rank,
                         .dtype = whole->dtype,
                         .shape = reach};
  memcpy(reach, kept, (size_t)s->first * 8);
  memcpy(reach + s->first, s->index_shape, (size_t)s->index_rank * 8);
  memcpy(reach + s->first + s->index_rank, kept + s->first,
         (size_t)(kept_count - s->first) * 8);
  return OG_OK;
}

og_status og_index_read(og_prep *prep, og_indexed *s) {
  s->wraps = true;
  OG_TRY(og_need_same_type(prep, prep->in[0], prep->out[0]));
  OG_TRY(indices_read(prep, s, prep->in[0], 1));
  if (og_same_shape(&s->reach, prep->out[0])) return OG_OK;
  return og_prep_wrong(
      prep, "its result's shape differs from the one that its indices give");
}

og_status og_index_put_read(og_prep *prep, og_indexed *s) {
  int64_t adds, is_strict;
  const og_tensor *values = prep->in[1], *out = prep->out[0];
  OG_TRY(og_prep_int(prep, 0, 0, &adds));
  OG_TRY(og_prep_int(prep, 1, 0, &is_strict));
  s->adds = adds != 0;
  s->wraps = is_strict == 0;
  OG_TRY(og_need_same_type(prep, prep->in[0], out));
  OG_TRY(og_need_same_type(prep, values, out));
  OG_TRY(indices_read(prep, s, out, 2));
  bool fits = values->ndim <= s->reach.ndim && og_same_shape(prep->in[0], out);
  for (int32_t d = 0; fits && d < values->ndim; ++d) {
    const int64_t size = s->reach.shape[s->reach.ndim - values->ndim + d];
    fits = values->shape[d] == size || values->shape[d] == 1;
  }
  return fits ? OG_OK : og_prep_misfit(prep);
}
