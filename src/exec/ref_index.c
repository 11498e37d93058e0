// SPDX-License-Identifier: Apache-2.0
// Reference kernels that read or write by index. An index out of range is an
// error with its value; nothing is written outside.

#include <inttypes.h>
#include <string.h>

#include "exec/ref.h"

typedef struct indexed {
  og_ref ref;
  int32_t dim;
  bool adds;
  double alpha;
  int64_t skip;  // an index that is passed over, or a negative number
  // index and index_put: which dims of the operand have an index.
  int32_t dims[OPGRAFT_RANK_MAX];
  int32_t dim_count;
  og_tensor *const *indices;
  int32_t first;  // where the indices' dims stand in the result
  int32_t index_rank;
  int64_t index_shape[OPGRAFT_RANK_MAX];
  og_tensor reach;  // a shape: what the indices pick
} indexed;

static og_status out_of_range(const og_run *run, int64_t index, int64_t size) {
  return og_run_fail(run, OG_INVALID,
                     "index %" PRId64
                     " is out of range for a dim of size "
                     "%" PRId64,
                     index, size);
}

// Negative indices count from the end.
static bool index_wrap(int64_t size, int64_t *index) {
  if (*index < 0) *index += size;
  return *index >= 0 && *index < size;
}

// Reads the position of element `index`, counted row-major.
static void position(const og_tensor *tensor, int64_t index, int64_t *out) {
  for (int32_t d = tensor->ndim - 1; d >= 0; --d) {
    out[d] = index % tensor->shape[d];
    index /= tensor->shape[d];
  }
}

static char *element(const og_tensor *tensor, const int64_t *at) {
  int64_t offset = 0;
  for (int32_t d = 0; d < tensor->ndim; ++d)
    offset += at[d] * tensor->strides[d];
  return og_bytes(tensor) + offset * og_item_bytes(tensor);
}

static void element_add(og_dtype dtype, char *to, const char *from,
                        double alpha) {
  if (og_dtype_class(dtype) == OG_CLASS_I64)
    og_element_set_int(dtype, to,
                       (int64_t)((uint64_t)og_element_int(dtype, to) +
                                 (uint64_t)(int64_t)alpha *
                                     (uint64_t)og_element_int(dtype, from)));
  else
    og_element_set_double(
        dtype, to,
        og_element_double(dtype, to) + alpha * og_element_double(dtype, from));
}

static og_status same_types(og_prep *prep, const og_tensor *a,
                            const og_tensor *b) {
  if (a != NULL && b != NULL && og_dtype_equal(a->dtype, b->dtype))
    return OG_OK;
  return og_prep_wrong(prep, "its operands and result differ in type");
}

// --- gather, scatter ---------------------------------------------------------

static og_status run_gather(void *state, const og_run *run) {
  const indexed *s = state;
  const og_tensor *in = s->ref.in[0], *index = s->ref.in[1];
  const og_tensor *out = s->ref.out[0];
  int64_t at[OPGRAFT_RANK_MAX] = {0}, from[OPGRAFT_RANK_MAX] = {0};
  const int64_t size = in->ndim > 0 ? in->shape[s->dim] : 1;
  for (int64_t i = 0; i < og_numel(out); ++i) {
    position(out, i, at);
    memcpy(from, at, sizeof from);
    int64_t chosen = og_element_int(index->dtype, element(index, at));
    if (!index_wrap(size, &chosen)) return out_of_range(run, chosen, size);
    from[s->dim] = chosen;
    memcpy(element(out, at), element(in, from), (size_t)og_item_bytes(out));
  }
  return OG_OK;
}

// The index may not reach beyond the tensor in the other dims.
static og_status index_check(og_prep *prep, const og_tensor *index,
                             const og_tensor *tensor, int32_t dim) {
  OG_TRY(og_need_int(prep, index));
  bool fits = index->ndim == tensor->ndim;
  for (int32_t d = 0; fits && d < index->ndim; ++d)
    fits = d == dim || index->shape[d] <= tensor->shape[d];
  return fits ? OG_OK : og_prep_wrong(prep, "the shapes do not fit");
}

