// SPDX-License-Identifier: Apache-2.0
// The dtype string: x: f32|bf16, weight: x, index: i64 -> x, promote(x, y).

#include "decl/parse/dtype.h"

#include <string.h>

#include "decl/parse/names.h"
#include "decl/parse/parser.h"
#include "decl/types.h"

static const struct {
  const char *name;
  const og_type_set *set;
} named_sets[] = {{"floating", &og_types_floating},
                  {"integral", &og_types_integral},
                  {"complex", &og_types_complex},
                  {"any", &og_types_any}};

bool og_take_type_set(og_parser *parser, og_type_set *out) {
  og_dtype dtype;
  if (parser->reader.token.kind != OG_TOKEN_NAME) return false;
  for (size_t i = 0; i < sizeof named_sets / sizeof *named_sets; ++i) {
    if (!og_reader_at_word(&parser->reader, named_sets[i].name)) continue;
    *out |= *named_sets[i].set;
    og_reader_advance(&parser->reader);
    return true;
  }
  if (!og_dtype_parse(og_token_text(&parser->reader, parser->reader.token),
                      (size_t)og_token_length(parser->reader.token), &dtype))
    return false;
  *out |= 1u << og_dtype_index(dtype);
  og_reader_advance(&parser->reader);
  return true;
}

og_status og_read_type_wanted(const og_reader *reader, const char *or_else) {
  return og_read_wanted(
      reader,
      "a type (f16, bf16, f32, f64, i8 to i64, u8 to u64, "
      "bool, c64, c128, f8e4m3, f8e5m2, or floating, integral, "
      "complex, any)%s",
      or_else);
}

// f32|bf16|...; the first is there already.
og_status og_parse_more_types(og_parser *parser, og_type_set *set) {
  while (og_reader_take(&parser->reader, '|'))
    if (!og_take_type_set(parser, set))
      return og_read_type_wanted(&parser->reader, "");
  return OG_OK;
}

// --- Arguments ---------------------------------------------------------------

static og_status parse_argument(og_parser *parser, uint64_t *named) {
  og_decl *decl = parser->decl;
  const og_token name = parser->reader.token;
  int32_t tensor;
  OG_TRY(og_parse_tensor(parser, &tensor));
  og_type_rule *rule = &decl->types[tensor];
  if (*named >> tensor & 1u)
    return og_read_error_token(&parser->reader, name, "%s has two entries",
                               og_tensor_param(decl, tensor)->name);
  *named |= (uint64_t)1 << tensor;
  OG_TRY(og_reader_expect(&parser->reader, ':', "':' and its types"));
  if (og_take_type_set(parser, &rule->set))
    return og_parse_more_types(parser, &rule->set);
  const int32_t p = og_find_param(parser, parser->reader.token);
  if (p < 0 || decl->params[p].type != OG_TYPE_TENSOR)
    return og_read_type_wanted(&parser->reader,
                               " or the name of a tensor argument");
  rule->same_as = decl->params[p].index;
  og_reader_advance(&parser->reader);
  return OG_OK;
}

static og_status parse_arguments(og_parser *parser) {
  og_decl *decl = parser->decl;
  uint64_t named = 0;
  if (!og_reader_at(&parser->reader, OG_MARK_ARROW) &&
      parser->reader.token.kind != OG_TOKEN_END) {
    do {
      OG_TRY(parse_argument(parser, &named));
    } while (og_reader_take(&parser->reader, ','));
  }
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    if (!(named >> t & 1u))
      return og_read_wanted(&parser->reader, "an entry for %s: %s: f32",
                            og_tensor_param(decl, t)->name,
                            og_tensor_param(decl, t)->name);
  return OG_OK;
}

