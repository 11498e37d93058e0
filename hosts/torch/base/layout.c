// SPDX-License-Identifier: Apache-2.0
// torch's structs: where what we read of a tensor lies in them.

#define _GNU_SOURCE  // process_vm_readv

#include "torch/base/layout.h"

#include <sys/uio.h>
#include <unistd.h>

tensor_layout torch_layout;

// An address that is not mapped is refused, not followed.
static bool peek(const void *from, void *to, size_t size) {
  struct iovec local = {to, size};
  struct iovec remote = {(void *)(uintptr_t)from, size};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)size;
}

bool layout_peek(PyObject *tensor, size_t impl,
                 uint64_t out_words[LAYOUT_WORDS]) {
  uint64_t pointer;
  return peek((const char *)tensor + impl, &pointer, sizeof pointer) &&
         pointer % 8 == 0 && pointer > 4096 &&
         peek((const void *)(uintptr_t)pointer, out_words, LAYOUT_WORDS * 8);
}

// What the shim says of one tensor. `sizes` and `strides` are offsets from its
// TensorImpl, which wrap around for addresses below it.
typedef struct answer {
  uint64_t words[LAYOUT_WORDS];
  size_t sizes, strides;
  int64_t rank;
  int32_t dtype;
} answer;

enum { ANSWER_MAX = 32 };

static bool answer_get(PyObject *tensor, answer *out) {
  const tensor_handle handle =
      (tensor_handle)((char *)tensor + torch_layout.impl);
  const uintptr_t impl = (uintptr_t)layout_impl(tensor);
  int64_t *sizes, *strides;
  if (!layout_peek(tensor, torch_layout.impl, out->words) ||
      shim.aoti_torch_get_dim(handle, &out->rank) != 0 ||
      shim.aoti_torch_get_sizes(handle, &sizes) != 0 ||
      shim.aoti_torch_get_strides(handle, &strides) != 0 ||
      shim.aoti_torch_get_dtype(handle, &out->dtype) != 0)
    return false;
  out->sizes = (uintptr_t)sizes - impl;
  out->strides = (uintptr_t)strides - impl;
  return true;
}

// Sizes that fit into the struct lie at one place of it, and only the higher
// ranks have them elsewhere. That may be near: right behind the struct, say.
static bool places_learn(const answer *answers, Py_ssize_t count,
                         tensor_layout *to) {
  uint64_t least_elsewhere = UINT64_MAX;
  to->sizes = answers[0].sizes;
  to->strides = answers[0].strides;
  to->rank_most = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const answer *a = &answers[i];
    const uint64_t rank = (uint64_t)a->rank;
    if (a->sizes != to->sizes || a->strides != to->strides) {
      if (rank < least_elsewhere) least_elsewhere = rank;
    } else if (rank > to->rank_most) {
      to->rank_most = rank;
    }
  }
  return to->sizes < LAYOUT_WORDS * 8 && to->strides < LAYOUT_WORDS * 8 &&
         to->rank_most > 0 && to->rank_most < least_elsewhere;
}

static bool rank_learn(const answer *answers, Py_ssize_t count, size_t *out) {
  int found = 0;
  for (size_t at = 0; at < LAYOUT_WORDS; ++at) {
    bool fits = true;
    for (Py_ssize_t i = 0; i < count && fits; ++i)
      fits = answers[i].words[at] == (uint64_t)answers[i].rank;
    if (!fits) continue;
    *out = at * 8;
    ++found;
  }
  return found == 1;
}

static bool dtype_learn(const answer *answers, Py_ssize_t count, size_t *out) {
  int found = 0;
  for (size_t at = 0; at < LAYOUT_WORDS * 8; at += 2) {
    bool fits = true;
    for (Py_ssize_t i = 0; i < count && fits; ++i) {
      uint16_t number;
      memcpy(&number, (const char *)answers[i].words + at, sizeof number);
      fits = number == answers[i].dtype;
    }
    if (!fits) continue;
    *out = at;
    ++found;
  }
  return found == 1;
}

void layout_note_device(PyObject *tensor) {
  if (!torch_layout.has_keys || layout_is_device_plain(tensor)) return;
  const uint64_t keys = layout_word(layout_impl(tensor), torch_layout.keys);
  for (int i = 0; i < 2; ++i) {
    if (torch_layout.device_plain[i] != 0) continue;
    torch_layout.device_plain[i] = keys;
    return;
  }
}

void layout_learn_sizes(PyObject *tensors) {
  answer answers[ANSWER_MAX];
  const Py_ssize_t count = PyTuple_Size(tensors);
  tensor_layout found = torch_layout;
  torch_layout.has_sizes = false;
  if (!torch_layout.has_keys || count < 1 || count > ANSWER_MAX) return;
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!answer_get(PyTuple_GetItem(tensors, i), &answers[i])) return;
  if (!places_learn(answers, count, &found) ||
      !rank_learn(answers, count, &found.rank) ||
      !dtype_learn(answers, count, &found.dtype))
    return;
  found.has_sizes = true;
  torch_layout = found;
}
