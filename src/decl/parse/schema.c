// SPDX-License-Identifier: Apache-2.0
// The schema: PyTorch's grammar, name(arguments) -> results.

#include "decl/parse/schema.h"

#include <math.h>
#include <string.h>

#include "decl/parse/names.h"
#include "decl/parse/parser.h"

enum { PARAMS_MAX = OPGRAFT_ARG_MAX + OPGRAFT_ATTR_MAX };

static const struct {
  const char *name;
  og_type type;
  int32_t attr_kind;  // of one value
  int32_t list_kind;  // of a list of them; NONE: there is no such list
} types[] = {
    {"Tensor", OG_TYPE_TENSOR, OG_ATTR_NONE, OG_ATTR_NONE},
    {"int", OG_TYPE_INT, OG_ATTR_INT, OG_ATTR_INTS},
    {"SymInt", OG_TYPE_SYM_INT, OG_ATTR_INT, OG_ATTR_INTS},
    {"float", OG_TYPE_FLOAT, OG_ATTR_FLOAT, OG_ATTR_FLOATS},
    {"bool", OG_TYPE_BOOL, OG_ATTR_BOOL, OG_ATTR_BOOLS},
    {"str", OG_TYPE_STR, OG_ATTR_STR, OG_ATTR_STRS},
    {"Scalar", OG_TYPE_SCALAR, OG_ATTR_NONE, OG_ATTR_NONE},
    {"ScalarType", OG_TYPE_SCALAR_TYPE, OG_ATTR_DTYPE, OG_ATTR_NONE},
    {"Device", OG_TYPE_DEVICE, OG_ATTR_DEVICE, OG_ATTR_NONE},
};
enum { TYPE_COUNT = sizeof types / sizeof *types };

const char *og_type_name(og_type type) { return types[type].name; }

// --- Default values ----------------------------------------------------------

static bool take_minus(og_parser *parser) {
  return og_reader_take(&parser->reader, '-');
}

static og_status parse_int_value(og_parser *parser, int64_t *out) {
  const bool minus = take_minus(parser);
  if (parser->reader.token.kind != OG_TOKEN_INT)
    return og_read_wanted(&parser->reader, "an integer");
  *out = minus ? -parser->reader.token.value : parser->reader.token.value;
  og_reader_advance(&parser->reader);
  return OG_OK;
}

og_status og_parse_number(og_parser *parser, double *out) {
  const bool minus = take_minus(parser);
  const og_token token = parser->reader.token;
  double value;
  if (og_token_is(&parser->reader, token, "inf")) {
    value = HUGE_VAL;
  } else if (og_token_is(&parser->reader, token, "nan")) {
    value = (double)NAN;
  } else if ((token.kind != OG_TOKEN_INT && token.kind != OG_TOKEN_NUMBER) ||
             !og_double_parse(og_token_text(&parser->reader, token),
                              (size_t)og_token_length(token), &value)) {
    return og_read_wanted(&parser->reader, "a number");
  }
  *out = minus ? -value : value;
  og_reader_advance(&parser->reader);
  return OG_OK;
}

static bool take_bool(og_parser *parser, int64_t *out) {
  const bool is_true = og_reader_at_word(&parser->reader, "True") ||
                       og_reader_at_word(&parser->reader, "true");
  if (!is_true && !og_reader_at_word(&parser->reader, "False") &&
      !og_reader_at_word(&parser->reader, "false"))
    return false;
  *out = is_true;
  og_reader_advance(&parser->reader);
  return true;
}

static og_status parse_bool_value(og_parser *parser, int64_t *out) {
  if (take_bool(parser, out)) return OG_OK;
  return og_read_wanted(&parser->reader, "True or False");
}

