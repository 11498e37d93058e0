// SPDX-License-Identifier: Apache-2.0
// A parser's beginning, and the names of a declaration: finding them, and what
// to say of an unknown one.

#include "decl/parse/names.h"

#include <stdio.h>
#include <string.h>

#include "decl/parse/parser.h"

og_status og_parser_init(og_parser *parser, og_decl *decl, const char *field,
                         const char *text, opgraft_error *error) {
  parser->decl = decl;
  parser->is_open = false;
  parser->has_threads = false;
  parser->pattern = -1;
  parser->index_begin = -1;
  parser->index_end = -1;
  parser->uses = NULL;
  parser->use_count = 0;
  parser->code_count = 0;
  parser->depth = 0;
  parser->needs_packs = false;
  return og_reader_init(&parser->reader, decl->name, field, text, error);
}

const char *og_token_copy(const og_parser *parser, og_token token) {
  return og_arena_strndup(&parser->decl->arena,
                          og_token_text(&parser->reader, token),
                          (size_t)og_token_length(token));
}

static bool name_is(const og_parser *parser, og_token token,
                    const char *candidate) {
  return og_token_is(&parser->reader, token, candidate);
}

int32_t og_find_param(const og_parser *parser, og_token name) {
  const og_decl *decl = parser->decl;
  for (int32_t i = 0; i < decl->param_count; ++i)
    if (name_is(parser, name, decl->params[i].name)) return i;
  return -1;
}

int32_t og_find_result(const og_parser *parser, og_token name) {
  const og_decl *decl = parser->decl;
  for (int32_t i = 0; i < decl->result_count; ++i)
    if (name_is(parser, name, decl->results[i].name)) return i;
  return -1;
}

int32_t og_find_dim(const og_parser *parser, og_token name) {
  const og_decl *decl = parser->decl;
  for (int32_t i = 0; i < decl->dim_count; ++i)
    if (name_is(parser, name, decl->dims[i].name)) return i;
  return -1;
}

const og_param *og_tensor_param(const og_decl *decl, int32_t tensor) {
  return &decl->params[decl->tensor_params[tensor]];
}

const og_param *og_attr_param(const og_decl *decl, int32_t attr) {
  return &decl->params[decl->attr_params[attr]];
}

bool og_is_number_param(const og_param *param) {
  return !param->is_list && !param->is_optional &&
         (og_is_int_type(param->type) || param->type == OG_TYPE_FLOAT ||
          param->type == OG_TYPE_SCALAR);
}

og_status og_parse_tensor(og_parser *parser, int32_t *out_tensor) {
  *out_tensor = -1;
  if (parser->reader.token.kind != OG_TOKEN_NAME)
    return og_read_wanted(&parser->reader, "the name of a tensor argument");
  const int32_t p = og_find_param(parser, parser->reader.token);
  if (p < 0)
    return og_parse_unknown(parser, parser->reader.token, "tensor argument",
                            OG_NAMES_TENSORS);
  if (parser->decl->params[p].type != OG_TYPE_TENSOR)
    return og_read_wanted(&parser->reader, "a tensor argument, which %s is not",
                          parser->decl->params[p].name);
  *out_tensor = parser->decl->params[p].index;
  og_reader_advance(&parser->reader);
  return OG_OK;
}

// --- Near names --------------------------------------------------------------

enum { NEAR_LENGTH_MAX = 32 };

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

static int least(int a, int b) { return a < b ? a : b; }

// Levenshtein's distance, case counting nothing; long names are never near.
static int distance(const char *a, int a_length, const char *b) {
  int row[NEAR_LENGTH_MAX + 1];
  const size_t size = strlen(b);
  if (size > NEAR_LENGTH_MAX || a_length > NEAR_LENGTH_MAX)
    return NEAR_LENGTH_MAX;
  const int b_length = (int)size;
  for (int j = 0; j <= b_length; ++j) row[j] = j;
  for (int i = 1; i <= a_length; ++i) {
    int diagonal = row[0];
    row[0] = i;
    for (int j = 1; j <= b_length; ++j) {
      const int replaced = diagonal + (lower(a[i - 1]) != lower(b[j - 1]));
      diagonal = row[j];
      row[j] = least(replaced, least(row[j], row[j - 1]) + 1);
    }
  }
  return row[b_length];
}

typedef struct near_list {
  const og_parser *parser;
  og_token token;
  bool near_only;
  char text[240];
  size_t used;
} near_list;

static void near_add(near_list *list, const char *name) {
  const int length = og_token_length(list->token);
  const int limit = length == 1 ? 0 : length <= 3 ? 1 : length / 3;
  if (name[0] == '\0') return;
  if (list->near_only &&
      distance(og_token_text(&list->parser->reader, list->token), length,
               name) > limit)
    return;
  const size_t room = sizeof list->text - list->used;
  if (strlen(name) + 3 > room) return;
  const int wrote = snprintf(list->text + list->used, room, "%s%s",
                             list->used > 0 ? ", " : "", name);
  if (wrote > 0) list->used += (size_t)wrote;
}

static bool param_fits(const og_param *param, uint32_t names) {
  if (names & OG_NAMES_PARAMS) return true;
  if (param->type == OG_TYPE_TENSOR) return (names & OG_NAMES_TENSORS) != 0;
  return (names & OG_NAMES_INTS) != 0 && og_is_int_type(param->type);
}

static void near_fill(near_list *list, uint32_t names) {
  const og_decl *decl = list->parser->decl;
  for (int32_t i = 0; (names & OG_NAMES_DIMS) && i < decl->dim_count; ++i)
    near_add(list, decl->dims[i].name);
  for (int32_t i = 0; i < decl->param_count; ++i)
    if (param_fits(&decl->params[i], names))
      near_add(list, decl->params[i].name);
  for (int32_t i = 0; (names & OG_NAMES_RESULTS) && i < decl->result_count; ++i)
    near_add(list, decl->results[i].name);
}

og_status og_parse_unknown(const og_parser *parser, og_token token,
                           const char *what, uint32_t names) {
  near_list list = {.parser = parser, .token = token, .near_only = true};
  near_fill(&list, names);
  const bool is_near = list.used > 0;
  if (!is_near) {
    list.near_only = false;
    near_fill(&list, names);
  }
  return og_read_error_token(
      &parser->reader, token, "unknown %s '%.*s'; %s: %s", what,
      least(og_token_length(token), 60), og_token_text(&parser->reader, token),
      is_near ? "near" : "known", list.used > 0 ? list.text : "none");
}
