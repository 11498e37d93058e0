// SPDX-License-Identifier: Apache-2.0
// Row programs: fused loops over the rows of tensors.
//
//   s = x0 + x1; m = row_max(s); e = exp(s - m); t = row_sum(e); y0 = e / t
//
// A program is a list of assignments. Inputs are x0, x1, ...; an assignment to
// y0, y1, ... is an output, every other name is a value of its own. Names are
// assigned once, before they are read. The right side is an expression over the
// primitives of scalar/scalar.def and the constants of scalar/constants.def, or
// one reduction of such an expression over the row: row_sum, row_max, row_min,
// or its running sum: row_cumsum, row_cumsum_reversed. `width` is the number of
// elements of a row. A value has one element for each element of the row, or
// one for the row: a reduction, and what is computed from such values and
// numbers alone.
//
// A fused node of a graph holds the text, so tests,
// files and fuzzers write it too.

#ifndef OG_LOOP_PROGRAM_H
#define OG_LOOP_PROGRAM_H

#include "base/memory.h"
#include "scalar/scalar.h"

enum {
  OG_LOOP_INPUTS_MAX = 32,
  OG_LOOP_OUTPUTS_MAX = 16,
  OG_LOOP_STATEMENTS_MAX = 256,
  OG_LOOP_WIDTH_SLOT = 0,  // of OG_SCALAR_number: the number of elements
};

typedef enum og_loop_reduction {
  OG_LOOP_NO_REDUCTION,
  OG_LOOP_SUM,
  OG_LOOP_MAX,  // NaN if an element is NaN
  OG_LOOP_MIN,
  OG_LOOP_CUMSUM,  // one element for each of the row, added in f64
  OG_LOOP_CUMSUM_REVERSED,
  OG_LOOP_REDUCTION_COUNT
} og_loop_reduction;

static inline bool og_loop_is_running(og_loop_reduction reduction) {
  return reduction >= OG_LOOP_CUMSUM;
}
// Whether it gives one element for the row.
static inline bool og_loop_reduces(og_loop_reduction reduction) {
  return reduction != OG_LOOP_NO_REDUCTION && !og_loop_is_running(reduction);
}

// OG_SCALAR_load has a slot: input i, or input_count + the statement.
typedef struct og_loop_statement {
  og_loop_reduction reduction;
  bool is_row;     // one element for the row
  int32_t output;  // which one this is, or -1
  og_scalar_program expression;
} og_loop_statement;

typedef struct og_loop_program {
  const og_loop_statement *statements;
  int32_t statement_count;
  int32_t input_count, output_count;
} og_loop_program;

// Reads a program for inputs of which `is_row_input` says which have one
// element for each row. The result lies in the arena. Failure: OG_INVALID at
// the token (a name that is unknown or assigned twice, an input or output that
// is missing), OG_MEMORY.
og_status og_loop_parse(const char *text, const bool *is_row_input,
                        int32_t input_count, int32_t output_count,
                        og_arena *arena, og_loop_program *out,
                        opgraft_error *error);

// Writes the text of a program; og_loop_parse makes the same program of it.
void og_loop_write(const og_loop_program *program, og_text *out);

// "row_sum"; NULL for OG_LOOP_NO_REDUCTION.
const char *og_loop_reduction_name(og_loop_reduction reduction);

#endif  // OG_LOOP_PROGRAM_H
