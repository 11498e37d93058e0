// SPDX-License-Identifier: Apache-2.0
// Integer expressions, read to postfix.
//
// Precedence is Python's: or, and, not, comparison, + -, * // %, unary minus.
// Invariants: an expression's stack never holds more than OG_EXPR_DEPTH_MAX
// values, and every instruction finds its operands there; og_expr_eval relies
// on both.

#include "decl/parse/expr.h"

#include <string.h>

#include "decl/parse/names.h"
#include "decl/parse/parser.h"
#include "decl/parse/schema.h"
#include "decl/types.h"

static og_status parse_or(og_parser *parser);

// `change`: by how much the instruction changes the stack's height.
static og_status emit_value(og_parser *parser, int32_t op, int32_t slot,
                            int64_t value, int32_t change) {
  if (parser->code_count == OG_EXPR_CODE_MAX ||
      parser->depth + change > OG_EXPR_DEPTH_MAX)
    return og_read_wanted(&parser->reader, "a shorter expression");
  parser->code[parser->code_count++] =
      (og_instruction){.op = op, .slot = slot, .value = value};
  parser->depth += change;
  return OG_OK;
}

static og_status emit(og_parser *parser, int32_t op, int32_t slot,
                      int32_t change) {
  return emit_value(parser, op, slot, 0, change);
}

// --- Names -------------------------------------------------------------------

og_status og_dim_intern(og_parser *parser, og_token name, int32_t *out_dim) {
  og_decl *decl = parser->decl;
  *out_dim = og_find_dim(parser, name);
  if (*out_dim >= 0) return OG_OK;
  const int32_t param = og_find_param(parser, name);
  if (param >= 0)
    return og_read_error_token(&parser->reader, name,
                               "%s is an argument of type %s; expected a dim's "
                               "name, or an int argument",
                               decl->params[param].name,
                               og_type_name(decl->params[param].type));
  if (!parser->is_open)
    return og_parse_unknown(parser, name, "name",
                            OG_NAMES_DIMS | OG_NAMES_INTS);
  if (decl->dim_count == OPGRAFT_DIM_MAX)
    return og_read_error_token(&parser->reader, name,
                               "expected %d named dims or fewer",
                               OPGRAFT_DIM_MAX);
  const char *copy = og_token_copy(parser, name);
  if (copy == NULL) return og_read_memory(&parser->reader);
  decl->dims[decl->dim_count] = (og_dim){.name = copy, .kind = OG_DIM_SIZE};
  *out_dim = decl->dim_count++;
  return OG_OK;
}

og_status og_dim_check_use(const og_parser *parser, const og_dim_use *use) {
  const og_dim *dim = &parser->decl->dims[use->dim];
  if (use->wants & 1 << dim->kind) return OG_OK;
  switch (dim->kind) {
    case OG_DIM_PACK:
      return og_read_error(&parser->reader, use->begin, use->end,
                           "%s is a pack; expected prod(%s), rank(%s) or %s[i]",
                           dim->name, dim->name, dim->name, dim->name);
    case OG_DIM_VARY:
      return og_read_error(&parser->reader, use->begin, use->end,
                           "%s~ has a size in each entry; expected sum(%s~) or "
                           "%s~[i]",
                           dim->name, dim->name, dim->name);
    case OG_DIM_FOUND:
      return og_read_error(&parser->reader, use->begin, use->end,
                           "%s is found by the kernel; it can only be the "
                           "first dim of a result",
                           dim->name);
    default:
      return og_read_error(&parser->reader, use->begin, use->end,
                           "%s is one dim; expected %s", dim->name,
                           use->wants & OG_USE_PACK
                               ? "a pack, *N, or an int list"
                               : "a varying dim, D~");
  }
}

// A dim named in an expression: checked now, or when the shape string is read.
static og_status use_dim(og_parser *parser, og_token name, int32_t wants,
                         int32_t *out_dim) {
  OG_TRY(og_dim_intern(parser, name, out_dim));
  const og_dim_use use = {.dim = *out_dim,
                          .wants = wants,
                          .pattern = parser->pattern,
                          .begin = name.begin,
                          .end = name.end};
  if (parser->uses == NULL) return og_dim_check_use(parser, &use);
  if (parser->use_count == OG_USES_MAX)
    return og_read_error_token(&parser->reader, name,
                               "expected a shorter rule");
  parser->uses[parser->use_count++] = use;
  return OG_OK;
}

