// SPDX-License-Identifier: Apache-2.0
// Specifications in the form with op_name, op_type, input_desc, output_desc
// and attr_desc, which operator plugins for NPUs use.
//
// A tensor's dtype list is a column of one table: entry k of all lists is one
// combination that a kernel is written for.

#define _GNU_SOURCE
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"
#include "plugin_rules.h"

// --- Words -------------------------------------------------------------------

// The type's name here ("f16"); NULL if the word names none.
static const char *plugin_type(const char *word) {
  static const char *const names[][2] = {
      {"float16", "f16"},   {"fp16", "f16"},        {"half", "f16"},
      {"float", "f32"},     {"float32", "f32"},     {"fp32", "f32"},
      {"double", "f64"},    {"float64", "f64"},     {"fp64", "f64"},
      {"bfloat16", "bf16"}, {"bf16", "bf16"},       {"int8", "i8"},
      {"int16", "i16"},     {"int", "i32"},         {"int32", "i32"},
      {"int64", "i64"},     {"uint8", "u8"},        {"uint16", "u16"},
      {"uint32", "u32"},    {"uint64", "u64"},      {"bool", "bool"},
      {"complex64", "c64"}, {"complex128", "c128"},
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (strcasecmp(word, names[i][0]) == 0 || strcmp(word, names[i][1]) == 0)
      return names[i][1];
  return NULL;
}

static const char *attr_type_of(const char *word) {
  static const char *const names[][2] = {
      {"int", "int"},
      {"int64", "int"},
      {"int32", "int"},
      {"float", "float"},
      {"float32", "float"},
      {"double", "float"},
      {"bool", "bool"},
      {"str", "str"},
      {"string", "str"},
      {"list_int", "int[]"},
      {"listint", "int[]"},
      {"int[]", "int[]"},
      {"list_float", "float[]"},
      {"listfloat", "float[]"},
      {"float[]", "float[]"},
      {"list_bool", "bool[]"},
      {"listbool", "bool[]"},
      {"bool[]", "bool[]"},
      {"list_str", "str[]"},
      {"liststring", "str[]"},
      {"str[]", "str[]"},
      {"type", "ScalarType"},
      {"dtype", "ScalarType"},
      {"data_type", "ScalarType"},
      {"scalartype", "ScalarType"},
      {"scalar", "Scalar"},
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (strcasecmp(word, names[i][0]) == 0) return names[i][1];
  return NULL;
}

static bool name_read(const spec *s, const cli_node *node, const char **out) {
  const cli_node *name = cli_node_get(node, "name");
  if (name != NULL && name->kind == CLI_STRING &&
      spec_is_identifier(name->text)) {
    *out = name->text;
    return true;
  }
  return spec_error(
      s, name != NULL ? name->line : node->line,
      "the name is '%s', expected letters, digits and underscores",
      name != NULL && name->text != NULL ? name->text : "");
}

static bool presence_read(const spec *s, const cli_node *node,
                          presence fallback, presence *out) {
  const cli_node *type = cli_node_get(node, "param_type");
  const char *text = type != NULL && type->text != NULL ? type->text : "";
  *out = fallback;
  if (type == NULL) return true;
  if (strcasecmp(text, "required") == 0)
    *out = REQUIRED;
  else if (strcasecmp(text, "optional") == 0)
    *out = OPTIONAL;
  else if (strcasecmp(text, "dynamic") == 0)
    *out = DYNAMIC;
  else
    return spec_error(s, type->line,
                      "param_type is '%s', expected required, "
                      "optional or dynamic",
                      text);
  return true;
}

static bool type_add(const spec *s, const cli_node *node, tensor_desc *t) {
  const char *type = node->text != NULL ? plugin_type(node->text) : NULL;
  if (type == NULL)
    return spec_error(s, node->line,
                      "%s: the dtype is '%s', expected float16, "
                      "float, bfloat16, int32, int64, bool, ...",
                      t->name, node->text != NULL ? node->text : "[...]");
  if (t->type_count == COLUMNS_MAX)
    return spec_error(s, node->line, "%s: has more than %d dtypes", t->name,
                      COLUMNS_MAX);
  t->types[t->type_count++] = type;
  return true;
}

static bool tensor_read(const spec *s, const cli_node *node, tensor_desc *t) {
  static const char *const keys[] = {"name", "param_type", "dtype",
                                     "type", "format",     NULL};
  if (node->kind != CLI_MAP)
    return spec_error(s, node->line,
                      "a tensor is not a map, expected name: x, "
                      "dtype: [float16, float]");
  *t = (tensor_desc){.line = node->line, .format = "ND", .same_as = -1};
  if (!spec_keys_check(s, node, keys) || !name_read(s, node, &t->name) ||
      !presence_read(s, node, REQUIRED, &t->presence))
    return false;
  const cli_node *types = cli_node_get(node, "dtype");
  if (types == NULL) types = cli_node_get(node, "type");
  if (types == NULL || (types->kind == CLI_LIST && types->first == NULL))
    return spec_error(s, node->line,
                      "%s: has no dtype, expected dtype: "
                      "[float16, float]",
                      t->name);
  if (types->kind != CLI_LIST && !type_add(s, types, t)) return false;
  for (const cli_node *n = types->first; n != NULL; n = n->next)
    if (!type_add(s, n, t)) return false;
  const cli_node *format = cli_node_get(node, "format");
  if (format != NULL && format->kind == CLI_LIST) format = format->first;
  if (format != NULL && format->kind == CLI_STRING) t->format = format->text;
  return true;
}

static bool tensors_read(const spec *s, const cli_node *map, const char *key,
                         tensor_desc *tensors, int32_t *out_count) {
  const cli_node *list = cli_node_get(map, key);
  *out_count = 0;
  if (list == NULL) return true;
  if (list->kind != CLI_LIST)
    return spec_error(s, list->line, "%s is not a list, expected one", key);
  if (list->count > TENSORS_MAX)
    return spec_error(s, list->line, "%s has %d entries, expected at most %d",
                      key, (int)list->count, TENSORS_MAX);
  for (const cli_node *n = list->first; n != NULL; n = n->next)
    if (!tensor_read(s, n, &tensors[(*out_count)++])) return false;
  return true;
}

// --- Attributes --------------------------------------------------------------

static bool is_number(const char *text) {
  char *end;
  strtod(text, &end);
  return text[0] != '\0' && *end == '\0' && !isspace((unsigned char)text[0]);
}

// One value as a schema writes it; NULL if it is not one of `type`.
static char *value_plain(const char *type, const char *text, size_t length) {
  char *word = cli_strndup(text, length), *out = NULL;
  const bool is_true = strcasecmp(word, "true") == 0;
  if (strncmp(type, "bool", 4) == 0) {
    if (is_true || strcasecmp(word, "false") == 0)
      out = cli_format("%s", is_true ? "True" : "False");
  } else if (strncmp(type, "str", 3) == 0) {
    if (strpbrk(word, "\"\\") == NULL) out = cli_format("\"%s\"", word);
  } else if (strncmp(type, "int", 3) == 0) {
    if (is_number(word) && strpbrk(word, ".eExXnN") == NULL)
      out = cli_format("%s", word);
  } else if (strcmp(type, "ScalarType") == 0) {
    if (plugin_type(word) != NULL) out = cli_format("%s", plugin_type(word));
  } else if (is_number(word)) {
    out = cli_format("%s", word);
  }
  free(word);
  return out;
}

// Takes `list`, returns it with one more value; frees both on failure.
static char *list_append(char *list, char *value) {
  if (list == NULL || value == NULL) {
    free(list);
    free(value);
    return NULL;
  }
  char *longer = cli_format("%s%s%s", list, list[1] != '\0' ? ", " : "", value);
  free(list);
  free(value);
  return longer;
}

// A YAML list, or text such as "1,2" or "[1, 2]".
static char *value_list(const char *type, const cli_node *node) {
  char *out = cli_format("[");
  if (node->kind == CLI_LIST) {
    for (const cli_node *n = node->first; n != NULL && out != NULL; n = n->next)
      out = n->text == NULL
                ? list_append(out, NULL)
                : list_append(out, value_plain(type, n->text, strlen(n->text)));
  } else {
    const char *at = node->text;
    while (out != NULL && *at != '\0') {
      at += strspn(at, "[], \t");
      const size_t length = strcspn(at, "], \t");
      if (length > 0) out = list_append(out, value_plain(type, at, length));
      at += length;
    }
  }
  if (out == NULL) return NULL;
  char *closed = cli_format("%s]", out);
  free(out);
  return closed;
}

static bool value_read(const spec *s, const cli_node *node, attr_desc *a) {
  const cli_node *value = cli_node_get(node, "default_value");
  if (value == NULL) value = cli_node_get(node, "default");
  if (value == NULL || value->kind == CLI_MAP) return true;
  const bool is_none =
      value->text != NULL && !value->is_quoted &&
      (strcasecmp(value->text, "none") == 0 || value->text[0] == '\0' ||
       strcasecmp(value->text, "null") == 0);
  if (is_none) return true;
  const bool is_list = strchr(a->type, '[') != NULL;
  if (is_list)
    a->value = value_list(a->type, value);
  else if (value->text != NULL)
    a->value = value_plain(a->type, value->text, strlen(value->text));
  if (a->value != NULL) return true;
  return spec_error(s, value->line,
                    "%s: the default is '%s', expected a value of "
                    "type %s",
                    a->name, value->text != NULL ? value->text : "[...]",
                    a->type);
}

static bool attr_read(const spec *s, const cli_node *node, attr_desc *a) {
  static const char *const keys[] = {
      "name", "param_type", "dtype", "type", "default_value", "default", NULL};
  presence p;
  if (node->kind != CLI_MAP)
    return spec_error(s, node->line,
                      "an attribute is not a map, expected name: eps, "
                      "dtype: float");
  if (!spec_keys_check(s, node, keys) || !name_read(s, node, &a->name) ||
      !presence_read(s, node, REQUIRED, &p))
    return false;
  const cli_node *type = cli_node_get(node, "dtype");
  if (type == NULL) type = cli_node_get(node, "type");
  a->type =
      type != NULL && type->text != NULL ? attr_type_of(type->text) : NULL;
  a->is_optional = p == OPTIONAL;
  if (a->type == NULL)
    return spec_error(s, type != NULL ? type->line : node->line,
                      "%s: the dtype is '%s', expected int, float, bool, str, "
                      "dtype, or list_int, list_float, list_bool, list_str",
                      a->name,
                      type != NULL && type->text != NULL ? type->text : "");
  return value_read(s, node, a);
}

static bool attrs_read(plugin *p, const cli_node *map) {
  const cli_node *list = cli_node_get(map, "attr_desc");
  if (list == NULL) return true;
  if (list->kind != CLI_LIST)
    return spec_error(p->s, list->line,
                      "attr_desc is not a list, expected one");
  if (list->count > ATTRS_MAX)
    return spec_error(p->s, list->line,
                      "attr_desc has %d entries, expected at most %d",
                      (int)list->count, ATTRS_MAX);
  for (const cli_node *n = list->first; n != NULL; n = n->next)
    if (!attr_read(p->s, n, &p->attr[p->attr_count++])) return false;
  return true;
}

// --- The operator ------------------------------------------------------------

bool spec_plugin_read(const spec *s, const cli_node *node, spec_op *out_op) {
  static const char *const keys[] = {
      "op_name", "op_type", "input_desc", "output_desc", "attr_desc", "shape",
      "dtype",   "where",   "backward",   "doc",         "expect",    NULL};
  plugin *p = cli_alloc(1, sizeof *p);
  p->s = s;
  bool is_right = spec_keys_check(s, node, keys) &&
                  tensors_read(s, node, "input_desc", p->in, &p->in_count) &&
                  tensors_read(s, node, "output_desc", p->out, &p->out_count) &&
                  attrs_read(p, node) && plugin_rules_make(p, node, out_op);
  for (int32_t i = 0; i < p->attr_count; ++i) free(p->attr[i].value);
  free(p);
  return is_right;
}
