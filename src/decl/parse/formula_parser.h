// SPDX-License-Identifier: Apache-2.0
// A formula while it is read: its names and values (formula_values.c), for the
// statements that hold them (formula.c).

#ifndef OG_DECL_PARSE_FORMULA_PARSER_H
#define OG_DECL_PARSE_FORMULA_PARSER_H

#include "decl/formula.h"
#include "decl/parse/parser.h"

// A formula with more comparisons than are noted is refused by none of them.
enum { OG_FORMULA_USES_MAX = 256, OG_FORMULA_COMPARES_MAX = 1024 };

// Where a statement reads a name.
typedef struct og_formula_use {
  int32_t name;
  og_token token;
} og_formula_use;

// What is known of a value: whether it is an integer where some inputs are.
typedef struct og_formula_kind {
  bool is_integer;
  uint32_t inputs;
  bool is_leaf;  // an input, or a constant that f32 has
} og_formula_kind;

typedef struct og_formula_parser {
  og_parser p;
  struct og_formula *f;
  og_token names[OG_LOOP_STATEMENTS_MAX];  // by name
  og_formula_kind kinds[OG_LOOP_STATEMENTS_MAX];
  const char *real_only, *integer_only;  // what makes it one of the two
  og_formula_compare *compares;
  uint32_t assigned;                   // results
  uint32_t whole_in;                   // arguments
  int32_t forms[OG_LOOP_OUTPUTS_MAX];  // of results: how they are assigned
  // Of the statement that is being read.
  uint32_t needs;
  og_formula_use uses[OG_FORMULA_USES_MAX];
  int32_t use_count;
} og_formula_parser;

// Right sides that are not values of a row; each stands alone.
typedef enum og_formula_form {
  OG_FORM_VALUE,
  OG_FORM_SUM_ROWS,
  OG_FORM_ADD_ROWS,
  OG_FORM_JOIN,
  OG_FORM_INTERLEAVE,
  OG_FORM_FORMS
} og_formula_form;

extern const char *const og_formula_form_names[OG_FORM_FORMS];

// The last name of this text, or -1.
int32_t og_formula_named(const og_formula_parser *s, og_token name);
og_status og_formula_argument_find(og_formula_parser *s, og_token name,
                                   const og_param *param, og_formula_part part,
                                   int32_t *out_input);
// Reads the name of an index: 1 + its place among the indices.
og_status og_formula_index_find(og_formula_parser *s, int32_t *out_row_by);
og_status og_formula_name_add(og_formula_parser *s, og_token token,
                              int32_t *out_name);
og_status og_formula_statement_add(og_formula_parser *s,
                                   const og_formula_statement *statement,
                                   const og_scalar_code *code);
// A value of each row that has to be above 0; what is said else is to follow.
og_status og_formula_check_add(og_formula_parser *s,
                               og_loop_reduction reduction,
                               const og_scalar_code *code, int32_t *out_check);
og_status og_formula_code_join(const og_formula_parser *s, og_scalar_code *code,
                               const og_scalar_instruction *more,
                               int32_t count);
// (bias) of given(bias), an optional argument.
og_status og_formula_given_read(og_formula_parser *s, int32_t *out_input);
og_status og_formula_expression_read(og_formula_parser *s, og_scalar_code *out);

#endif  // OG_DECL_PARSE_FORMULA_PARSER_H
