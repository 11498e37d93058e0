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

#define TEXT(type, member) \
  { #member, FIELD_TEXT, offsetof(type, member) }
#define INT(type, member) \
  { #member, FIELD_INT, offsetof(type, member) }
#define REAL(type, member) \
  { #member, FIELD_REAL, offsetof(type, member) }

static const field run_fields[] = {
    TEXT(og_trace_run, script),  TEXT(og_trace_run, arguments),
    TEXT(og_trace_run, torch),   TEXT(og_trace_run, python),
    TEXT(og_trace_run, adapter), TEXT(og_trace_run, machine),
    TEXT(og_trace_run, home),    INT(og_trace_run, threads),
};
static const field hook_fields[] = {
    TEXT(og_trace_hook, name),
    TEXT(og_trace_hook, state),
    TEXT(og_trace_hook, text),
};
static const field entry_fields[] = {
    INT(og_trace_entry, id),     TEXT(og_trace_entry, name),
    TEXT(og_trace_entry, file),  INT(og_trace_entry, line),
    TEXT(og_trace_entry, owner), TEXT(og_trace_entry, backend),
};
static const field frame_fields[] = {
    INT(og_trace_frame, id),
    INT(og_trace_frame, entry),
    TEXT(og_trace_frame, name),
    TEXT(og_trace_frame, file),
    INT(og_trace_frame, line),
    TEXT(og_trace_frame, compile),
    TEXT(og_trace_frame, outcome),
    TEXT(og_trace_frame, reason),
    INT(og_trace_frame, after),
    {"counted", FIELD_INT, offsetof(og_trace_frame, is_counted)},
    {"between", FIELD_INT, offsetof(og_trace_frame, is_between)},
    INT(og_trace_frame, ns),
    INT(og_trace_frame, restart_ns),
    INT(og_trace_frame, backend_ns),
};
static const field cause_fields[] = {
    INT(og_trace_cause, frame),
    INT(og_trace_cause, graph),
    INT(og_trace_cause, entry),
    TEXT(og_trace_cause, stage),
    TEXT(og_trace_cause, id),
    TEXT(og_trace_cause, title),
    TEXT(og_trace_cause, text),
    TEXT(og_trace_cause, file),
    INT(og_trace_cause, line),
    TEXT(og_trace_cause, function),
    TEXT(og_trace_cause, code),
    TEXT(og_trace_cause, owner),
    TEXT(og_trace_cause, at_file),
    INT(og_trace_cause, at_line),
    TEXT(og_trace_cause, guard),
    {"op", FIELD_TEXT, offsetof(og_trace_cause, operator_)},
};
static const field graph_fields[] = {
    INT(og_trace_graph, id),  INT(og_trace_graph, frame),
    INT(og_trace_graph, ops), INT(og_trace_graph, boundary_bytes),
    INT(og_trace_graph, ns),  TEXT(og_trace_graph, backend),
};
static const field lower_fields[] = {
    INT(og_trace_lower, graph),   TEXT(og_trace_lower, kind),
    INT(og_trace_lower, nodes),   INT(og_trace_lower, kernels),
    INT(og_trace_lower, externs), INT(og_trace_lower, ns),
};
static const field step_fields[] = {
    INT(og_trace_step, entry),      INT(og_trace_step, run),
    TEXT(og_trace_step, mode),      INT(og_trace_step, ns),
    INT(og_trace_step, forward_ns),
};
static const field mark_fields[] = {
    INT(og_trace_mark, entry), INT(og_trace_mark, run),
    INT(og_trace_mark, graph), INT(og_trace_mark, begin),
    INT(og_trace_mark, end),
};
static const field ops_fields[] = {
    INT(og_trace_ops, entry),
    INT(og_trace_ops, inside),
    INT(og_trace_ops, outside),
};
static const field hlo_fields[] = {
    INT(og_trace_hlo, entry),    TEXT(og_trace_hlo, mode),
    INT(og_trace_hlo, graphs),   INT(og_trace_hlo, fallbacks),
    INT(og_trace_hlo, compiles), INT(og_trace_hlo, compile_ns),
};
static const field spent_fields[] = {
    INT(og_trace_spent, entry), TEXT(og_trace_spent, file),
    INT(og_trace_spent, line),  TEXT(og_trace_spent, what),
    INT(og_trace_spent, ns),    INT(og_trace_spent, calls),
};
static const field fix_fields[] = {
    TEXT(og_trace_fix, file),
    INT(og_trace_fix, line),
    TEXT(og_trace_fix, at_file),
    INT(og_trace_fix, at_line),
    TEXT(og_trace_fix, id),
    {"class", FIELD_TEXT, offsetof(og_trace_fix, class_)},
    TEXT(og_trace_fix, title),
    TEXT(og_trace_fix, diff),
    TEXT(og_trace_fix, status),
    TEXT(og_trace_fix, text),
    REAL(og_trace_fix, before_ms),
    REAL(og_trace_fix, after_ms),
};
static const field source_fields[] = {
    TEXT(og_trace_source, file),
    INT(og_trace_source, line),
    TEXT(og_trace_source, text),
};
static const field note_fields[] = {
    TEXT(og_trace_note, text),
};
static const field counts_fields[] = {
    INT(og_trace_counts, total),         INT(og_trace_counts, ok),
    INT(og_trace_counts, hooks_ns),      INT(og_trace_counts, compile_ns),
    REAL(og_trace_counts, reachable_ms), REAL(og_trace_counts, stretch),
};
static const field end_fields[] = {
    TEXT(og_trace_end, status),
    TEXT(og_trace_end, text),
};

#define KIND(name)                                              \
  {                                                             \
#name, sizeof(og_trace_##name), name##_fields,              \
        (int32_t)(sizeof name##_fields / sizeof *name##_fields) \
  }
// In the order of og_trace_kind.
static const kind kinds[OG_TRACE_KIND_COUNT] = {
    KIND(run),    KIND(hook),  KIND(entry), KIND(frame),  KIND(cause),
    KIND(graph),  KIND(lower), KIND(step),  KIND(mark),   KIND(ops),
    KIND(hlo),    KIND(spent), KIND(fix),   KIND(source), KIND(note),
    KIND(counts), KIND(end),
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