// Follows y: x, x: f32 to the argument that has types of its own.
static og_status resolve_same(og_parser *parser) {
  og_decl *decl = parser->decl;
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    og_type_rule *rule = &decl->types[t];
    if (rule->same_as < 0) continue;
    int32_t root = rule->same_as;
    for (int32_t n = 0; decl->types[root].same_as >= 0; ++n) {
      root = decl->types[root].same_as;
      if (n < decl->tensor_count) continue;
      return og_read_error(&parser->reader, 0, 0,
                           "%s has the type of an argument that has its own; "
                           "expected types for one of them",
                           og_tensor_param(decl, t)->name);
    }
    rule->same_as = root;
    rule->set = decl->types[root].set;
  }
  return OG_OK;
}

// Numbers the free types in the order of the arguments.
static og_status number_variables(og_decl *decl, opgraft_error *error) {
  int32_t count = 0;
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    og_type_rule *rule = &decl->types[t];
    const bool is_free = (rule->set & (rule->set - 1)) != 0;
    if (rule->same_as < 0) rule->variable = is_free ? count++ : -1;
  }
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    og_type_rule *rule = &decl->types[t];
    if (rule->same_as >= 0)
      rule->variable = decl->types[rule->same_as].variable;
  }
  decl->type_variable_count = count;
  if (count <= OG_VARIABLE_MAX) return OG_OK;
  return og_error_set(error, OG_INVALID, decl->name, "dtype",
                      "%s: dtype: %d arguments have types of their own to "
                      "choose; expected %d or fewer, the others 'y: x'",
                      decl->name, (int)count, OG_VARIABLE_MAX);
}

// --- Results -----------------------------------------------------------------

// A tensor whose type a result has must be there.
static og_status parse_given_tensor(og_parser *parser, int32_t *out_tensor) {
  const og_token name = parser->reader.token;
  OG_TRY(og_parse_tensor(parser, out_tensor));
  const og_param *param = og_tensor_param(parser->decl, *out_tensor);
  if (!param->is_optional && !param->is_element_optional) return OG_OK;
  return og_read_error_token(&parser->reader, name,
                             "%s may be absent; expected an argument that is "
                             "always given",
                             param->name);
}

static og_status parse_promote(og_parser *parser, og_out_type *out) {
  const int32_t limit = (int32_t)(sizeof out->params / sizeof *out->params);
  out->kind = OG_OUT_TYPE_PROMOTE;
  OG_TRY(og_reader_expect(&parser->reader, '(', "'(' and arguments"));
  do {
    const int32_t p = og_find_param(parser, parser->reader.token);
    if (p < 0)
      return og_parse_unknown(parser, parser->reader.token, "argument",
                              OG_NAMES_PARAMS);
    const og_param *param = &parser->decl->params[p];
    const bool is_number = !param->is_list && (og_is_int_type(param->type) ||
                                               param->type == OG_TYPE_FLOAT ||
                                               param->type == OG_TYPE_SCALAR);
    if (param->type != OG_TYPE_TENSOR && !is_number)
      return og_read_wanted(&parser->reader, "a tensor or a number");
    if (out->param_count == limit)
      return og_read_wanted(&parser->reader, "%d arguments or fewer",
                            (int)limit);
    out->params[out->param_count++] = p;
    og_reader_advance(&parser->reader);
  } while (og_reader_take(&parser->reader, ','));
  return og_reader_expect(&parser->reader, ')', "',' or ')'");
}

// A ScalarType argument: dtype, or `dtype or x`.
static og_status parse_type_attr(og_parser *parser, const og_param *param,
                                 og_out_type *out) {
  const og_token name = parser->reader.token;
  out->kind = OG_OUT_TYPE_ATTR;
  out->attr = param->index;
  og_reader_advance(&parser->reader);
  if (og_reader_take_word(&parser->reader, "or"))
    return parse_given_tensor(parser, &out->tensor);
  if (!param->is_optional) return OG_OK;
  return og_read_error_token(&parser->reader, name,
                             "%s may be None; expected '%s or x' with a tensor "
                             "x",
                             param->name, param->name);
}

