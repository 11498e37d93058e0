// SPDX-License-Identifier: Apache-2.0
// Formulas: an operator's `row` string, as a row program over its arguments.
//
// The *space* is the dims that the formula runs over; its last dim is the row.
// An operand has some of these dims, in order, and is repeated along the others
// (`places`), or broadcasts to the space as tensors do (`broadcasts`). A call
// takes the formula's program for the optional arguments that are there, and
// runs it by the row engine (loop/loop.h) in f32, else in f64 or int64
// (loop/plain.h).

#ifndef OG_DECL_FORMULA_H
#define OG_DECL_FORMULA_H

#include "decl/decl.h"
#include "loop/loop.h"

// Which elements of a last dim of twice the row's.
typedef enum og_formula_part {
  OG_FORMULA_WHOLE,  // it is the row's
  OG_FORMULA_FIRST,
  OG_FORMULA_SECOND,
  OG_FORMULA_EVEN,
  OG_FORMULA_ODD,
} og_formula_part;

// What a formula names: input i of its programs.
typedef struct og_formula_input {
  bool is_tensor;    // else a number
  bool is_position;  // 0, 1, ... along a dim of the space
  int32_t index;     // of the tensor argument or attribute, OG_FORMULA_*
  og_formula_part part;
  int32_t row_by;  // a table's row: 1 + which of the indices says it
} og_formula_input;

// What a formula assigns: output i of its programs.
typedef struct og_formula_output {
  int32_t result;  // of call->out; -1: a check, for each row above 0 or wrong
  og_formula_part part;
  int32_t row_by;  // added to a result's row: 1 + which index says it
  og_token check;  // what it says, in the text
} og_formula_output;

enum {
  OG_FORMULA_COLUMN,  // the place in the row, along the last dim
  OG_FORMULA_ROW,     // along the dim before it; 0 where there is none
};

// Slots of loads are inputs, then names (input_count + name); numbers are
// `width` (OG_LOOP_WIDTH_SLOT), then whether input i is given
// (OG_FORMULA_GIVEN + i), the precision of input i's type (OG_FORMULA_TYPE + i)
// or of the type of that precision (OG_FORMULA_PRECISION + bits).
typedef struct og_formula_statement {
  og_loop_reduction reduction;
  og_token token;  // the name, in the string
  int32_t name;    // that it gives a value; names may be assigned again
  int32_t output;  // that it assigns, or -1
  uint32_t needs;  // bits of inputs; left out where one is absent
  bool is_index;   // no statement of a program, but one value a row
  og_scalar_program expression;
} og_formula_statement;

enum {
  OG_FORMULA_GIVEN = 1,
  OG_FORMULA_TYPE = OG_FORMULA_GIVEN + OG_LOOP_INPUTS_MAX,
  OG_FORMULA_PRECISION = OG_FORMULA_TYPE + OG_LOOP_INPUTS_MAX,
  OG_FORMULA_INDICES_MAX = 8,
};

// How an operand lies in the space.
typedef struct og_formula_place {
  uint64_t items;  // bits of the space's items that it has
  uint64_t ones;   // bits of those that it has as a dim of 1
} og_formula_place;

// A comparison whose values are integers where these inputs (bits) are, and may
// then be beyond what f32 has.
typedef struct og_formula_compare {
  uint32_t inputs;
  bool is_of_leaves;  // of an input with another one
} og_formula_compare;

// What `opgraft build` compiles for a module's formulas (loop/encode_c.c says
// these structs in C): the symbol opgraft_formula_codes.
typedef struct og_formula_code {
  uint64_t digest;  // of the program (og_loop_digest)
  void (*run)(const og_loop_call *call);
} og_formula_code;
typedef struct og_formula_codes {
  uint32_t call_size;  // of og_loop_call
  uint32_t count;
  const og_formula_code *codes;
  float (*call)(const char *name, float a, float b);  // set at load
} og_formula_codes;

struct og_formula {
  og_formula_statement *statements;
  int32_t statement_count;
  og_formula_input inputs[OG_LOOP_INPUTS_MAX];
  int32_t input_count;
  uint32_t optional;  // bits of inputs that may be absent
  int32_t name_count;
  int32_t result_count;  // of call->out: mutated arguments, fresh results
  int32_t output_count;
  og_formula_output outputs[OG_LOOP_OUTPUTS_MAX];  // the results, then others
  uint32_t sums;    // bits of results that are sums over rows
  uint32_t added;   // bits of results whose rows an index says
  uint32_t tables;  // bits of arguments that are read so
  int32_t indices[OG_FORMULA_INDICES_MAX];  // tensor arguments
  int32_t index_count;
  uint32_t wide_in, wide_out;  // bits of arguments and results that have parts
  const char *text;
  bool is_real;      // every primitive computes in floats
  bool is_integer;   // every primitive and constant computes in integers
  bool needs_rows;   // a row is reduced, or its width asked for
  bool has_extreme;  // row_max or row_min, which an empty row has not
  bool broadcasts;
  int32_t space;  // the tensor argument that has it, -1: the first result
  int32_t item_count;
  int32_t pack;  // the item that is a pack, or -1
  og_formula_place in[OPGRAFT_ARG_MAX];
  og_formula_place out[OG_LOOP_OUTPUTS_MAX];
  const og_formula_compare *compares;
  int32_t compare_count;
  const og_formula_codes *codes;  // of the module, or NULL
  struct og_formula_cache *cache;
};

// "bf16" of its bits of precision; NULL where no type has so many.
const char *og_formula_type_name(int32_t precision);

// An output's name in the formula: a mutated argument's; a result's own, else
// y, or y0, y1 of several; out where an argument has that name.
void og_formula_output_name(const og_decl *decl, int32_t output, char out[64]);

og_status og_formula_cache_create(struct og_formula *formula, og_arena *arena);
void og_formula_destroy(
    const struct og_formula *formula);  // what no arena owns

// Of an input, or behind these of an output; NULL: a number, or absent.
const og_tensor *og_formula_tensor(const struct og_formula *formula,
                                   const og_call *call, int32_t operand);
// What a call is computed in. Of its tensors types are enough. Failure, with a
// sentence that says why: OG_UNSUPPORTED, OG_DTYPE.
og_status og_formula_class(const struct og_formula *formula,
                           const og_call *call, og_class *out_class,
                           const char **out_reason);

// A program of a formula, for what a call has.
typedef struct og_formula_choice {
  uint32_t given;            // bits of inputs
  const bool *is_row_input;  // which have one element for each row; NULL: none
  const og_dtype *types;     // by input; NULL: f32
  // By input: the program has these numbers, and its inputs are the tensors
  // that are given, in order. NULL: all inputs are its own.
  const double *numbers;
  uint32_t row_sums;  // bits of sums over rows that are sums of the row, too
} og_formula_choice;

// The sums over rows that are added along the row by the program: of a
// broadcast, and where the row is one of a pack, the call says so.
uint32_t og_formula_row_sums(const struct og_formula *formula,
                             const og_loop_operand *outputs);

// The result lies in the arena. False when memory is short.
bool og_formula_program(const struct og_formula *formula,
                        const og_formula_choice *choice, og_arena *arena,
                        og_loop_program *out);

// A kernel for any formula: call->derived is its og_formula. Tensors may have
// any strides.
og_status og_formula_run(const og_call *call);

#endif  // OG_DECL_FORMULA_H
