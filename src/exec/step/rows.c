// SPDX-License-Identifier: Apache-2.0
// The tensors of a fused node, walked row by row.

#include "exec/step/rows.h"

static int64_t *stride_of(og_rows *rows, int32_t tensor) {
  return rows->stride + (int64_t)tensor * OPGRAFT_RANK_MAX;
}

// An operand's dims stand at the right, a result's that has no row at the left.
static void strides_fill(og_rows *rows, int32_t k, const og_tensor *tensor,
                         const og_fused *fused, bool is_result) {
  const int64_t bytes = (int64_t)og_dtype_bytes(tensor->dtype);
  const int32_t shift = is_result ? 0 : fused->ndim - tensor->ndim;
  for (int32_t d = 0; d < fused->ndim; ++d) {
    const int32_t own = d - shift;
    const bool moves = own >= 0 && own < tensor->ndim && tensor->shape[own] > 1;
    stride_of(rows, k)[d] = moves ? tensor->strides[own] * bytes : 0;
  }
}

static void dims_swap(og_rows *rows, int32_t a, int32_t b) {
  const int64_t size = rows->size[a];
  rows->size[a] = rows->size[b];
  rows->size[b] = size;
  for (int32_t k = 0; k < rows->tensors; ++k) {
    int64_t *stride = stride_of(rows, k);
    const int64_t kept = stride[a];
    stride[a] = stride[b];
    stride[b] = kept;
  }
}

// The larger strides of the first result outside.
static void dims_sort(og_rows *rows, int32_t first_result) {
  const int64_t *stride = stride_of(rows, first_result);
  for (int32_t i = 1; i < rows->ndim; ++i)
    for (int32_t j = i; j > 0 && stride[j - 1] < stride[j]; --j)
      dims_swap(rows, j - 1, j);
}

static void dim_move(og_rows *rows, int32_t to, int32_t from) {
  rows->size[to] = rows->size[from];
  for (int32_t k = 0; k < rows->tensors; ++k)
    stride_of(rows, k)[to] = stride_of(rows, k)[from];
}

static bool is_run(og_rows *rows, int32_t outer, int32_t inner) {
  for (int32_t k = 0; k < rows->tensors; ++k)
    if (stride_of(rows, k)[outer] !=
        stride_of(rows, k)[inner] * rows->size[inner])
      return false;
  return true;
}

// Joins dims [begin, end) where they are one run, and drops unit dims; returns
// the end of those that stay.
static int32_t dims_join(og_rows *rows, int32_t begin, int32_t end) {
  int32_t kept = begin;
  for (int32_t d = begin; d < end; ++d) {
    if (rows->size[d] == 1) continue;
    if (kept > begin && is_run(rows, kept - 1, d)) {
      const int64_t outer = rows->size[kept - 1];
      dim_move(rows, kept - 1, d);
      rows->size[kept - 1] *= outer;
    } else {
      dim_move(rows, kept++, d);
    }
  }
  return kept;
}

// The last dim becomes the row.
static void row_take(og_rows *rows) {
  rows->width = 1;
  for (int32_t k = 0; k < rows->tensors; ++k) rows->step[k] = 0;
  if (rows->ndim == 0) return;
  --rows->ndim;
  rows->width = rows->size[rows->ndim];
  for (int32_t k = 0; k < rows->tensors; ++k)
    rows->step[k] = stride_of(rows, k)[rows->ndim];
}

// Joins the last dims to a row; one stays in any case.
static void row_join(og_rows *rows, int32_t row_dims) {
  const int32_t begin = rows->ndim > row_dims ? rows->ndim - row_dims : 0;
  const int32_t end = dims_join(rows, begin, rows->ndim);
  if (rows->ndim > 0) rows->ndim = end > begin ? end : begin + 1;
}

og_status og_rows_init(og_prep *prep, const og_fused *fused, int32_t row_dims,
                       og_rows *out) {
  const og_node *node = prep->node;
  const size_t tensors = (size_t)(node->in_count + node->out_count);
  *out = (og_rows){.tensors = (int32_t)tensors, .ndim = fused->ndim};
  out->size = og_prep_alloc(prep, OPGRAFT_RANK_MAX * sizeof *out->size);
  out->stride =
      og_prep_alloc(prep, tensors * OPGRAFT_RANK_MAX * sizeof *out->stride);
  out->step = og_prep_alloc(prep, tensors * sizeof *out->step);
  if (!out->size || !out->stride || !out->step) return og_prep_memory(prep);
  for (int32_t d = 0; d < fused->ndim; ++d)
    out->size[d] = prep->plan->sizes[fused->shape[d]];
  for (int32_t i = 0; i < node->in_count; ++i)
    strides_fill(out, i, prep->in[i], fused, false);
  for (int32_t r = 0; r < node->out_count; ++r)
    strides_fill(out, node->in_count + r, prep->out[r], fused, true);
  if (row_dims > 0) {
    row_join(out, row_dims);
    row_take(out);
    out->ndim = dims_join(out, 0, out->ndim);
  } else {
    dims_sort(out, node->in_count);
    out->ndim = dims_join(out, 0, out->ndim);
    row_take(out);
  }
  if (fused->needs_elements && out->width == 0)
    return og_prep_refuse(prep, "there is nothing to reduce");
  out->count = 1;
  for (int32_t d = 0; d < out->ndim; ++d) out->count *= out->size[d];
  return OG_OK;
}

void og_rows_offsets(const og_rows *rows, int64_t row, int64_t *out_offsets) {
  for (int32_t k = 0; k < rows->tensors; ++k) out_offsets[k] = 0;
  for (int32_t d = rows->ndim - 1; d >= 0; --d) {
    const int64_t at = row % rows->size[d];
    row /= rows->size[d];
    for (int32_t k = 0; k < rows->tensors; ++k)
      out_offsets[k] += at * og_rows_strides(rows, k)[d];
  }
}
