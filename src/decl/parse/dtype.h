// SPDX-License-Identifier: Apache-2.0
// The dtype string: x: f32|bf16, weight: x, index: i64 -> x, promote(x, y).

#ifndef OG_DECL_PARSE_DTYPE_H
#define OG_DECL_PARSE_DTYPE_H

#include "decl/parse/parser.h"

// Adds the type or set at the current token; false, and nothing read, where
// there is none. The second reads what follows a first: |bf16|...
bool og_take_type_set(og_parser *parser, og_type_set *out);
og_status og_parse_more_types(og_parser *parser, og_type_set *set);
// The error of a token that is not a type; `or_else` names other things that
// may stand there, or is "".
og_status og_read_type_wanted(const og_reader *reader, const char *or_else);

#endif  // OG_DECL_PARSE_DTYPE_H
