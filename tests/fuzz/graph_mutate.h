// SPDX-License-Identifier: Apache-2.0
// Changes to a graph's text that keep most of it a graph: numbers, operators,
// operands, types, layouts and whole lines. For one fuzzer: all of it is
// static.

#ifndef OG_TESTS_GRAPH_MUTATE_H
#define OG_TESTS_GRAPH_MUTATE_H

#include <ctype.h>

#include "graph/graph.h"
#include "graph/op.h"
#include "tools/graph_make.h"

enum { TEXT_MAX = 12000, PLACES_MAX = 512 };

typedef struct edit {
  maker chance;  // only its state
  char text[TEXT_MAX + 1];
  size_t length;
} edit;

static size_t any(edit *e, size_t limit) {
  return limit == 0 ? 0 : (size_t)below(&e->chance, (int64_t)limit);
}

// Puts `word` in place of `size` bytes; nothing where there is no room.
static void put(edit *e, size_t at, size_t size, const char *word) {
  const size_t n = strlen(word);
  if (e->length - size + n > TEXT_MAX) return;
  memmove(e->text + at + n, e->text + at + size, e->length - at - size);
  memcpy(e->text + at, word, n);
  e->length += n - size;
  e->text[e->length] = '\0';
}

static bool is_word(char c) {
  return isalnum((unsigned char)c) || c == '_' || c == '.';
}

// The words of a kind: where they begin.
typedef bool (*word_fn)(const edit *e, size_t at);

static bool is_digits(const edit *e, size_t at) {
  return isdigit((unsigned char)e->text[at]);
}
static bool is_use(const edit *e, size_t at) {
  return at > 0 && e->text[at - 1] == '%';
}
static bool is_type(const edit *e, size_t at) {
  return strchr("fbiu", e->text[at]) != NULL &&
         strchr(" ", at > 0 ? e->text[at - 1] : '\n') != NULL &&
         e->text[at + strcspn(e->text + at, "[ \n")] == '[';
}
static bool is_operator(const edit *e, size_t at) {
  return at > 2 && e->text[at - 1] == ' ' && e->text[at - 2] == '=' &&
         e->text[at + strcspn(e->text + at, "( \n")] == '(';
}

static size_t word_length(const edit *e, size_t at) {
  size_t n = 0;
  while (is_word(e->text[at + n])) ++n;
  return n;
}

// Any word of the kind behind `from`; false where there is none.
static bool word_find(edit *e, size_t from, word_fn is_kind, size_t *out_at) {
  size_t places[PLACES_MAX], count = 0;
  for (size_t at = from; at < e->length && count < PLACES_MAX; ++at) {
    const bool is_first = at == 0 || !is_word(e->text[at - 1]);
    if (is_first && is_word(e->text[at]) && is_kind(e, at))
      places[count++] = at;
  }
  if (count == 0) return false;
  *out_at = places[any(e, count)];
  return true;
}

static size_t body_begin(const edit *e) {
  const char *brace = strstr(e->text, ") {\n");
  return brace != NULL ? (size_t)(brace - e->text) + 4 : e->length;
}

// Any line of the body, its newline included; false where there is none.
static bool line_find(edit *e, size_t *out_at, size_t *out_length) {
  size_t places[PLACES_MAX], count = 0;
  for (size_t at = body_begin(e); at < e->length && count < PLACES_MAX;) {
    if (strncmp(e->text + at, "  return", 8) == 0) break;
    places[count++] = at;
    at += strcspn(e->text + at, "\n") + 1;
  }
  if (count == 0) return false;
  *out_at = places[any(e, count)];
  *out_length = strcspn(e->text + *out_at, "\n") + 1;
  return *out_at + *out_length <= e->length;
}

// --- Edits -------------------------------------------------------------------

static void edit_number(edit *e) {
  static const char *const numbers[] = {"0",
                                        "1",
                                        "2",
                                        "3",
                                        "4",
                                        "5",
                                        "6",
                                        "7",
                                        "8",
                                        "9",
                                        "12",
                                        "16",
                                        "-1",
                                        "-2",
                                        "1000",
                                        "s0",
                                        "1",
                                        "2",
                                        "3",
                                        "65536",
                                        "2147483647",
                                        "100000",
                                        "s0*2",
                                        "64",
                                        "0",
                                        "1",
                                        "s0+1",
                                        "4294967296",
                                        "max(s0, 2)",
                                        "s0 // 2",
                                        "0.5",
                                        "2",
                                        "2",
                                        "4",
                                        "6",
                                        "-2147483648",
                                        "9223372036854775807"};
  size_t at;
  if (!word_find(e, 0, is_digits, &at)) return;
  put(e, at, word_length(e, at),
      numbers[any(e, sizeof numbers / sizeof *numbers)]);
}