// The text between the quotes; \n and \t are those, any other character after
// a backslash itself.
static og_status parse_str_value(og_parser *parser, const char **out,
                                 int64_t *out_count) {
  const og_token token = parser->reader.token;
  if (token.kind != OG_TOKEN_STRING)
    return og_read_wanted(&parser->reader, "a string in quotes");
  char *text = og_arena_strndup(&parser->decl->arena,
                                og_token_text(&parser->reader, token) + 1,
                                (size_t)og_token_length(token) - 2);
  if (text == NULL) return og_read_memory(&parser->reader);
  char *to = text;
  for (const char *from = text; *from != '\0'; ++from) {
    if (*from != '\\') {
      *to++ = *from;
      continue;
    }
    ++from;
    *to++ = *from == 'n' ? '\n' : *from == 't' ? '\t' : *from;
  }
  *to = '\0';
  *out = text;
  *out_count = to - text;
  og_reader_advance(&parser->reader);
  return OG_OK;
}

static og_status parse_scalar_value(og_parser *parser, og_attr *out) {
  if (take_bool(parser, &out->i)) {
    out->kind = OG_ATTR_BOOL;
    return OG_OK;
  }
  const og_token next = og_reader_at(&parser->reader, '-')
                            ? og_reader_peek(&parser->reader)
                            : parser->reader.token;
  if (next.kind == OG_TOKEN_INT) {
    out->kind = OG_ATTR_INT;
    return parse_int_value(parser, &out->i);
  }
  out->kind = OG_ATTR_FLOAT;
  return og_parse_number(parser, &out->f);
}

static og_status parse_dtype_value(og_parser *parser, og_dtype *out) {
  const og_token token = parser->reader.token;
  if (token.kind != OG_TOKEN_NAME ||
      !og_dtype_parse(og_token_text(&parser->reader, token),
                      (size_t)og_token_length(token), out))
    return og_read_wanted(&parser->reader, "a type, such as float32");
  og_reader_advance(&parser->reader);
  return OG_OK;
}

// "cpu", "cuda" or "cuda:1".
static og_status parse_device_value(og_parser *parser, og_device *out) {
  const og_token token = parser->reader.token;
  const char *text = og_token_text(&parser->reader, token) + 1;
  size_t length = (size_t)og_token_length(token) - 2;
  int32_t id = 0;
  if (token.kind == OG_TOKEN_STRING && length > 2 && text[length - 2] == ':' &&
      text[length - 1] >= '0' && text[length - 1] <= '9') {
    id = text[length - 1] - '0';
    length -= 2;
  }
  const bool is_cpu = length == 3 && memcmp(text, "cpu", 3) == 0;
  const bool is_cuda = length == 4 && memcmp(text, "cuda", 4) == 0;
  if (token.kind != OG_TOKEN_STRING || (!is_cpu && !is_cuda))
    return og_read_wanted(&parser->reader, "\"cpu\", \"cuda\" or \"cuda:1\"");
  *out = (og_device){.type = is_cpu ? OG_CPU : OG_CUDA, .id = id};
  og_reader_advance(&parser->reader);
  return OG_OK;
}

static og_status parse_one_value(og_parser *parser, og_type type,
                                 og_attr *out) {
  out->kind = types[type].attr_kind;
  switch (type) {
    case OG_TYPE_INT:
    case OG_TYPE_SYM_INT:
      return parse_int_value(parser, &out->i);
    case OG_TYPE_BOOL:
      return parse_bool_value(parser, &out->i);
    case OG_TYPE_FLOAT:
      return og_parse_number(parser, &out->f);
    case OG_TYPE_STR:
      return parse_str_value(parser, &out->s, &out->count);
    case OG_TYPE_SCALAR:
      return parse_scalar_value(parser, out);
    case OG_TYPE_SCALAR_TYPE:
      return parse_dtype_value(parser, &out->dtype);
    case OG_TYPE_DEVICE:
      return parse_device_value(parser, &out->device);
    default:
      return og_read_wanted(&parser->reader, "None, a tensor's only default");
  }
}

enum { DEFAULT_LIST_MAX = 64 };

