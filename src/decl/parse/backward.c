// SPDX-License-Identifier: Apache-2.0
// The backward string, f_backward(grad, x, needs(w)) -> x, w, and whether the
// operator that it names takes what it is given.

#include "decl/parse/backward.h"

#include <stdio.h>
#include <string.h>

#include "decl/parse/names.h"
#include "decl/parse/parser.h"
#include "decl/types.h"

enum { GRAD_ARGS_MAX = OPGRAFT_ARG_MAX + OPGRAFT_ATTR_MAX };

// --- Reading -----------------------------------------------------------------

// The result that "grad", "grad_y", "grad_0" (or "result...") means after its
// prefix; -1 if it means none.
static int32_t find_by_suffix(const og_parser *parser, og_token name,
                              size_t prefix) {
  const og_decl *decl = parser->decl;
  const char *text = og_token_text(&parser->reader, name) + prefix;
  const int32_t length = og_token_length(name) - (int32_t)prefix;
  int32_t number = 0;
  if (length == 0) return decl->result_count == 1 ? 0 : -1;
  if (text[0] != '_' || length == 1 || length > 4) number = -1;
  for (int32_t i = 1; i < length && number >= 0; ++i) {
    const bool is_digit = text[i] >= '0' && text[i] <= '9';
    number = is_digit ? number * 10 + (text[i] - '0') : -1;
  }
  if (number >= 0 && number < decl->result_count) return number;
  og_token rest = name;
  rest.begin += (int32_t)prefix + 1;
  return text[0] == '_' && length > 1 ? og_find_result(parser, rest) : -1;
}

static bool has_prefix(const og_parser *parser, og_token name,
                       const char *prefix) {
  return (size_t)og_token_length(name) >= strlen(prefix) &&
         memcmp(og_token_text(&parser->reader, name), prefix, strlen(prefix)) ==
             0;
}

static og_status parse_needs(og_parser *parser, opgraft_grad_arg *out) {
  int32_t tensor;
  og_reader_advance(&parser->reader);
  og_reader_advance(&parser->reader);
  OG_TRY(og_parse_tensor(parser, &tensor));
  *out = (opgraft_grad_arg){.source = OPGRAFT_GRAD_NEEDS,
                            .index = parser->decl->tensor_params[tensor]};
  return og_reader_expect(&parser->reader, ')', "')'");
}

static bool is_fresh(const og_decl *decl, int32_t result) {
  return decl->results[result].type == OG_TYPE_TENSOR;
}

// An argument's name comes first, then a result's: where a parameter is called
// `grad`, the gradient is `grad_0`.
static og_status parse_grad_arg(og_parser *parser, opgraft_grad_arg *out) {
  const og_decl *decl = parser->decl;
  const og_token name = parser->reader.token;
  if (name.kind != OG_TOKEN_NAME)
    return og_read_wanted(&parser->reader,
                          "grad, an argument, a result or needs(x)");
  if (og_token_is(&parser->reader, name, "needs") &&
      og_reader_peek(&parser->reader).mark == '(')
    return parse_needs(parser, out);
  const int32_t param = og_find_param(parser, name);
  int32_t result = og_find_result(parser, name);
  *out = (opgraft_grad_arg){.source = OPGRAFT_GRAD_RESULT, .index = result};
  if (param >= 0) {
    *out = (opgraft_grad_arg){.source = OPGRAFT_GRAD_PARAM, .index = param};
  } else if (result < 0 && has_prefix(parser, name, "grad")) {
    result = find_by_suffix(parser, name, strlen("grad"));
    *out =
        (opgraft_grad_arg){.source = OPGRAFT_GRAD_OF_RESULT, .index = result};
  } else if (result < 0 && has_prefix(parser, name, "result")) {
    result = find_by_suffix(parser, name, strlen("result"));
    out->index = result;
  }
  if (param < 0 && result < 0) {
    if (og_token_is(&parser->reader, name, "grad") && decl->result_count != 1)
      return og_read_wanted(&parser->reader,
                            "grad_0 to grad_%d, or grad_ and a "
                            "result's name: there are %d results",
                            (int)decl->result_count - 1,
                            (int)decl->result_count);
    return og_parse_unknown(parser, name, "name",
                            OG_NAMES_PARAMS | OG_NAMES_RESULTS);
  }
  if (param < 0 && !is_fresh(decl, result))
    return og_read_wanted(&parser->reader,
                          "a tensor result; this one is an int");
  og_reader_advance(&parser->reader);
  return OG_OK;
}