og_status og_prepare_gather(og_prep *prep) {
  indexed *s = og_ref_begin(prep, sizeof *s, run_gather);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(same_types(prep, prep->in[0], prep->out[0]));
  OG_TRY(og_prep_dim(prep, 0, prep->in[0]->ndim, &s->dim));
  OG_TRY(og_need_int(prep, prep->in[1]));
  if (!og_same_shape(prep->in[1], prep->out[0]))
    return og_prep_wrong(prep, "its result has the shape of the index");
  return index_check(prep, prep->in[1], prep->in[0], s->dim);
}

static og_status run_scatter(void *state, const og_run *run) {
  const indexed *s = state;
  const og_tensor *index = s->ref.in[1], *source = s->ref.in[2];
  const og_tensor *out = s->ref.out[0];
  int64_t at[OPGRAFT_RANK_MAX] = {0}, to[OPGRAFT_RANK_MAX] = {0};
  const int64_t size = out->ndim > 0 ? out->shape[s->dim] : 1;
  og_update_start(&s->ref);
  for (int64_t i = 0; i < og_numel(index); ++i) {
    position(index, i, at);
    memcpy(to, at, sizeof to);
    int64_t chosen = og_element_int(index->dtype, element(index, at));
    if (!index_wrap(size, &chosen)) return out_of_range(run, chosen, size);
    to[s->dim] = chosen;
    const char *from = element(source, at);
    if (s->adds)
      element_add(out->dtype, element(out, to), from, 1);
    else
      memcpy(element(out, to), from, (size_t)og_item_bytes(out));
  }
  return OG_OK;
}

og_status og_prepare_scatter(og_prep *prep) {
  indexed *s = og_ref_begin(prep, sizeof *s, run_scatter);
  if (s == NULL) return OG_MEMORY;
  s->adds = prep->node->op == OG_IR_scatter_add;
  OG_TRY(same_types(prep, prep->in[0], prep->out[0]));
  OG_TRY(same_types(prep, prep->in[2], prep->out[0]));
  OG_TRY(og_prep_dim(prep, 0, prep->out[0]->ndim, &s->dim));
  OG_TRY(og_need_int(prep, prep->in[1]));
  OG_TRY(index_check(prep, prep->in[1], prep->out[0], s->dim));
  return index_check(prep, prep->in[1], prep->in[2], -1) == OG_OK &&
                 og_same_shape(prep->in[0], prep->out[0])
             ? OG_OK
             : og_prep_wrong(prep, "the shapes do not fit");
}

// --- One index vector for one dim --------------------------------------------

// The part of a tensor at one place along a dim.
static og_tensor slice(const og_tensor *tensor, int32_t dim, int64_t index) {
  og_tensor part = *tensor;
  part.data = og_bytes(tensor);
  part.byte_offset = 0;
  if (tensor->ndim > 0)
    part.data = (char *)part.data +
                index * tensor->strides[dim] * og_item_bytes(tensor);
  return part;
}

// Copies or adds a slice, of which `sizes` has a 1 in the dim.
static void slice_move(const indexed *s, const og_tensor *to,
                       const og_tensor *from, int64_t *sizes) {
  og_tensor target = *to, source = *from;
  target.shape = source.shape = sizes;
  if (!s->adds) {
    og_copy_elements(&target, &source);
    return;
  }
  int64_t at[OPGRAFT_RANK_MAX];
  for (int64_t i = 0; i < og_numel(&target); ++i) {
    position(&target, i, at);
    element_add(to->dtype, element(&target, at), element(&source, at),
                s->alpha);
  }
}

static int64_t index_at(const og_tensor *index, int64_t i) {
  const int64_t stride = index->ndim > 0 ? index->strides[0] : 0;
  return og_element_int(index->dtype,
                        og_bytes(index) + i * stride * og_item_bytes(index));
}

static void sizes_without(const og_tensor *tensor, int32_t dim, int64_t *out) {
  for (int32_t d = 0; d < tensor->ndim; ++d)
    out[d] = d == dim ? 1 : tensor->shape[d];
}