// The values as one array of the kind that the attribute wants.
static og_status store_list(og_parser *parser, og_type type,
                            const og_attr *values, int64_t count,
                            og_attr *out) {
  og_arena *arena = &parser->decl->arena;
  const size_t n = (size_t)count;
  int64_t *ints = NULL;
  double *floats = NULL;
  const char **strs = NULL;
  out->kind = types[type].list_kind;
  out->count = count;
  if (type == OG_TYPE_FLOAT)
    out->floats = floats = og_arena_array(arena, n, sizeof *floats);
  else if (type == OG_TYPE_STR)
    out->strs = strs = og_arena_array(arena, n, sizeof *strs);
  else
    out->ints = ints = og_arena_array(arena, n, sizeof *ints);
  if (ints == NULL && floats == NULL && strs == NULL)
    return og_read_memory(&parser->reader);
  for (size_t i = 0; i < n; ++i) {
    if (floats != NULL)
      floats[i] = values[i].f;
    else if (strs != NULL)
      strs[i] = values[i].s;
    else
      ints[i] = values[i].i;
  }
  return OG_OK;
}

// [1, 2], or one value for a list of a stated length.
static og_status parse_list_value(og_parser *parser, const og_param *param,
                                  og_attr *out) {
  og_attr values[DEFAULT_LIST_MAX];
  int64_t count = 0;
  memset(values, 0, sizeof values);
  if (param->list_size > 0 && !og_reader_at(&parser->reader, '[')) {
    OG_TRY(parse_one_value(parser, param->type, &values[0]));
    for (count = 1; count < param->list_size; ++count)
      values[count] = values[0];
    return store_list(parser, param->type, values, count, out);
  }
  OG_TRY(og_reader_expect(&parser->reader, '[', "'[', the start of a list"));
  while (!og_reader_at(&parser->reader, ']')) {
    if (count == DEFAULT_LIST_MAX)
      return og_read_wanted(&parser->reader, "%d values or fewer",
                            DEFAULT_LIST_MAX);
    if (count > 0) OG_TRY(og_reader_expect(&parser->reader, ',', "',' or ']'"));
    OG_TRY(parse_one_value(parser, param->type, &values[count++]));
  }
  if (param->list_size > 0 && count != param->list_size)
    return og_read_wanted(&parser->reader, "%d value%s, as the type says",
                          (int)param->list_size, og_plural(param->list_size));
  og_reader_advance(&parser->reader);
  return store_list(parser, param->type, values, count, out);
}

static og_status parse_default(og_parser *parser, og_param *param) {
  param->has_default = true;
  if (og_reader_at_word(&parser->reader, "None")) {
    if (!param->is_optional)
      return og_read_wanted(&parser->reader, "a value; only %s? may be None",
                            types[param->type].name);
    og_reader_advance(&parser->reader);
    return OG_OK;
  }
  if (param->type == OG_TYPE_TENSOR)
    return og_read_wanted(&parser->reader,
                          "None, the only default of a tensor");
  if (param->is_list)
    return parse_list_value(parser, param, &param->default_value);
  return parse_one_value(parser, param->type, &param->default_value);
}

// --- Types -------------------------------------------------------------------

static og_status parse_type_name(og_parser *parser, og_type *out) {
  for (int32_t i = 0; i < TYPE_COUNT; ++i) {
    if (!og_reader_at_word(&parser->reader, types[i].name)) continue;
    *out = types[i].type;
    og_reader_advance(&parser->reader);
    return OG_OK;
  }
  return og_read_wanted(&parser->reader,
                        "a type: Tensor, int, SymInt, float, bool, str, "
                        "Scalar, ScalarType or Device");
}

// (a!) after Tensor.
static og_status parse_alias(og_parser *parser, char *out_set) {
  if (!og_reader_take(&parser->reader, '(')) return OG_OK;
  const og_token name = parser->reader.token;
  if (name.kind != OG_TOKEN_NAME || og_token_length(name) != 1)
    return og_read_wanted(&parser->reader,
                          "an alias set of one letter, as in (a!)");
  og_reader_advance(&parser->reader);
  if (!og_reader_take(&parser->reader, '!'))
    return og_read_wanted(&parser->reader,
                          "'!': a result that is a view of an argument is not "
                          "supported, only one that is a mutated argument");
  *out_set = og_token_text(&parser->reader, name)[0];
  return og_reader_expect(&parser->reader, ')', "')'");
}

