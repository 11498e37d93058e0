// SPDX-License-Identifier: Apache-2.0
// Reference kernels that read or write by index. An index out of range is an
// error with its value; nothing is written outside.

#include <string.h>

#include "base/grain.h"
#include "exec/step/indexed.h"

typedef struct indexed {
  og_operands io;
  int32_t dim;
  bool adds;
  double alpha;
  double *sums;  // what f16 and bf16 add up to, dense; NULL: in the result
  int64_t skip;  // an index that is passed over, or a negative number
} indexed;

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
    og_element_add(out->dtype, og_element_at(out, to), from, s->alpha);
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

// Where element i of the index stands, and the place in `whole` that it names.
static og_status place_of(const indexed *s, const og_run *run,
                          const og_tensor *whole, int64_t i, int64_t *at,
                          int64_t *place) {
  const og_tensor *index = s->io.in[1];
  const int64_t size = whole->ndim > 0 ? whole->shape[s->dim] : 1;
  og_position_of(index, i, at);
  memcpy(place, at, OPGRAFT_RANK_MAX * sizeof *place);
  const int64_t chosen = og_element_int(index->dtype, og_element_at(index, at));
  OG_TRY(og_index_check(run, chosen, size));
  place[s->dim] = chosen;
  return OG_OK;
}

static og_status run_gather(void *state, const og_run *run) {
  const indexed *s = state;
  const og_tensor *in = s->io.in[0], *out = s->io.out[0];
  int64_t at[OPGRAFT_RANK_MAX] = {0}, from[OPGRAFT_RANK_MAX] = {0};
  for (int64_t i = 0; i < og_numel(out); ++i) {
    OG_TRY(place_of(s, run, in, i, at, from));
    memcpy(og_element_at(out, at), og_element_at(in, from),
           (size_t)og_item_bytes(out));
  }
  return OG_OK;
}

og_status og_prepare_gather(og_prep *prep) {
  indexed *s = og_state_begin(prep, sizeof *s, run_gather);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_need_same_type(prep, prep->in[0], prep->out[0]));
  OG_TRY(og_prep_dim(prep, 0, prep->in[0]->ndim, &s->dim));
  OG_TRY(og_need_int(prep, prep->in[1]));
  if (!og_same_shape(prep->in[1], prep->out[0]))
    return og_prep_wrong(prep, "its result has the shape of the index");
  return og_index_fits(prep->in[1], prep->in[0], s->dim) ? OG_OK
                                                         : og_prep_misfit(prep);
}

static og_status run_scatter(void *state, const og_run *run) {
  const indexed *s = state;
  const og_tensor *source = s->io.in[2], *out = s->io.out[0];
  int64_t at[OPGRAFT_RANK_MAX] = {0}, to[OPGRAFT_RANK_MAX] = {0};
  sums_begin(s);
  for (int64_t i = 0; i < og_numel(s->io.in[1]); ++i) {
    OG_TRY(place_of(s, run, out, i, at, to));
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
  OG_TRY(og_need_same_type(prep, prep->in[0], prep->out[0]));
  OG_TRY(og_need_same_type(prep, prep->in[2], prep->out[0]));
  OG_TRY(og_prep_dim(prep, 0, prep->out[0]->ndim, &s->dim));
  OG_TRY(og_need_int(prep, prep->in[1]));
  if (!og_index_fits(prep->in[1], prep->out[0], s->dim) ||
      !og_index_fits(prep->in[1], prep->in[2], -1) ||
      !og_same_shape(prep->in[0], prep->out[0]))
    return og_prep_misfit(prep);
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
    const int64_t chosen = index_at(index, i);
    OG_TRY(og_index_check(run, chosen, size));
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
  OG_TRY(og_need_same_type(prep, whole, part));
  bool fits = whole->ndim == part->ndim && index->ndim <= 1;
  for (int32_t d = 0; fits && d < whole->ndim; ++d)
    fits = part->shape[d] == (d == dim ? og_numel(index) : whole->shape[d]);
  if (part->ndim == 0) fits = fits && og_numel(index) == 1;
  return fits ? OG_OK : og_prep_misfit(prep);
}

og_status og_prepare_index_select(og_prep *prep) {
  indexed *s = og_state_begin(prep, sizeof *s, run_index_select);
  if (s == NULL) return OG_MEMORY;
  if (prep->in[0] == NULL)
    return og_prep_wrong(prep, "an operand that it needs is missing");
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
    const int64_t chosen = index_at(index, i);
    OG_TRY(og_index_check(run, chosen, size));
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
  OG_TRY(og_need_same_type(prep, prep->in[0], prep->out[0]));
  OG_TRY(select_check(prep, prep->out[0], prep->in[2], prep->in[1], s->dim));
  if (!og_same_shape(prep->in[0], prep->out[0])) return og_prep_misfit(prep);
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
    OG_TRY(og_index_check(run, chosen, weight->shape[0]));
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
  OG_TRY(og_need_same_type(prep, table, rows));
  bool fits = table->ndim == 2 && rows->ndim == index->ndim + 1 &&
              rows->shape[index->ndim] == table->shape[1];
  for (int32_t d = 0; fits && d < index->ndim; ++d)
    fits = rows->shape[d] == index->shape[d];
  return fits ? OG_OK : og_prep_misfit(prep);
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
    OG_TRY(og_index_check(run, chosen, size));
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
  return og_run_parallel(run, out->shape[0],
                         og_grain(OG_GRAIN_LIGHT, out->shape[1]), share_table,
                         state);
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
