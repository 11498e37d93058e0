// SPDX-License-Identifier: Apache-2.0
// The schema: PyTorch's grammar, name(arguments) -> results.

#ifndef OG_DECL_PARSE_SCHEMA_H
#define OG_DECL_PARSE_SCHEMA_H

#include "decl/parse/parser.h"

// A type's name in a schema.
const char *og_type_name(og_type type);

// A number, such as -1e-3, inf or nan.
og_status og_parse_number(og_parser *parser, double *out);

#endif  // OG_DECL_PARSE_SCHEMA_H