// The result whose gradient `name` would mean if no argument or result were
// called so; -1: none.
static int32_t find_shadowed(const og_parser *parser, og_token name,
                             const opgraft_grad_arg *arg) {
  if ((arg->source != OPGRAFT_GRAD_PARAM &&
       arg->source != OPGRAFT_GRAD_RESULT) ||
      !has_prefix(parser, name, "grad"))
    return -1;
  const int32_t result = find_by_suffix(parser, name, strlen("grad"));
  return result >= 0 && is_fresh(parser->decl, result) ? result : -1;
}

static bool is_name_taken(const og_decl *decl, const char *name) {
  for (int32_t i = 0; i < decl->param_count; ++i)
    if (strcmp(decl->params[i].name, name) == 0) return true;
  for (int32_t i = 0; i < decl->result_count; ++i)
    if (strcmp(decl->results[i].name, name) == 0) return true;
  return false;
}

// A name that means an argument or a saved result, in a map that leaves out the
// gradient of the same name: one of both was meant, and only the author knows
// which.
static og_status check_shadowed(og_parser *parser, const og_token *names,
                                const opgraft_grad_arg *args, int32_t count) {
  const og_decl *decl = parser->decl;
  for (int32_t i = 0; i < count; ++i) {
    const int32_t result = find_shadowed(parser, names[i], &args[i]);
    bool is_given = result < 0;
    for (int32_t k = 0; k < count && !is_given; ++k)
      is_given =
          args[k].source == OPGRAFT_GRAD_OF_RESULT && args[k].index == result;
    if (is_given) continue;
    char gradient[16];
    snprintf(gradient, sizeof gradient, "grad_%d", (int)result);
    const bool is_param = args[i].source == OPGRAFT_GRAD_PARAM;
    const char *name = is_param ? decl->params[args[i].index].name
                                : decl->results[args[i].index].name;
    const char *kind = is_param ? "argument" : "result";
    if (is_name_taken(decl, gradient))
      return og_read_error_token(
          &parser->reader, names[i],
          "%s means the %s of that name, which hides the gradient of result "
          "%d; give the %s another name",
          name, kind, (int)result, kind);
    return og_read_error_token(
        &parser->reader, names[i],
        "%s means the %s of that name, and the gradient of result %d is not "
        "given; write %s for the gradient, and %s beside it only for the %s",
        name, kind, (int)result, gradient, name, kind);
  }
  return OG_OK;
}

static og_status parse_targets(og_parser *parser, int32_t *targets,
                               int32_t *out_count) {
  OG_TRY(og_reader_expect(&parser->reader, OG_MARK_ARROW,
                          "'->' and the arguments that "
                          "get a gradient"));
  do {
    const og_token name = parser->reader.token;
    int32_t tensor;
    OG_TRY(og_parse_tensor(parser, &tensor));
    const int32_t target = parser->decl->tensor_params[tensor];
    for (int32_t i = 0; i < *out_count; ++i)
      if (targets[i] == target)
        return og_read_error_token(&parser->reader, name,
                                   "%s gets two gradients",
                                   parser->decl->params[target].name);
    targets[(*out_count)++] = target;
  } while (og_reader_take(&parser->reader, ','));
  return og_reader_expect_end(&parser->reader, "',' or the end");
}

static og_status parse_operator_name(og_parser *parser, og_grad *grad) {
  og_token name = parser->reader.token;
  if (name.kind != OG_TOKEN_NAME)
    return og_read_wanted(&parser->reader,
                          "none, or the name of an operator of the module");
  og_reader_advance(&parser->reader);
  if (og_reader_take(&parser->reader, '.')) {
    if (parser->reader.token.kind != OG_TOKEN_NAME)
      return og_read_wanted(&parser->reader, "the overload's name");
    name.end = parser->reader.token.end;
    og_reader_advance(&parser->reader);
  }
  grad->op_name = og_token_copy(parser, name);
  return grad->op_name == NULL ? og_read_memory(&parser->reader) : OG_OK;
}

static og_status keep(og_parser *parser, const opgraft_grad_arg *args,
                      const int32_t *targets) {
  og_grad *grad = &parser->decl->grad;
  og_arena *arena = &parser->decl->arena;
  const size_t arg_bytes = (size_t)grad->arg_count * sizeof *args;
  const size_t target_bytes = (size_t)grad->target_count * sizeof *targets;
  opgraft_grad_arg *kept_args = og_arena_alloc(arena, arg_bytes);
  int32_t *kept_targets = og_arena_alloc(arena, target_bytes);
  if (kept_args == NULL || kept_targets == NULL)
    return og_read_memory(&parser->reader);
  memcpy(kept_args, args, arg_bytes);
  memcpy(kept_targets, targets, target_bytes);
  grad->args = kept_args;
  grad->targets = kept_targets;
  return OG_OK;
}

