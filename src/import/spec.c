// SPDX-License-Identifier: Apache-2.0
// The last column of aten.def, whose grammar that file gives.
//
// Invariant: the table is ours, so a mistake in it is an assertion; the unit
// test import_spec parses every row.

#include "import/spec.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "graph/op.h"

// One token, without blanks.
typedef struct span {
  const char *at;
  const char *end;
} span;

// What stands before `mark`, which `rest` then begins behind; the whole, with
// `rest->at` NULL, where there is no mark.
static span span_cut(span text, char mark, span *rest) {
  const char *found = memchr(text.at, mark, (size_t)(text.end - text.at));
  *rest = (span){found != NULL ? found + 1 : NULL, text.end};
  return (span){text.at, found != NULL ? found : text.end};
}

// "", "2" or "0.5"; nothing is NONE.
static opgraft_arg literal_parse(span text) {
  char copy[32] = "";
  const size_t length = (size_t)(text.end - text.at);
  opgraft_arg arg = {.kind = OPGRAFT_ARG_NONE};
  assert(length < sizeof copy);
  if (length == 0) return arg;
  memcpy(copy, text.at, length);
  if (strchr(copy, '.') == NULL) {
    arg.kind = OPGRAFT_ARG_INT;
    arg.i = strtoll(copy, NULL, 10);
    return arg;
  }
  arg.kind = OPGRAFT_ARG_FLOAT;
  const bool is_number = og_double_parse(copy, length, &arg.f);
  assert(is_number);
  (void)is_number;
  return arg;
}

// "3", "2|alpha?1", "|alpha?", "#0.5" or "-".
static bool source_parse(og_arena *arena, span text, og_spec_item *item) {
  span fallback, name;
  item->position = -1;
  if (*text.at == '-' || *text.at == '#') {
    item->fallback = literal_parse((span){text.at + 1, text.end});
    return true;
  }
  text = span_cut(text, '?', &fallback);
  item->is_required = fallback.at == NULL;
  if (!item->is_required) item->fallback = literal_parse(fallback);
  text = span_cut(text, '|', &name);
  if (text.at < text.end) item->position = (int32_t)strtol(text.at, NULL, 10);
  if (name.at == NULL) return true;
  item->name = og_arena_strndup(arena, name.at, (size_t)(name.end - name.at));
  return item->name != NULL;
}

static bool item_parse(og_arena *arena, int32_t op, bool is_attr, span text,
                       og_spec_item *out) {
  *out = (og_spec_item){.attr = -1};
  if (is_attr) {
    const span name = span_cut(text, '=', &text);
    out->attr = og_op_attr_index(op, name.at, (size_t)(name.end - name.at));
    assert(out->attr >= 0 && text.at != NULL);
  }
  return source_parse(arena, text, out);
}

static int32_t token_count(const char *at) {
  int32_t count = 0;
  for (at += strspn(at, " ;"); *at != '\0'; at += strspn(at, " ;")) {
    ++count;
    at += strcspn(at, " ;");
  }
  return count;
}

const og_spec *og_spec_parse(og_arena *arena, const og_aten_row *row) {
  const int32_t count = token_count(row->spec);
  const char *attrs = strchr(row->spec, ';');
  const char *at = row->spec;
  og_spec *spec =
      og_arena_alloc(arena, sizeof *spec + (size_t)count * sizeof *spec->items);
  if (spec == NULL) return NULL;
  spec->count = count;
  for (int32_t i = 0; i < count; ++i) {
    at += strspn(at, " ;");
    const span text = {at, at + strcspn(at, " ;")};
    const bool is_attr = attrs != NULL && at > attrs;
    if (!item_parse(arena, row->op, is_attr, text, &spec->items[i]))
      return NULL;
    at = text.end;
  }
  return spec;
}