// [], [2], ?[], []?, ?
static og_status parse_suffix(og_parser *parser, og_param *param) {
  const bool is_element_optional = og_reader_at(&parser->reader, '?') &&
                                   og_reader_peek(&parser->reader).mark == '[';
  if (is_element_optional) {
    if (param->type != OG_TYPE_TENSOR)
      return og_read_wanted(&parser->reader,
                            "[]: only Tensor?[] has absent entries");
    og_reader_advance(&parser->reader);
    param->is_element_optional = true;
  }
  if (og_reader_take(&parser->reader, '[')) {
    param->is_list = true;
    if (parser->reader.token.kind == OG_TOKEN_INT) {
      if (parser->reader.token.value < 1 ||
          parser->reader.token.value > DEFAULT_LIST_MAX)
        return og_read_wanted(&parser->reader, "a length of 1 to %d",
                              DEFAULT_LIST_MAX);
      param->list_size = (int32_t)parser->reader.token.value;
      og_reader_advance(&parser->reader);
    }
    OG_TRY(og_reader_expect(&parser->reader, ']', "']'"));
  }
  param->is_optional = og_reader_take(&parser->reader, '?');
  return OG_OK;
}

static og_status parse_type(og_parser *parser, og_param *param) {
  const og_token begin = parser->reader.token;
  OG_TRY(parse_type_name(parser, &param->type));
  if (param->type == OG_TYPE_TENSOR)
    OG_TRY(parse_alias(parser, &param->alias_set));
  param->is_mutated = param->alias_set != 0;
  OG_TRY(parse_suffix(parser, param));
  if (!param->is_list) return OG_OK;
  if (param->type != OG_TYPE_TENSOR &&
      types[param->type].list_kind == OG_ATTR_NONE)
    return og_read_error_token(&parser->reader, begin,
                               "there are no lists of %s; expected Tensor[], "
                               "int[], SymInt[], float[], bool[] or str[]",
                               types[param->type].name);
  if (param->type == OG_TYPE_TENSOR && param->list_size > 0)
    return og_read_error_token(
        &parser->reader, begin,
        "a tensor list has no length in its type; expected Tensor[], and its "
        "length in `where`: \"len(xs) == 2\"");
  if (param->type == OG_TYPE_TENSOR && param->is_optional)
    return og_read_error_token(&parser->reader, begin,
                               "an optional list of tensors is not supported; "
                               "expected Tensor[], which may be empty");
  return OG_OK;
}

// --- Arguments ---------------------------------------------------------------

static og_status check_name(const og_parser *parser, og_token name) {
  static const char *const reserved[] = {"and", "or", "not", "None", "like"};
  for (size_t i = 0; i < sizeof reserved / sizeof *reserved; ++i)
    if (og_token_is(&parser->reader, name, reserved[i]))
      return og_read_error_token(
          &parser->reader, name,
          "'%s' is a word of the rules; expected another "
          "name",
          reserved[i]);
  return OG_OK;
}

// Counts the argument in, and refuses what the frame has no room for.
static og_status place_param(og_parser *parser, og_param *param,
                             og_token name) {
  og_decl *decl = parser->decl;
  const bool is_tensor = param->type == OG_TYPE_TENSOR;
  const int32_t limit = is_tensor ? OPGRAFT_ARG_MAX : OPGRAFT_ATTR_MAX;
  param->index = is_tensor ? decl->tensor_count : decl->attr_count;
  param->out_index = -1;
  if (param->index == limit)
    return og_read_error_token(
        &parser->reader, name, "%s: expected %d %s or fewer", param->name,
        (int)limit,
        is_tensor ? "tensor arguments" : "arguments that are not tensors");
  if (is_tensor)
    ++decl->tensor_count;
  else
    ++decl->attr_count;
  if (!param->is_mutated) return OG_OK;
  param->out_index = decl->mutated_count++;
  for (int32_t i = 0; i < decl->param_count; ++i)
    if (decl->params[i].alias_set == param->alias_set)
      return og_read_error_token(
          &parser->reader, name,
          "%s has the alias set of %s; expected one of its own", param->name,
          decl->params[i].name);
  return OG_OK;
}

