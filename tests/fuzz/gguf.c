// SPDX-License-Identifier: Apache-2.0
// GGUF headers: any bytes give fields and tensors within the file, or an error.

#include <stdlib.h>
#include <string.h>

#include "torch/gguf/reader.h"

extern const int fuzz_is_reader;
const int fuzz_is_reader = 1;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void within(const void *at, size_t bytes, const uint8_t *data,
                   size_t size) {
  const size_t begin = (size_t)((const uint8_t *)at - data);
  if (begin > size || bytes > size - begin) abort();
}

static size_t field_bytes(const gguf_field *field) {
  const uint8_t *at = field->at;
  if (field->type != GGUF_TEXT)
    return field->count * gguf_type_bytes(field->type);
  for (size_t i = 0; i < field->count; ++i) (void)gguf_text_take(&at);
  return (size_t)(at - field->at);
}

static void tensor_check(const gguf_tensor *tensor, const uint8_t *data,
                         size_t size) {
  int64_t elements = 1;
  within(tensor->name.at, tensor->name.length, data, size);
  within(data + tensor->offset, tensor->size, data, size);
  for (int32_t d = 0; d < tensor->rank; ++d) elements *= tensor->shape[d];
  // Every type has more than half a byte an element, and at most 4.
  if ((uint64_t)elements / 2 > tensor->size ||
      tensor->size > (uint64_t)elements * 4)
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  gguf_reader r;
  gguf_field field;
  gguf_tensor tensor;
  bool is_right = gguf_begin(&r, data, size);
  while (is_right && r.fields_left > 0) {
    if (!gguf_field_next(&r, &field)) abort();  // gguf_begin checked them
    within(field.name.at, field.name.length, data, size);
    within(field.at, field_bytes(&field), data, size);
  }
  while (is_right && r.tensors_left > 0) {
    is_right = gguf_tensor_next(&r, &tensor);
    if (is_right) tensor_check(&tensor, data, size);
  }
  if (!is_right && (r.error[0] == '\0' || strlen(r.error) >= sizeof r.error))
    abort();
  return 0;
}
