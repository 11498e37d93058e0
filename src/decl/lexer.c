// SPDX-License-Identifier: Apache-2.0
// Tokens of a declaration's strings, and errors that point at them.

#include <stdio.h>
#include <string.h>

#include "decl/parse.h"

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Digits, and what makes them a number that is no integer.
static int32_t lex_number(const char *text, int32_t at, og_token *token) {
  bool fits = true;
  token->kind = OG_TOKEN_INT;
  for (; is_digit(text[at]); ++at)
    fits = fits && og_i64_mul(token->value, 10, &token->value) &&
           og_i64_add(token->value, text[at] - '0', &token->value);
  if (!fits) token->kind = OG_TOKEN_TOO_BIG;
  if (text[at] == '.') {
    token->kind = OG_TOKEN_NUMBER;
    for (++at; is_digit(text[at]);) ++at;
  }
  if (text[at] == 'e' || text[at] == 'E') {
    const int32_t sign = text[at + 1] == '-' || text[at + 1] == '+';
    if (!is_digit(text[at + 1 + sign])) return at;
    token->kind = OG_TOKEN_NUMBER;
    for (at += 1 + sign; is_digit(text[at]);) ++at;
  }
  return at;
}

static int32_t lex_string(const char *text, int32_t at, og_token *token) {
  const char quote = text[at++];
  while (text[at] != '\0' && text[at] != quote)
    at += text[at] == '\\' && text[at + 1] != '\0' ? 2 : 1;
  token->kind = text[at] == quote ? OG_TOKEN_STRING : OG_TOKEN_BAD;
  return text[at] == quote ? at + 1 : at;
}

static int32_t lex_mark(const char *text, int32_t at, og_token *token) {
  static const struct {
    char text[3];
    int32_t mark;
  } pairs[] = {{"->", OG_MARK_ARROW}, {"//", OG_MARK_FLOOR_DIV},
               {"<=", OG_MARK_LE},    {">=", OG_MARK_GE},
               {"==", OG_MARK_EQ},    {"!=", OG_MARK_NE}};
  token->kind = OG_TOKEN_MARK;
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; ++i) {
    if (strncmp(text + at, pairs[i].text, 2) != 0) continue;
    token->mark = pairs[i].mark;
    return at + 2;
  }
  token->mark = text[at];
  if (strchr("()[]{},.:*/~@?!=<>+-%|", text[at]) == NULL)
    token->kind = OG_TOKEN_BAD;
  return at + 1;
}

static og_token lex(const char *text, int32_t at) {
  while (is_space(text[at])) ++at;
  og_token token = {.kind = OG_TOKEN_END, .begin = at, .end = at};
  if (text[at] == '\0') return token;
  if (is_letter(text[at])) {
    token.kind = OG_TOKEN_NAME;
    while (is_letter(text[at]) || is_digit(text[at])) ++at;
  } else if (is_digit(text[at])) {
    at = lex_number(text, at, &token);
  } else if (text[at] == '"' || text[at] == '\'') {
    at = lex_string(text, at, &token);
  } else {
    at = lex_mark(text, at, &token);
  }
  token.end = at;
  return token;
}

og_status og_parser_init(og_parser *parser, og_decl *decl, const char *field,
                         const char *text, opgraft_error *error) {
  const size_t length = strlen(text);
  parser->decl = decl;
  parser->error = error;
  parser->field = field;
  parser->text = text;
  parser->is_open = false;
  parser->has_threads = false;
  parser->pattern = -1;
  parser->index_begin = -1;
  parser->index_end = -1;
  parser->nesting = 0;
  parser->uses = NULL;
  parser->use_count = 0;
  parser->code_count = 0;
  parser->depth = 0;
  parser->needs_packs = false;
  if (length > 1u << 16)
    return og_parse_error(parser, 0, 0,
                          "the string has %zu bytes, wanted 65536 or fewer",
                          length);
  parser->length = (int32_t)length;
  parser->token = lex(text, 0);
  return OG_OK;
}