static bool is_index(const og_parser *parser, og_token name) {
  return parser->index_begin >= 0 &&
         parser->index_end - parser->index_begin == og_token_length(name) &&
         memcmp(parser->reader.text + parser->index_begin,
                og_token_text(&parser->reader, name),
                (size_t)og_token_length(name)) == 0;
}

// The argument of this name that is not a tensor, or NULL.
static const og_param *find_attr(const og_parser *parser, og_token name) {
  const int32_t i = og_find_param(parser, name);
  if (i < 0 || parser->decl->params[i].type == OG_TYPE_TENSOR) return NULL;
  return &parser->decl->params[i];
}

static og_status emit_attr(og_parser *parser, og_token name,
                           const og_param *attr) {
  if (attr->is_list)
    return og_read_error_token(
        &parser->reader, name,
        "%s is a list; expected %s[i], len(%s), prod(%s) or sum(%s)",
        attr->name, attr->name, attr->name, attr->name, attr->name);
  if (!og_is_int_type(attr->type))
    return og_read_error_token(
        &parser->reader, name,
        "%s is a %s; expected an int, SymInt or bool argument", attr->name,
        og_type_name(attr->type));
  return emit(parser, OG_CODE_ATTR_, attr->index, 1);
}

static og_status want_int_list(const og_parser *parser, og_token name,
                               const og_param *attr) {
  if (attr->is_list && og_is_int_type(attr->type)) return OG_OK;
  return og_read_error_token(&parser->reader, name,
                             "%s is not a list of ints; expected a pack or an "
                             "int[] argument",
                             attr->name);
}

// name[i]
static og_status parse_index(og_parser *parser, og_token name, bool varies) {
  const og_param *attr = find_attr(parser, name);
  int32_t op = varies ? OG_CODE_VARY_AT_ : OG_CODE_PACK_AT_;
  int32_t slot;
  if (attr != NULL && !varies) {
    OG_TRY(want_int_list(parser, name, attr));
    op = OG_CODE_ATTR_AT_;
    slot = attr->index;
  } else {
    OG_TRY(use_dim(parser, name, varies ? OG_USE_VARY : OG_USE_PACK, &slot));
    parser->needs_packs = true;
  }
  OG_TRY(og_reader_expect(&parser->reader, '[', "'[' and the index"));
  OG_TRY(parse_or(parser));
  OG_TRY(og_reader_expect(&parser->reader, ']', "']'"));
  return emit(parser, op, slot, 0);
}

// --- Functions ---------------------------------------------------------------

static og_status parse_function_name(og_parser *parser, og_token *out_name) {
  *out_name = parser->reader.token;
  if (out_name->kind != OG_TOKEN_NAME)
    return og_read_wanted(&parser->reader, "a name");
  og_reader_advance(&parser->reader);
  return OG_OK;
}

static og_status parse_prod(og_parser *parser) {
  og_token name;
  int32_t slot;
  OG_TRY(parse_function_name(parser, &name));
  const og_param *attr = find_attr(parser, name);
  if (attr == NULL) {
    OG_TRY(use_dim(parser, name, OG_USE_PACK, &slot));
    return emit(parser, OG_CODE_DIM_, slot, 1);
  }
  OG_TRY(want_int_list(parser, name, attr));
  return emit(parser, OG_CODE_ATTR_PROD_, attr->index, 1);
}

static og_status parse_rank(og_parser *parser) {
  og_token name;
  int32_t slot;
  OG_TRY(parse_function_name(parser, &name));
  OG_TRY(use_dim(parser, name, OG_USE_PACK, &slot));
  parser->needs_packs = true;
  return emit(parser, OG_CODE_PACK_RANK_, slot, 1);
}