static og_status run_index_select(void *state, const og_run *run) {
  const indexed *s = state;
  const og_tensor *in = s->ref.in[0], *out = s->ref.out[0];
  const og_tensor *index = s->ref.in[1];
  int64_t sizes[OPGRAFT_RANK_MAX];
  const int64_t size = in->ndim > 0 ? in->shape[s->dim] : 1;
  sizes_without(in, s->dim, sizes);
  for (int64_t i = 0; i < og_numel(index); ++i) {
    int64_t chosen = index_at(index, i);
    if (!index_wrap(size, &chosen)) return out_of_range(run, chosen, size);
    const og_tensor to = slice(out, s->dim, i);
    const og_tensor from = slice(in, s->dim, chosen);
    slice_move(s, &to, &from, sizes);
  }
  return OG_OK;
}

// Equal but for the dim, along which `part` has as many as the index.
static og_status select_check(og_prep *prep, const og_tensor *whole,
                              const og_tensor *part, const og_tensor *index,
                              int32_t dim) {
  OG_TRY(og_need_int(prep, index));
  OG_TRY(same_types(prep, whole, part));
  bool fits = whole->ndim == part->ndim && index->ndim <= 1;
  for (int32_t d = 0; fits && d < whole->ndim; ++d)
    fits = part->shape[d] == (d == dim ? og_numel(index) : whole->shape[d]);
  if (part->ndim == 0) fits = fits && og_numel(index) == 1;
  return fits ? OG_OK : og_prep_wrong(prep, "the shapes do not fit");
}

og_status og_prepare_index_select(og_prep *prep) {
  indexed *s = og_ref_begin(prep, sizeof *s, run_index_select);
  if (s == NULL) return OG_MEMORY;
  if (prep->in[0] == NULL)
    return og_prep_wrong(prep, "an operand that it needs is none");
  OG_TRY(og_prep_dim(prep, 0, prep->in[0]->ndim, &s->dim));
  return select_check(prep, prep->in[0], prep->out[0], prep->in[1], s->dim);
}

static og_status run_index_add(void *state, const og_run *run) {
  const indexed *s = state;
  const og_tensor *index = s->ref.in[1], *source = s->ref.in[2];
  const og_tensor *out = s->ref.out[0];
  int64_t sizes[OPGRAFT_RANK_MAX];
  const int64_t size = out->ndim > 0 ? out->shape[s->dim] : 1;
  og_update_start(&s->ref);
  sizes_without(out, s->dim, sizes);
  for (int64_t i = 0; i < og_numel(index); ++i) {
    int64_t chosen = index_at(index, i);
    if (!index_wrap(size, &chosen)) return out_of_range(run, chosen, size);
    const og_tensor to = slice(out, s->dim, chosen);
    const og_tensor from = slice(source, s->dim, i);
    slice_move(s, &to, &from, sizes);
  }
  return OG_OK;
}

og_status og_prepare_index_add(og_prep *prep) {
  indexed *s = og_ref_begin(prep, sizeof *s, run_index_add);
  if (s == NULL) return OG_MEMORY;
  s->adds = true;
  OG_TRY(og_prep_dim(prep, 0, prep->out[0]->ndim, &s->dim));
  OG_TRY(og_prep_float(prep, 1, 1, &s->alpha));
  OG_TRY(same_types(prep, prep->in[0], prep->out[0]));
  OG_TRY(select_check(prep, prep->out[0], prep->in[2], prep->in[1], s->dim));
  return og_same_shape(prep->in[0], prep->out[0])
             ? OG_OK
             : og_prep_wrong(prep, "the shapes do not fit");
}

// --- Embeddings --------------------------------------------------------------