void og_parser_advance(og_parser *parser) {
  parser->token = lex(parser->text, parser->token.end);
}

og_token og_parser_peek(const og_parser *parser) {
  return lex(parser->text, parser->token.end);
}

bool og_parser_at(const og_parser *parser, int32_t mark) {
  return parser->token.kind == OG_TOKEN_MARK && parser->token.mark == mark;
}

bool og_parser_take(og_parser *parser, int32_t mark) {
  if (!og_parser_at(parser, mark)) return false;
  og_parser_advance(parser);
  return true;
}

bool og_token_is(const og_parser *parser, og_token token, const char *word) {
  return token.kind == OG_TOKEN_NAME &&
         strlen(word) == (size_t)og_token_length(token) &&
         strncmp(parser->text + token.begin, word,
                 (size_t)og_token_length(token)) == 0;
}

bool og_parser_at_word(const og_parser *parser, const char *word) {
  return og_token_is(parser, parser->token, word);
}

bool og_parser_take_word(og_parser *parser, const char *word) {
  if (!og_parser_at_word(parser, word)) return false;
  og_parser_advance(parser);
  return true;
}

og_status og_parser_expect(og_parser *parser, int32_t mark,
                           const char *wanted) {
  if (og_parser_take(parser, mark)) return OG_OK;
  return og_parse_wanted(parser, "%s", wanted);
}

og_status og_parser_expect_end(og_parser *parser, const char *wanted) {
  if (parser->token.kind == OG_TOKEN_END) return OG_OK;
  return og_parse_wanted(parser, "%s", wanted);
}

const char *og_token_text(const og_parser *parser, og_token token) {
  return parser->text + token.begin;
}

const char *og_token_copy(const og_parser *parser, og_token token) {
  return og_arena_strndup(&parser->decl->arena, parser->text + token.begin,
                          (size_t)og_token_length(token));
}

// --- Errors ------------------------------------------------------------------

static og_status error_put(const og_parser *parser, int32_t begin, int32_t end,
                           const char *found, const char *format,
                           va_list values) {
  char text[600];
  vsnprintf(text, sizeof text, format, values);
  const char *name = parser->decl->name;
  return og_error_at(parser->error, OG_INVALID, name, parser->field, begin, end,
                     "%s%s%s: at %d: %s%s", name != NULL ? name : "",
                     name != NULL ? ": " : "", parser->field, (int)begin, found,
                     text);
}

og_status og_parse_wanted(const og_parser *parser, const char *format, ...) {
  const og_token token = parser->token;
  const int length = og_token_length(token) < 40 ? og_token_length(token) : 40;
  char found[96] = "found the end of the string, wanted ";
  if (token.kind != OG_TOKEN_END)
    snprintf(found, sizeof found, "found '%.*s'%s, wanted ", length,
             parser->text + token.begin,
             token.kind == OG_TOKEN_TOO_BIG ? " (more than 64 bits hold)" : "");
  va_list values;
  va_start(values, format);
  const og_status status =
      error_put(parser, token.begin, token.end, found, format, values);
  va_end(values);
  return status;
}

og_status og_parse_error(const og_parser *parser, int32_t begin, int32_t end,
                         const char *format, ...) {
  va_list values;
  va_start(values, format);
  const og_status status = error_put(parser, begin, end, "", format, values);
  va_end(values);
  return status;
}

og_status og_parse_error_token(const og_parser *parser, og_token token,
                               const char *format, ...) {
  va_list values;
  va_start(values, format);
  const og_status status =
      error_put(parser, token.begin, token.end, "", format, values);
  va_end(values);
  return status;
}

og_status og_parse_memory(const og_parser *parser) {
  const char *name = parser->decl->name;
  return og_error_set(parser->error, OG_MEMORY, name, parser->field,
                      "%s%s%s: out of memory while it was read",
                      name != NULL ? name : "", name != NULL ? ": " : "",
                      parser->field);
}
