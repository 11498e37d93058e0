// SPDX-License-Identifier: Apache-2.0
// Helpers of the reference kernels.

#include "exec/step/operands.h"

#include <stdio.h>
#include <string.h>

#include "call/call.h"

void *og_state_begin(og_prep *prep, size_t size_bytes, og_step_fn run) {
  og_operands *io = og_prep_alloc(prep, size_bytes);
  if (io == NULL) {
    og_prep_memory(prep);
    return NULL;
  }
  io->in = prep->in;
  io->out = prep->out;
  io->in_count = prep->node->in_count;
  io->out_count = prep->node->out_count;
  prep->step = (og_step){run, io};
  return io;
}

bool og_lines_init(og_lines *lines, int32_t dim,
                   const og_tensor *const *tensors, int32_t count) {
  og_tensor rest[OG_NEST_OPERANDS];
  const og_tensor *pointers[OG_NEST_OPERANDS];
  int64_t sizes[OG_NEST_OPERANDS][OPGRAFT_RANK_MAX];
  int64_t strides[OG_NEST_OPERANDS][OPGRAFT_RANK_MAX];
  for (int32_t k = 0; k < count; ++k) {
    const og_tensor *t = tensors[k];
    if (t->ndim != tensors[0]->ndim) return false;
    lines->length[k] = t->ndim > 0 ? t->shape[dim] : 1;
    lines->stride_bytes[k] =
        t->ndim > 0 ? t->strides[dim] * og_item_bytes(t) : 0;
    rest[k] = *t;
    rest[k].ndim = t->ndim > 0 ? t->ndim - 1 : 0;
    rest[k].shape = sizes[k];
    rest[k].strides = strides[k];
    for (int32_t d = 0, j = 0; d < t->ndim; ++d) {
      if (d == dim) continue;
      if (t->shape[d] != tensors[0]->shape[d]) return false;
      sizes[k][j] = t->shape[d];
      strides[k][j++] = t->strides[d];
    }
    pointers[k] = &rest[k];
  }
  if (!og_nest_init(&lines->nest, rest[0].ndim, sizes[0], pointers, count))
    return false;
  lines->count = og_nest_points(&lines->nest);
  return true;
}

int64_t og_nest_points(const og_nest *nest) {
  int64_t points = 1;
  for (int32_t d = 0; d < nest->ndim; ++d) points *= nest->size[d];
  return points;
}

void og_get_doubles(const og_tensor *tensor, const char *from,
                    int64_t stride_bytes, int64_t n, double *out) {
  og_load_find(tensor->dtype, OG_CLASS_F64)(n, out, from, stride_bytes);
}

void og_put_doubles(const og_tensor *tensor, char *to, int64_t stride_bytes,
                    int64_t n, const double *in) {
  og_store_find(tensor->dtype, OG_CLASS_F64)(n, to, stride_bytes, in);
}

// The byte offset of element `index`, counted row-major.
static int64_t element_offset(const og_tensor *tensor, int64_t index) {
  int64_t at = 0;
  for (int32_t d = tensor->ndim - 1; d >= 0; --d) {
    at += index % tensor->shape[d] * tensor->strides[d];
    index /= tensor->shape[d];
  }
  return at * og_item_bytes(tensor);
}

typedef void (*row_fn)(const og_tensor *tensor, char *at, int64_t stride_bytes,
                       int64_t n, void *numbers);

static void row_get(const og_tensor *tensor, char *at, int64_t stride_bytes,
                    int64_t n, void *numbers) {
  og_get_doubles(tensor, at, stride_bytes, n, numbers);
}

static void row_put(const og_tensor *tensor, char *at, int64_t stride_bytes,
                    int64_t n, void *numbers) {
  og_put_doubles(tensor, at, stride_bytes, n, numbers);
}

static void each_row(const og_tensor *tensor, double *numbers, row_fn fn) {
  const int64_t total = og_numel(tensor);
  const int32_t last = tensor->ndim - 1;
  if (total == 0) return;
  const int64_t width = last >= 0 ? tensor->shape[last] : 1;
  const int64_t stride = last >= 0 ? tensor->strides[last] : 1;
  for (int64_t i = 0; i < total; i += width)
    fn(tensor, og_bytes(tensor) + element_offset(tensor, i),
       stride * og_item_bytes(tensor), width, numbers + i);
}

