// SPDX-License-Identifier: Apache-2.0
// The header of a GGUF file, item by item: what is in it, apart from where it
// came from. Its bytes are not trusted. Needs nothing but libc.
//
//   gguf_reader r;
//   if (!gguf_begin(&r, bytes, size)) fail(r.error);
//   while (r.fields_left > 0 && gguf_field_next(&r, &field)) ...
//   while (r.tensors_left > 0 && gguf_tensor_next(&r, &tensor)) ...

#ifndef OG_TORCH_GGUF_READER_H
#define OG_TORCH_GGUF_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GGUF_RANK_MAX = 4 };

typedef enum gguf_type {  // of a field, as files have it
  GGUF_U8,
  GGUF_I8,
  GGUF_U16,
  GGUF_I16,
  GGUF_U32,
  GGUF_I32,
  GGUF_F32,
  GGUF_BOOL,
  GGUF_TEXT,
  GGUF_LIST,
  GGUF_U64,
  GGUF_I64,
  GGUF_F64,
  GGUF_TYPES,
} gguf_type;

typedef struct gguf_text {
  const char *at;  // without a NUL
  size_t length;
} gguf_text;

typedef struct gguf_reader {
  const uint8_t *bytes;
  size_t size, at;
  size_t data_begin;  // tensors' offsets count from there
  uint64_t alignment;
  uint64_t fields_left, tensors_left;
  char error[224];  // after false: what was found where, and expected
} gguf_reader;

typedef struct gguf_field {
  gguf_text name;
  gguf_type type;  // of a list, its elements'
  bool is_list;
  size_t count;       // 1 where it is not a list
  const uint8_t *at;  // the elements, all of them within the file
} gguf_field;

typedef struct gguf_tensor {
  gguf_text name;
  const char *type;  // "Q4_K"
  int32_t rank;
  int64_t shape[GGUF_RANK_MAX];  // the dim whose elements are neighbours last
  size_t offset, size;           // in the file, which holds all of it
} gguf_tensor;

// Checks the whole header, so that what follows fails on no byte of it but a
// tensor's type, shape and place.
bool gguf_begin(gguf_reader *r, const void *bytes, size_t size);
// False where there is a fault; all fields before the first tensor.
bool gguf_field_next(gguf_reader *r, gguf_field *out);
bool gguf_tensor_next(gguf_reader *r, gguf_tensor *out);
// The text at an element of type GGUF_TEXT, and where the next one begins.
gguf_text gguf_text_take(const uint8_t **at);
// Bytes of an element; 0 of texts and lists.
size_t gguf_type_bytes(gguf_type type);

#endif  // OG_TORCH_GGUF_READER_H
