// SPDX-License-Identifier: Apache-2.0
// A row program as vector instructions, in the order of passes over a row.
//
// An instruction defines one value, whose number is its index; operands have
// lower numbers, and equal instructions are one. A row value is the same in
// every lane. A vector value that a later pass needs is computed again there if
// that is cheap, else kept in the call's scratch memory.

#ifndef OG_LOOP_LOWER_H
#define OG_LOOP_LOWER_H

#include "loop/loop.h"

typedef union og_loop_lane {
  float f;
  int32_t i;
  uint32_t u;
} og_loop_lane;

typedef enum og_loop_op {
  OG_LANE_number,  // the bits `imm` in every lane; a row value
  OG_LANE_width,   // the number of elements as a float; a row value
  OG_LANE_load,    // input `imm`
  OG_LANE_joined,  // the result of reduction `imm`; a row value
  OG_LANE_summed,  // of running sum `imm`: reloaded in every pass
  // Where the mask c holds, scalar primitive `imm` of a (and b) by libm;
  // elsewhere not defined. Both back ends call the same function.
  OG_LANE_call,
#define OG_LOOP_OP(id, ...) OG_LANE_##id,
#include "loop/lanes.def"
#undef OG_LOOP_OP
  OG_LANE_COUNT
} og_loop_op;

// What lies in memory, and what a load makes of it.
typedef enum og_loop_memory {
  OG_LOOP_32,      // the bits
  OG_LOOP_ZERO16,  // an unsigned number; stores keep the low bits
  OG_LOOP_SIGN16,
  OG_LOOP_ZERO8,
  OG_LOOP_SIGN8,
  OG_LOOP_F16,  // to and from float
  OG_LOOP_I64,  // to and from float; INT64_MIN where it does not fit
} og_loop_memory;

enum {
  OG_LOOP_NO_VALUE = -1,
  OG_LOOP_PARTIALS = 32,
  // Elements that partial sums take before they are added to totals, so that
  // what a long row's sum rounds hardly grows: a multiple of a tile.
  OG_LOOP_SUM_RUN = 4096,
};

// Whether partial sums are added to their totals before element `at`.
static inline bool og_loop_carries(int64_t at, int64_t width) {
  return at > 0 && at % OG_LOOP_SUM_RUN == 0 && width - at >= OG_LOOP_PARTIALS;
}

typedef struct og_loop_instr {
  og_loop_op op;
  int32_t a, b, c;  // OG_LOOP_NO_VALUE: not an operand
  uint32_t imm;
  bool is_row;
  bool is_mask;
  bool has_sign;  // the sign of a NaN is defined
  int32_t pass;   // the first one that can compute it; see og_loop_pass
} og_loop_instr;

// --- Passes ------------------------------------------------------------------

typedef enum og_loop_action {
  OG_LOOP_COMPUTE,  // the value's instruction
  OG_LOOP_STORE,    // to output `index`
  OG_LOOP_REDUCE,   // into reduction `index`
  OG_LOOP_KEEP,     // in scratch row `index`
  OG_LOOP_RELOAD,   // from scratch row `index`
} og_loop_action;

typedef struct og_loop_step {
  og_loop_action action;
  int32_t value;
  int32_t index;
} og_loop_step;

// First the row steps, on one lane; then the vector steps, on each element of
// the row in order. Stores are last. Either may be empty. A reduction of pass p
// is joined at the end of it, so that pass p + 1 can read the result.
typedef struct og_loop_pass {
  og_loop_step *row_steps, *steps;
  int32_t row_count, count;
} og_loop_pass;

typedef struct og_loop_reduce {
  og_loop_reduction kind;
  int32_t pass;
} og_loop_reduce;

// Of what pass `pass` keeps in scratch row `keep` (-1: nothing reads it), at
// the end of that pass.
typedef struct og_loop_running {
  og_loop_reduction kind;
  int32_t value, pass, keep;
} og_loop_running;

typedef struct og_loop_lowered {
  const og_loop_instr *code;
  int32_t count;
  og_loop_pass *passes;
  int32_t pass_count;
  const og_loop_reduce *reductions;
  int32_t reduction_count;
  og_loop_running *running;
  int32_t running_count;
  int32_t keep_count;
  bool has_call;
  og_loop_memory in_memory[OG_LOOP_INPUTS_MAX];
  og_loop_memory out_memory[OG_LOOP_OUTPUTS_MAX];
  uint32_t may_overwrite;  // by input
} og_loop_lowered;

static inline bool og_loop_is_number(const og_loop_instr *instr) {
  return instr->op == OG_LANE_number;
}

// Whether the step computes an instruction with this operation.
static inline bool og_loop_computes(const og_loop_lowered *lowered,
                                    const og_loop_step *step, og_loop_op op) {
  return step->action == OG_LOOP_COMPUTE && lowered->code[step->value].op == op;
}

// Bytes of an element in memory.
static inline int32_t og_loop_memory_bytes(og_loop_memory memory) {
  switch (memory) {
    case OG_LOOP_32:
      return 4;
    case OG_LOOP_I64:
      return 8;
    case OG_LOOP_ZERO8:
    case OG_LOOP_SIGN8:
      return 1;
    default:
      return 2;
  }
}

int32_t og_loop_operand_count(og_loop_op op);
const char *og_loop_op_name(og_loop_op op);  // "add", "load"

// Of a function, as it was made.
const og_loop_spec *og_loop_spec_of(const og_loop *loop);
const og_loop_lowered *og_loop_lowered_of(const og_loop *loop);

// The result lies in the arena. Failure: OG_UNSUPPORTED (a type without f32
// arithmetic), OG_INVALID (an output of one element for each row whose value
// has one for each element), OG_MEMORY.
og_status og_loop_lower(const og_loop_spec *spec, const og_loop_program *source,
                        og_arena *arena, og_loop_lowered *out,
                        opgraft_error *error);

// Of what two programs have alike that compute the same bits: the key of code
// that was compiled for one.
uint64_t og_loop_digest(const og_loop_lowered *lowered);

#endif  // OG_LOOP_LOWER_H
