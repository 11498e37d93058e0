// SPDX-License-Identifier: Apache-2.0
// What the readers of a declaration's strings share: tokens, errors that point
// at them, and expressions. Private to src/decl.

#ifndef OG_DECL_PARSE_H
#define OG_DECL_PARSE_H

#include "decl/decl.h"

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

// Kinds of dims that a use accepts, as bits of og_dim_kind.
enum {
  OG_USE_SIZE = 1 << OG_DIM_SIZE,
  OG_USE_PACK = 1 << OG_DIM_PACK,
  OG_USE_VARY = 1 << OG_DIM_VARY,
};

// A name used in an expression, checked when all names are known.
typedef struct og_dim_use {
  int32_t dim;
  int32_t wants;    // OG_USE_*
  int32_t pattern;  // the argument pattern that it stands in, -1: a result
  int32_t begin;
  int32_t end;
} og_dim_use;

enum { OG_USES_MAX = 512, OG_NESTING_MAX = 48, OG_ITEMS_MAX = 64 };

// One string of a declaration while it is read. Fields from `is_open` on say
// what its expressions may name.
typedef struct og_parser {
  og_decl *decl;
  opgraft_error *error;
  const char *field;  // "shape"
  const char *text;
  int32_t length;
  og_token token;       // the current one
  bool is_open;         // unknown names become dims (argument patterns)
  bool has_threads;     // `threads` is known (workspace)
  int32_t pattern;      // what uses are recorded for
  int32_t index_begin;  // span of the name of a list result's index, or -1
  int32_t index_end;
  int32_t nesting;
  og_dim_use *uses;  // room for OG_USES_MAX; NULL: names are checked at once
  int32_t use_count;
  // The expression that is being read.
  og_instruction code[OG_EXPR_CODE_MAX];
  int32_t code_count;
  int32_t depth;
  bool needs_packs;
} og_parser;

// Begins to read `text`; the first token is then current. A parser holds
// nothing that must be freed.
og_status og_parser_init(og_parser *parser, og_decl *decl, const char *field,
                         const char *text, opgraft_error *error);
void og_parser_advance(og_parser *parser);
// The token after the current one.
og_token og_parser_peek(const og_parser *parser);
bool og_parser_at(const og_parser *parser, int32_t mark);
// Advances past the mark if it is the current token.
bool og_parser_take(og_parser *parser, int32_t mark);
bool og_parser_at_word(const og_parser *parser, const char *word);
bool og_parser_take_word(og_parser *parser, const char *word);
// An error unless the mark is there: "found ..., wanted <wanted>".
og_status og_parser_expect(og_parser *parser, int32_t mark, const char *wanted);
og_status og_parser_expect_end(og_parser *parser, const char *wanted);
bool og_token_is(const og_parser *parser, og_token token, const char *word);
const char *og_token_text(const og_parser *parser, og_token token);
static inline int32_t og_token_length(og_token token) {
  return token.end - token.begin;
}
// The token's text, kept by the declaration; NULL when memory is short.
const char *og_token_copy(const og_parser *parser, og_token token);

// OG_INVALID: "op: field: at 12: found ']', wanted <format>".
og_status og_parse_wanted(const og_parser *parser, const char *format, ...)
    OG_PRINTF(2, 3);
// OG_INVALID at a span: "op: field: at 12: <format>".
og_status og_parse_error(const og_parser *parser, int32_t begin, int32_t end,
                         const char *format, ...) OG_PRINTF(4, 5);
og_status og_parse_error_token(const og_parser *parser, og_token token,
                               const char *format, ...) OG_PRINTF(3, 4);
og_status og_parse_memory(const og_parser *parser);

// What a name may have been meant for; a bit each.
enum {
  OG_NAMES_DIMS = 1,
  OG_NAMES_INTS = 2,     // int, SymInt and bool arguments, and lists of them
  OG_NAMES_TENSORS = 4,  // tensor arguments
  OG_NAMES_PARAMS = 8,
  OG_NAMES_RESULTS = 16,
};
// "unknown <what> 'nme'; near: name" or, where none is near, "known: a, b".
og_status og_parse_unknown(const og_parser *parser, og_token token,
                           const char *what, uint32_t names);

// By name; -1 if there is none. A param's position, a dim's slot.
int32_t og_find_param(const og_parser *parser, og_token name);
int32_t og_find_result(const og_parser *parser, og_token name);
int32_t og_find_dim(const og_parser *parser, og_token name);
// A tensor argument by name: its tensor position.
og_status og_parse_tensor(og_parser *parser, int32_t *out_tensor);
static inline bool og_is_int_type(og_type type) {
  return type == OG_TYPE_INT || type == OG_TYPE_SYM_INT || type == OG_TYPE_BOOL;
}
const og_param *og_tensor_param(const og_decl *decl, int32_t tensor);
const og_param *og_attr_param(const og_decl *decl, int32_t attr);

// Finds the dim or, where names are open, makes it.
og_status og_dim_intern(og_parser *parser, og_token name, int32_t *out_dim);
// Whether the dim is of a kind that this use may have.
og_status og_dim_check_use(const og_parser *parser, const og_dim_use *use);

// Reads one expression at the current token.
og_status og_parse_expr(og_parser *parser, og_expr *out_expr);
// Adds the type or set at the current token; false, and nothing read, where
// there is none. The second reads what follows a first: |bf16|...
bool og_take_type_set(og_parser *parser, og_type_set *out);
og_status og_parse_more_types(og_parser *parser, og_type_set *set);

// One file each; every one reads its string of decl->record.
// A type's name in a schema.
const char *og_type_name(og_type type);

// Adds the type or set at the current token; false, and nothing read, where
// there is none. The second reads what follows a first: |bf16|...
bool og_take_type_set(og_parser *parser, og_type_set *out);
og_status og_parse_more_types(og_parser *parser, og_type_set *set);

// One file each; every one reads its string of decl->record.
og_status og_parse_schema(og_decl *decl, opgraft_error *error);
og_status og_parse_shape(og_decl *decl, opgraft_error *error);
og_status og_parse_where(og_decl *decl, opgraft_error *error);
og_status og_parse_workspace(og_decl *decl, opgraft_error *error);
og_status og_parse_dtype(og_decl *decl, opgraft_error *error);
og_status og_parse_kernels(og_decl *decl, opgraft_error *error);
og_status og_parse_backward(og_decl *decl, opgraft_error *error);
og_status og_parse_strides(og_decl *decl, opgraft_error *error);
og_status og_parse_inplace(og_decl *decl, opgraft_error *error);
og_status og_parse_pointwise(og_decl *decl, opgraft_error *error);

#endif  // OG_DECL_PARSE_H
