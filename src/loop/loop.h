// SPDX-License-Identifier: Apache-2.0
// Row programs as functions: code of our encoder where the machine has a set
// that it knows, else the interpreter.
//
// Both compute the same bits. A program is lowered once to a list of vector
// instructions that every instruction set has (lower.h): functions such as exp
// are written in these, a fused multiply-add is one of them, and a reduction is
// 32 partial sums, of elements i modulo 32, joined in one order. Arithmetic is
// f32; f16 and bf16 are converted where they are loaded and stored, integers
// and bools too (a bool is 0 or 1).

#ifndef OG_LOOP_LOOP_H
#define OG_LOOP_LOOP_H

#include "base/isa.h"
#include "base/text.h"
#include "loop/program.h"

typedef struct og_loop og_loop;
typedef struct og_loop_code og_loop_code;

// How an operand's elements lie in a row.
typedef enum og_loop_form {
  OG_LOOP_RUN,  // one after the other
  OG_LOOP_ROW,  // one for the row
} og_loop_form;

typedef struct og_loop_operand {
  og_dtype dtype;
  og_loop_form form;
} og_loop_operand;

// Which functions a program calls.
typedef enum og_loop_math {
  OG_LOOP_MATH_FAST,    // ours, within 1.7 units in the last place
  OG_LOOP_MATH_STRICT,  // libm's
} og_loop_math;

typedef struct og_loop_spec {
  const char *text;
  const og_loop_operand *inputs, *outputs;
  int32_t input_count, output_count;
  uint32_t number_inputs;  // bits: a NaN of theirs is NAN
  og_loop_math math;
  og_isa isa;            // the most that may be used; see og_isa_used
  uint32_t nontemporal;  // outputs: calls may ask for such stores of them
  bool prefetch;         // inputs are larger than what caches hold
} og_loop_spec;

// --- Code --------------------------------------------------------------------
// The memory that holds what the encoder writes: writable until it is sealed,
// executable afterwards, never both.

// NULL when memory is short.
og_loop_code *og_loop_code_create(void);
// No function in it may be running. NULL is allowed.
void og_loop_code_destroy(og_loop_code *code);
// Makes what was added executable. False where the system refuses (no
// executable memory): programs are then interpreted, which is not an error.
bool og_loop_code_seal(og_loop_code *code);

// --- Functions ---------------------------------------------------------------

// `code` (NULL: the interpreter) outlives the function and is not sealed yet.
// Failure: OG_INVALID with the place in the text, OG_UNSUPPORTED for a type
// that it cannot compute with, OG_MEMORY.
og_status og_loop_create(const og_loop_spec *spec, og_loop_code *code,
                         og_loop **out_loop, opgraft_error *error);
void og_loop_destroy(og_loop *loop);  // NULL is allowed
// Whether og_loop_create makes the same function of this spec.
bool og_loop_is_of(const og_loop *loop, const og_loop_spec *spec);
// Whether a program may hold this primitive (OG_SCALAR_*).
bool og_loop_has(int32_t scalar_op);

// One call: `blocks` times `rows` rows of `width` elements. Outputs may be
// inputs of the same address, type and form (an element is read before it is
// written, if no value before a reduction is needed behind it:
// og_loop_may_overwrite).
typedef struct og_loop_call {
  int64_t width, rows, blocks;
  const void *in[OG_LOOP_INPUTS_MAX];
  int64_t in_row_bytes[OG_LOOP_INPUTS_MAX];    // 0: the same row every time
  int64_t in_block_bytes[OG_LOOP_INPUTS_MAX];  // besides, after a block's rows
  void *out[OG_LOOP_OUTPUTS_MAX];
  int64_t out_row_bytes[OG_LOOP_OUTPUTS_MAX];
  int64_t out_block_bytes[OG_LOOP_OUTPUTS_MAX];
  void *scratch;  // og_loop_scratch_bytes, 64-byte aligned, one thread's
  // Stores of results that no cache holds long enough to be read there: past
  // the caches, so that the lines are not read first. Only where every output
  // that the spec names for them, and each of its rows, begins at a multiple
  // of OG_LOOP_LINE bytes.
  bool nontemporal;
} og_loop_call;

enum { OG_LOOP_LINE = 64 };

// Whether an output may be stored so.
static inline bool og_loop_may_pass_caches(og_loop_operand out) {
  return out.form == OG_LOOP_RUN &&
         (out.dtype.bits == 16 || out.dtype.bits == 32);
}

size_t og_loop_scratch_bytes(const og_loop *loop, int64_t width);
// Whether an output may lie in the memory of this input.
bool og_loop_may_overwrite(const og_loop *loop, int32_t input);
// Several threads may run one function at once. It does not change the
// floating-point environment, and expects the default one.
void og_loop_run(const og_loop *loop, const og_loop_call *call);

// --- What became of it -------------------------------------------------------

typedef struct og_loop_info {
  const char *by;      // "avx512", "avx2" or "interpreter"
  const char *reason;  // of the interpreter: why; else NULL
  int32_t phases;      // passes over a row
  int32_t instructions;
  const void *code;  // NULL for the interpreter
  size_t code_bytes;
  int64_t encode_ns;
} og_loop_info;
void og_loop_describe(const og_loop *loop, og_loop_info *out);
// The program and its code for a set, which the machine need not have: each
// machine instruction with the step that it computes (docs/cli.md, inspect).
void og_loop_print(const og_loop *loop, og_isa isa, og_text *out);

#endif  // OG_LOOP_LOOP_H
