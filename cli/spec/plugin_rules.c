// SPDX-License-Identifier: Apache-2.0
// From a specification in the plugin form to a schema, rules and kernels.

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "plugin_rules.h"

// --- Columns -----------------------------------------------------------------

static const char *type_at(const tensor_desc *t, int32_t column) {
  return t->types[t->type_count == 1 ? 0 : column];
}

static bool is_constant(const tensor_desc *t) {
  for (int32_t i = 1; i < t->type_count; ++i)
    if (strcmp(t->types[i], t->types[0]) != 0) return false;
  return true;
}

static bool has_same_types(const plugin *p, const tensor_desc *a,
                           const tensor_desc *b) {
  for (int32_t i = 0; i < p->columns; ++i)
    if (strcmp(type_at(a, i), type_at(b, i)) != 0) return false;
  return true;
}

static bool columns_check(plugin *p, tensor_desc *tensors, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    tensor_desc *t = &tensors[i];
    if (t->type_count == 1 || t->type_count == p->columns) continue;
    return spec_error(
        p->s, t->line,
        "%s: has %d dtype%s, where others have %d; entry k of all "
        "lists is one combination",
        t->name, (int)t->type_count, cli_plural(t->type_count),
        (int)p->columns);
  }
  return true;
}

static bool columns_settle(plugin *p) {
  p->columns = 1;
  for (int32_t i = 0; i < p->in_count; ++i)
    if (p->in[i].type_count > p->columns) p->columns = p->in[i].type_count;
  for (int32_t i = 0; i < p->out_count; ++i)
    if (p->out[i].type_count > p->columns) p->columns = p->out[i].type_count;
  if (!columns_check(p, p->in, p->in_count) ||
      !columns_check(p, p->out, p->out_count))
    return false;
  for (int32_t i = 0; i < p->in_count; ++i)
    for (int32_t j = i - 1; j >= 0 && !is_constant(&p->in[i]); --j)
      if (p->in[j].same_as < 0 && has_same_types(p, &p->in[i], &p->in[j]))
        p->in[i].same_as = j;
  return true;
}

// An output with an input's name is that input, written to.
static void mutated_mark(plugin *p) {
  int32_t kept = 0;
  for (int32_t i = 0; i < p->out_count; ++i) {
    bool is_input = false;
    for (int32_t j = 0; j < p->in_count; ++j)
      if (strcmp(p->in[j].name, p->out[i].name) == 0)
        is_input = p->in[j].is_mutated = true;
    if (!is_input) p->out[kept++] = p->out[i];
  }
  p->out_count = kept;
}

// --- Writing the rules -------------------------------------------------------

static char *text_of(FILE *to, char **bytes) {
  fclose(to);
  return *bytes;
}

static void tensor_param_write(const tensor_desc *t, char alias, bool is_last,
                               FILE *to) {
  char mark[8] = "";
  if (t->is_mutated) snprintf(mark, sizeof mark, "(%c!)", alias);
  const char *suffix = t->presence == DYNAMIC    ? "[]"
                       : t->presence == OPTIONAL ? "?"
                                                 : "";
  fprintf(to, "Tensor%s%s %s%s", mark, suffix, t->name,
          t->presence == OPTIONAL && is_last ? "=None" : "");
}

static bool is_attr_given(const attr_desc *a) {
  return a->value != NULL || a->is_optional;
}

// A default may not stand before an argument that has none, so an optional
// tensor gets one only where all that follows has.
static char *schema_make(const plugin *p, const char *name) {
  char *bytes = NULL;
  size_t size;
  FILE *to = cli_memory_open(&bytes, &size);
  int32_t last = p->in_count;  // from here on all tensors are optional
  bool can_default = true;
  for (int32_t i = 0; i < p->attr_count; ++i)
    can_default = can_default && is_attr_given(&p->attr[i]);
  while (can_default && last > 0 && p->in[last - 1].presence == OPTIONAL)
    --last;
  fprintf(to, "%s(", name);
  char alias = 'a';
  for (int32_t i = 0; i < p->in_count; ++i) {
    if (i > 0) fputs(", ", to);
    tensor_param_write(&p->in[i], alias, i >= last, to);
    alias = (char)(alias + p->in[i].is_mutated);
  }
  const char *before = p->in_count > 0 ? ", " : "";
  for (int pass = 0; pass < 2; ++pass)  // those without a default first
    for (int32_t i = 0; i < p->attr_count; ++i) {
      const attr_desc *a = &p->attr[i];
      if (is_attr_given(a) != (pass == 1)) continue;
      fprintf(to, "%s%s%s %s", before, a->type,
              a->is_optional && a->value == NULL ? "?" : "", a->name);
      if (pass == 1) fprintf(to, "=%s", a->value ? a->value : "None");
      before = ", ";
    }
  fputs(p->out_count == 1 ? ") -> " : ") -> (", to);
  for (int32_t i = 0; i < p->out_count; ++i) {
    fprintf(to, "%sTensor%s", i > 0 ? ", " : "",
            p->out[i].presence == DYNAMIC ? "[]" : "");
    if (p->out_count > 1) fprintf(to, " %s", p->out[i].name);
  }
  if (p->out_count != 1) fputc(')', to);
  return text_of(to, &bytes);
}