static og_status parse_len(og_parser *parser) {
  og_token name;
  OG_TRY(parse_function_name(parser, &name));
  const int32_t i = og_find_param(parser, name);
  if (i < 0)
    return og_parse_unknown(parser, name, "list argument", OG_NAMES_PARAMS);
  const og_param *param = &parser->decl->params[i];
  if (!param->is_list)
    return og_read_error_token(&parser->reader, name,
                               "%s is not a list; expected a list argument",
                               param->name);
  return emit(
      parser,
      param->type == OG_TYPE_TENSOR ? OG_CODE_LIST_LEN_ : OG_CODE_ATTR_LEN_,
      param->index, 1);
}

// sum(D~), sum(sizes)
static og_status parse_sum(og_parser *parser) {
  og_token name;
  int32_t slot;
  OG_TRY(parse_function_name(parser, &name));
  const og_param *attr = find_attr(parser, name);
  if (attr != NULL) {
    OG_TRY(want_int_list(parser, name, attr));
    return emit(parser, OG_CODE_ATTR_SUM_, attr->index, 1);
  }
  OG_TRY(
      og_reader_expect(&parser->reader, '~', "'~': sum takes D~ or an int[]"));
  OG_TRY(use_dim(parser, name, OG_USE_VARY, &slot));
  return emit(parser, OG_CODE_DIM_, slot, 1);
}

static og_status parse_given(og_parser *parser) {
  og_token name;
  OG_TRY(parse_function_name(parser, &name));
  const int32_t i = og_find_param(parser, name);
  if (i < 0) return og_parse_unknown(parser, name, "argument", OG_NAMES_PARAMS);
  const og_param *param = &parser->decl->params[i];
  if (!param->is_optional)
    return og_read_error_token(&parser->reader, name,
                               "%s is always given; expected an optional "
                               "argument",
                               param->name);
  return emit(parser,
              param->type == OG_TYPE_TENSOR ? OG_CODE_GIVEN_TENSOR_
                                            : OG_CODE_GIVEN_ATTR_,
              param->index, 1);
}

static og_status parse_itemsize(og_parser *parser) {
  int32_t tensor;
  OG_TRY(og_parse_tensor(parser, &tensor));
  // The value says whether the argument is a list, whose first entry counts.
  return emit_value(parser, OG_CODE_ITEM_BYTES_, tensor,
                    og_tensor_param(parser->decl, tensor)->is_list, 1);
}

// min and max: two or more.
static og_status parse_extreme(og_parser *parser, int32_t op) {
  OG_TRY(parse_or(parser));
  OG_TRY(og_reader_expect(&parser->reader, ',', "',' and another expression"));
  do {
    OG_TRY(parse_or(parser));
    OG_TRY(emit(parser, op, 0, -1));
  } while (og_reader_take(&parser->reader, ','));
  return OG_OK;
}

static og_status parse_min(og_parser *parser) {
  return parse_extreme(parser, OG_CODE_MIN_);
}

static og_status parse_max(og_parser *parser) {
  return parse_extreme(parser, OG_CODE_MAX_);
}

static og_status parse_ceildiv(og_parser *parser) {
  OG_TRY(parse_or(parser));
  OG_TRY(og_reader_expect(&parser->reader, ',', "',' and the divisor"));
  OG_TRY(parse_or(parser));
  return emit(parser, OG_CODE_CEIL_DIV_, 0, -1);
}

static og_status parse_select(og_parser *parser) {
  OG_TRY(parse_or(parser));
  OG_TRY(
      og_reader_expect(&parser->reader, ',', "',': select(condition, a, b)"));
  OG_TRY(parse_or(parser));
  OG_TRY(
      og_reader_expect(&parser->reader, ',', "',': select(condition, a, b)"));
  OG_TRY(parse_or(parser));
  return emit(parser, OG_CODE_SELECT_, 0, -2);
}

static const struct {
  const char *name;
  og_status (*parse)(og_parser *parser);
} functions[] = {
    {"min", parse_min},         {"max", parse_max},
    {"ceildiv", parse_ceildiv}, {"select", parse_select},
    {"prod", parse_prod},       {"rank", parse_rank},
    {"len", parse_len},         {"sum", parse_sum},
    {"given", parse_given},     {"itemsize", parse_itemsize},
};

