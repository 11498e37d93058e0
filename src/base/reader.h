// SPDX-License-Identifier: Apache-2.0
// Tokens of one string, and errors that point at them.

#ifndef OG_BASE_READER_H
#define OG_BASE_READER_H

#include <stdbool.h>

#include "base/status.h"

typedef enum og_token_kind {
  OG_TOKEN_END,
  OG_TOKEN_NAME,
  OG_TOKEN_INT,     // value
  OG_TOKEN_NUMBER,  // a number with a point or an exponent
  OG_TOKEN_STRING,  // quotes included in the span
  OG_TOKEN_MARK,    // mark
  OG_TOKEN_BAD,     // a character that no string may hold
  OG_TOKEN_TOO_BIG  // an integer beyond 64 bits
} og_token_kind;

// Marks of two characters; one of one character is that character.
enum {
  OG_MARK_ARROW = 256,  // ->
  OG_MARK_FLOOR_DIV,    // //
  OG_MARK_LE,
  OG_MARK_GE,
  OG_MARK_EQ,
  OG_MARK_NE,
};

typedef struct og_token {
  og_token_kind kind;
  int32_t mark;
  int64_t value;
  int32_t begin;
  int32_t end;
} og_token;

enum { OG_NESTING_MAX = 48 };

// One string while it is read. It owns nothing.
typedef struct og_reader {
  opgraft_error *error;
  const char *name;   // whose string it is, for errors; may be NULL
  const char *field;  // which string: "shape"
  const char *text;
  int32_t length;
  int32_t nesting;  // of parentheses, counted by who parses
  og_token token;   // the current one
} og_reader;

// Begins to read `text`; the first token is then current. Failure: OG_INVALID
// (the text is too long).
og_status og_reader_init(og_reader *reader, const char *name, const char *field,
                         const char *text, opgraft_error *error);
void og_reader_advance(og_reader *reader);
// The token after the current one.
og_token og_reader_peek(const og_reader *reader);
bool og_reader_at(const og_reader *reader, int32_t mark);
// Advances past the mark if it is the current token.
bool og_reader_take(og_reader *reader, int32_t mark);
bool og_reader_at_word(const og_reader *reader, const char *word);
bool og_reader_take_word(og_reader *reader, const char *word);
// An error unless the mark is there: "found ..., expected `wanted`".
og_status og_reader_expect(og_reader *reader, int32_t mark, const char *wanted);
og_status og_reader_expect_end(og_reader *reader, const char *wanted);
bool og_token_is(const og_reader *reader, og_token token, const char *word);
const char *og_token_text(const og_reader *reader, og_token token);
static inline int32_t og_token_length(og_token token) {
  return token.end - token.begin;
}

// OG_INVALID: "op: field: at 12: found ']', expected <format>".
og_status og_read_wanted(const og_reader *reader, const char *format, ...)
    OG_PRINTF(2, 3);
// OG_INVALID at a span: "op: field: at 12: <format>".
og_status og_read_error(const og_reader *reader, int32_t begin, int32_t end,
                        const char *format, ...) OG_PRINTF(4, 5);
og_status og_read_error_token(const og_reader *reader, og_token token,
                              const char *format, ...) OG_PRINTF(3, 4);
og_status og_read_memory(const og_reader *reader);

#endif  // OG_BASE_READER_H
