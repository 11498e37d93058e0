// SPDX-License-Identifier: Apache-2.0
// The pointwise string: a scalar expression over the arguments, and what it
// stands for where shape, dtype or kernels are missing.
//
// Precedence is Python's: or, and, not, comparison, + -, * /, unary minus.

#include <string.h>

#include "decl/parse.h"

typedef struct point_parser {
  og_parser p;
  og_point_instruction code[OG_POINT_CODE_MAX];
  int32_t count;
  int32_t depth;
} point_parser;

static og_status parse_level(point_parser *s, int32_t level);

static og_status emit(point_parser *s, int32_t op, int32_t slot, double value) {
#define OPERAND_COUNT(name, text, count) count,
  static const int8_t operands[] = {OG_POINT_LIST(OPERAND_COUNT)};
#undef OPERAND_COUNT
  const int32_t depth = s->depth + 1 - operands[op];
  if (s->count == OG_POINT_CODE_MAX || depth > OG_POINT_DEPTH_MAX)
    return og_parse_wanted(&s->p, "a shorter expression");
  s->code[s->count++] =
      (og_point_instruction){.op = op, .slot = slot, .value = value};
  s->depth = depth;
  return OG_OK;
}

// --- Names and functions -----------------------------------------------------

static const struct {
  const char *name;
  int32_t op;
  int32_t count;  // arguments; min and max take more
} functions[] = {
    {"exp", OG_POINT_EXP_, 1},   {"log", OG_POINT_LOG_, 1},
    {"sqrt", OG_POINT_SQRT_, 1}, {"rsqrt", OG_POINT_RSQRT_, 1},
    {"tanh", OG_POINT_TANH_, 1}, {"sigmoid", OG_POINT_SIGMOID_, 1},
    {"erf", OG_POINT_ERF_, 1},   {"abs", OG_POINT_ABS_, 1},
    {"min", OG_POINT_MIN_, 2},   {"max", OG_POINT_MAX_, 2},
    {"pow", OG_POINT_POW_, 2},   {"select", OG_POINT_SELECT_, 3},
};

static og_status parse_function(point_parser *s, og_token name) {
  const int32_t count = (int32_t)(sizeof functions / sizeof *functions);
  int32_t i = 0;
  while (i < count && !og_token_is(&s->p, name, functions[i].name)) ++i;
  if (i == count)
    return og_parse_error_token(
        &s->p, name,
        "unknown function '%.*s'; wanted exp, log, sqrt, rsqrt, tanh, sigmoid, "
        "erf, abs, min, max, pow or select",
        (int)og_token_length(name), og_token_text(&s->p, name));
  const int32_t op = functions[i].op;
  const bool takes_more = op == OG_POINT_MIN_ || op == OG_POINT_MAX_;
  og_parser_advance(&s->p);
  OG_TRY(parse_level(s, 0));
  for (int32_t n = 1; n < functions[i].count; ++n) {
    OG_TRY(og_parser_expect(&s->p, ',', "',' and the next argument"));
    OG_TRY(parse_level(s, 0));
  }
  OG_TRY(emit(s, op, 0, 0));
  while (takes_more && og_parser_take(&s->p, ',')) {
    OG_TRY(parse_level(s, 0));
    OG_TRY(emit(s, op, 0, 0));
  }
  return og_parser_expect(&s->p, ')', "')'");
}

static bool is_number(const og_param *param) {
  return !param->is_list && !param->is_optional &&
         (og_is_int_type(param->type) || param->type == OG_TYPE_FLOAT ||
          param->type == OG_TYPE_SCALAR);
}

static og_status parse_name(point_parser *s) {
  const og_token name = s->p.token;
  og_parser_advance(&s->p);
  if (og_parser_at(&s->p, '(')) return parse_function(s, name);
  const int32_t i = og_find_param(&s->p, name);
  if (i < 0) return og_parse_unknown(&s->p, name, "argument", OG_NAMES_PARAMS);
  const og_param *param = &s->p.decl->params[i];
  if (param->type == OG_TYPE_TENSOR)
    return emit(s, OG_POINT_LOAD_, param->index, 0);
  if (is_number(param)) return emit(s, OG_POINT_NUMBER_, param->index, 0);
  return og_parse_error_token(&s->p, name,
                              "%s is no number; wanted a tensor, or an int, "
                              "float, bool or Scalar that is not optional",
                              param->name);
}