// The input whose shape the results are taken to have: the first that is
// always there.
static int32_t leading_input(const plugin *p) {
  for (int32_t i = 0; i < p->in_count; ++i)
    if (p->in[i].presence != OPTIONAL) return i;
  return -1;
}

// "N, C, H, W" for a format that names dims, else a pack.
static void items_write(const char *format, FILE *to) {
  const bool names_dims =
      strlen(format) > 2 && strspn(format, "NCDHW") == strlen(format);
  if (!names_dims) {
    fputs("*S", to);
    return;
  }
  for (const char *c = format; *c != '\0'; ++c)
    fprintf(to, "%s%c", c > format ? ", " : "", *c);
}

static char *shape_make(const plugin *p, int32_t leading) {
  char *bytes = NULL;
  size_t size;
  FILE *to = cli_memory_open(&bytes, &size);
  const tensor_desc *first = &p->in[leading];
  fprintf(to, "%s%s[", first->name, first->presence == DYNAMIC ? "[]" : "");
  items_write(first->format, to);
  fputs("] -> ", to);
  for (int32_t i = 0; i < p->out_count; ++i) {
    if (i > 0) fputs(", ", to);
    if (p->out[i].presence == DYNAMIC)
      fprintf(to, "{i < len(%s): [", first->name);
    else
      fputc('[', to);
    items_write(first->format, to);
    fputs(p->out[i].presence == DYNAMIC ? "]}" : "]", to);
  }
  return text_of(to, &bytes);
}

static void types_write(const tensor_desc *t, FILE *to) {
  for (int32_t i = 0; i < t->type_count; ++i) {
    bool is_seen = false;
    for (int32_t j = 0; j < i; ++j)
      is_seen |= strcmp(t->types[i], t->types[j]) == 0;
    if (!is_seen) fprintf(to, "%s%s", i > 0 ? "|" : "", t->types[i]);
  }
}

// The result's type: a constant, or an input's. NULL with a message if it is
// neither.
static const char *out_type(const plugin *p, const tensor_desc *out) {
  if (is_constant(out)) return out->types[0];
  for (int32_t i = 0; i < p->in_count; ++i)
    if (p->in[i].presence != OPTIONAL && has_same_types(p, out, &p->in[i]))
      return p->in[i].name;
  spec_error(p->s, out->line,
             "%s: its dtypes are those of no input that is "
             "always there; say what they follow from in "
             "dtype: \"... -> ...\" of the operator",
             out->name);
  return NULL;
}

static char *dtype_make(const plugin *p) {
  char *bytes = NULL;
  size_t size;
  FILE *to = cli_memory_open(&bytes, &size);
  bool is_right = true;
  for (int32_t i = 0; i < p->in_count; ++i) {
    fprintf(to, "%s%s: ", i > 0 ? ", " : "", p->in[i].name);
    if (p->in[i].same_as >= 0)
      fputs(p->in[p->in[i].same_as].name, to);
    else
      types_write(&p->in[i], to);
  }
  fputs(" -> ", to);
  for (int32_t i = 0; i < p->out_count && is_right; ++i) {
    const char *type = out_type(p, &p->out[i]);
    is_right = type != NULL;
    if (is_right) fprintf(to, "%s%s", i > 0 ? ", " : "", type);
  }
  char *text = text_of(to, &bytes);
  if (is_right) return text;
  free(text);
  return NULL;
}

static int32_t distinct_types(const tensor_desc *t) {
  int32_t count = 0;
  for (int32_t i = 0; i < t->type_count; ++i) {
    bool is_seen = false;
    for (int32_t j = 0; j < i; ++j)
      is_seen |= strcmp(t->types[i], t->types[j]) == 0;
    count += !is_seen;
  }
  return count;
}