static og_status parse_out_type(og_parser *parser, og_out_type *out) {
  og_type_set set = 0;
  *out = (og_out_type){.tensor = -1, .attr = -1};
  const og_token name = parser->reader.token;
  if (og_reader_take_word(&parser->reader, "promote"))
    return parse_promote(parser, out);
  if (og_dtype_parse(og_token_text(&parser->reader, name),
                     (size_t)og_token_length(name), &out->dtype)) {
    out->kind = OG_OUT_TYPE_FIXED;
    og_reader_advance(&parser->reader);
    return OG_OK;
  }
  if (og_take_type_set(parser, &set))
    return og_read_error_token(&parser->reader, name,
                               "a result has one type; expected one, an "
                               "argument's name, or promote(x, y)");
  const int32_t p = og_find_param(parser, name);
  if (p >= 0 && parser->decl->params[p].type == OG_TYPE_SCALAR_TYPE)
    return parse_type_attr(parser, &parser->decl->params[p], out);
  if (p < 0 || parser->decl->params[p].type != OG_TYPE_TENSOR)
    return og_read_wanted(&parser->reader,
                          "a type, a tensor argument, a ScalarType "
                          "argument, or promote(x, y)");
  out->kind = OG_OUT_TYPE_SAME;
  return parse_given_tensor(parser, &out->tensor);
}

static og_status parse_out_types(og_parser *parser) {
  og_decl *decl = parser->decl;
  if (!og_reader_take(&parser->reader, OG_MARK_ARROW)) {
    if (decl->fresh_count > 0)
      return og_read_wanted(
          &parser->reader, "'->' and the types of %d result%s",
          (int)decl->fresh_count, og_plural(decl->fresh_count));
  } else {
    for (int32_t i = 0; i < decl->fresh_count; ++i) {
      if (i > 0)
        OG_TRY(og_reader_expect(&parser->reader, ',',
                                "',' and a type for each fresh result"));
      OG_TRY(parse_out_type(parser, &decl->out_types[i]));
    }
  }
  return og_reader_expect_end(&parser->reader,
                              "the end: the schema has no more fresh results");
}

// --- Without a rule ----------------------------------------------------------

// All tensors have one type, of those that the kernels name (which
// og_parse_kernels fills in); results have it too.
static og_status assume_one_type(og_decl *decl, opgraft_error *error) {
  int32_t certain = -1;
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    const og_param *param = og_tensor_param(decl, t);
    decl->types[t].set = og_types_any;
    decl->types[t].same_as = t == 0 ? -1 : 0;
    if (certain < 0 && !param->is_optional && !param->is_element_optional)
      certain = t;
  }
  if (certain < 0 && decl->fresh_count > 0)
    return og_error_set(error, OG_INVALID, decl->name, "dtype",
                        "%s: dtype: missing; no tensor is always given, so "
                        "expected a rule that says the results' types, such as "
                        "\"-> f32\"",
                        decl->name);
  for (int32_t i = 0; i < decl->fresh_count; ++i)
    decl->out_types[i] =
        (og_out_type){.kind = OG_OUT_TYPE_SAME, .tensor = certain, .attr = -1};
  return OG_OK;
}

og_status og_parse_dtype(og_decl *decl, opgraft_error *error) {
  og_parser parser;
  decl->types = og_arena_array(&decl->arena, (size_t)decl->tensor_count,
                               sizeof(og_type_rule));
  decl->out_types = og_arena_array(&decl->arena, (size_t)decl->fresh_count,
                                   sizeof(og_out_type));
  if (decl->types == NULL || decl->out_types == NULL)
    return og_error_set(error, OG_MEMORY, decl->name, "dtype",
                        "%s: dtype: out of memory while it was read",
                        decl->name);
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    decl->types[t] = (og_type_rule){.same_as = -1, .variable = -1};
  if (decl->record->dtype == NULL) {
    OG_TRY(assume_one_type(decl, error));
    return number_variables(decl, error);
  }
  OG_TRY(og_parser_init(&parser, decl, "dtype", decl->record->dtype, error));
  OG_TRY(parse_arguments(&parser));
  OG_TRY(parse_out_types(&parser));
  OG_TRY(resolve_same(&parser));
  return number_variables(decl, error);
}
