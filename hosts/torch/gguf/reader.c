// SPDX-License-Identifier: Apache-2.0
// The header of a GGUF file.
//
// Invariants: `at` never passes `size`; whatever a count says, each item takes
// bytes of its own, so that no loop is longer than the file.

#include "torch/gguf/reader.h"

#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 32, LEAST_ALIGNMENT = 8, VERSION_FIRST = 2, VERSION = 3 };

static const uint8_t type_bytes[GGUF_TYPES] = {
    [GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_U16] = 2, [GGUF_I16] = 2,
    [GGUF_U32] = 4, [GGUF_I32] = 4, [GGUF_F32] = 4, [GGUF_BOOL] = 1,
    [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
};

// Types of tensors: a row is blocks of so many elements, of so many bytes.
static const struct {
  uint32_t code;
  const char *name;
  uint32_t elements, bytes;
} tensor_types[] = {
    {0, "F32", 1, 4},    {1, "F16", 1, 2},       {2, "Q4_0", 32, 18},
    {8, "Q8_0", 32, 34}, {12, "Q4_K", 256, 144}, {14, "Q6_K", 256, 210},
    {30, "BF16", 1, 2},
};
enum { TENSOR_TYPES = sizeof tensor_types / sizeof *tensor_types };

size_t gguf_type_bytes(gguf_type type) { return type_bytes[type]; }

#define FAIL(r, ...) \
  (snprintf((r)->error, sizeof(r)->error, __VA_ARGS__), false)

// --- Numbers and texts

static uint64_t number_at(const uint8_t *at, size_t bytes) {
  uint64_t x = 0;
  for (size_t i = bytes; i > 0; --i) x = x << 8 | at[i - 1];
  return x;
}

static bool has(gguf_reader *r, uint64_t bytes, const char *what) {
  if (bytes <= r->size - r->at) return true;
  return FAIL(r, "byte %zu: %s has %llu bytes, but the file ends after %zu",
              r->at, what, (unsigned long long)bytes, r->size - r->at);
}

static bool number_take(gguf_reader *r, size_t bytes, const char *what,
                        uint64_t *out) {
  if (!has(r, bytes, what)) return false;
  *out = number_at(r->bytes + r->at, bytes);
  r->at += bytes;
  return true;
}

static bool text_take(gguf_reader *r, const char *what, gguf_text *out) {
  uint64_t length;
  if (!number_take(r, 8, what, &length) || !has(r, length, what)) return false;
  *out = (gguf_text){(const char *)r->bytes + r->at, (size_t)length};
  r->at += (size_t)length;
  return true;
}

gguf_text gguf_text_take(const uint8_t **at) {
  const gguf_text text = {(const char *)*at + 8, (size_t)number_at(*at, 8)};
  *at += 8 + text.length;
  return text;
}

// For messages: names are as long as files like.
static int shown(gguf_text name) {
  return (int)(name.length < 48 ? name.length : 48);
}

// --- Fields

static bool elements_skip(gguf_reader *r, const gguf_field *field,
                          uint64_t count) {
  gguf_text text;
  const size_t each = type_bytes[field->type];
  if (field->type != GGUF_TEXT) {
    if (count > r->size / each)
      return FAIL(r, "byte %zu: a list has %llu elements, more than the file",
                  r->at, (unsigned long long)count);
    if (!has(r, count * each, "a field")) return false;
    r->at += (size_t)count * each;
    return true;
  }
  for (uint64_t i = 0; i < count; ++i)
    if (!text_take(r, "a text", &text)) return false;
  return true;
}

static bool type_take(gguf_reader *r, gguf_type *out) {
  uint64_t type;
  if (!number_take(r, 4, "a field's type", &type)) return false;
  if (type >= GGUF_TYPES)
    return FAIL(r, "byte %zu: a field has type %llu, expected at most %d",
                r->at - 4, (unsigned long long)type, GGUF_TYPES - 1);
  *out = (gguf_type)type;
  return true;
}

bool gguf_field_next(gguf_reader *r, gguf_field *out) {
  uint64_t count = 1;
  *out = (gguf_field){0};
  if (!text_take(r, "a field's name", &out->name) || !type_take(r, &out->type))
    return false;
  out->is_list = out->type == GGUF_LIST;
  if (out->is_list &&
      (!type_take(r, &out->type) || !number_take(r, 8, "a list", &count)))
    return false;
  if (out->type == GGUF_LIST)
    return FAIL(r, "byte %zu: a list has lists, expected numbers or texts",
                r->at);
  out->at = r->bytes + r->at;
  if (!elements_skip(r, out, count)) return false;
  out->count = (size_t)count;
  --r->fields_left;
  return true;
}

// --- Tensors

static bool shape_take(gguf_reader *r, gguf_tensor *out, uint64_t *elements) {
  uint64_t rank, dim;
  if (!number_take(r, 4, "a rank", &rank)) return false;
  if (rank > GGUF_RANK_MAX)
    return FAIL(r, "tensor %.*s has %llu dims, expected at most %d",
                shown(out->name), out->name.at, (unsigned long long)rank,
                GGUF_RANK_MAX);
  out->rank = (int32_t)rank;
  // As if no dim were 0: strides are products of some of them.
  uint64_t most = 1;
  bool is_empty = false;
  for (int32_t d = out->rank - 1; d >= 0; --d) {
    if (!number_take(r, 8, "a dim", &dim)) return false;
    is_empty |= dim == 0;
    if (__builtin_mul_overflow(most, dim > 0 ? dim : 1, &most) ||
        most > INT64_MAX)
      return FAIL(r, "tensor %.*s has more elements than memory",
                  shown(out->name), out->name.at);
    out->shape[d] = (int64_t)dim;
  }
  *elements = is_empty ? 0 : most;
  return true;
}

static bool size_find(gguf_reader *r, uint64_t code, uint64_t elements,
                      gguf_tensor *out) {
  int t = 0;
  while (t < TENSOR_TYPES && tensor_types[t].code != code) ++t;
  if (t == TENSOR_TYPES)
    return FAIL(r,
                "tensor %.*s has type %llu, expected F32 (0), F16 (1), Q4_0 "
                "(2), Q8_0 (8), Q4_K (12), Q6_K (14) or BF16 (30)",
                shown(out->name), out->name.at, (unsigned long long)code);
  const uint32_t block = tensor_types[t].elements;
  const int64_t row = out->rank > 0 ? out->shape[out->rank - 1] : 1;
  out->type = tensor_types[t].name;
  if (row % block != 0)
    return FAIL(r,
                "tensor %.*s of type %s has rows of %lld elements, expected a "
                "multiple of %u",
                shown(out->name), out->name.at, out->type, (long long)row,
                block);
  uint64_t bytes;
  if (__builtin_mul_overflow(elements / block, tensor_types[t].bytes, &bytes) ||
      bytes > r->size)
    return FAIL(r, "tensor %.*s has more bytes than the file, %zu",
                shown(out->name), out->name.at, r->size);
  out->size = (size_t)bytes;
  return true;
}

// Reads one, whose type, size and place are not looked at.
static bool tensor_take(gguf_reader *r, gguf_tensor *out, uint64_t *elements,
                        uint64_t *type, uint64_t *offset) {
  *out = (gguf_tensor){0};
  return text_take(r, "a tensor's name", &out->name) &&
         shape_take(r, out, elements) &&
         number_take(r, 4, "a tensor's type", type) &&
         number_take(r, 8, "an offset", offset);
}

bool gguf_tensor_next(gguf_reader *r, gguf_tensor *out) {
  uint64_t elements, type, offset;
  if (!tensor_take(r, out, &elements, &type, &offset) ||
      !size_find(r, type, elements, out))
    return false;
  if (offset % r->alignment != 0)
    return FAIL(r, "tensor %.*s has offset %llu, expected a multiple of %llu",
                shown(out->name), out->name.at, (unsigned long long)offset,
                (unsigned long long)r->alignment);
  if (r->data_begin > r->size || offset > r->size - r->data_begin ||
      out->size > r->size - r->data_begin - (size_t)offset)
    return FAIL(r,
                "tensor %.*s has %zu bytes at %llu behind byte %zu, but the "
                "file ends at %zu",
                shown(out->name), out->name.at, out->size,
                (unsigned long long)offset, r->data_begin, r->size);
  out->offset = r->data_begin + (size_t)offset;
  --r->tensors_left;
  return true;
}

// --- The whole

static bool counts_take(gguf_reader *r) {
  uint64_t version;
  if (r->size < 8 || memcmp(r->bytes, "GGUF", 4) != 0)
    return FAIL(r, "no GGUF file: it does not begin with \"GGUF\"");
  r->at = 4;
  if (!number_take(r, 4, "a version", &version)) return false;
  if (version < VERSION_FIRST || version > VERSION)
    return FAIL(r, "GGUF version %llu%s, expected %d or %d",
                (unsigned long long)version,
                version << 48 == 0 ? " (big-endian)" : "", VERSION_FIRST,
                VERSION);
  return number_take(r, 8, "a count", &r->tensors_left) &&
         number_take(r, 8, "a count", &r->fields_left);
}

static bool alignment_read(gguf_reader *r, const gguf_field *field) {
  static const char name[] = "general.alignment";
  if (field->name.length != strlen(name) ||
      memcmp(field->name.at, name, strlen(name)) != 0)
    return true;
  const uint64_t given =
      field->type == GGUF_U32 && !field->is_list ? number_at(field->at, 4) : 0;
  if (given < LEAST_ALIGNMENT || (given & (given - 1)) != 0)
    return FAIL(r,
                "general.alignment is %llu, expected a power of two from %d "
                "on, of type uint32",
                (unsigned long long)given, LEAST_ALIGNMENT);
  r->alignment = given;
  return true;
}

bool gguf_begin(gguf_reader *r, const void *bytes, size_t size) {
  gguf_field field;
  gguf_tensor tensor;
  uint64_t elements, type, offset;
  *r = (gguf_reader){.bytes = bytes, .size = size, .alignment = ALIGNMENT};
  if (!counts_take(r)) return false;
  const gguf_reader first = *r;
  while (r->fields_left > 0)
    if (!gguf_field_next(r, &field) || !alignment_read(r, &field)) return false;
  for (uint64_t i = 0; i < r->tensors_left; ++i)
    if (!tensor_take(r, &tensor, &elements, &type, &offset)) return false;
  r->data_begin = (r->at + r->alignment - 1) / r->alignment * r->alignment;
  r->at = first.at;
  r->fields_left = first.fields_left;
  return true;
}
