// SPDX-License-Identifier: Apache-2.0
// A host with as much of libtvm_ffi.so as TVM-FFI's adapter looks up: any
// values as arguments give results or an error, and every object is released.

#include "conformance/stub_tvm_ffi.h"
#include "fuzz/host.h"
#include "tvm_ffi/call.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARGS = 8, ENTRIES = 4 };

// --- Values ------------------------------------------------------------------

static og_dtype dtype_take(bytes *in) {
  static const og_dtype usual[] = {
      {OG_CODE_FLOAT, 32, 1}, {OG_CODE_FLOAT, 64, 1}, {OG_CODE_FLOAT, 16, 1},
      {OG_CODE_INT, 64, 1},   {OG_CODE_INT, 8, 1},    {OG_CODE_BOOL, 8, 1},
      {OG_CODE_BFLOAT, 16, 1}};
  const uint32_t which = take(in, 16);
  if (which >= 7) return usual[0];
  return usual[which];
}

// Strides of a view that lies within its memory, or none.
static og_tensor tensor_take(bytes *in) {
  int64_t dims[RANK_MAX];
  og_tensor out = {.device = {take(in, 32) == 0 ? 2 : OG_CPU, 0},
                   .dtype = dtype_take(in)};
  out.ndim = dims_take(in, dims);
  const size_t rank = (size_t)out.ndim;
  const int64_t spread = take(in, 4) == 0 ? 2 : 1;
  out.shape = hold((rank + 1) * sizeof *dims);
  if (rank > 0) memcpy(out.shape, dims, rank * sizeof *dims);
  int64_t step = spread;
  int64_t *strides = hold((rank + 1) * sizeof *dims);
  for (int32_t i = out.ndim; i-- > 0;) {
    strides[i] = step;
    step *= dims[i];
  }
  if (spread > 1 || take(in, 2) != 0) out.strides = strides;
  const size_t item = out.dtype.bits / 8u;
  out.byte_offset = take(in, 8) == 0 ? item : 0;
  const size_t room = (size_t)step * item + out.byte_offset;
  out.data = hold(room);
  memset(out.data, (int)take(in, 256), room);
  return out;
}

static char *text_take(bytes *in, size_t *out_length) {
  *out_length = take(in, 12);
  char *text = hold(*out_length + 1);
  for (size_t i = 0; i < *out_length; ++i) text[i] = (char)take(in, 256);
  text[*out_length] = '\0';
  return text;
}

static tvm_any any_take(bytes *in, int depth);

static void *list_take(bytes *in, int32_t type, int depth) {
  const int32_t count = (int32_t)take(in, ENTRIES + 1);
  tvm_any entries[ENTRIES] = {{0}};
  for (int32_t i = 0; i < count; ++i) entries[i] = any_take(in, depth + 1);
  void *made = stub_list(type, entries, count);
  for (int32_t i = 0; i < count; ++i)
    if (entries[i].type >= TVM_OBJECTS) TVMFFIObjectDecRef(entries[i].p);
  return made;
}

static void *object_take(bytes *in, int32_t type, int depth) {
  if (type == TVM_ARRAY || type == TVM_LIST) return list_take(in, type, depth);
  if (type == TVM_TENSOR) {
    const og_tensor tensor = tensor_take(in);
    return stub_tensor(&tensor);
  }
  size_t length = take(in, ENTRIES);
  if (type == TVM_SHAPE) {
    int64_t sizes[ENTRIES];
    for (size_t i = 0; i < length; ++i) sizes[i] = take_int(in);
    return stub_shape(sizes, length);
  }
  char *text = text_take(in, &length);
  return stub_text(type, text, length);
}

static tvm_any any_take(bytes *in, int depth) {
  static const int32_t types[] = {
      TVM_DL_TENSOR, TVM_TENSOR, TVM_INT,     TVM_FLOAT,
      TVM_NONE,      TVM_BOOL,   TVM_RAW_STR, TVM_SMALL_STR,
      TVM_DTYPE,     TVM_DEVICE, TVM_STR,     TVM_SHAPE,
      TVM_ARRAY,     TVM_LIST,   TVM_POINTER, TVM_ERROR};
  uint32_t which = take(in, 24);
  if (which >= 16) which = which % 3 == 0 ? 12 : 0;  // tensors and their lists
  if (depth > 1 && which >= 12) which = 0;
  tvm_any out = {.type = types[which]};
  size_t length = 0;
  switch (out.type) {
    case TVM_DL_TENSOR: {
      og_tensor *tensor = hold(sizeof *tensor);
      *tensor = tensor_take(in);
      out.p = tensor;
      return out;
    }
    case TVM_RAW_STR:
      out.p = text_take(in, &length);
      return out;
    case TVM_SMALL_STR:
      out.small_length = take(in, 10);
      memcpy(out.text, "abcdefg", 8);
      return out;
    case TVM_DTYPE:
      out.dtype = dtype_take(in);
      return out;
    case TVM_FLOAT:
      out.f = (double)take_int(in) / 2;
      return out;
    default:
      break;
  }
  if (out.type < TVM_OBJECTS)
    out.i = out.type == TVM_NONE ? 0 : take_int(in);
  else
    out.p = object_take(in, out.type, depth);
  return out;
}

// --- Calls -------------------------------------------------------------------

// The operator keeps what its last call was inferred for, so more may follow.
static void call_take(bytes *in, int32_t op) {
  tvm_any args[ARGS], moved[ARGS];
  const int32_t count = (int32_t)take(in, ARGS + 1);
  for (int32_t i = 0; i < count; ++i) {
    args[i] = moved[i] = any_take(in, 0);
    if (args[i].type >= TVM_OBJECTS && take(in, 8) == 0)
      args[i] = (tvm_any){.type = TVM_MOVED, .p = &moved[i].p};
  }
  // As it is, then with one argument changed.
  for (uint32_t times = 1 + take(in, 3); times > 0; --times) {
    tvm_any result = {.type = TVM_NONE};
    stub_error[0] = '\0';
    if (opgraft_tvm_ffi_call(op, args, count, &result) != 0)
      text_require(stub_error);
    if (result.type >= TVM_OBJECTS) TVMFFIObjectDecRef(result.p);
    if (times != 2 || count == 0) continue;
    const uint32_t i = take(in, (uint32_t)count);
    if (moved[i].type >= TVM_OBJECTS) TVMFFIObjectDecRef(moved[i].p);
    args[i] = moved[i] = any_take(in, 0);
  }
  for (int32_t i = 0; i < count; ++i)
    if (moved[i].type >= TVM_OBJECTS) TVMFFIObjectDecRef(moved[i].p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  bytes in = {data, size};
  tvm_any result = {.type = TVM_NONE};
  const int32_t op = (int32_t)take(&in, (uint32_t)og_own_get()->op_count);
  if (take(&in, 32) != 0) {
    call_take(&in, op);
  } else {
    if (opgraft_tvm_ffi_metadata(op, &result) != 0) abort();
    if (result.type >= TVM_OBJECTS) TVMFFIObjectDecRef(result.p);
  }
  if (stub_alive != 0) abort();
  held_free();
  return 0;
}
