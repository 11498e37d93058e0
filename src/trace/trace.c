// SPDX-License-Identifier: Apache-2.0
// The reader of event files: one table row per field of a line.
//
// Invariants: every text field of an item is a string of the arena, "" where
// the line does not have it.

#include "trace/trace.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum field_type { FIELD_TEXT, FIELD_INT, FIELD_REAL } field_type;

typedef struct field {
  const char *key;
  field_type type;
  size_t offset;
} field;

typedef struct kind {
  const char *name;
  size_t size_bytes;
  const field *fields;
  int32_t field_count;
} kind;

#define OG_LINE(kind) static const field kind##_fields[] = {
#define OG_FIELD(kind, type, member) OG_FIELD_AS(kind, type, member, #member)
#define OG_FIELD_AS(kind, type, member, key) \
  {key, FIELD_##type, offsetof(og_trace_##kind, member)},
#define OG_END(kind) \
  }                  \
  ;
#include "trace/lines.def"
#undef OG_LINE
#undef OG_FIELD
#undef OG_FIELD_AS
#undef OG_END

static const kind kinds[OG_TRACE_KIND_COUNT] = {
#define OG_LINE(kind)                             \
  {#kind, sizeof(og_trace_##kind), kind##_fields, \
   (int32_t)(sizeof kind##_fields / sizeof *kind##_fields)},
#define OG_FIELD(kind, type, member)
#define OG_FIELD_AS(kind, type, member, key)
#define OG_END(kind)
#include "trace/lines.def"
};

static const char header[] = "opgraft-events 1";

typedef struct reader {
  og_trace *trace;
  opgraft_error *error;
  int64_t line;
} reader;

static og_status out_of_memory(const reader *r) {
  return og_error_set(r->error, OG_MEMORY, NULL, NULL,
                      "events: line %lld: out of memory", (long long)r->line);
}

// --- Values ------------------------------------------------------------------

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The byte that stands for the escape at `s` (after the backslash), and how
// many characters it took; 0 where there is no such escape.
static size_t escape_read(const char *s, size_t length, char *out_byte) {
  static const char names[] = "tnr\\";
  static const char bytes[] = "\t\n\r\\";
  if (length == 0) return 0;
  const char *found = memchr(names, s[0], 4);
  if (found != NULL) {
    *out_byte = bytes[found - names];
    return 1;
  }
  if (s[0] != 'x' || length < 3) return 0;
  const int high = hex_digit(s[1]), low = hex_digit(s[2]);
  if (high < 0 || low < 0) return 0;
  *out_byte = (char)(high * 16 + low);
  return 3;
}

static og_status text_read(const reader *r, const char *s, size_t length,
                           const char **out_text) {
  char *text = og_arena_alloc(&r->trace->arena, length + 1);
  if (text == NULL) return out_of_memory(r);
  size_t used = 0;
  for (size_t i = 0; i < length; ++i) {
    char byte = s[i];
    if (byte == '\\') {
      const size_t taken = escape_read(s + i + 1, length - i - 1, &byte);
      if (taken == 0)
        return og_error_set(
            r->error, OG_INVALID, NULL, NULL,
            "events: line %lld: a backslash is followed by no escape; expected "
            "\\t, \\n, \\r, \\\\ or \\xHH",
            (long long)r->line);
      i += taken;
    }
    // A NUL would end the string early.
    text[used++] = byte != '\0' ? byte : '?';
  }
  *out_text = text;
  return OG_OK;
}

static bool int_read(const char *s, size_t length, int64_t *out_value) {
  char digits[24];
  char *end;
  if (length == 0 || length >= sizeof digits) return false;
  if (s[0] != '-' && (s[0] < '0' || s[0] > '9')) return false;
  memcpy(digits, s, length);
  digits[length] = '\0';
  errno = 0;
  *out_value = strtoll(digits, &end, 10);
  return errno == 0 && *end == '\0' && end != digits;
}

static bool real_read(const char *s, size_t length, double *out_value) {
  return og_double_parse(s, length, out_value) && isfinite(*out_value);
}

static og_status value_read(const reader *r, const field *f, const char *s,
                            size_t length, char *item) {
  const int shown = (int)(length < 40 ? length : 40);
  bool is_right = true;
  switch (f->type) {
    case FIELD_TEXT:
      return text_read(r, s, length, (const char **)(void *)(item + f->offset));
    case FIELD_INT:
      is_right = int_read(s, length, (int64_t *)(void *)(item + f->offset));
      break;
    case FIELD_REAL:
      is_right = real_read(s, length, (double *)(void *)(item + f->offset));
      break;
  }
  if (is_right) return OG_OK;
  return og_error_set(r->error, OG_INVALID, NULL, NULL,
                      "events: line %lld: %s is '%.*s', expected a %s",
                      (long long)r->line, f->key, shown, s,
                      f->type == FIELD_INT ? "whole number" : "number");
}

// --- Lines -------------------------------------------------------------------

static const field *field_find(const kind *k, const char *key, size_t length) {
  for (int32_t i = 0; i < k->field_count; ++i)
    if (strlen(k->fields[i].key) == length &&
        memcmp(k->fields[i].key, key, length) == 0)
      return &k->fields[i];
  return NULL;
}

static const kind *kind_find(const char *name, size_t length) {
  for (int i = 0; i < OG_TRACE_KIND_COUNT; ++i)
    if (strlen(kinds[i].name) == length &&
        memcmp(kinds[i].name, name, length) == 0)
      return &kinds[i];
  return NULL;
}

// A new item whose texts are "", NULL when memory is short.
static char *item_add(og_trace_list *list, const kind *k) {
  if (list->count == list->capacity) {
    const int32_t capacity = list->capacity > 0 ? list->capacity * 2 : 8;
    size_t bytes;
    if (list->capacity > INT32_MAX / 2 ||
        !og_size_mul((size_t)capacity, k->size_bytes, &bytes))
      return NULL;
    void *items = og_realloc(list->items, bytes);
    if (items == NULL) return NULL;
    list->items = items;
    list->capacity = capacity;
  }
  char *item = (char *)list->items + (size_t)list->count * k->size_bytes;
  memset(item, 0, k->size_bytes);
  for (int32_t i = 0; i < k->field_count; ++i)
    if (k->fields[i].type == FIELD_TEXT)
      *(const char **)(void *)(item + k->fields[i].offset) = "";
  ++list->count;
  return item;
}

static og_status line_read(reader *r, const char *s, size_t length) {
  const char *end = s + length;
  const char *tab = memchr(s, '\t', length);
  const kind *k = kind_find(s, tab != NULL ? (size_t)(tab - s) : length);
  if (k == NULL) {
    ++r->trace->unknown_count;
    return OG_OK;
  }
  char *item = item_add(&r->trace->list[k - kinds], k);
  if (item == NULL) return out_of_memory(r);
  while (tab != NULL) {
    const char *key = tab + 1;
    const size_t rest = (size_t)(end - key);
    tab = memchr(key, '\t', rest);
    const char *stop = tab != NULL ? tab : end;
    const char *equals = memchr(key, '=', (size_t)(stop - key));
    if (equals == NULL)
      return og_error_set(r->error, OG_INVALID, NULL, NULL,
                          "events: line %lld: '%.*s' has no '='; expected "
                          "key=value",
                          (long long)r->line,
                          (int)(stop - key < 40 ? stop - key : 40), key);
    const field *f = field_find(k, key, (size_t)(equals - key));
    if (f != NULL)  // a key of a later version says nothing here
      OG_TRY(value_read(r, f, equals + 1, (size_t)(stop - equals - 1), item));
  }
  return OG_OK;
}

static og_status header_read(const reader *r, const char *s, size_t length) {
  static const size_t name = sizeof "opgraft-events" - 1;
  if (length == sizeof header - 1 && memcmp(s, header, length) == 0)
    return OG_OK;
  if (length > name && memcmp(s, header, name) == 0)
    return og_error_set(
        r->error, OG_VERSION, NULL, NULL,
        "events: version is '%.*s', expected 1; use the opgraft "
        "that wrote the file",
        (int)(length - name < 20 ? length - name : 20), s + name);
  return og_error_set(r->error, OG_INVALID, NULL, NULL,
                      "events: the first line is '%.*s', expected '%s'; give a "
                      "file that `opgraft doctor --events FILE` wrote",
                      (int)(length < 40 ? length : 40), s, header);
}

og_status og_trace_read(const char *bytes, size_t size, og_trace *out_trace,
                        opgraft_error *error) {
  reader r = {out_trace, error, 0};
  *out_trace = (og_trace){0};
  const char *end = bytes + size;
  for (const char *s = bytes; s < end || r.line == 0;) {
    const char *newline = s < end ? memchr(s, '\n', (size_t)(end - s)) : NULL;
    const char *stop = newline != NULL ? newline : end;
    if (r.line++ == 0) {
      OG_TRY(header_read(&r, s, (size_t)(stop - s)));
    } else if (newline == NULL) {
      out_trace->is_truncated = true;
    } else if (stop > s) {
      OG_TRY(line_read(&r, s, (size_t)(stop - s)));
    }
    s = newline != NULL ? newline + 1 : end;
  }
  return OG_OK;
}

void og_trace_reset(og_trace *trace) {
  for (int i = 0; i < OG_TRACE_KIND_COUNT; ++i) og_free(trace->list[i].items);
  og_arena_destroy(&trace->arena);
  *trace = (og_trace){0};
}
