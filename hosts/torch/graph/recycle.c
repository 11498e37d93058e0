// SPDX-License-Identifier: Apache-2.0
// A slot keeps a tensor of its own over a result's storage. While the storage
// has another user the memory is the caller's; where the slot is its only user,
// the next call writes there.
//
// Invariants: a storage that the caller resized, or moved to shared memory, has
// another size or address than it was made with, and is not used again.

#include "torch/graph/recycle.h"

#include <stdlib.h>
#include <string.h>

#include "torch/base/tensor.h"
#include "torch/graph/capture.h"

static bool is_recycled(const recycler *r, size_t size_bytes,
                        const og_tensor *fresh) {
  return r->is_on && size_bytes >= RECYCLE_LEAST_BYTES &&
         fresh->device.type == OG_CPU && guard_can_wrap() &&
         torch_layout.has_keys && shim.aoti_torch_get_storage_size != NULL;
}

static bool is_free(const recycled *slot) {
  int64_t size_bytes;
  void *data;
  return __atomic_load_n(slot->use_count, __ATOMIC_ACQUIRE) == 1 &&
         shim.aoti_torch_get_storage_size(slot->tensor, &size_bytes) == 0 &&
         size_bytes == slot->size_bytes &&
         shim.aoti_torch_get_data_ptr(slot->tensor, &data) == 0 &&
         data == slot->data;
}

static void slot_reset(recycled *slot) {
  if (slot->tensor != NULL) shim.aoti_torch_delete_tensor_object(slot->tensor);
  *slot = (recycled){.tensor = NULL};
}

PyObject *recycle_take(const recycler *r, int32_t index, size_t size_bytes,
                       og_tensor *fresh) {
  tensor_handle made;
  if (index >= r->count || r->slots[index].tensor == NULL ||
      !is_recycled(r, size_bytes, fresh))
    return NULL;
  const recycled *slot = &r->slots[index];
  if (slot->size_bytes != (int64_t)size_bytes ||
      memcmp(&slot->dtype, &fresh->dtype, sizeof slot->dtype) != 0 ||
      !is_free(slot) ||
      shim.aoti_torch__reinterpret_tensor(slot->tensor, fresh->ndim,
                                          fresh->shape, fresh->strides, 0,
                                          &made) != 0)
    return NULL;
  fresh->data = slot->data;
  return handle_wrap(made);
}

static bool slots_reserve(recycler *r, int32_t count) {
  if (count <= r->count) return true;
  recycled *slots = realloc(r->slots, (size_t)count * sizeof *slots);
  if (slots == NULL) return false;
  memset(slots + r->count, 0, (size_t)(count - r->count) * sizeof *slots);
  r->slots = slots;
  r->count = count;
  return true;
}

void recycle_keep(recycler *r, int32_t index, size_t size_bytes,
                  PyObject *object, const og_tensor *fresh) {
  if (!is_recycled(r, size_bytes, fresh) || !guard_is_plain(object) ||
      !slots_reserve(r, index + 1))
    return;
  const tensor_handle handle = guard_handle(object);
  recycled slot = {.data = fresh->data, .dtype = fresh->dtype};
  slot_reset(&r->slots[index]);
  if (handle == NULL ||
      shim.aoti_torch_get_storage_size(handle, &slot.size_bytes) != 0 ||
      slot.size_bytes != (int64_t)size_bytes ||
      shim.aoti_torch__reinterpret_tensor(handle, fresh->ndim, fresh->shape,
                                          fresh->strides, 0, &slot.tensor) != 0)
    return;
  slot.use_count = capture_count(object);
  r->slots[index] = slot;
}

void recycle_reset(recycler *r) {
  for (int32_t i = 0; i < r->count; ++i) slot_reset(&r->slots[i]);
  free(r->slots);
  r->slots = NULL;
  r->count = 0;
}
