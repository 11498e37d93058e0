// SPDX-License-Identifier: Apache-2.0
// A parser's beginning, and the names of a declaration: finding them, and what
// to say of an unknown one.

#ifndef OG_DECL_PARSE_NAMES_H
#define OG_DECL_PARSE_NAMES_H

#include "decl/parse/parser.h"

// Begins to read `text`; the first token is then current. A parser holds
// nothing that must be freed.
og_status og_parser_init(og_parser *parser, og_decl *decl, const char *field,
                         const char *text, opgraft_error *error);
// The token's text, kept by the declaration; NULL when memory is short.
const char *og_token_copy(const og_parser *parser, og_token token);
// "unknown <what> 'nme'; near: name" or, where none is near, "known: a, b".
og_status og_parse_unknown(const og_parser *parser, og_token token,
                           const char *what, uint32_t names);
// By name; -1 if there is none. A param's position, a dim's slot.
int32_t og_find_param(const og_parser *parser, og_token name);
int32_t og_find_result(const og_parser *parser, og_token name);
int32_t og_find_dim(const og_parser *parser, og_token name);
// A tensor argument by name: its tensor position.
og_status og_parse_tensor(og_parser *parser, int32_t *out_tensor);
const og_param *og_tensor_param(const og_decl *decl, int32_t tensor);
const og_param *og_attr_param(const og_decl *decl, int32_t attr);
// Whether scalar expressions may name it: a number that is always there.
bool og_is_number_param(const og_param *param);

#endif  // OG_DECL_PARSE_NAMES_H