void og_get_all(const og_tensor *tensor, double *out) {
  each_row(tensor, out, row_get);
}

void og_put_all(const og_tensor *tensor, const double *in) {
  each_row(tensor, (double *)(uintptr_t)in, row_put);
}

void og_position_of(const og_tensor *tensor, int64_t index, int64_t *out) {
  for (int32_t d = tensor->ndim - 1; d >= 0; --d) {
    out[d] = index % tensor->shape[d];
    index /= tensor->shape[d];
  }
}

char *og_element_at(const og_tensor *tensor, const int64_t *at) {
  int64_t offset = 0;
  for (int32_t d = 0; d < tensor->ndim; ++d)
    offset += at[d] * tensor->strides[d];
  return og_bytes(tensor) + offset * og_item_bytes(tensor);
}

void og_copy_elements(const og_tensor *to, const og_tensor *from) {
  if (og_bytes(to) != og_bytes(from) && og_numel(to) > 0)
    og_tensor_copy(to, from);
}

void og_update_start(const og_operands *io) {
  og_copy_elements(io->out[0], io->in[0]);
}

og_status og_need_float(og_prep *prep, const og_tensor *tensor) {
  if (tensor != NULL && og_is_float(tensor)) return OG_OK;
  return og_prep_wrong(prep, "it takes tensors of a float type here");
}

og_status og_need_int(og_prep *prep, const og_tensor *tensor) {
  if (tensor != NULL && og_is_int(tensor)) return OG_OK;
  return og_prep_wrong(prep, "it takes tensors of an integer type here");
}

og_status og_need_shape(og_prep *prep, const og_tensor *tensor, int32_t rank,
                        const int64_t *shape) {
  if (tensor == NULL) return og_prep_misfit(prep);
  bool fits = tensor->ndim == rank;
  for (int32_t d = 0; fits && d < rank; ++d)
    fits = tensor->shape[d] == shape[d];
  if (fits) return OG_OK;
  char found[80], expected[80], what[240];
  og_dims_text(tensor->shape, tensor->ndim, found, sizeof found);
  og_dims_text(shape, rank, expected, sizeof expected);
  snprintf(what, sizeof what, "found a tensor of shape %s, expected %s", found,
           expected);
  return og_prep_wrong(prep, what);
}

bool og_index_fits(const og_tensor *index, const og_tensor *tensor,
                   int32_t dim) {
  if (og_numel(index) == 0) return true;
  const int32_t rank = index->ndim > 0 ? index->ndim : 1;
  bool fits = rank == (tensor->ndim > 0 ? tensor->ndim : 1);
  for (int32_t d = 0; fits && d < rank; ++d)
    fits = d == dim || (d < index->ndim ? index->shape[d] : 1) <=
                           (d < tensor->ndim ? tensor->shape[d] : 1);
  return fits;
}

double *og_prep_doubles(og_prep *prep, int64_t count) {
  size_t bytes;
  if (!og_size_mul((size_t)count, sizeof(double), &bytes)) return NULL;
  return og_prep_scratch(prep, bytes);
}

size_t og_span_bytes(const og_tensor *tensor) {
  int64_t last = 0, dense = 1;
  for (int32_t d = tensor->ndim - 1; d >= 0; --d) {
    const int64_t stride = tensor->strides ? tensor->strides[d] : dense;
    if (tensor->shape[d] == 0) return 0;
    last += (tensor->shape[d] - 1) * stride;
    dense *= tensor->shape[d];
  }
  return (size_t)((last + 1) * og_item_bytes(tensor));
}

void og_updates_start(og_tensor *const *in, og_tensor *const *out,
                      int32_t out_count, const int32_t *update) {
  for (int32_t r = 0; update != NULL && r < out_count; ++r)
    if (update[r] > 0 && out[r] != NULL)
      og_copy_elements(out[r], in[update[r] - 1]);
}

og_status og_need_same_type(og_prep *prep, const og_tensor *a,
                            const og_tensor *b) {
  if (a != NULL && b != NULL && og_dtype_equal(a->dtype, b->dtype))
    return OG_OK;
  return og_prep_wrong(prep, "its operands and result differ in type");
}