static og_status parse_primary(point_parser *s) {
  const og_token token = s->p.token;
  double value;
  if (token.kind == OG_TOKEN_INT || token.kind == OG_TOKEN_NUMBER) {
    if (!og_double_parse(og_token_text(&s->p, token),
                         (size_t)og_token_length(token), &value))
      return og_parse_wanted(&s->p, "a shorter number");
    og_parser_advance(&s->p);
    return emit(s, OG_POINT_CONST_, 0, value);
  }
  if (token.kind == OG_TOKEN_NAME) return parse_name(s);
  if (!og_parser_take(&s->p, '('))
    return og_parse_wanted(&s->p, "an argument, a number or '('");
  OG_TRY(parse_level(s, 0));
  return og_parser_expect(&s->p, ')', "')'");
}

// --- Operators ---------------------------------------------------------------

enum { LEVEL_AND = 1, LEVEL_COMPARE = 2, LEVEL_UNARY = 5 };

static const struct {
  int32_t mark;  // 0: a word
  const char *word;
  int32_t level;
  int32_t op;
} operators[] = {
    {0, "or", 0, OG_POINT_OR_},        {0, "and", 1, OG_POINT_AND_},
    {OG_MARK_EQ, "", 2, OG_POINT_EQ_}, {OG_MARK_NE, "", 2, OG_POINT_NE_},
    {OG_MARK_LE, "", 2, OG_POINT_LE_}, {OG_MARK_GE, "", 2, OG_POINT_GE_},
    {'<', "", 2, OG_POINT_LT_},        {'>', "", 2, OG_POINT_GT_},
    {'+', "", 3, OG_POINT_ADD_},       {'-', "", 3, OG_POINT_SUB_},
    {'*', "", 4, OG_POINT_MUL_},       {'/', "", 4, OG_POINT_DIV_},
};

// The operation of the operator of this level at the current token, or -1.
static int32_t operator_at(const point_parser *s, int32_t level) {
  for (size_t i = 0; i < sizeof operators / sizeof *operators; ++i) {
    if (operators[i].level != level) continue;
    if (operators[i].mark != 0 ? og_parser_at(&s->p, operators[i].mark)
                               : og_parser_at_word(&s->p, operators[i].word))
      return operators[i].op;
  }
  return -1;
}

static og_status parse_unary(point_parser *s) {
  int32_t minuses = 0;
  while (og_parser_take(&s->p, '-')) ++minuses;
  OG_TRY(parse_primary(s));
  for (; minuses > 0; --minuses) OG_TRY(emit(s, OG_POINT_NEG_, 0, 0));
  return OG_OK;
}

// What stands on either side of an operator of this level.
static og_status parse_operand(point_parser *s, int32_t level) {
  int32_t nots = 0;
  if (level + 1 == LEVEL_UNARY) return parse_unary(s);
  while (level == LEVEL_AND && og_parser_take_word(&s->p, "not")) ++nots;
  OG_TRY(parse_level(s, level + 1));
  for (; nots > 0; --nots) OG_TRY(emit(s, OG_POINT_NOT_, 0, 0));
  return OG_OK;
}

static og_status parse_level(point_parser *s, int32_t level) {
  if (level == 0 && ++s->p.nesting > OG_NESTING_MAX)
    return og_parse_wanted(&s->p, "fewer parentheses");
  OG_TRY(parse_operand(s, level));
  for (int32_t op; (op = operator_at(s, level)) >= 0;) {
    og_parser_advance(&s->p);
    OG_TRY(parse_operand(s, level));
    OG_TRY(emit(s, op, 0, 0));
    if (level == LEVEL_COMPARE && operator_at(s, level) >= 0)
      return og_parse_wanted(&s->p, "'and': comparisons are not chained");
  }
  if (level == 0) --s->p.nesting;
  return OG_OK;
}

// --- What it stands for ------------------------------------------------------

static og_status refuse_operator(const point_parser *s, const char *found,
                                 const char *wanted) {
  return og_parse_error(&s->p, 0, s->p.length, "%s; wanted %s", found, wanted);
}

