// SPDX-License-Identifier: Apache-2.0
// Scalar operations: the primitives of scalar.def, programs made of them, the
// parser of expressions and the interpreter.
//
// One text has two readers. The C compiler makes loops of it (names.h); the
// parser makes a program of it, which the interpreter runs.

#ifndef OG_SCALAR_SCALAR_H
#define OG_SCALAR_SCALAR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/reader.h"
#include "base/text.h"

// The types that are computed in: f16, bf16 and f32; f64; integers and bool.
typedef enum og_class {
  OG_CLASS_F32,
  OG_CLASS_F64,
  OG_CLASS_I64,
  OG_CLASS_NONE,
} og_class;

// Bits by og_class.
enum {
  OG_CLASSES_FLOAT = 1 << OG_CLASS_F32 | 1 << OG_CLASS_F64,
  OG_CLASSES_INT = 1 << OG_CLASS_I64,
  OG_CLASSES_ANY = OG_CLASSES_FLOAT | OG_CLASSES_INT,
};

// --- Programs ----------------------------------------------------------------
// Postfix: each instruction replaces its operands on a stack by its value.

enum {
  OG_SCALAR_const,   // pushes `value`
  OG_SCALAR_load,    // pushes the element of tensor `slot`
  OG_SCALAR_number,  // pushes the number `slot`, one for all elements
#define OG_SCALAR(id, ...) OG_SCALAR_##id,
#include "scalar/scalar.def"
#undef OG_SCALAR
  OG_SCALAR_COUNT
};

enum {
  OG_SCALAR_DEPTH_MAX = 16,  // values on the stack
  OG_SCALAR_CODE_MAX = 128
};

typedef struct og_scalar_instruction {
  int32_t op;  // OG_SCALAR_*
  int32_t slot;
  double value;
} og_scalar_instruction;

typedef struct og_scalar_program {
  const og_scalar_instruction *code;
  int32_t count;
} og_scalar_program;

// "add", "const".
const char *og_scalar_name(int32_t op);
int32_t og_scalar_arity(int32_t op);
// OG_CLASSES_*: what a primitive computes in.
uint32_t og_scalar_classes(int32_t op);

// --- Parsing -----------------------------------------------------------------

typedef struct og_scalar_code {
  og_scalar_instruction code[OG_SCALAR_CODE_MAX];
  int32_t count;
  int32_t depth;
} og_scalar_code;

// What a name stands for: fills `out` (OG_SCALAR_load, number or const), or
// reports to the reader that there is no such name.
typedef struct og_scalar_names {
  og_status (*find)(void *state, const og_reader *reader, og_token name,
                    og_scalar_instruction *out);
  void *state;
  // What a function, or a name before '[', stands for that is not a primitive,
  // as `find` says it; it reads from there past the bracket's end. NULL: none.
  og_status (*call)(void *state, og_reader *reader, og_token name,
                    og_scalar_instruction *out, bool *out_is_known);
  const char *functions;  // their names, "sum, mean", or NULL
} og_scalar_names;

// Reads one expression at the reader's current token, up to a token that
// cannot belong to it; `classes` (OG_CLASSES_*) says what it has to
// compute in. Failure: OG_INVALID, at the span.
og_status og_scalar_parse(og_reader *reader, const og_scalar_names *names,
                          uint32_t classes, og_scalar_code *out);

// The value of a name of constants.def; false if there is none.
bool og_scalar_constant(const og_reader *reader, og_token name,
                        double *out_value);

// --- Writing -----------------------------------------------------------------

// Writes what OG_SCALAR_load or _number names.
typedef void (*og_scalar_name_fn)(void *state,
                                  const og_scalar_instruction *code,
                                  og_text *out);

// The program as an expression: og_scalar_parse makes the same program of it,
// but for constants below 0, which it reads as `neg`.
void og_scalar_write(const og_scalar_program *program, og_scalar_name_fn name,
                     void *state, og_text *out);

// --- The interpreter ---------------------------------------------------------

enum { OG_SCALAR_BLOCK = 256 };  // elements at a time, at most

// Writes n elements of what OG_SCALAR_load or _number names, as the type that
// the program runs in.
typedef void (*og_scalar_load_fn)(void *state,
                                  const og_scalar_instruction *code, int64_t n,
                                  void *to);

// Runs a program on n elements, n <= OG_SCALAR_BLOCK. Every primitive computes
// in its plain form (libm), never in a vector form.
void og_scalar_run_f32(const og_scalar_program *program, int64_t n,
                       og_scalar_load_fn load, void *state, float *out);
void og_scalar_run_f64(const og_scalar_program *program, int64_t n,
                       og_scalar_load_fn load, void *state, double *out);
void og_scalar_run_i64(const og_scalar_program *program, int64_t n,
                       og_scalar_load_fn load, void *state, int64_t *out);

#endif  // OG_SCALAR_SCALAR_H
