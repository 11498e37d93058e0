// SPDX-License-Identifier: Apache-2.0
// Reference kernels that read or write by index. An index out of range is an
// error with its value; nothing is written outside.

#include <inttypes.h>
#include <string.h>

#include "call/call.h"
#include "exec/step/loops.h"
#include "exec/step/operands.h"

typedef struct indexed {
  og_operands io;
  int32_t dim;
  bool adds;
  double alpha;
  double *sums;  // what f16 and bf16 add up to, dense; NULL: in the result
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

static void element_add(og_dtype dtype, char *to, const char *from,
                        double alpha) {
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

static og_status same_types(og_prep *prep, const og_tensor *a,
                            const og_tensor *b) {
  if (a != NULL && b != NULL && og_dtype_equal(a->dtype, b->dtype))
    return OG_OK;
  return og_prep_wrong(prep, "its operands and result differ in type");
}

// --- Adding to a result ------------------------------------------------------

// Sums of 16-bit types would round at every step.
static og_status sums_prepare(og_prep *prep, indexed *s) {
  const og_tensor *out = prep->out[0];
  if (!og_is_float(out) || out->dtype.bits != 16) return OG_OK;
  s->sums = og_prep_doubles(prep, og_numel(out));
  return s->sums != NULL ? OG_OK : og_prep_memory(prep);
}

static void sums_begin(const indexed *s) {
  og_update_start(&s->io);
  if (s->sums != NULL) og_get_all(s->io.out[0], s->sums);
}

static void sums_add(const indexed *s, const int64_t *to, const char *from) {
  const og_tensor *out = s->io.out[0];
  if (s->sums == NULL) {
    element_add(out->dtype, og_element_at(out, to), from, s->alpha);
    return;
  }
  int64_t place = 0;
  for (int32_t d = 0; d < out->ndim; ++d) place = place * out->shape[d] + to[d];
  s->sums[place] += s->alpha * og_element_double(out->dtype, from);
}

static void sums_end(const indexed *s) {
  if (s->sums != NULL) og_put_all(s->io.out[0], s->sums);
}

// --- gather, scatter ---------------------------------------------------------

static og_status run_gather(void *state, const og_run *run) {
  const indexed *s = state;
  const og_tensor *in = s->io.in[0], *index = s->io.in[1];
  const og_tensor *out = s->io.out[0];
  int64_t at[OPGRAFT_RANK_MAX] = {0}, from[OPGRAFT_RANK_MAX] = {0};
  const int64_t size = in->ndim > 0 ? in->shape[s->dim] : 1;
  for (int64_t i = 0; i < og_numel(out); ++i) {
    og_position_of(out, i, at);
    memcpy(from, at, sizeof from);
    int64_t chosen = og_element_int(index->dtype, og_element_at(index, at));
    if (!index_wrap(size, &chosen)) return out_of_range(run, chosen, size);
    from[s->dim] = chosen;
    memcpy(og_element_at(out, at), og_element_at(in, from),
           (size_t)og_item_bytes(out));
  }
  return OG_OK;
}

og_status og_prepare_gather(og_prep *prep) {
  indexed *s = og_state_begin(prep, sizeof *s, run_gather);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(same_types(prep, prep->in[0], prep->out[0]));
  OG_TRY(og_prep_dim(prep, 0, prep->in[0]->ndim, &s->dim));
  OG_TRY(og_need_int(prep, prep->in[1]));
  if (!og_same_shape(prep->in[1], prep->out[0]))
    return og_prep_wrong(prep, "its result has the shape of the index");
  return og_index_fits(prep->in[1], prep->in[0], s->dim)
             ? OG_OK
             : og_prep_wrong(prep, "the shapes do not fit");
}

static og_status run_scatter(void *state, const og_run *run) {
  const indexed *s = state;
  const og_tensor *index = s->io.in[1], *source = s->io.in[2];
  const og_tensor *out = s->io.out[0];
  int64_t at[OPGRAFT_RANK_MAX] = {0}, to[OPGRAFT_RANK_MAX] = {0};
  const int64_t size = out->ndim > 0 ? out->shape[s->dim] : 1;
  sums_begin(s);
  for (int64_t i = 0; i < og_numel(index); ++i) {
    og_position_of(index, i, at);
    memcpy(to, at, sizeof to);
    int64_t chosen = og_element_int(index->dtype, og_element_at(index, at));
    if (!index_wrap(size, &chosen)) return out_of_range(run, chosen, size);
    to[s->dim] = chosen;
    const char *from = og_element_at(source, at);
    if (s->adds)
      sums_add(s, to, from);
    else
      memcpy(og_element_at(out, to), from, (size_t)og_item_bytes(out));
  }
  sums_end(s);
  return OG_OK;
}

og_status og_prepare_scatter(og_prep *prep) {
  indexed *s = og_state_begin(prep, sizeof *s, run_scatter);
  if (s == NULL) return OG_MEMORY;
  s->adds = prep->node->op == OG_IR_scatter_add;
  s->alpha = 1;
  OG_TRY(same_types(prep, prep->in[0], prep->out[0]));
  OG_TRY(same_types(prep, prep->in[2], prep->out[0]));
  OG_TRY(og_prep_dim(prep, 0, prep->out[0]->ndim, &s->dim));
  OG_TRY(og_need_int(prep, prep->in[1]));
  if (!og_index_fits(prep->in[1], prep->out[0], s->dim) ||
      !og_index_fits(prep->in[1], prep->in[2], -1) ||
      !og_same_shape(prep->in[0], prep->out[0]))
    return og_prep_wrong(prep, "the shapes do not fit");
  return s->adds ? sums_prepare(prep, s) : OG_OK;
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

// Copies a slice, of which `sizes` has a 1 in the dim.
static void slice_copy(const og_tensor *to, const og_tensor *from,
                       int64_t *sizes) {
  og_tensor target = *to, source = *from;
  target.shape = source.shape = sizes;
  og_copy_elements(&target, &source);
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
  const og_tensor *in = s->io.in[0], *out = s->io.out[0];
  const og_tensor *index = s->io.in[1];
  int64_t sizes[OPGRAFT_RANK_MAX];
  const int64_t size = in->ndim > 0 ? in->shape[s->dim] : 1;
  sizes_without(in, s->dim, sizes);
  for (int64_t i = 0; i < og_numel(index); ++i) {
    int64_t chosen = index_at(index, i);
    if (!index_wrap(size, &chosen)) return out_of_range(run, chosen, size);
    const og_tensor to = slice(out, s->dim, i);
    const og_tensor from = slice(in, s->dim, chosen);
    slice_copy(&to, &from, sizes);
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
  indexed *s = og_state_begin(prep, sizeof *s, run_index_select);
  if (s == NULL) return OG_MEMORY;
  if (prep->in[0] == NULL)
    return og_prep_wrong(prep, "an operand that it needs is none");
  OG_TRY(og_prep_dim(prep, 0, prep->in[0]->ndim, &s->dim));
  return select_check(prep, prep->in[0], prep->out[0], prep->in[1], s->dim);
}

static og_status run_index_add(void *state, const og_run *run) {
  const indexed *s = state;
  const og_tensor *index = s->io.in[1], *source = s->io.in[2];
  const og_tensor *out = s->io.out[0];
  int64_t sizes[OPGRAFT_RANK_MAX], at[OPGRAFT_RANK_MAX] = {0};
  const int64_t size = out->ndim > 0 ? out->shape[s->dim] : 1;
  sizes_without(out, s->dim, sizes);
  og_tensor part = *out;  // the places of one slice
  part.shape = sizes;
  const int64_t places = og_numel(&part);
  sums_begin(s);
  for (int64_t i = 0; i < og_numel(index); ++i) {
    int64_t chosen = index_at(index, i);
    if (!index_wrap(size, &chosen)) return out_of_range(run, chosen, size);
    for (int64_t j = 0; j < places; ++j) {
      og_position_of(&part, j, at);
      at[s->dim] = i;
      const char *from = og_element_at(source, at);
      at[s->dim] = chosen;
      sums_add(s, at, from);
    }
  }
  sums_end(s);
  return OG_OK;
}

og_status og_prepare_index_add(og_prep *prep) {
  indexed *s = og_state_begin(prep, sizeof *s, run_index_add);
  if (s == NULL) return OG_MEMORY;
  s->adds = true;
  OG_TRY(og_prep_dim(prep, 0, prep->out[0]->ndim, &s->dim));
  OG_TRY(og_prep_float(prep, 1, 1, &s->alpha));
  OG_TRY(same_types(prep, prep->in[0], prep->out[0]));
  OG_TRY(select_check(prep, prep->out[0], prep->in[2], prep->in[1], s->dim));
  if (!og_same_shape(prep->in[0], prep->out[0]))
    return og_prep_wrong(prep, "the shapes do not fit");
  return sums_prepare(prep, s);
}

// --- Embeddings --------------------------------------------------------------

// weight [V, D], index [..] -> [.., D]
static og_status run_embedding(void *state, const og_run *run) {
  const indexed *s = state;
  const og_tensor *weight = s->io.in[0], *index = s->io.in[1];
  const og_tensor *out = s->io.out[0];
  int64_t at[OPGRAFT_RANK_MAX] = {0};
  int64_t width[1] = {weight->shape[1]};
  og_tensor to = *out, from = *weight;
  to.ndim = from.ndim = 1;
  to.shape = from.shape = width;
  to.strides = out->strides + out->ndim - 1;
  from.strides = weight->strides + 1;
  to.byte_offset = from.byte_offset = 0;
  for (int64_t i = 0; i < og_numel(index); ++i) {
    og_position_of(index, i, at);
    const int64_t chosen =
        og_element_int(index->dtype, og_element_at(index, at));
    if (chosen < 0 || chosen >= weight->shape[0])
      return out_of_range(run, chosen, weight->shape[0]);
    at[index->ndim] = 0;
    to.data = og_element_at(out, at);
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
  if (og_state_begin(prep, sizeof(indexed), run_embedding) == NULL)
    return OG_MEMORY;
  return embedding_check(prep, prep->in[0], prep->in[1], prep->out[0]);
}

// grad [.., D], index [..] -> [V, D]. Each row of the table has a chain of the
// places that chose it: the table is written once, and sums are in double.
typedef struct embedding_backward {
  indexed base;
  int64_t *first;  // by row: the first place that chose it, or -1
  int64_t *next;   // by place: the next one of the same row, or -1
  double *rows;    // by worker: the sum, and what is added to it
} embedding_backward;

static og_status chains_make(const embedding_backward *s, const og_run *run) {
  const og_tensor *index = s->base.io.in[1];
  const int64_t size = s->base.io.out[0]->shape[0];
  int64_t at[OPGRAFT_RANK_MAX] = {0};
  for (int64_t v = 0; v < size; ++v) s->first[v] = -1;
  for (int64_t i = og_numel(index) - 1; i >= 0; --i) {
    og_position_of(index, i, at);
    const int64_t chosen =
        og_element_int(index->dtype, og_element_at(index, at));
    if (chosen == s->base.skip) continue;
    if (chosen < 0 || chosen >= size) return out_of_range(run, chosen, size);
    s->next[i] = s->first[chosen];
    s->first[chosen] = i;
  }
  return OG_OK;
}

static void share_table(void *state, int64_t begin, int64_t end,
                        int32_t worker) {
  const embedding_backward *s = state;
  const og_tensor *grad = s->base.io.in[0], *out = s->base.io.out[0];
  const int64_t width = out->shape[1], item = og_item_bytes(out);
  const int64_t stride = grad->strides[grad->ndim - 1] * og_item_bytes(grad);
  double *sum = s->rows + 2 * worker * width, *row = sum + width;
  int64_t at[OPGRAFT_RANK_MAX] = {0};
  for (int64_t v = begin; v < end; ++v) {
    char *to = og_bytes(out) + v * out->strides[0] * item;
    if (s->first[v] < 0 && out->strides[1] == 1) {
      memset(to, 0, (size_t)(width * item));
      continue;
    }
    memset(sum, 0, (size_t)width * sizeof *sum);
    for (int64_t i = s->first[v]; i >= 0; i = s->next[i]) {
      og_position_of(s->base.io.in[1], i, at);
      at[grad->ndim - 1] = 0;
      og_get_doubles(grad, og_element_at(grad, at), stride, width, row);
      for (int64_t j = 0; j < width; ++j) sum[j] += row[j];
    }
    og_put_doubles(out, to, out->strides[1] * item, width, sum);
  }
}

static og_status run_embedding_backward(void *state, const og_run *run) {
  const embedding_backward *s = state;
  const og_tensor *out = s->base.io.out[0];
  OG_TRY(chains_make(s, run));
  return og_run_parallel(run, out->shape[0], 16384 / (out->shape[1] + 1) + 1,
                         share_table, state);
}

og_status og_prepare_embedding_backward(og_prep *prep) {
  embedding_backward *s =
      og_state_begin(prep, sizeof *s, run_embedding_backward);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_prep_int(prep, 0, -1, &s->base.skip));
  OG_TRY(embedding_check(prep, prep->out[0], prep->in[1], prep->in[0]));
  OG_TRY(og_need_float(prep, prep->out[0]));
  const int64_t size = prep->out[0]->shape[0];
  const int64_t places = og_numel(prep->in[1]);
  const int64_t rows = 2 * prep->executable->threads * prep->out[0]->shape[1];
  s->rows = og_prep_doubles(prep, rows + size + places);
  if (s->rows == NULL) return og_prep_memory(prep);
  s->first = (int64_t *)(void *)(s->rows + rows);
  s->next = s->first + size;
  return OG_OK;
}

// --- index and index_put: several index tensors ------------------------------

// What index k asks for at a point of the shape that the indices broadcast to.
static int64_t index_asked(const indexed *s, int32_t k, const int64_t *point) {
  const og_tensor *index = s->indices[k];
  int64_t at[OPGRAFT_RANK_MAX];
  for (int32_t i = 0; i < index->ndim; ++i)
    at[i] = index->shape[i] == 1 ? 0 : point[s->index_rank - index->ndim + i];
  return og_element_int(index->dtype, og_element_at(index, at));
}

// Where an element of the values stands in the indexed tensor; false with the
// index if it is out of range.
static bool indexed_position(const indexed *s, const og_tensor *whole,
                             const int64_t *at, int64_t *out, int64_t *bad,
                             int64_t *bad_size) {
  int32_t j = 0;  // the next dim of `at` that is not the indices'
  int32_t k = 0;  // the next index
  for (int32_t d = 0; d < whole->ndim; ++d) {
    if (k < s->dim_count && s->dims[k] == d) {
      out[d] = index_asked(s, k++, at + s->first);
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
  const og_tensor *in = s->io.in[0], *out = s->io.out[0];
  int64_t at[OPGRAFT_RANK_MAX], from[OPGRAFT_RANK_MAX], bad, size;
  for (int64_t i = 0; i < og_numel(out); ++i) {
    og_position_of(out, i, at);
    if (!indexed_position(s, in, at, from, &bad, &size))
      return out_of_range(run, bad, size);
    memcpy(og_element_at(out, at), og_element_at(in, from),
           (size_t)og_item_bytes(out));
  }
  return OG_OK;
}

static og_status run_index_put(void *state, const og_run *run) {
  const indexed *s = state;
  const og_tensor *out = s->io.out[0], *values = s->io.in[1];
  int64_t at[OPGRAFT_RANK_MAX], to[OPGRAFT_RANK_MAX], from[OPGRAFT_RANK_MAX];
  int64_t bad, size;
  og_update_start(&s->io);
  for (int64_t i = 0; i < og_numel(&s->reach); ++i) {
    og_position_of(&s->reach, i, at);
    if (!indexed_position(s, out, at, to, &bad, &size))
      return out_of_range(run, bad, size);
    for (int32_t d = 0; d < values->ndim; ++d)
      from[d] =
          values->shape[d] == 1 ? 0 : at[s->reach.ndim - values->ndim + d];
    if (s->adds)
      element_add(out->dtype, og_element_at(out, to),
                  og_element_at(values, from), 1);
    else
      memcpy(og_element_at(out, to), og_element_at(values, from),
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

// --- Indices that stand together, in dense tensors ---------------------------

// The indexed tensor is [outer, span, inner], and what the indices reach is
// [outer, picks, inner].
typedef struct picking {
  indexed base;
  const og_tensor *whole, *part;
  int64_t outer, span, picks, inner;
  int64_t *chosen;  // by pick: where in the span
} picking;

static og_status picks_find(const picking *s, const og_run *run) {
  const indexed *base = &s->base;
  const og_tensor shape = {.ndim = base->index_rank,
                           .shape = (int64_t *)(uintptr_t)base->index_shape};
  int64_t at[OPGRAFT_RANK_MAX];
  for (int64_t p = 0; p < s->picks; ++p) {
    og_position_of(&shape, p, at);
    s->chosen[p] = 0;
    for (int32_t k = 0; k < base->dim_count; ++k) {
      const int64_t size = s->whole->shape[base->dims[k]];
      const int64_t asked = index_asked(base, k, at);
      int64_t found = asked;
      if (!index_wrap(size, &found)) return out_of_range(run, asked, size);
      s->chosen[p] = s->chosen[p] * size + found;
    }
  }
  return OG_OK;
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
  return s->inner == 1 ? og_run_parallel(run, s->outer, 16384 / s->picks + 1,
                                         share_index, state)
                       : og_run_parallel(run, s->outer * s->picks,
                                         65536 / bytes + 1, share_index, state);
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
    return og_run_parallel(run, s->outer, 16384 / (s->picks * s->inner) + 1,
                           share_put_outer, state);
  return og_run_parallel(run, s->inner, 16384 / (s->picks * s->outer) + 16,
                         share_put_inner, state);
}

// Whether the node is of this kind; then the step is set.
static bool is_picking(og_prep *prep, picking *s, const og_tensor *whole,
                       const og_tensor *part, og_step_fn run) {
  const indexed *base = &s->base;
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
  if (s->chosen == NULL) return false;
  prep->step.run = run;
  return true;
}

og_status og_prepare_index(og_prep *prep) {
  picking *s = og_state_begin(prep, sizeof *s, run_index);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(same_types(prep, prep->in[0], prep->out[0]));
  OG_TRY(indices_read(prep, &s->base, prep->in[0], 1));
  if (!og_same_shape(&s->base.reach, prep->out[0]))
    return og_prep_wrong(prep,
                         "its result has not the shape that the indices give");
  if (is_picking(prep, s, prep->in[0], prep->out[0], run_picks)) return OG_OK;
  return prep->is_quick ? OG_UNSUPPORTED : OG_OK;
}

og_status og_prepare_index_put(og_prep *prep) {
  int64_t adds;
  picking *s = og_state_begin(prep, sizeof *s, run_index_put);
  if (s == NULL) return OG_MEMORY;
  const og_tensor *values = prep->in[1], *out = prep->out[0];
  indexed *base = &s->base;
  OG_TRY(og_prep_int(prep, 0, 0, &adds));
  base->adds = adds != 0;
  OG_TRY(same_types(prep, prep->in[0], out));
  OG_TRY(same_types(prep, values, out));
  OG_TRY(indices_read(prep, base, out, 2));
  bool fits =
      values->ndim <= base->reach.ndim && og_same_shape(prep->in[0], out);
  for (int32_t d = 0; fits && d < values->ndim; ++d) {
    const int64_t size = base->reach.shape[base->reach.ndim - values->ndim + d];
    fits = values->shape[d] == size || values->shape[d] == 1;
  }
  if (!fits) return og_prep_wrong(prep, "the shapes do not fit");
  const bool is_float = out->dtype.code == OG_CODE_FLOAT &&
                        out->dtype.bits == 32 && out->dtype.lanes == 1;
  if ((is_float || !base->adds) &&
      is_picking(prep, s, out, values, run_picks_put))
    return OG_OK;
  return prep->is_quick ? OG_UNSUPPORTED : OG_OK;
}