static og_status parse_call(og_parser *parser, og_token name) {
  for (size_t i = 0; i < sizeof functions / sizeof *functions; ++i) {
    if (!og_token_is(&parser->reader, name, functions[i].name)) continue;
    og_reader_advance(&parser->reader);
    OG_TRY(functions[i].parse(parser));
    return og_reader_expect(&parser->reader, ')', "')'");
  }
  return og_read_error_token(&parser->reader, name,
                             "unknown function '%.*s'; expected min, max, "
                             "ceildiv, select, prod, rank, len, sum, given or "
                             "itemsize",
                             (int)og_token_length(name),
                             og_token_text(&parser->reader, name));
}

// --- The grammar -------------------------------------------------------------

static og_status parse_name(og_parser *parser) {
  const og_token name = parser->reader.token;
  int32_t slot;
  og_reader_advance(&parser->reader);
  if (og_reader_at(&parser->reader, '(')) return parse_call(parser, name);
  if (og_reader_at(&parser->reader, '['))
    return parse_index(parser, name, false);
  if (og_reader_take(&parser->reader, '~'))
    return parse_index(parser, name, true);
  if (is_index(parser, name)) return emit(parser, OG_CODE_INDEX_, 0, 1);
  const og_param *attr = find_attr(parser, name);
  if (attr != NULL) return emit_attr(parser, name, attr);
  if (parser->has_threads && og_token_is(&parser->reader, name, "threads") &&
      og_find_dim(parser, name) < 0)
    return emit(parser, OG_CODE_THREADS_, 0, 1);
  OG_TRY(use_dim(parser, name, OG_USE_SIZE, &slot));
  return emit(parser, OG_CODE_DIM_, slot, 1);
}

static og_status parse_primary(og_parser *parser) {
  const og_token token = parser->reader.token;
  if (token.kind == OG_TOKEN_INT) {
    og_reader_advance(&parser->reader);
    return emit_value(parser, OG_CODE_CONST_, 0, token.value, 1);
  }
  if (token.kind == OG_TOKEN_NAME &&
      !og_token_is(&parser->reader, token, "and") &&
      !og_token_is(&parser->reader, token, "or") &&
      !og_token_is(&parser->reader, token, "not"))
    return parse_name(parser);
  if (!og_reader_take(&parser->reader, '('))
    return og_read_wanted(&parser->reader, "a name, an integer or '('");
  OG_TRY(parse_or(parser));
  return og_reader_expect(&parser->reader, ')', "')'");
}

static og_status parse_unary(og_parser *parser) {
  int32_t minuses = 0;
  while (og_reader_take(&parser->reader, '-')) ++minuses;
  OG_TRY(parse_primary(parser));
  for (; minuses > 0; --minuses) OG_TRY(emit(parser, OG_CODE_NEG_, 0, 0));
  return OG_OK;
}

typedef struct operator_row {
  int32_t mark;
  int32_t op;
} operator_row;

// The operation of the operator at the current token, -1 if it is none of
// these.
static int32_t operator_at(const og_parser *parser, const operator_row *rows,
                           int32_t count) {
  for (int32_t i = 0; i < count; ++i)
    if (og_reader_at(&parser->reader, rows[i].mark)) return rows[i].op;
  return -1;
}

static og_status parse_product(og_parser *parser) {
  static const operator_row rows[] = {{'*', OG_CODE_MUL_},
                                      {OG_MARK_FLOOR_DIV, OG_CODE_FLOOR_DIV_},
                                      {'%', OG_CODE_MOD_}};
  OG_TRY(parse_unary(parser));
  for (int32_t op; (op = operator_at(parser, rows, 3)) >= 0;) {
    og_reader_advance(&parser->reader);
    OG_TRY(parse_unary(parser));
    OG_TRY(emit(parser, op, 0, -1));
  }
  return OG_OK;
}

static og_status parse_sum_terms(og_parser *parser) {
  static const operator_row rows[] = {{'+', OG_CODE_ADD_}, {'-', OG_CODE_SUB_}};
  OG_TRY(parse_product(parser));
  for (int32_t op; (op = operator_at(parser, rows, 2)) >= 0;) {
    og_reader_advance(&parser->reader);
    OG_TRY(parse_product(parser));
    OG_TRY(emit(parser, op, 0, -1));
  }
  return OG_OK;
}