// The types of those inputs that have a choice of their own; "" if none has.
static char *column_types(const plugin *p, int32_t column) {
  char *bytes = NULL;
  size_t size;
  FILE *to = cli_memory_open(&bytes, &size);
  bool is_first = true;
  for (int32_t i = 0; i < p->in_count; ++i) {
    if (p->in[i].same_as >= 0 || is_constant(&p->in[i])) continue;
    fprintf(to, "%s%s", is_first ? "" : ", ", type_at(&p->in[i], column));
    is_first = false;
  }
  return text_of(to, &bytes);
}

// A kernel for each different column. Where the columns are not all the
// combinations that the rule allows, one more has to answer for the others.
static void kernels_make(const plugin *p, spec_op *op) {
  int64_t combinations = 1;
  for (int32_t i = 0; i < p->in_count; ++i)
    if (p->in[i].same_as < 0) combinations *= distinct_types(&p->in[i]);
  for (int32_t column = 0; column < p->columns; ++column) {
    char *dtypes = column_types(p, column);
    bool is_seen = dtypes[0] == '\0';
    for (int32_t k = 0; k < op->kernel_count; ++k)
      is_seen |= strcmp(op->kernels[k].dtypes, dtypes) == 0;
    if (is_seen) {
      free(dtypes);
      continue;
    }
    spec_kernel *kernel = spec_kernel_add(op);
    kernel->dtypes = dtypes;
    kernel->line = op->line;
  }
  if (op->kernel_count == 0 || op->kernel_count < combinations)
    spec_kernel_add(op)->line = op->line;
}

// --- The operator ------------------------------------------------------------

// RmsNorm -> rms_norm
static char *snake_case(const char *name) {
  char *out = cli_alloc(strlen(name) * 2 + 1, 1), *to = out;
  for (const char *c = name; *c != '\0'; ++c) {
    const bool begins =
        isupper((unsigned char)*c) && c != name &&
        (islower((unsigned char)c[-1]) || isdigit((unsigned char)c[-1]) ||
         (isupper((unsigned char)c[-1]) && islower((unsigned char)c[1])));
    if (begins) *to++ = '_';
    *to++ = isalnum((unsigned char)*c) ? (char)tolower((unsigned char)*c) : '_';
  }
  return out;
}

static char *name_make(const plugin *p, const cli_node *node) {
  const cli_node *name = cli_node_get(node, "op_name");
  if (name == NULL) name = cli_node_get(node, "op_type");
  char *snake = snake_case(name->kind == CLI_STRING ? name->text : "");
  if (spec_is_identifier(snake)) return snake;
  free(snake);
  spec_error(p->s, name->line,
             "%s is '%s', expected letters, digits and "
             "underscores",
             name->key, name->text != NULL ? name->text : "[...]");
  return NULL;
}

// A rule that the specification gives goes before one that is made from it.
static void rule_take(const cli_node *node, spec_field field, spec_op *op) {
  const cli_node *given = cli_node_get(node, spec_field_names[field]);
  op->text_line[field] = op->line;
  if (given == NULL || given->kind != CLI_STRING) return;
  op->text[field] = cli_format("%s", given->text);
  op->text_line[field] = given->line;
}

bool plugin_rules_make(plugin *p, const cli_node *node, spec_op *op) {
  if (!columns_settle(p)) return false;
  mutated_mark(p);
  char *name = name_make(p, node);
  if (name == NULL) return false;
  op->text[SPEC_schema] = schema_make(p, name);
  op->text_line[SPEC_schema] = op->line;
  free(name);
  rule_take(node, SPEC_shape, op);
  rule_take(node, SPEC_dtype, op);
  rule_take(node, SPEC_where, op);
  rule_take(node, SPEC_backward, op);
  rule_take(node, SPEC_doc, op);
  rule_take(node, SPEC_expect, op);
  const int32_t leading = leading_input(p);
  if (op->text[SPEC_shape] == NULL && p->out_count > 0) {
    if (leading < 0)
      return spec_error(p->s, node->line,
                        "no input is always there, so the "
                        "results' shapes are unknown; give "
                        "shape: \"... -> ...\"");
    op->text[SPEC_shape] = shape_make(p, leading);
    op->is_shape_guessed = true;
  }
  // Kernels for a dtype rule of the author's own follow from that rule.
  if (op->text[SPEC_dtype] != NULL) return true;
  op->text[SPEC_dtype] = dtype_make(p);
  if (op->text[SPEC_dtype] == NULL) return false;
  kernels_make(p, op);
  return true;
}