static og_status parse_param(og_parser *parser, bool is_keyword_only,
                             og_param *param) {
  og_decl *decl = parser->decl;
  *param = (og_param){.is_keyword_only = is_keyword_only};
  OG_TRY(parse_type(parser, param));
  const og_token name = parser->reader.token;
  if (name.kind != OG_TOKEN_NAME)
    return og_read_wanted(&parser->reader, "the argument's name");
  OG_TRY(check_name(parser, name));
  if (og_find_param(parser, name) >= 0)
    return og_read_wanted(&parser->reader,
                          "another name: an argument has this one");
  param->name = og_token_copy(parser, name);
  if (param->name == NULL) return og_read_memory(&parser->reader);
  og_reader_advance(&parser->reader);
  OG_TRY(place_param(parser, param, name));
  if (og_reader_take(&parser->reader, '=')) return parse_default(parser, param);
  const og_param *last =
      decl->param_count > 0 ? &decl->params[decl->param_count - 1] : NULL;
  if (!is_keyword_only && last != NULL && last->has_default)
    return og_read_error_token(
        &parser->reader, name,
        "%s has no default and stands after %s, which has one; expected a "
        "default, or a place before it or after '*'",
        param->name, last->name);
  return OG_OK;
}

static og_status parse_params(og_parser *parser) {
  og_decl *decl = parser->decl;
  bool is_keyword_only = false;
  OG_TRY(og_reader_expect(&parser->reader, '(', "'(', the arguments"));
  for (bool first = true; !og_reader_at(&parser->reader, ')'); first = false) {
    if (!first) OG_TRY(og_reader_expect(&parser->reader, ',', "',' or ')'"));
    if (!is_keyword_only && og_reader_take(&parser->reader, '*')) {
      is_keyword_only = true;
      continue;
    }
    if (decl->param_count == PARAMS_MAX)
      return og_read_wanted(&parser->reader, "%d arguments or fewer",
                            PARAMS_MAX);
    OG_TRY(
        parse_param(parser, is_keyword_only, &decl->params[decl->param_count]));
    ++decl->param_count;
  }
  og_reader_advance(&parser->reader);
  return OG_OK;
}

// --- Results -----------------------------------------------------------------

static int32_t find_alias(const og_decl *decl, char alias_set) {
  for (int32_t i = 0; i < decl->param_count; ++i)
    if (decl->params[i].alias_set == alias_set) return i;
  return -1;
}

static og_status place_alias(og_parser *parser, og_token type,
                             const og_param *parsed, og_result *result) {
  og_decl *decl = parser->decl;
  const int32_t p = find_alias(decl, parsed->alias_set);
  if (p < 0)
    return og_read_error_token(&parser->reader, type,
                               "no argument has the alias set '%c'; expected "
                               "Tensor(%c!) among the arguments",
                               parsed->alias_set, parsed->alias_set);
  if (decl->params[p].is_list != parsed->is_list || decl->params[p].is_optional)
    return og_read_error_token(
        &parser->reader, type,
        "the result is %s, which is %s; expected the same type, not optional",
        decl->params[p].name,
        decl->params[p].is_optional ? "optional"
        : decl->params[p].is_list   ? "a list"
                                    : "not a list");
  for (int32_t i = 0; i < decl->result_count; ++i)
    if (decl->results[i].alias_param == p)
      return og_read_error_token(&parser->reader, type, "%s is returned twice",
                                 decl->params[p].name);
  result->alias_param = p;
  return OG_OK;
}

static og_status place_result(og_parser *parser, og_token type,
                              const og_param *parsed, og_result *result) {
  og_decl *decl = parser->decl;
  if (parsed->is_optional || parsed->is_element_optional)
    return og_read_error_token(&parser->reader, type,
                               "a result is always there; expected %s",
                               types[parsed->type].name);
  if (parsed->type == OG_TYPE_INT || parsed->type == OG_TYPE_SYM_INT) {
    if (parsed->is_list)
      return og_read_error_token(&parser->reader, type,
                                 "found a list of ints, expected Tensor, "
                                 "Tensor[] or int");
    result->type = OG_TYPE_INT;
    result->value_index = decl->value_count++;
    return OG_OK;
  }
  if (parsed->type != OG_TYPE_TENSOR)
    return og_read_error_token(
        &parser->reader, type,
        "found a result of type %s, expected Tensor, Tensor[] or "
        "int",
        types[parsed->type].name);
  if (parsed->alias_set != 0) return place_alias(parser, type, parsed, result);
  result->fresh_index = decl->fresh_count++;
  if (decl->mutated_count + decl->fresh_count > OPGRAFT_OUT_MAX)
    return og_read_error_token(
        &parser->reader, type,
        "expected %d mutated arguments and results or fewer", OPGRAFT_OUT_MAX);
  return OG_OK;
}