// weight [V, D], index [..] -> [.., D]
static og_status run_embedding(void *state, const og_run *run) {
  const indexed *s = state;
  const og_tensor *weight = s->ref.in[0], *index = s->ref.in[1];
  const og_tensor *out = s->ref.out[0];
  int64_t at[OPGRAFT_RANK_MAX] = {0};
  int64_t width[1] = {weight->shape[1]};
  og_tensor to = *out, from = *weight;
  to.ndim = from.ndim = 1;
  to.shape = from.shape = width;
  to.strides = out->strides + out->ndim - 1;
  from.strides = weight->strides + 1;
  to.byte_offset = from.byte_offset = 0;
  for (int64_t i = 0; i < og_numel(index); ++i) {
    position(index, i, at);
    const int64_t chosen = og_element_int(index->dtype, element(index, at));
    if (chosen < 0 || chosen >= weight->shape[0])
      return out_of_range(run, chosen, weight->shape[0]);
    at[index->ndim] = 0;
    to.data = element(out, at);
    from.data =
        og_bytes(weight) + chosen * weight->strides[0] * og_item_bytes(weight);
    og_copy_elements(&to, &from);
  }
  return OG_OK;
}

static og_status embedding_check(og_prep *prep, const og_tensor *table,
                                 const og_tensor *index,
                                 const og_tensor *rows) {
  OG_TRY(og_need_int(prep, index));
  OG_TRY(same_types(prep, table, rows));
  bool fits = table->ndim == 2 && rows->ndim == index->ndim + 1 &&
              rows->shape[index->ndim] == table->shape[1];
  for (int32_t d = 0; fits && d < index->ndim; ++d)
    fits = rows->shape[d] == index->shape[d];
  return fits ? OG_OK : og_prep_wrong(prep, "the shapes do not fit");
}

og_status og_prepare_embedding(og_prep *prep) {
  if (og_ref_begin(prep, sizeof(indexed), run_embedding) == NULL)
    return OG_MEMORY;
  return embedding_check(prep, prep->in[0], prep->in[1], prep->out[0]);
}

// grad [.., D], index [..] -> [V, D]; rows sum in double.
typedef struct embedding_backward {
  indexed base;
  double *sums;
  double *row;
} embedding_backward;

static og_status run_embedding_backward(void *state, const og_run *run) {
  const embedding_backward *s = state;
  const og_tensor *grad = s->base.ref.in[0], *index = s->base.ref.in[1];
  const og_tensor *out = s->base.ref.out[0];
  const int64_t width = out->shape[1];
  int64_t at[OPGRAFT_RANK_MAX] = {0};
  memset(s->sums, 0, (size_t)og_numel(out) * sizeof(double));
  for (int64_t i = 0; i < og_numel(index); ++i) {
    position(index, i, at);
    const int64_t chosen = og_element_int(index->dtype, element(index, at));
    if (chosen == s->base.skip) continue;
    if (chosen < 0 || chosen >= out->shape[0])
      return out_of_range(run, chosen, out->shape[0]);
    at[index->ndim] = 0;
    og_get_doubles(grad, element(grad, at),
                   grad->strides[grad->ndim - 1] * og_item_bytes(grad), width,
                   s->row);
    for (int64_t j = 0; j < width; ++j)
      s->sums[chosen * width + j] += s->row[j];
  }
  og_put_all(out, s->sums);
  return OG_OK;
}

og_status og_prepare_embedding_backward(og_prep *prep) {
  embedding_backward *s = og_ref_begin(prep, sizeof *s, run_embedding_backward);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_prep_int(prep, 0, -1, &s->base.skip));
  OG_TRY(embedding_check(prep, prep->out[0], prep->in[1], prep->in[0]));
  OG_TRY(og_need_float(prep, prep->out[0]));
  const int64_t total = og_numel(prep->out[0]);
  s->sums = og_prep_doubles(prep, total + prep->out[0]->shape[1]);
  if (s->sums == NULL) return og_prep_memory(prep);
  s->row = s->sums + total;
  return OG_OK;
}

// --- index and index_put: several index tensors ------------------------------

