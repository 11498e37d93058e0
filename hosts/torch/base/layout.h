// SPDX-License-Identifier: Apache-2.0
// torch's structs: where what we read of a tensor lies in them.
//
// None of it is published, so nothing is assumed: guard_learn finds each offset
// in tensors whose answers are known, and what it did not find is asked through
// the shim.

#ifndef OG_TORCH_LAYOUT_H
#define OG_TORCH_LAYOUT_H

#include <string.h>

#include "torch/base/host.h"

enum { LAYOUT_WORDS = 64 };  // of a TensorImpl, that are looked at

typedef struct tensor_layout {
  bool has_keys;    // `impl` to `plain_inference` are known
  bool has_sizes;   // the rest is, which needs has_keys
  size_t impl;      // of the TensorImpl * in a tensor object, in bytes
  size_t keys;      // of the dispatch keys in a TensorImpl
  size_t gradient;  // of the pointer to what autograd keeps
  uint64_t plain;   // keys of a plain tensor
  uint64_t plain_inference;
  uint64_t device_plain[2];  // of the loaded device's, as they are made; or 0
  size_t rank;               // of the count of dims in a TensorImpl, 8 bytes
  size_t sizes;
  size_t strides;
  size_t dtype;        // the shim's number, 2 bytes
  uint64_t rank_most;  // a tensor of more dims keeps its sizes elsewhere
} tensor_layout;

extern tensor_layout torch_layout;

static inline uint64_t layout_word(const void *base, size_t offset) {
  uint64_t word;
  memcpy(&word, (const char *)base + offset, sizeof word);
  return word;
}

// Only where torch_layout.has_keys.
static inline char *layout_impl(PyObject *tensor) {
  return (char *)(uintptr_t)layout_word(tensor, torch_layout.impl);
}

// Whether the object's keys are those of a tensor of the loaded device as it
// was made, without lazy negation, conjugation or a wrapper. False decides
// nothing.
static inline bool layout_is_device_plain(PyObject *tensor) {
  if (!torch_layout.has_keys || torch_layout.device_plain[0] == 0) return false;
  const uint64_t keys = layout_word(layout_impl(tensor), torch_layout.keys);
  return keys == torch_layout.device_plain[0] ||
         keys == torch_layout.device_plain[1];
}
// Whether torch counts writes to it: to a plain tensor, of the CPU or of the
// device, that was not made in inference mode, which leaves keys out.
static inline bool layout_is_counted(PyObject *tensor) {
  const uint64_t keys = layout_word(layout_impl(tensor), torch_layout.keys);
  const uint64_t counted = torch_layout.plain & ~torch_layout.plain_inference;
  return __builtin_expect(keys == torch_layout.plain, 1) ||
         ((keys & counted) != 0 && layout_is_device_plain(tensor));
}
// Learns the keys of a tensor of the device that was just made: with
// autograd's, or, in inference mode, without.
void layout_note_device(PyObject *tensor);

// The first words of the TensorImpl whose address lies `impl` bytes into the
// object. False where that is not an address: memory is read through the
// kernel.
bool layout_peek(PyObject *tensor, size_t impl,
                 uint64_t out_words[LAYOUT_WORDS]);
// Learns where plain tensors of many ranks and types, a tuple, keep these;
// torch_layout.has_sizes stays false unless all agree with the shim.
void layout_learn_sizes(PyObject *tensors);

#endif  // OG_TORCH_LAYOUT_H