og_status og_parse_backward(og_decl *decl, opgraft_error *error) {
  og_parser parser;
  og_grad *grad = &decl->grad;
  opgraft_grad_arg args[GRAD_ARGS_MAX];
  og_token names[GRAD_ARGS_MAX];
  int32_t targets[OPGRAFT_ARG_MAX];
  if (decl->record->backward == NULL) return OG_OK;
  OG_TRY(
      og_parser_init(&parser, decl, "backward", decl->record->backward, error));
  if (og_reader_take_word(&parser.reader, "none")) {
    grad->kind = OG_GRAD_NONE;
    return og_reader_expect_end(&parser.reader, "the end after none");
  }
  grad->kind = OG_GRAD_OPERATOR;
  OG_TRY(parse_operator_name(&parser, grad));
  OG_TRY(
      og_reader_expect(&parser.reader, '(', "'(' and what it is called with"));
  while (!og_reader_at(&parser.reader, ')')) {
    if (grad->arg_count > 0)
      OG_TRY(og_reader_expect(&parser.reader, ',', "',' or ')'"));
    if (grad->arg_count == GRAD_ARGS_MAX)
      return og_read_wanted(&parser.reader, "%d arguments or fewer",
                            GRAD_ARGS_MAX);
    names[grad->arg_count] = parser.reader.token;
    OG_TRY(parse_grad_arg(&parser, &args[grad->arg_count]));
    ++grad->arg_count;
  }
  og_reader_advance(&parser.reader);
  OG_TRY(check_shadowed(&parser, names, args, grad->arg_count));
  OG_TRY(parse_targets(&parser, targets, &grad->target_count));
  return keep(&parser, args, targets);
}

// --- Linking -----------------------------------------------------------------

static og_status link_error(const og_decl *decl, opgraft_error *error,
                            const char *what, const char *name,
                            const char *advice) {
  return og_error_at(error, OG_INVALID, decl->name, "backward", 0,
                     (int32_t)strlen(decl->record->backward),
                     "%s: backward: %s: %s %s%s%s", decl->name,
                     decl->grad.op_name, what, name,
                     advice[0] != '\0' ? "; " : "", advice);
}

// What an argument of the backward operator gets, as a parameter would say it.
static og_param given_as(const og_decl *decl, opgraft_grad_arg arg) {
  og_param given = {.name = ""};
  switch (arg.source) {
    case OPGRAFT_GRAD_PARAM:
      return decl->params[arg.index];
    case OPGRAFT_GRAD_NEEDS:
      given.type = OG_TYPE_BOOL;
      return given;
    default:
      given.type = OG_TYPE_TENSOR;
      given.is_list = decl->results[arg.index].is_list;
      return given;
  }
}

static og_type plain_type(og_type type) {
  return type == OG_TYPE_SYM_INT ? OG_TYPE_INT : type;
}

static bool type_fits(const og_param *to, const og_param *from) {
  const og_type wanted = plain_type(to->type), given = plain_type(from->type);
  const bool is_number =
      given == OG_TYPE_INT || given == OG_TYPE_FLOAT || given == OG_TYPE_BOOL;
  return wanted == given || (wanted == OG_TYPE_SCALAR && is_number) ||
         (wanted == OG_TYPE_FLOAT && given == OG_TYPE_INT);
}

static og_status check_arg(const og_decl *decl, const og_param *to,
                           opgraft_grad_arg arg, opgraft_error *error) {
  const og_param from = given_as(decl, arg);
  if (to->is_mutated)
    return link_error(decl, error, "it mutates", to->name,
                      "expected an operator that only returns gradients");
  if (!type_fits(to, &from) || to->is_list != from.is_list)
    return link_error(decl, error, "another type is given for its argument",
                      to->name, "expected the same type in both schemas");
  if (from.is_optional && !to->is_optional)
    return link_error(decl, error, "an optional is given for its argument",
                      to->name, "expected it optional in that schema, too");
  if (from.is_element_optional && !to->is_element_optional)
    return link_error(decl, error,
                      "a list with absent entries is given for its argument",
                      to->name, "expected Tensor?[] in that schema, too");
  return OG_OK;
}

static og_status check_results(const og_decl *decl, const og_decl *target,
                               opgraft_error *error) {
  const og_grad *grad = &decl->grad;
  if (target->result_count != grad->target_count)
    return og_error_at(error, OG_INVALID, decl->name, "backward", 0,
                       (int32_t)strlen(decl->record->backward),
                       "%s: backward: %s has %d result%s, but '->' has %d "
                       "argument%s behind it; expected one for each",
                       decl->name, target->name, (int)target->result_count,
                       og_plural(target->result_count), (int)grad->target_count,
                       og_plural(grad->target_count));
  for (int32_t i = 0; i < grad->target_count; ++i) {
    const og_param *param = &decl->params[grad->targets[i]];
    if (target->results[i].fresh_index < 0)
      return link_error(decl, error, "no fresh tensor is its result for",
                        param->name, "expected a new tensor for each gradient");
    if (target->results[i].is_list != param->is_list)
      return link_error(decl, error, "its result has another type than",
                        param->name, "expected a list for a list");
  }
  return OG_OK;
}

