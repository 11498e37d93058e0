// SPDX-License-Identifier: Apache-2.0
// One capture of a graph: the sizes and addresses that it is for, the buffers
// of its inputs, and what its results are.

#ifndef OG_TORCH_CAPTURE_H
#define OG_TORCH_CAPTURE_H

#include "torch/base/host.h"

// Where a tensor lies in another one.
typedef struct capture_place {
  int32_t ndim;
  int64_t *sizes, *strides;  // of `ndim` each, one allocation
  int64_t offset;            // in elements, behind the other's first
} capture_place;

enum {
  CAPTURE_INT,     // `value`; an absent tensor counts as 0
  CAPTURE_PINNED,  // read, and written, at the address `data`
  CAPTURE_COPIED,  // read, and written, in `buffer`
};

typedef struct capture_arg {
  int32_t kind;
  bool is_written;  // of CAPTURE_COPIED: copied back
  bool is_span;     // elements share memory: all of it is copied as one row
  int64_t value;
  capture_place at;
  og_dtype dtype;
  void *data;
  PyObject *buffer;  // owned
} capture_arg;

enum {
  CAPTURE_VALUE,  // `value`: None or a size
  CAPTURE_PART,   // of base `index`
  CAPTURE_INPUT,  // of input `index`, as the caller gave it
};

typedef struct capture_out {
  int32_t kind;
  int32_t index;
  bool is_whole;  // it is that base or input
  capture_place at;
  PyObject *value;  // owned
} capture_out;

// Memory that results lie in.
typedef struct capture_base {
  PyObject *tensor;           // owned: all that holds the storage
  const uint32_t *use_count;  // of the storage
} capture_base;

typedef struct capture {
  capture_arg *args;
  int32_t arg_count;
  capture_out *outs;
  int32_t out_count;
  capture_base *bases;
  int32_t base_count;
  PyObject *replay;  // () -> None; owns the capture
  bool lends;        // results are views of the bases, not copies
  bool has_written;  // an argument is copied back
  bool has_stream;
  void *stream;  // of its last call
  bool is_dropped;
  int32_t uses;  // calls in flight
  long long id, replays;
  struct capture *next;
} capture;

// (args, outs, bases, replay, lends):
//   args   of each None, an int, or (tensor like it, buffer or None, is
//          written); where the buffer is another tensor than the first it holds
//          the span of the memory as one row
//   outs   of each (kind, index, value, place), place being (sizes, strides,
//          offset, is whole) or None
//   bases  tensors
// NULL with an exception set.
capture *capture_read(PyObject *arguments, int32_t argument_count);
void capture_free(capture *c);
// The address of a plain tensor's StorageImpl.
const char *capture_storage(PyObject *tensor);
// Where that has its count of users, and the count.
const uint32_t *capture_count(PyObject *tensor);
uint32_t capture_users(PyObject *tensor);
// Whether a tensor beside the bases, or a storage object, shares their memory.
bool capture_is_live(const capture *c);

#endif  // OG_TORCH_CAPTURE_H