// One result, from tensors that are always there.
static og_status check_operator(const point_parser *s) {
  const og_decl *decl = s->p.decl;
  if (decl->fresh_count != 1 || decl->result_count != 1 ||
      decl->mutated_count > 0 || decl->results[0].is_list)
    return refuse_operator(s, "the schema has other results than one tensor",
                           "-> Tensor, and no mutated argument");
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    const og_param *param = og_tensor_param(decl, t);
    if (param->is_list || param->is_optional)
      return refuse_operator(s, "a tensor argument is a list or optional",
                             "plain tensors");
  }
  if (decl->tensor_count == 0 || decl->tensor_count > 8)
    return refuse_operator(s, "the schema has no tensors, or more than 8",
                           "1 to 8");
  return OG_OK;
}

// A beginning for names of dims that no argument's name has.
static void dim_prefix(const og_decl *decl, char *out, size_t size) {
  memset(out, 0, size);
  out[0] = 'N';
  for (int32_t i = 0; i < decl->param_count; ++i) {
    const size_t length = strlen(out);
    if (strncmp(decl->params[i].name, out, length) != 0) continue;
    if (length + 1 == size) return;
    out[length] = '_';
    i = -1;
  }
}

// x[*N0], y[*N1] -> [*broadcast(N0, N1)]
static void write_shape(const og_decl *decl, og_text *text) {
  char prefix[OPGRAFT_ARG_MAX];
  dim_prefix(decl, prefix, sizeof prefix);
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    og_text_addf(text, "%s%s[*%s%d]", t > 0 ? ", " : "",
                 og_tensor_param(decl, t)->name, prefix, (int)t);
  og_text_add(text, " -> [*broadcast(");
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    og_text_addf(text, "%s%s%d", t > 0 ? ", " : "", prefix, (int)t);
  og_text_add(text, ")]");
}

// x: floating, y: floating -> promote(x, y)
static void write_dtype(const og_decl *decl, og_text *text) {
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    og_text_addf(text, "%s%s: floating", t > 0 ? ", " : "",
                 og_tensor_param(decl, t)->name);
  og_text_add(text, " -> promote(");
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    og_text_addf(text, "%s%s", t > 0 ? ", " : "",
                 og_tensor_param(decl, t)->name);
  og_text_add(text, ")");
}

static og_status derive_text(og_parser *p,
                             void (*write)(const og_decl *, og_text *),
                             const char **field) {
  og_text text = {0};
  write(p->decl, &text);
  if (!text.failed)
    *field = og_arena_strndup(&p->decl->arena, text.data, text.length);
  og_text_reset(&text);
  return *field == NULL ? og_parse_memory(p) : OG_OK;
}

static og_status derive(og_parser *p) {
  og_decl *decl = p->decl;
  og_op *record = (og_op *)(uintptr_t)decl->record;  // our own copy
  const bool has_kernels = record->kernel_count > 0;
  if (record->shape == NULL && record->infer == NULL)
    OG_TRY(derive_text(p, write_shape, &record->shape));
  if (has_kernels) return OG_OK;
  if (record->dtype == NULL)
    OG_TRY(derive_text(p, write_dtype, &record->dtype));
  if (record->strides == NULL) record->strides = "any";
  og_kernel *kernel = og_arena_alloc(&decl->arena, sizeof *kernel);
  if (kernel == NULL) return og_parse_memory(p);
  *kernel = (og_kernel){.device = OG_CPU, .run = og_pointwise_run};
  record->kernels = kernel;
  record->kernel_count = 1;
  record->kernel_size = sizeof *kernel;
  decl->is_pointwise_derived = true;
  return OG_OK;
}

og_status og_parse_pointwise(og_decl *decl, opgraft_error *error) {
  point_parser s;
  if (decl->record->pointwise == NULL) return OG_OK;
  OG_TRY(
      og_parser_init(&s.p, decl, "pointwise", decl->record->pointwise, error));
  s.count = 0;
  s.depth = 0;
  OG_TRY(parse_level(&s, 0));
  OG_TRY(og_parser_expect_end(&s.p, "an operator or the end"));
  OG_TRY(check_operator(&s));
  const size_t bytes = (size_t)s.count * sizeof *s.code;
  og_point_instruction *code = og_arena_alloc(&decl->arena, bytes);
  og_pointwise *pointwise = og_arena_alloc(&decl->arena, sizeof *pointwise);
  if (code == NULL || pointwise == NULL) return og_parse_memory(&s.p);
  memcpy(code, s.code, bytes);
  *pointwise = (og_pointwise){
      .code = code, .count = s.count, .tensor_count = decl->tensor_count};
  decl->pointwise = pointwise;
  return derive(&s.p);
}
