// SPDX-License-Identifier: Apache-2.0
// A host that calls JAX's adapter: any attributes, buffers and results give
// results or an error, and so do any words that Python could pass.

#include <stdio.h>

#include "fuzz/host.h"
#include "jax/abi.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void *opgraft_jax_handler(int32_t op);
int64_t opgraft_jax_infer(int32_t op, const int64_t *words, int64_t count,
                          int64_t *out, int64_t out_size, char *text,
                          size_t size);

enum { BUFFERS = 6, ATTRS = 6 };

// Bytes of an element; 8 for a type that no declaration has.
static size_t type_bytes(int32_t type) {
  switch (type) {
#define ENTRY(code, kind, bits) \
  case code:                    \
    return bits / 8;
    XLA_TYPE_LIST(ENTRY)
#undef ENTRY
    default:
      return 8;
  }
}

static void *error_create(xla_error_args *args) {
  text_require(args->message);
  return args;
}

// --- Buffers -----------------------------------------------------------------

static xla_buffer *buffer_take(bytes *in) {
  int64_t dims[RANK_MAX];
  xla_buffer *out = hold(sizeof *out);
  *out = (xla_buffer){.type = take(in, 4) != 0 ? 11 : (int32_t)take(in, 24)};
  out->rank = dims_take(in, dims);
  size_t bytes_count = type_bytes(out->type);
  out->dims = hold((size_t)out->rank * sizeof *dims);
  if (out->rank > 0) memcpy(out->dims, dims, (size_t)out->rank * sizeof *dims);
  for (int64_t i = 0; i < out->rank; ++i) bytes_count *= (size_t)dims[i];
  out->data = hold(bytes_count);
  memset(out->data, (int)take(in, 256), bytes_count);
  return out;
}

static xla_buffers buffers_take(bytes *in) {
  xla_buffers out = {.count = take(in, BUFFERS + 1)};
  out.buffers = hold(BUFFERS * sizeof(void *));
  for (int64_t i = 0; i < out.count; ++i) out.buffers[i] = buffer_take(in);
  return out;
}

// --- Attributes --------------------------------------------------------------

static int32_t attr_type(bytes *in) {
  static const int32_t usual[] = {XLA_TYPE_S64, XLA_TYPE_F64, XLA_TYPE_BOOL, 11,
                                  4};
  const uint32_t which = take(in, 8);
  return which < 5 ? usual[which] : (int32_t)take(in, 24);
}

static xla_span *span_make(const char *text, size_t length) {
  xla_span *out = hold(sizeof *out);
  char *copy = hold(length);
  if (length > 0) memcpy(copy, text, length);
  *out = (xla_span){copy, length};
  return out;
}

static xla_span *attr_name(bytes *in, const og_own_op *op) {
  static const char *const suffixes[] = {"", "", "", ".none", ".empty"};
  char name[128];
  const uint32_t which = take(in, 8);
  if (which == 0) return span_make("opgraft.given", 13);
  const int length = snprintf(name, sizeof name, "%s%s", name_take(in, op),
                              suffixes[which % 5]);
  return span_make(name, (size_t)length);
}

static void *attr_value(bytes *in, int32_t kind) {
  xla_array array = {.type = attr_type(in)};
  if (kind == XLA_ATTR_SCALAR) {
    xla_scalar *scalar = hold(sizeof *scalar);
    *scalar = (xla_scalar){array.type, hold_bytes(in, type_bytes(array.type))};
    return scalar;
  }
  if (kind == XLA_ATTR_STRING) {
    static const char *const texts[] = {"f32", "i64", "a\nb\n", "a\nb", "\n"};
    const uint32_t which = take(in, 8);
    if (which < 5) return span_make(texts[which], strlen(texts[which]));
    const size_t length = take(in, 6);
    return span_make(hold_bytes(in, length), length);
  }
  // Now and then more than the adapter has room for.
  array.count = take(in, 32) == 0 ? 600 : take(in, 5);
  array.values = hold(array.count * type_bytes(array.type));
  for (size_t i = 0; i < array.count * type_bytes(array.type); ++i)
    ((char *)array.values)[i] = (char)take(in, 4);
  xla_array *out = hold(sizeof *out);
  *out = array;
  return out;
}

static xla_attrs attrs_take(bytes *in, const og_own_op *op) {
  static const int32_t kinds[] = {XLA_ATTR_ARRAY, XLA_ATTR_SCALAR,
                                  XLA_ATTR_STRING, 2};
  xla_attrs out = {.count = take(in, ATTRS + 1)};
  out.kinds = hold(ATTRS * sizeof *out.kinds);
  out.names = hold(ATTRS * sizeof *out.names);
  out.values = hold(ATTRS * sizeof *out.values);
  for (int64_t i = 0; i < out.count; ++i) {
    out.kinds[i] = kinds[take(in, 4)];
    out.names[i] = attr_name(in, op);
    out.values[i] = attr_value(in, out.kinds[i]);
  }
  return out;
}

// --- Calls -------------------------------------------------------------------

static void call(bytes *in, int32_t op) {
  static const xla_api api = {.error_create = error_create};
  void *(*handler)(const xla_frame *);
  void *address = opgraft_jax_handler(op);
  memcpy(&handler, &address, sizeof handler);
  xla_metadata metadata;
  xla_metadata_extension extension = {
      {sizeof extension, XLA_EXTENSION_METADATA, NULL}, &metadata};
  xla_frame frame = {.api = &api, .stage = XLA_STAGE_EXECUTE};
  const uint32_t kind = take(in, 32);
  if (kind == 1) frame.extension = &extension.base;
  if (kind == 2) frame.stage = (int32_t)take(in, 6);
  frame.args = buffers_take(in);
  frame.rets = buffers_take(in);
  frame.attrs = attrs_take(in, &og_own_get()->ops[op]);
  handler(&frame);
}

static void infer(bytes *in, int32_t op) {
  enum { WORDS = 40 };
  char text[TEXT_BYTES];
  int64_t out[8];
  const size_t count = take(in, WORDS);
  int64_t *words = hold(count * sizeof *words);
  for (size_t i = 0; i < count; ++i)
    words[i] = take(in, 8) != 0 ? (int64_t)take(in, 8) : take_int(in);
  const int64_t used =
      opgraft_jax_infer(op, words, (int64_t)count, out, 8, text, sizeof text);
  if (used < 0) text_require(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  bytes in = {data, size};
  const int32_t op = (int32_t)take(&in, (uint32_t)og_own_get()->op_count);
  if (take(&in, 3) == 0)
    infer(&in, op);
  else
    call(&in, op);
  held_free();
  return 0;
}
