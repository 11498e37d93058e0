// SPDX-License-Identifier: Apache-2.0
// Integer expressions, read to postfix.

#ifndef OG_DECL_PARSE_EXPR_H
#define OG_DECL_PARSE_EXPR_H

#include "decl/parse/parser.h"

// Finds the dim or, where names are open, makes it.
og_status og_dim_intern(og_parser *parser, og_token name, int32_t *out_dim);
// Whether the dim is of a kind that this use may have.
og_status og_dim_check_use(const og_parser *parser, const og_dim_use *use);
// Reads one expression at the current token.
og_status og_parse_expr(og_parser *parser, og_expr *out_expr);
// What `where` says of the tensor argument's values, or NULL.
const og_value_range *og_value_range_of(const og_decl *decl, int32_t tensor);

#endif  // OG_DECL_PARSE_EXPR_H