static void edit_operator(edit *e) {
  size_t at;
  if (!word_find(e, body_begin(e), is_operator, &at)) return;
  const size_t length = word_length(e, at);
  const int32_t old = og_op_find(e->text + at, length);
  // One that takes as many operands and gives as many results, if it comes up.
  for (int tries = 0; tries < 60; ++tries) {
    const og_op_info *found = &og_ops[any(e, OG_IR_COUNT)];
    if (old >= 0 && (found->in_min != og_ops[old].in_min ||
                     found->out_count != og_ops[old].out_count))
      continue;
    put(e, at, length, found->name);
    return;
  }
}

static void edit_operand(edit *e) {
  size_t at, from;
  char name[64];
  if (!word_find(e, body_begin(e), is_use, &at) ||
      !word_find(e, 0, is_use, &from))
    return;
  const size_t length = word_length(e, from);
  if (length >= sizeof name) return;
  memcpy(name, e->text + from, length);
  name[length] = '\0';
  put(e, at, word_length(e, at), name);
}

static void edit_type(edit *e) {
  static const char *const types[] = {"f32", "f64", "f16", "bf16", "i64",
                                      "i32", "i8",  "u8",  "bool", "c64"};
  size_t at;
  if (word_find(e, 0, is_type, &at))
    put(e, at, word_length(e, at), types[any(e, 10)]);
}

// The sizes of a type, where all are numbers; -1 where they are not.
static int sizes_read(const edit *e, size_t at, int64_t *sizes,
                      size_t *out_end) {
  const char *rest = e->text + at + strcspn(e->text + at, "[\n");
  int count = 0;
  if (*rest != '[') return -1;
  for (++rest; *rest != ']'; ++count) {
    char *end;
    if (count == 4) return -1;
    sizes[count] = strtoll(rest, &end, 10);
    if (end == rest || sizes[count] < 0 || sizes[count] > 1000) return -1;
    rest = end + strspn(end, ", ");
  }
  *out_end = (size_t)(rest - e->text) + 1;
  return count;
}

// Strides that are dense in any order of the dims, then perhaps wider, turned
// round, repeated or crossed.
static void layout_print(edit *e, const int64_t *sizes, int count, char *out,
                         size_t room) {
  int64_t strides[4] = {0}, stride = 1, offset = any(e, 3) == 0 ? 1 : 0;
  bool is_set[4] = {false};
  for (int k = 0; k < count; ++k) {
    int d = (int)any(e, (size_t)count);
    while (is_set[d]) d = (d + 1) % count;
    is_set[d] = true;
    strides[d] = stride;
    stride *= sizes[d] > 0 ? sizes[d] : 1;
    if (any(e, 6) == 0) stride += (int64_t)any(e, 4);
  }
  if (count > 0 && any(e, 5) == 0) strides[any(e, (size_t)count)] = 0;
  if (count > 0 && any(e, 5) == 0) {
    const size_t d = any(e, (size_t)count);
    offset += sizes[d] > 0 ? (sizes[d] - 1) * strides[d] : 0;
    strides[d] = -strides[d];
  }
  if (count > 0 && any(e, 6) == 0)
    strides[any(e, (size_t)count)] = 1 + (int64_t)any(e, 4);
  size_t used = (size_t)snprintf(out, room, "{");
  for (int d = 0; d < count; ++d)
    used += (size_t)snprintf(out + used, room - used, "%s%" PRId64,
                             d > 0 ? ", " : "", strides[d]);
  snprintf(out + used, room - used, offset != 0 ? "}+(%" PRId64 ")" : "}",
           offset);
}

static void edit_layout(edit *e) {
  size_t at, end;
  int64_t sizes[4];
  char layout[160];
  if (!word_find(e, any(e, 4) == 0 ? 0 : body_begin(e), is_type, &at)) return;
  const int count = sizes_read(e, at, sizes, &end);
  if (count < 0) return;
  size_t old = 0;
  if (e->text[end] == '{') old = strcspn(e->text + end, "}\n") + 1;
  if (e->text[end + old] == '+') old += strcspn(e->text + end + old, ")\n") + 1;
  if (end + old > e->length) return;
  layout_print(e, sizes, count, layout, sizeof layout);
  put(e, end, old, layout);
}

