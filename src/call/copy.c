// SPDX-License-Identifier: Apache-2.0
// Copies between layouts: what a kernel cannot take, the call makes.

#include <string.h>

#include "call/call.h"

bool og_tensor_is_contiguous(const og_tensor *tensor) {
  if (tensor->strides == NULL) return true;
  int64_t wanted = 1;
  bool is_contiguous = true;
  for (int32_t i = tensor->ndim - 1; i >= 0; --i) {
    const int64_t size = tensor->shape[i];
    if (size == 0) return true;
    if (size != 1 && tensor->strides[i] != wanted) is_contiguous = false;
    wanted *= size;
  }
  return is_contiguous;
}

static void copy_row(char *to, int64_t to_stride, const char *from,
                     int64_t from_stride, int64_t count, size_t item) {
  if (count == 1) {
    memcpy(to, from, item);
    return;
  }
  const int64_t to_step = to_stride * (int64_t)item;
  const int64_t from_step = from_stride * (int64_t)item;
  if (to_step == (int64_t)item && from_step == (int64_t)item) {
    memcpy(to, from, (size_t)count * item);
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    memcpy(to + i * to_step, from + i * from_step, item);
}

void og_tensor_copy(const og_tensor *to, const og_tensor *from) {
  int64_t to_dense[OPGRAFT_RANK_MAX];
  int64_t from_dense[OPGRAFT_RANK_MAX];
  int64_t index[OPGRAFT_RANK_MAX] = {0};
  const int64_t *to_strides = to->strides;
  const int64_t *from_strides = from->strides;
  const int64_t item = (int64_t)og_dtype_bytes(to->dtype);
  const int32_t outer = to->ndim - 1;
  char *to_at = og_data(to);
  const char *from_at = og_data(from);

  if (og_numel(to) == 0) return;
  if (to->ndim == 0) {
    memcpy(to_at, from_at, (size_t)item);
    return;
  }
  if (to_strides == NULL)
    og_row_major(to->shape, to->ndim, to_dense), to_strides = to_dense;
  if (from_strides == NULL)
    og_row_major(from->shape, from->ndim, from_dense),
        from_strides = from_dense;

  for (;;) {
    copy_row(to_at, to_strides[outer], from_at, from_strides[outer],
             to->shape[outer], (size_t)item);
    int32_t axis = outer - 1;
    for (; axis >= 0; --axis) {
      // A dim of one element moves nothing, and its stride may be any number.
      const int64_t last = to->shape[axis] - 1;
      if (last == 0) continue;
      if (index[axis]++ < last) {
        to_at += to_strides[axis] * item;
        from_at += from_strides[axis] * item;
        break;
      }
      to_at -= to_strides[axis] * item * last;
      from_at -= from_strides[axis] * item * last;
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}
