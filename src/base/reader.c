// SPDX-License-Identifier: Apache-2.0
// Tokens of one string, and errors that point at them.

#include "base/reader.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Digits, and what makes them a floating-point number.
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
  if (strchr("()[]{},.:;*/~@?!=<>+-%|", text[at]) == NULL)
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

og_status og_reader_init(og_reader *reader, const char *name, const char *field,
                         const char *text, opgraft_error *error) {
  const size_t length = strlen(text);
  *reader =
      (og_reader){.error = error, .name = name, .field = field, .text = text};
  if (length > 1u << 16)
    return og_read_error(reader, 0, 0,
                         "the string has %zu bytes, expected 65536 or fewer",
                         length);
  reader->length = (int32_t)length;
  reader->token = lex(text, 0);
  return OG_OK;
}

void og_reader_advance(og_reader *reader) {
  reader->token = lex(reader->text, reader->token.end);
}

og_token og_reader_peek(const og_reader *reader) {
  return lex(reader->text, reader->token.end);
}

bool og_reader_at(const og_reader *reader, int32_t mark) {
  return reader->token.kind == OG_TOKEN_MARK && reader->token.mark == mark;
}

bool og_reader_take(og_reader *reader, int32_t mark) {
  if (!og_reader_at(reader, mark)) return false;
  og_reader_advance(reader);
  return true;
}

bool og_token_is(const og_reader *reader, og_token token, const char *word) {
  return token.kind == OG_TOKEN_NAME &&
         strlen(word) == (size_t)og_token_length(token) &&
         strncmp(reader->text + token.begin, word,
                 (size_t)og_token_length(token)) == 0;
}

bool og_reader_at_word(const og_reader *reader, const char *word) {
  return og_token_is(reader, reader->token, word);
}

bool og_reader_take_word(og_reader *reader, const char *word) {
  if (!og_reader_at_word(reader, word)) return false;
  og_reader_advance(reader);
  return true;
}

og_status og_reader_expect(og_reader *reader, int32_t mark,
                           const char *wanted) {
  if (og_reader_take(reader, mark)) return OG_OK;
  return og_read_wanted(reader, "%s", wanted);
}

og_status og_reader_expect_end(og_reader *reader, const char *wanted) {
  if (reader->token.kind == OG_TOKEN_END) return OG_OK;
  return og_read_wanted(reader, "%s", wanted);
}

const char *og_token_text(const og_reader *reader, og_token token) {
  return reader->text + token.begin;
}

// --- Errors ------------------------------------------------------------------

static og_status error_put(const og_reader *reader, int32_t begin, int32_t end,
                           const char *found, const char *format,
                           va_list values) {
  char text[600];
  vsnprintf(text, sizeof text, format, values);
  const char *name = reader->name;
  return og_error_at(reader->error, OG_INVALID, name, reader->field, begin, end,
                     "%s%s%s: at %d: %s%s", name != NULL ? name : "",
                     name != NULL ? ": " : "", reader->field, (int)begin, found,
                     text);
}

og_status og_read_wanted(const og_reader *reader, const char *format, ...) {
  const og_token token = reader->token;
  const int length = og_token_length(token) < 40 ? og_token_length(token) : 40;
  char found[96] = "found the end of the string, expected ";
  if (token.kind != OG_TOKEN_END)
    snprintf(found, sizeof found, "found '%.*s'%s, expected ", length,
             reader->text + token.begin,
             token.kind == OG_TOKEN_TOO_BIG ? " (more than 64 bits hold)" : "");
  va_list values;
  va_start(values, format);
  const og_status status =
      error_put(reader, token.begin, token.end, found, format, values);
  va_end(values);
  return status;
}

og_status og_read_error(const og_reader *reader, int32_t begin, int32_t end,
                        const char *format, ...) {
  va_list values;
  va_start(values, format);
  const og_status status = error_put(reader, begin, end, "", format, values);
  va_end(values);
  return status;
}

og_status og_read_error_token(const og_reader *reader, og_token token,
                              const char *format, ...) {
  va_list values;
  va_start(values, format);
  const og_status status =
      error_put(reader, token.begin, token.end, "", format, values);
  va_end(values);
  return status;
}

og_status og_read_memory(const og_reader *reader) {
  const char *name = reader->name;
  return og_error_set(reader->error, OG_MEMORY, name, reader->field,
                      "%s%s%s: out of memory while it was read",
                      name != NULL ? name : "", name != NULL ? ": " : "",
                      reader->field);
}
