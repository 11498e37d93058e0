// SPDX-License-Identifier: Apache-2.0
// The row string: a formula, and what it stands for where shape, dtype or
// kernels are missing.

#ifndef OG_DECL_PARSE_FORMULA_H
#define OG_DECL_PARSE_FORMULA_H

#include "decl/parse/parser.h"

// Fills what is missing, behind the statements.
og_status og_parse_formula_rest(og_parser *p);

#endif  // OG_DECL_PARSE_FORMULA_H