static og_status parse_result_name(og_parser *parser, og_result *result) {
  const og_token name = parser->reader.token;
  result->name = "";
  if (name.kind != OG_TOKEN_NAME) return OG_OK;
  OG_TRY(check_name(parser, name));
  if (og_find_result(parser, name) >= 0 ||
      (result->alias_param < 0 && og_find_param(parser, name) >= 0))
    return og_read_wanted(&parser->reader,
                          "another name: an argument or a result has this one");
  result->name = og_token_copy(parser, name);
  if (result->name == NULL) return og_read_memory(&parser->reader);
  og_reader_advance(&parser->reader);
  return OG_OK;
}

static og_status parse_result(og_parser *parser, bool may_have_name) {
  og_decl *decl = parser->decl;
  if (decl->result_count == OPGRAFT_OUT_MAX)
    return og_read_wanted(&parser->reader, "%d results or fewer",
                          OPGRAFT_OUT_MAX);
  const og_token type = parser->reader.token;
  og_param parsed = {.name = ""};
  og_result *result = &decl->results[decl->result_count];
  *result =
      (og_result){.alias_param = -1, .fresh_index = -1, .value_index = -1};
  OG_TRY(parse_type(parser, &parsed));
  result->is_list = parsed.is_list;
  OG_TRY(place_result(parser, type, &parsed, result));
  result->name = "";
  if (may_have_name) OG_TRY(parse_result_name(parser, result));
  ++decl->result_count;
  return OG_OK;
}

static og_status parse_results(og_parser *parser) {
  OG_TRY(
      og_reader_expect(&parser->reader, OG_MARK_ARROW, "'->' and the results"));
  if (!og_reader_take(&parser->reader, '(')) return parse_result(parser, false);
  for (bool first = true; !og_reader_at(&parser->reader, ')'); first = false) {
    if (!first) OG_TRY(og_reader_expect(&parser->reader, ',', "',' or ')'"));
    OG_TRY(parse_result(parser, true));
  }
  og_reader_advance(&parser->reader);
  return OG_OK;
}

// --- The whole ---------------------------------------------------------------

static og_status parse_name(og_parser *parser) {
  og_decl *decl = parser->decl;
  const og_token name = parser->reader.token;
  if (name.kind != OG_TOKEN_NAME)
    return og_read_wanted(&parser->reader, "the operator's name");
  decl->base_name = og_token_copy(parser, name);
  decl->overload = "";
  if (decl->base_name == NULL) return og_read_memory(&parser->reader);
  og_reader_advance(&parser->reader);
  if (og_reader_at(&parser->reader, ':'))
    return og_read_wanted(&parser->reader,
                          "'.' or '(': the namespace is the module's name");
  if (og_reader_take(&parser->reader, '.')) {
    if (parser->reader.token.kind != OG_TOKEN_NAME)
      return og_read_wanted(&parser->reader, "the overload's name");
    decl->overload = og_token_copy(parser, parser->reader.token);
    if (decl->overload == NULL) return og_read_memory(&parser->reader);
    og_reader_advance(&parser->reader);
  }
  const size_t base = strlen(decl->base_name);
  const size_t overload = strlen(decl->overload);
  char *full = og_arena_alloc(&decl->arena, base + overload + 2);
  if (full == NULL) return og_read_memory(&parser->reader);
  memcpy(full, decl->base_name, base);
  if (overload > 0) full[base] = '.';
  memcpy(full + base + (overload > 0), decl->overload, overload);
  decl->name = full;
  parser->reader.name = full;
  return OG_OK;
}