// The float argument at the current token, or NULL.
static const og_param *float_at(const og_parser *parser) {
  if (parser->reader.token.kind != OG_TOKEN_NAME) return NULL;
  const og_param *attr = find_attr(parser, parser->reader.token);
  return attr != NULL && attr->type == OG_TYPE_FLOAT && !attr->is_list ? attr
                                                                       : NULL;
}

// What an argument compares with, `eps > 0.5`: its sign less that, with 0.
static og_status parse_number_side(og_parser *parser, const og_param *attr) {
  double number;
  int64_t bits;
  OG_TRY(og_parse_number(parser, &number));
  memcpy(&bits, &number, sizeof bits);
  OG_TRY(emit_value(parser, OG_CODE_FLOAT_SIGN_, attr->index, bits, 1));
  return emit(parser, OG_CODE_CONST_, 0, 1);
}

static og_status parse_comparison(og_parser *parser) {
  static const operator_row rows[] = {
      {OG_MARK_EQ, OG_CODE_EQ_}, {OG_MARK_NE, OG_CODE_NE_},
      {OG_MARK_LE, OG_CODE_LE_}, {OG_MARK_GE, OG_CODE_GE_},
      {'<', OG_CODE_LT_},        {'>', OG_CODE_GT_}};
  const og_param *attr = float_at(parser);
  if (attr != NULL)
    og_reader_advance(&parser->reader);
  else
    OG_TRY(parse_sum_terms(parser));
  const int32_t op = operator_at(parser, rows, 6);
  if (op < 0 && attr != NULL)
    return og_read_wanted(&parser->reader,
                          "a comparison of %s with a number, such as %s > 0",
                          attr->name, attr->name);
  if (op < 0) return OG_OK;
  og_reader_advance(&parser->reader);
  OG_TRY(attr != NULL ? parse_number_side(parser, attr)
                      : parse_sum_terms(parser));
  if (operator_at(parser, rows, 6) >= 0)
    return og_read_wanted(&parser->reader,
                          "'and': comparisons are not chained");
  return emit(parser, op, 0, -1);
}

static og_status parse_not(og_parser *parser) {
  int32_t nots = 0;
  while (og_reader_take_word(&parser->reader, "not")) ++nots;
  OG_TRY(parse_comparison(parser));
  for (; nots > 0; --nots) OG_TRY(emit(parser, OG_CODE_NOT_, 0, 0));
  return OG_OK;
}

static og_status parse_and(og_parser *parser) {
  OG_TRY(parse_not(parser));
  while (og_reader_take_word(&parser->reader, "and")) {
    OG_TRY(parse_not(parser));
    OG_TRY(emit(parser, OG_CODE_AND_, 0, -1));
  }
  return OG_OK;
}

static og_status parse_or(og_parser *parser) {
  if (++parser->reader.nesting > OG_NESTING_MAX)
    return og_read_wanted(&parser->reader, "fewer parentheses");
  OG_TRY(parse_and(parser));
  while (og_reader_take_word(&parser->reader, "or")) {
    OG_TRY(parse_and(parser));
    OG_TRY(emit(parser, OG_CODE_OR_, 0, -1));
  }
  --parser->reader.nesting;
  return OG_OK;
}

og_status og_parse_expr(og_parser *parser, og_expr *out_expr) {
  *out_expr = (og_expr){.begin = parser->reader.token.begin};
  parser->code_count = 0;
  parser->depth = 0;
  parser->needs_packs = false;
  OG_TRY(parse_or(parser));
  const size_t bytes = (size_t)parser->code_count * sizeof(og_instruction);
  og_instruction *code = og_arena_alloc(&parser->decl->arena, bytes);
  if (code == NULL) return og_read_memory(&parser->reader);
  memcpy(code, parser->code, bytes);
  out_expr->code = code;
  out_expr->count = parser->code_count;
  // The end without the blanks before the current token.
  int32_t end = parser->reader.token.begin;
  while (end > out_expr->begin &&
         strchr(" \t\r\n", parser->reader.text[end - 1]))
    --end;
  out_expr->end = end;
  out_expr->needs_packs = parser->needs_packs;
  return OG_OK;
}

// --- where and workspace -----------------------------------------------------

enum { CONDITIONS_MAX = 64 };

