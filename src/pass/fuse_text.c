// SPDX-License-Identifier: Apache-2.0
// The text of a unit's row program.
//
// A node's statements stand over letters and names of their own; they are
// copied with operands and results named as the program has them.

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/op.h"
#include "pass/fuse.h"

typedef struct writer {
  og_fuser *f;
  int32_t unit;
  og_text text;
  opgraft_value in[OG_LOOP_INPUTS_MAX];
  opgraft_value out[OG_LOOP_OUTPUTS_MAX];
  int32_t in_count, out_count;
  int32_t name_count;  // of t0, t1, ...
  // By value that a member makes: 1 + the number of its name.
  int32_t *names;
} writer;

// A node's statements while they are copied.
typedef struct copier {
  writer *w;
  const og_node *node;
  const og_recipe *recipe;
  const char *locals[OG_LOOP_STATEMENTS_MAX];  // where each is first named
  size_t lengths[OG_LOOP_STATEMENTS_MAX];
  int32_t numbers[OG_LOOP_STATEMENTS_MAX];
  int32_t local_count;
} copier;

static size_t word_length(const char *at) {
  size_t length = 0;
  if (!isalpha((unsigned char)*at) && *at != '_') return 0;
  while (isalnum((unsigned char)at[length]) || at[length] == '_') ++length;
  return length;
}

// --- Numbers -----------------------------------------------------------------

// The fewest digits that are the same number in f32.
static void number_add(og_text *out, double exact) {
  const double number = (double)(float)exact;
  char digits[32];
  if (isnan(number) || isinf(number)) {
    og_text_add(out, isnan(number) ? "(infinity - infinity)"
                     : number > 0  ? "infinity"
                                   : "(-infinity)");
    return;
  }
  if (number == rint(number) && fabs(number) < 1e6 &&
      !(number == 0 && signbit(number))) {
    og_text_addf(out, number < 0 ? "(%d)" : "%d", (int)number);
    return;
  }
  double shortest = number;
  for (int precision = 1; precision <= 9; ++precision) {
    snprintf(digits, sizeof digits, "%.*g", precision, number);
    shortest = strtod(digits, NULL);
    if ((double)(float)shortest == number) break;
  }
  og_text_add(out, number < 0 || signbit(number) ? "(" : "");
  og_text_add_double(out, shortest);
  og_text_add(out, number < 0 || signbit(number) ? ")" : "");
}

static double literal_number(const og_value *value) {
  return value->dtype.code == OG_CODE_FLOAT ? value->number.f
                                            : (double)value->number.i;
}

// --- Names -------------------------------------------------------------------

static int32_t output_of(const writer *w, opgraft_value v) {
  for (int32_t r = 0; r < w->out_count; ++r)
    if (w->out[r] == v) return r;
  return -1;
}

static void value_add(writer *w, opgraft_value v) {
  const int32_t output = output_of(w, v);
  if (output >= 0)
    og_text_addf(&w->text, "y%d", (int)output);
  else
    og_text_addf(&w->text, "t%d", (int)w->names[v] - 1);
}

static void input_add(writer *w, opgraft_value v) {
  int32_t i = 0;
  while (i < w->in_count && w->in[i] != v) ++i;
  if (i == w->in_count) w->in[w->in_count++] = v;
  og_text_addf(&w->text, "x%d", (int)i);
}

// What stands in the row's defaults for a name: "b=1 c=0".
static const char *default_of(const og_recipe *recipe, const char *name,
                              size_t length) {
  for (const char *at = recipe->defaults; at != NULL && *at != '\0';) {
    const size_t own = word_length(at);
    if (own == length && memcmp(at, name, length) == 0) return at + own + 1;
    at += strcspn(at, " ");
    at += *at == ' ';
  }
  return NULL;
}

static void default_add(copier *c, const char *name, size_t length) {
  const char *text = default_of(c->recipe, name, length);
  if (text != NULL) og_text_add_n(&c->w->text, text, strcspn(text, " "));
}

static void operand_add(copier *c, int32_t i) {
  writer *w = c->w;
  const og_fuser *f = w->f;
  const char name = (char)('a' + i);
  const opgraft_value v = i < c->node->in_count ? c->node->in[i] : -1;
  if (v < 0) {
    default_add(c, &name, 1);
    return;
  }
  const og_value *value = &f->graph->values[v];
  const int32_t maker = f->graph->values[f->through[v]].node;
  if (value->kind == OG_VALUE_LITERAL)
    number_add(&w->text, literal_number(value));
  else if (maker >= 0 && f->unit_of[maker] == w->unit)
    value_add(w, f->through[v]);
  else
    input_add(w, v);
}

static bool attr_add(copier *c, const char *name, size_t length) {
  const int32_t a = og_op_attr_index(c->node->op, name, length);
  if (a < 0) return false;
  double number;
  if (og_fuse_number(c->w->f, og_node_attr(c->node, a), &number))
    number_add(&c->w->text, number);
  else
    default_add(c, name, length);
  return true;
}

static int32_t local_find(const copier *c, const char *name, size_t length) {
  for (int32_t i = 0; i < c->local_count; ++i)
    if (c->lengths[i] == length && memcmp(c->locals[i], name, length) == 0)
      return i;
  return -1;
}