// The types of a tensor argument that some kernel takes.
static og_type_set types_of(const og_decl *decl, int32_t tensor) {
  while (decl->types[tensor].same_as >= 0) tensor = decl->types[tensor].same_as;
  const og_type_rule *rule = &decl->types[tensor];
  og_type_set taken = 0;
  if (rule->variable < 0) return rule->set;
  for (int32_t k = 0; k < decl->kernel_count; ++k)
    taken |= decl->kernel_types[k * OG_VARIABLE_MAX + rule->variable];
  return rule->set & taken;
}

// The types that a result may have, where its rule says an argument's or one.
static og_type_set result_types(const og_decl *decl, int32_t result) {
  const int32_t fresh = decl->results[result].fresh_index;
  if (fresh < 0) return 0;
  const og_out_type *rule = &decl->out_types[fresh];
  if (rule->kind == OG_OUT_TYPE_SAME) return types_of(decl, rule->tensor);
  return rule->kind == OG_OUT_TYPE_FIXED
             ? (og_type_set)1 << og_dtype_index(rule->dtype)
             : 0;
}

// The types of what an argument of the backward operator is given, and where
// it comes from.
static og_type_set given_types(const og_decl *decl, opgraft_grad_arg arg,
                               const char **out_name) {
  if (arg.source == OPGRAFT_GRAD_PARAM) {
    *out_name = decl->params[arg.index].name;
    return types_of(decl, decl->params[arg.index].index);
  }
  *out_name = "the result";
  return result_types(decl, arg.index);
}

// A floating type of the forward operator without a gradient would be an error
// only once one is asked for. Integers have none.
static og_status check_types(const og_decl *decl, const og_decl *target,
                             int32_t i, opgraft_error *error) {
  const opgraft_grad_arg arg = decl->grad.args[i];
  const og_param *to = &target->params[i];
  const char *from;
  if (arg.source == OPGRAFT_GRAD_NEEDS || to->type != OG_TYPE_TENSOR)
    return OG_OK;
  const og_type_set lacking =
      given_types(decl, arg, &from) & ~types_of(target, to->index);
  for (int32_t t = 0; t < og_dtype_table_count(); ++t) {
    const og_dtype type = og_dtype_at(t);
    const bool is_number =
        type.code == OG_CODE_FLOAT || type.code == OG_CODE_BFLOAT;
    if (!(lacking >> t & 1u) || !is_number) continue;
    return og_error_at(error, OG_INVALID, decl->name, "backward", 0,
                       (int32_t)strlen(decl->record->backward),
                       "%s: backward: %s: its argument %s lacks the type %s, "
                       "which %s may have; expected every floating type of "
                       "the forward operator",
                       decl->name, decl->grad.op_name, to->name,
                       og_dtype_name(type), from);
  }
  return OG_OK;
}

static og_status link_one(const og_decl *decl, const og_decl *target,
                          opgraft_error *error) {
  const og_grad *grad = &decl->grad;
  if (grad->arg_count > target->param_count)
    return link_error(decl, error, "it is given more arguments than",
                      target->record->schema, "");
  for (int32_t i = 0; i < grad->arg_count; ++i)
    OG_TRY(check_arg(decl, &target->params[i], grad->args[i], error));
  for (int32_t i = 0; i < grad->arg_count; ++i)
    OG_TRY(check_types(decl, target, i, error));
  for (int32_t i = grad->arg_count; i < target->param_count; ++i)
    if (!target->params[i].has_default)
      return link_error(decl, error, "nothing is given for its argument",
                        target->params[i].name,
                        "expected it named in the call");
  return check_results(decl, target, error);
}

og_status og_decl_link(og_decl *const *decls, int32_t count,
                       opgraft_error *error) {
  for (int32_t i = 0; i < count; ++i) {
    const og_decl *decl = decls[i];
    const og_decl *target = NULL;
    // What is derived takes what it is given.
    if (decl->grad.kind != OG_GRAD_OPERATOR || decl->gradient != NULL) continue;
    for (int32_t k = 0; k < count && target == NULL; ++k)
      if (strcmp(decls[k]->name, decl->grad.op_name) == 0) target = decls[k];
    if (target == NULL)
      return link_error(decl, error, "the module has no operator",
                        decl->grad.op_name, "expected one of its own");
    OG_TRY(link_one(decl, target, error));
  }
  return OG_OK;
}