// What a host may pass: an int for a bool and the other way round, None where
// the argument is optional.
static uint16_t kinds_of(const og_param *param) {
  enum { INTS = 1 << OG_ATTR_INTS | 1 << OG_ATTR_BOOLS };
  const int32_t none = param->is_optional ? 1 << OG_ATTR_NONE : 0;
  const int32_t kind = types[param->type].attr_kind;
  const int32_t ints = 1 << OG_ATTR_INT | 1 << OG_ATTR_BOOL;
  if (param->is_list)
    return (uint16_t)(none | (og_is_int_type(param->type)
                                  ? INTS
                                  : 1 << types[param->type].list_kind));
  if (param->type == OG_TYPE_SCALAR)
    return (uint16_t)(none | ints | 1 << OG_ATTR_FLOAT | 1 << OG_ATTR_COMPLEX);
  return (uint16_t)(none | (og_is_int_type(param->type) ? ints : 1 << kind));
}

static og_status index_positions(og_parser *parser) {
  og_decl *decl = parser->decl;
  og_arena *arena = &decl->arena;
  const size_t bytes = sizeof(int32_t);
  decl->tensor_params =
      og_arena_array(arena, (size_t)decl->tensor_count, bytes);
  decl->attr_params = og_arena_array(arena, (size_t)decl->attr_count, bytes);
  decl->fresh_results = og_arena_array(arena, (size_t)decl->fresh_count, bytes);
  decl->mutated_tensors =
      og_arena_array(arena, (size_t)decl->mutated_count, bytes);
  decl->attr_kinds =
      og_arena_array(arena, (size_t)decl->attr_count, sizeof *decl->attr_kinds);
  if (decl->attr_kinds == NULL || decl->tensor_params == NULL ||
      decl->attr_params == NULL || decl->fresh_results == NULL ||
      decl->mutated_tensors == NULL)
    return og_read_memory(&parser->reader);
  for (int32_t i = 0; i < decl->param_count; ++i) {
    const og_param *param = &decl->params[i];
    int32_t *positions =
        param->type == OG_TYPE_TENSOR ? decl->tensor_params : decl->attr_params;
    positions[param->index] = i;
    if (param->type != OG_TYPE_TENSOR)
      decl->attr_kinds[param->index] = kinds_of(param);
    if (param->is_mutated)
      decl->mutated_tensors[param->out_index] = param->index;
    decl->has_lists |= param->type == OG_TYPE_TENSOR && param->is_list;
  }
  for (int32_t i = 0; i < decl->result_count; ++i) {
    const og_result *result = &decl->results[i];
    if (result->fresh_index >= 0) decl->fresh_results[result->fresh_index] = i;
    decl->has_lists |= result->is_list;
  }
  return OG_OK;
}

// Moves what was read on the stack into the arena.
static og_status keep_tables(og_parser *parser) {
  og_decl *decl = parser->decl;
  const size_t param_bytes = (size_t)decl->param_count * sizeof(og_param);
  const size_t result_bytes = (size_t)decl->result_count * sizeof(og_result);
  og_param *params = og_arena_alloc(&decl->arena, param_bytes);
  og_result *results = og_arena_alloc(&decl->arena, result_bytes);
  if (params == NULL || results == NULL) return og_read_memory(&parser->reader);
  memcpy(params, decl->params, param_bytes);
  memcpy(results, decl->results, result_bytes);
  decl->params = params;
  decl->results = results;
  return index_positions(parser);
}

og_status og_parse_schema(og_decl *decl, opgraft_error *error) {
  og_parser parser;
  og_param params[PARAMS_MAX];
  og_result results[OPGRAFT_OUT_MAX];
  decl->params = params;
  decl->results = results;
  decl->inplace_param = -1;
  OG_TRY(og_parser_init(&parser, decl, "schema", decl->record->schema, error));
  OG_TRY(parse_name(&parser));
  OG_TRY(parse_params(&parser));
  OG_TRY(parse_results(&parser));
  OG_TRY(og_reader_expect_end(&parser.reader, "the end of the schema"));
  return keep_tables(&parser);
}