// Where an element of the values stands in the indexed tensor; false with the
// index if it is out of range.
static bool indexed_position(const indexed *s, const og_tensor *whole,
                             const int64_t *at, int64_t *out, int64_t *bad,
                             int64_t *bad_size) {
  int32_t j = 0;  // the next dim of `at` that is not the indices'
  int32_t k = 0;  // the next index
  for (int32_t d = 0; d < whole->ndim; ++d) {
    if (k < s->dim_count && s->dims[k] == d) {
      const og_tensor *index = s->indices[k++];
      int64_t inner[OPGRAFT_RANK_MAX];
      for (int32_t i = 0; i < index->ndim; ++i) {
        const int32_t from = s->index_rank - index->ndim + i;
        inner[i] = index->shape[i] == 1 ? 0 : at[s->first + from];
      }
      out[d] = og_element_int(index->dtype, element(index, inner));
      *bad = out[d];
      *bad_size = whole->shape[d];
      if (!index_wrap(whole->shape[d], &out[d])) return false;
      continue;
    }
    if (j == s->first) j += s->index_rank;
    out[d] = at[j++];
  }
  return true;
}

static og_status run_index(void *state, const og_run *run) {
  const indexed *s = state;
  const og_tensor *in = s->ref.in[0], *out = s->ref.out[0];
  int64_t at[OPGRAFT_RANK_MAX], from[OPGRAFT_RANK_MAX], bad, size;
  for (int64_t i = 0; i < og_numel(out); ++i) {
    position(out, i, at);
    if (!indexed_position(s, in, at, from, &bad, &size))
      return out_of_range(run, bad, size);
    memcpy(element(out, at), element(in, from), (size_t)og_item_bytes(out));
  }
  return OG_OK;
}

static og_status run_index_put(void *state, const og_run *run) {
  const indexed *s = state;
  const og_tensor *out = s->ref.out[0], *values = s->ref.in[1];
  int64_t at[OPGRAFT_RANK_MAX], to[OPGRAFT_RANK_MAX], from[OPGRAFT_RANK_MAX];
  int64_t bad, size;
  og_update_start(&s->ref);
  for (int64_t i = 0; i < og_numel(&s->reach); ++i) {
    position(&s->reach, i, at);
    if (!indexed_position(s, out, at, to, &bad, &size))
      return out_of_range(run, bad, size);
    for (int32_t d = 0; d < values->ndim; ++d)
      from[d] =
          values->shape[d] == 1 ? 0 : at[s->reach.ndim - values->ndim + d];
    if (s->adds)
      element_add(out->dtype, element(out, to), element(values, from), 1);
    else
      memcpy(element(out, to), element(values, from),
             (size_t)og_item_bytes(out));
  }
  return OG_OK;
}

// The shape that the indices broadcast to.
static og_status indices_broadcast(og_prep *prep, indexed *s) {
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
static og_status indices_read(og_prep *prep, indexed *s, const og_tensor *whole,
                              int32_t skipped) {
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

og_status og_prepare_index(og_prep *prep) {
  indexed *s = og_ref_begin(prep, sizeof *s, run_index);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(same_types(prep, prep->in[0], prep->out[0]));
  OG_TRY(indices_read(prep, s, prep->in[0], 1));
  return og_same_shape(&s->reach, prep->out[0])
             ? OG_OK
             : og_prep_wrong(prep,
                             "its result has not the shape that the "
                             "indices give");
}

og_status og_prepare_index_put(og_prep *prep) {
  int64_t adds;
  indexed *s = og_ref_begin(prep, sizeof *s, run_index_put);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_prep_int(prep, 0, 0, &adds));
  s->adds = adds != 0;
  OG_TRY(same_types(prep, prep->in[0], prep->out[0]));
  OG_TRY(same_types(prep, prep->in[1], prep->out[0]));
  OG_TRY(indices_read(prep, s, prep->out[0], 2));
  const og_tensor *values = prep->in[1];
  bool fits =
      values->ndim <= s->reach.ndim && og_same_shape(prep->in[0], prep->out[0]);
  for (int32_t d = 0; fits && d < values->ndim; ++d) {
    const int64_t size = s->reach.shape[s->reach.ndim - values->ndim + d];
    fits = values->shape[d] == size || values->shape[d] == 1;
  }
  return fits ? OG_OK : og_prep_wrong(prep, "the shapes do not fit");
}
