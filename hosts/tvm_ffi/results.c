// SPDX-License-Identifier: Apache-2.0
// Results as tensors of TVM-FFI.
//
// Invariant: a result's memory is one block: the DLPack struct, its sizes and
// strides, then the elements, aligned to 64 bytes. free() frees it.

#include <stdlib.h>
#include <string.h>

#include "tvm_ffi/values.h"

enum { ALIGN = 64, DLPACK_MAJOR = 1 };

static size_t rounded(size_t bytes) {
  return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static size_t head_bytes(int32_t rank) {
  return rounded(sizeof(tvm_managed) + 2 * (size_t)rank * sizeof(int64_t));
}

// Bytes from the first element to behind the last; 0 where there are too many.
static int span_find(const og_tensor *tensor, size_t *out_bytes) {
  size_t last = 0, bytes;
  *out_bytes = 0;
  for (int32_t i = 0; i < tensor->ndim; ++i) {
    size_t step;
    if (tensor->shape[i] == 0) return 1;
    if (__builtin_mul_overflow((size_t)tensor->shape[i] - 1,
                               (size_t)tensor->strides[i], &step) ||
        __builtin_add_overflow(last, step, &last))
      return 0;
  }
  if (__builtin_add_overflow(last, 1, &last) ||
      __builtin_mul_overflow(last, (tensor->dtype.bits + 7u) / 8u, &bytes) ||
      bytes > SIZE_MAX / 2)
    return 0;
  *out_bytes = bytes;
  return 1;
}

static void *block_make(const og_tensor *tensor) {
  size_t bytes;
  if (!span_find(tensor, &bytes)) return NULL;
  return aligned_alloc(ALIGN, head_bytes(tensor->ndim) + rounded(bytes));
}

static void *block_of(const og_tensor *tensor) {
  return (char *)tensor->data - head_bytes(tensor->ndim);
}

// --- Each result -------------------------------------------------------------

static og_status no_memory(og_tvm_call *c) {
  return og_own_fail(c->call->op, OG_MEMORY, &c->error,
                     "not enough memory for the results");
}

og_status og_tvm_results_place(og_tvm_call *c) {
  const int32_t count = c->call->op->info.fresh_count;
  for (int32_t i = 0; i < count; ++i)
    for (int64_t k = 0; k < og_host_result_count(c->call, i); ++k)
      og_host_result(c->call, i, k)->data = NULL;
  for (int32_t i = 0; i < count; ++i)
    for (int64_t k = 0; k < og_host_result_count(c->call, i); ++k) {
      og_tensor *tensor = og_host_result(c->call, i, k);
      char *block = block_make(tensor);
      if (block == NULL) return no_memory(c);
      tensor->data = block + head_bytes(tensor->ndim);
    }
  return OG_OK;
}

void og_tvm_results_drop(og_tvm_call *c) {
  for (int32_t i = 0; i < c->call->op->info.fresh_count; ++i)
    for (int64_t k = 0; k < og_host_result_count(c->call, i); ++k) {
      og_tensor *tensor = og_host_result(c->call, i, k);
      if (tensor->data != NULL) free(block_of(tensor));
      tensor->data = NULL;
    }
}

// --- Objects -----------------------------------------------------------------

static og_status raised(og_tvm_call *c) {
  c->is_raised = 1;
  return OG_INTERNAL;
}

// The kernel may have found a first size below the one that was placed.
static og_status tensor_take(og_tvm_call *c, og_tensor *tensor, tvm_any *out) {
  const size_t rank = (size_t)tensor->ndim;
  tvm_managed *managed = block_of(tensor);
  int64_t *sizes = (int64_t *)(void *)(managed + 1);
  if (rank > 0) {
    memcpy(sizes, tensor->shape, rank * sizeof *sizes);
    memcpy(sizes + rank, tensor->strides, rank * sizeof *sizes);
  }
  *managed =
      (tvm_managed){.major = DLPACK_MAJOR, .deleter = free, .tensor = *tensor};
  managed->tensor.shape = sizes;
  managed->tensor.strides = sizes + rank;
  *out = (tvm_any){.type = TVM_TENSOR};
  if (c->library->make_tensor(managed, 0, 0, &out->p) != 0) {
    *out = (tvm_any){.type = TVM_NONE};
    return raised(c);
  }
  tensor->data = NULL;
  return OG_OK;
}

static void values_release(const og_tvm_call *c, const tvm_any *values,
                           int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (values[i].type >= TVM_OBJECTS) c->library->release(values[i].p);
}

// An array that holds `values`; the caller releases them.
static og_status array_make(og_tvm_call *c, tvm_any *values, int64_t count,
                            tvm_any *out) {
  *out = (tvm_any){.type = TVM_NONE};
  if (c->library->array_make == NULL || count > INT32_MAX)
    return og_tvm_refuse(c, "this release of TVM-FFI cannot make its results");
  return c->library->call(c->library->array_make, values, (int32_t)count,
                          out) == 0
             ? OG_OK
             : raised(c);
}

static og_status list_take(og_tvm_call *c, int32_t i, tvm_any *out) {
  const int64_t count = og_host_result_count(c->call, i);
  tvm_any *values = calloc((size_t)count + 1, sizeof *values);
  og_status status = OG_OK;
  *out = (tvm_any){.type = TVM_NONE};
  if (values == NULL) return no_memory(c);
  for (int64_t k = 0; status == OG_OK && k < count; ++k)
    status = tensor_take(c, og_host_result(c->call, i, k), &values[k]);
  if (status == OG_OK) status = array_make(c, values, count, out);
  values_release(c, values, count);
  free(values);
  return status;
}

static og_status result_take(og_tvm_call *c, int32_t i, tvm_any *out) {
  return og_host_is_list(c->call, i)
             ? list_take(c, i, out)
             : tensor_take(c, og_host_result(c->call, i, 0), out);
}

og_status og_tvm_results_take(og_tvm_call *c, tvm_any *out_result) {
  const int32_t count = c->call->op->info.fresh_count;
  *out_result = (tvm_any){.type = TVM_NONE};
  if (count == 0) return OG_OK;
  if (count == 1) return result_take(c, 0, out_result);
  tvm_any values[OPGRAFT_OUT_MAX];
  og_status status = OG_OK;
  int32_t made = 0;
  while (status == OG_OK && made < count) {
    status = result_take(c, made, &values[made]);
    ++made;
  }
  if (status == OG_OK) status = array_make(c, values, count, out_result);
  values_release(c, values, made);
  return status;
}