static og_status parse_condition(og_parser *parser, og_condition *out) {
  OG_TRY(og_parse_expr(parser, &out->expr));
  out->text = og_arena_strndup(&parser->decl->arena,
                               parser->reader.text + out->expr.begin,
                               (size_t)(out->expr.end - out->expr.begin));
  return out->text != NULL ? OG_OK : og_read_memory(&parser->reader);
}

const og_value_range *og_value_range_of(const og_decl *decl, int32_t tensor) {
  for (int32_t i = 0; i < decl->range_count; ++i)
    if (decl->ranges[i].tensor == tensor) return &decl->ranges[i];
  return NULL;
}

static bool is_range(const og_parser *parser) {
  return parser->reader.token.kind == OG_TOKEN_NAME &&
         og_token_is(&parser->reader, og_reader_peek(&parser->reader), "in");
}

// `slots in [0, C)`, `indptr in offsets(N)`
static og_status parse_range(og_parser *parser) {
  og_decl *decl = parser->decl;
  og_reader *reader = &parser->reader;
  og_value_range range = {.is_offsets = false};
  OG_TRY(og_parse_tensor(parser, &range.tensor));
  if (og_value_range_of(decl, range.tensor) != NULL)
    return og_read_wanted(reader, "one range of an argument");
  og_reader_advance(reader);
  range.is_offsets = og_reader_take_word(reader, "offsets");
  if (range.is_offsets) {
    OG_TRY(og_reader_expect(reader, '(', "'('"));
  } else {
    OG_TRY(og_reader_expect(reader, '[', "'[' or offsets(SIZE)"));
    OG_TRY(og_parse_expr(parser, &range.begin));
    OG_TRY(og_reader_expect(reader, ',', "','"));
  }
  OG_TRY(og_parse_expr(parser, &range.end));
  if (decl->ranges == NULL)
    decl->ranges = og_arena_array(&decl->arena, (size_t)decl->tensor_count,
                                  sizeof *decl->ranges);
  if (decl->ranges == NULL) return og_read_memory(reader);
  decl->ranges[decl->range_count++] = range;
  return og_reader_expect(reader, ')', "')'");
}

og_status og_check_ranges(og_decl *decl, opgraft_error *error) {
  for (int32_t i = 0; i < decl->range_count; ++i) {
    const og_value_range *range = &decl->ranges[i];
    if (!og_takes_integers_only(decl, range->tensor))
      return og_error_at(error, OG_INVALID, decl->name, "where",
                         range->end.begin, range->end.end,
                         "%s: where: %s has a range; expected an argument of "
                         "integers",
                         decl->name,
                         og_tensor_param(decl, range->tensor)->name);
  }
  return OG_OK;
}

og_status og_parse_where(og_decl *decl, opgraft_error *error) {
  og_parser parser;
  og_condition conditions[CONDITIONS_MAX];
  int32_t count = 0;
  if (decl->record->where == NULL) return OG_OK;
  OG_TRY(og_parser_init(&parser, decl, "where", decl->record->where, error));
  do {
    if (is_range(&parser)) {
      OG_TRY(parse_range(&parser));
      continue;
    }
    if (count == CONDITIONS_MAX)
      return og_read_wanted(&parser.reader, "%d conditions or fewer",
                            CONDITIONS_MAX);
    OG_TRY(parse_condition(&parser, &conditions[count++]));
  } while (og_reader_take(&parser.reader, ','));
  OG_TRY(
      og_reader_expect_end(&parser.reader, "',' or the end of the conditions"));
  if (count == 0) return OG_OK;
  const size_t bytes = (size_t)count * sizeof *conditions;
  decl->conditions = og_arena_alloc(&decl->arena, bytes);
  if (decl->conditions == NULL) return og_read_memory(&parser.reader);
  memcpy(decl->conditions, conditions, bytes);
  decl->condition_count = count;
  return OG_OK;
}

og_status og_parse_workspace(og_decl *decl, opgraft_error *error) {
  og_parser parser;
  if (decl->record->workspace == NULL) return OG_OK;
  OG_TRY(og_parser_init(&parser, decl, "workspace", decl->record->workspace,
                        error));
  parser.has_threads = true;
  OG_TRY(og_parse_expr(&parser, &decl->workspace));
  return og_reader_expect_end(&parser.reader, "the end of the expression");
}
