// SPDX-License-Identifier: Apache-2.0
// Calls that stay inferred, one of each operator.

#include "jax/kept.h"

#include <string.h>

// --- Attributes as bytes -----------------------------------------------------

typedef struct stream {
  char *bytes;
  size_t size;
  size_t used;
  int is_written;  // else compared
} stream;

// 0 where the bytes differ, or no room is left.
static int pass(stream *s, const void *bytes, size_t size) {
  if (size > s->size - s->used) return 0;
  char *own = s->bytes + s->used;
  s->used += size;
  if (size == 0) return 1;
  if (!s->is_written) return memcmp(own, bytes, size) == 0;
  memcpy(own, bytes, size);
  return 1;
}

static int text_pass(stream *s, const xla_span *text) {
  return pass(s, &text->length, sizeof text->length) &&
         pass(s, text->text, text->length);
}

// Of elements whose size is known.
static int numbers_pass(stream *s, int32_t type, const void *values,
                        size_t count) {
  const size_t size = (og_jax_dtype(type).bits + 7u) / 8u;
  return size > 0 && count <= OG_JAX_KEPT_BYTES &&
         pass(s, &type, sizeof type) && pass(s, &count, sizeof count) &&
         pass(s, values, count * size);
}

static int value_pass(stream *s, int32_t kind, const void *value) {
  const xla_scalar *scalar = value;
  const xla_array *array = value;
  switch (kind) {
    case XLA_ATTR_SCALAR:
      return numbers_pass(s, scalar->type, scalar->value, 1);
    case XLA_ATTR_ARRAY:
      return numbers_pass(s, array->type, array->values, array->count);
    case XLA_ATTR_STRING:
      return text_pass(s, value);
    default:
      return 0;
  }
}

static int attrs_pass(stream *s, const xla_attrs *attrs) {
  int is_passed = 1;
  for (int64_t i = 0; is_passed && i < attrs->count; ++i) {
    const int32_t kind = attrs->kinds[i];
    is_passed = text_pass(s, attrs->names[i]) && pass(s, &kind, sizeof kind) &&
                value_pass(s, kind, attrs->values[i]);
  }
  return is_passed;
}

void og_jax_kept_keep(og_jax_kept *kept, const xla_attrs *attrs) {
  stream s = {kept->attrs, sizeof kept->attrs, 0, 1};
  if (!attrs_pass(&s, attrs)) return;
  kept->attrs_used = s.used;
  og_host_kept_keep(kept->kept);
}

int og_jax_kept_matches(og_jax_kept *kept, const xla_attrs *attrs) {
  stream s = {kept->attrs, kept->attrs_used, 0, 0};
  return kept->kept->is_inferred && attrs_pass(&s, attrs) &&
         s.used == kept->attrs_used;
}

// --- One of each operator ----------------------------------------------------

static og_host_kept_table kepts = {.entry_bytes = sizeof(og_jax_kept)};

og_jax_kept *og_jax_kept_take(int32_t op) {
  return og_host_kept_table_take(&kepts, op);
}

void og_jax_kept_give(og_jax_kept *kept) { og_host_kept_give(kept->kept); }

__attribute__((destructor)) static void kepts_drop(void) {
  og_host_kept_table_drop(&kepts);
}
