// SPDX-License-Identifier: Apache-2.0
// The row string: a formula, and what it stands for where shape, dtype or
// kernels are missing.

#ifndef OG_DECL_PARSE_FORMULA_H
#define OG_DECL_PARSE_FORMULA_H

#include "decl/parse/parser.h"

// Behind the schema: reads the formula, derives what is missing.
og_status og_parse_formula(og_decl *decl, opgraft_error *error);
// Fills what is missing, behind the statements.
og_status og_parse_formula_rest(og_parser *p);
// Behind the shape: how each operand lies in the formula's space.
og_status og_parse_formula_space(og_decl *decl, opgraft_error *error);

#endif  // OG_DECL_PARSE_FORMULA_H