// The value that a type belongs to: "%name: " stands before it.
static bool owner_find(const edit *e, size_t at, char *out, size_t room) {
  if (at < 3 || e->text[at - 2] != ':') return false;
  size_t begin = at - 2;
  while (begin > 0 && is_word(e->text[begin - 1])) --begin;
  if (begin == 0 || e->text[begin - 1] != '%' || at - 2 - begin >= room)
    return false;
  memcpy(out, e->text + begin, at - 2 - begin);
  out[at - 2 - begin] = '\0';
  return true;
}

// A line of a value that is there already: a view of it, or a write to it.
static void edit_add(edit *e) {
  size_t at, end, line, length;
  int64_t sizes[4], part[4];
  char name[64], layout[160], added[500], type[8] = "";
  if (!word_find(e, 0, is_type, &at) || !owner_find(e, at, name, sizeof name) ||
      word_length(e, at) >= sizeof type)
    return;
  memcpy(type, e->text + at, word_length(e, at));
  const int count = sizes_read(e, at, sizes, &end);
  if (count < 0 || !line_find(e, &line, &length)) return;
  const unsigned fresh_name = (unsigned)any(e, 100000);
  char shape[120] = "";
  for (int d = 0; d < count; ++d) {
    part[d] = sizes[d] > 1 && any(e, 3) == 0 ? sizes[d] - 1 : sizes[d];
    snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%" PRId64,
             d > 0 ? ", " : "", part[d]);
  }
  layout_print(e, any(e, 3) == 0 ? part : sizes, count, layout, sizeof layout);
  switch (any(e, 3)) {
    case 0:
      snprintf(added, sizeof added, "  %%w%u: %s[%s]%s = view(%%%s)\n",
               fresh_name, type, shape, layout, name);
      break;
    case 1:
      snprintf(added, sizeof added,
               "  %%w%u: %s[%s] = view(%%%s)\n  %%x%u: %s[%s] in %%%s = "
               "copy_to(%%w%u, %%%s)\n",
               fresh_name, type, shape, name, fresh_name, type, shape, name,
               fresh_name, name);
      break;
    default:
      snprintf(added, sizeof added, "  %%w%u: %s[%s]%s = add(%%%s, 1)\n",
               fresh_name, type, shape, any(e, 2) == 0 ? "" : layout, name);
  }
  put(e, line + (any(e, 2) == 0 ? length : 0), 0, added);
}

static void edit_lines(edit *e) {
  size_t at, length, to, to_length;
  char line[400];
  if (!line_find(e, &at, &length) || length >= sizeof line) return;
  memcpy(line, e->text + at, length);
  line[length] = '\0';
  if (any(e, 2) == 0) put(e, at, length, "");
  if (any(e, 3) > 0 && line_find(e, &to, &to_length)) put(e, to, 0, line);
}

// A value more that is returned.
static void edit_return(edit *e) {
  size_t from;
  char added[80];
  const char *end = strstr(e->text, "\n}");
  if (end == NULL || !word_find(e, 0, is_use, &from)) return;
  snprintf(added, sizeof added, ", %%%.*s", (int)word_length(e, from),
           e->text + from);
  put(e, (size_t)(end - e->text), 0, added);
}

// "in %x" behind a type: the result overwrites that.
static void edit_place(edit *e) {
  size_t at, from;
  char added[80];
  if (!word_find(e, body_begin(e), is_type, &at) ||
      !word_find(e, 0, is_use, &from))
    return;
  at += strcspn(e->text + at, "]\n") + 1;
  if (at >= e->length) return;
  snprintf(added, sizeof added, " in %%%.*s", (int)word_length(e, from),
           e->text + from);
  put(e, at, 0, added);
}

static void text_mutate(edit *e) {
  static void (*const edits[])(edit *) = {
      edit_number, edit_operator, edit_operand, edit_type,  edit_layout,
      edit_layout, edit_add,      edit_add,     edit_lines, edit_return,
      edit_place,  edit_operator, edit_operand};
  for (size_t n = 1 + any(e, 3); n > 0; --n)
    edits[any(e, sizeof edits / sizeof *edits)](e);
}

static void text_fresh(edit *e, uint64_t seed) {
  static maker made;
  memset(&made, 0, sizeof made);
  graph_make(&made, seed);
  if (!made.text.failed && made.text.length <= TEXT_MAX) {
    e->length = made.text.length;
    memcpy(e->text, made.text.data, e->length + 1);
  }
  og_text_reset(&made.text);
}

#endif  // OG_TESTS_GRAPH_MUTATE_H