// "y12" is result 12 of the node, "x3" operand 3; -1 for another name.
static int32_t number_of(char letter, const char *name, size_t length) {
  if (*name != letter || length < 2 || !isdigit((unsigned char)name[1]))
    return -1;
  return (int32_t)strtol(name + 1, NULL, 10);
}

static int32_t operand_of(const copier *c, const char *name, size_t length) {
  if (c->node->op == OG_IR_fused) return number_of('x', name, length);
  return length == 1 && *name >= 'a' && *name <= 'h' ? *name - 'a' : -1;
}

static void name_add(copier *c, const char *name, size_t length) {
  const int32_t local = local_find(c, name, length);
  const int32_t result = number_of('y', name, length);
  const int32_t operand = operand_of(c, name, length);
  if (local >= 0)
    og_text_addf(&c->w->text, "t%d", (int)c->numbers[local]);
  else if (result >= 0)
    value_add(c->w, c->node->out[result]);
  else if (operand >= 0)
    operand_add(c, operand);
  else if (!attr_add(c, name, length))
    og_text_add_n(&c->w->text, name, length);
}

// --- Statements --------------------------------------------------------------

// Whether later statements of a node's text name a result.
static bool is_named(const char *text, const char *name, size_t length) {
  for (const char *at = text; *at != '\0';) {
    const size_t own = word_length(at);
    if (own == length && memcmp(at, name, length) == 0) return true;
    at += own > 0 ? own : 1;
  }
  return false;
}

// The left side: a result's name or one of the node's own. False where nobody
// reads the result, here or elsewhere.
static bool left_add(copier *c, const char *name, size_t length,
                     const char *rest) {
  writer *w = c->w;
  const int32_t result = number_of('y', name, length);
  if (result >= 0) {
    const opgraft_value v = c->node->out[result];
    if (!og_fuse_is_read(w->f, v) && !is_named(rest, name, length))
      return false;
    if (v >= 0 && og_fuse_escapes(w->f, v, w->unit, w->unit))
      w->out[w->out_count++] = v;
    else if (v >= 0)
      w->names[v] = ++w->name_count;
  }
  if (result < 0 || c->node->out[result] < 0) {
    c->locals[c->local_count] = name;
    c->lengths[c->local_count] = length;
    c->numbers[c->local_count++] = w->name_count++;
  }
  if (w->text.length > 0) og_text_add(&w->text, "; ");
  name_add(c, name, length);
  return true;
}

static const char *right_add(copier *c, const char *at) {
  while (*at != '\0' && *at != ';') {
    const size_t length = word_length(at);
    const bool is_digit = isdigit((unsigned char)*at) || *at == '.';
    size_t copied = 1;
    if (is_digit) {
      while (isalnum((unsigned char)at[copied]) || at[copied] == '.') ++copied;
    }
    if (length > 0)
      name_add(c, at, length);
    else
      og_text_add_n(&c->w->text, at, copied);
    at += length > 0 ? length : copied;
  }
  return at;
}

static void member_add(writer *w, int32_t n) {
  copier c = {
      .w = w, .node = &w->f->graph->nodes[n], .recipe = &w->f->recipes[n]};
  const char *at = c.recipe->text;
  while (*at != '\0') {
    const size_t length = word_length(at);
    const char *rest = at + length;
    const size_t statement = strcspn(at, ";");
    if (left_add(&c, at, length, rest))
      at = right_add(&c, rest);
    else
      at += statement;
    at += strspn(at, "; ");
  }
}

og_status og_fuse_write(og_fuser *f, int32_t unit, og_node *out) {
  opgraft_graph *graph = f->graph;
  writer w = {.f = f, .unit = unit};
  w.names = og_arena_array(&f->memory, (size_t)graph->value_count + 1,
                           sizeof *w.names);
  if (w.names == NULL) return og_graph_no_memory(f->error);
  bool needs_elements = false;
  for (int32_t n = f->units[unit].first; n >= 0; n = f->next[n]) {
    member_add(&w, n);
    needs_elements |= f->recipes[n].needs_elements;
  }
  const size_t values = (size_t)(w.in_count + w.out_count) + 1;
  opgraft_value *list = og_arena_array(&graph->arena, values, sizeof *list);
  opgraft_arg *attrs = og_arena_array(&graph->arena, 2, sizeof *attrs);
  const char *text =
      w.text.failed
          ? NULL
          : og_arena_strndup(&graph->arena, w.text.data, w.text.length);
  og_text_reset(&w.text);
  if (list == NULL || attrs == NULL || text == NULL)
    return og_graph_no_memory(f->error);
  memcpy(list, w.in, (size_t)w.in_count * sizeof *list);
  memcpy(list + w.in_count, w.out, (size_t)w.out_count * sizeof *list);
  attrs[0] = (opgraft_arg){.kind = OPGRAFT_ARG_STR, .s = text};
  if (needs_elements)
    attrs[1] = (opgraft_arg){.kind = OPGRAFT_ARG_BOOL, .i = true};
  *out = (og_node){.op = OG_IR_fused,
                   .in_count = w.in_count,
                   .out_count = w.out_count,
                   .in = list,
                   .out = list + w.in_count,
                   .attrs = attrs};
  return OG_OK;
}
