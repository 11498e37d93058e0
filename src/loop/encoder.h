// SPDX-License-Identifier: Apache-2.0
// The state of the encoder while it writes a function.
//
// A function holds loops over rows and elements. A step of the element loop is
// 32 elements in a pass with a reduction, so that a sum need not wait for the
// one before it: two vectors of 16 with AVX-512, four of 8 with AVX2. In other
// passes it is one vector, or two with AVX2. Row values are in
// vectors of 8 equal lanes in both, of which a vector of 16 reads the first: a
// load that is wider than the store before it would wait for the cache. A value
// lies in a register, in the frame at [rsp], or, numbers, in the pool behind
// the code; registers that the elements of a pass leave free keep what each of
// them reads (invariants.h).
//
// General registers: rdi the call, rcx the element, rdx the end of the full
// steps; rax, rsi and, in a tail, rdx are free for one instruction's work; rbx
// and r8 to r15 point to the operands' rows. Mask registers: k1 is free, or
// holds the mask that was made or used last, k2 the tail, k3 its upper half.

#ifndef OG_LOOP_ENCODER_H
#define OG_LOOP_ENCODER_H

#include "loop/encode.h"
#include "loop/tables.h"

enum {
  OG_ENCODER_REGISTERS_MAX = 32,
  OG_ENCODER_HALF = 8,  // lanes of 256 bits
  OG_ENCODER_NEVER = INT32_MAX,
  OG_ENCODER_ROW_BYTES = 32,  // of a row value in the frame
  OG_ENCODER_BUFFER_BYTES = 64,
  OG_ENCODER_VECTORS = 4,  // of a step, at most
  // What is left behind steps of 1, 2 or 4 vectors, by vector.
  OG_ENCODER_TAILS = 2 * OG_ENCODER_VECTORS - 1,
  // Of a reduction: its vectors, and their NaNs.
  OG_ENCODER_PARTS = 2 * OG_ENCODER_VECTORS,
};

// Rows in memory: inputs, outputs, kept rows.
enum {
  OG_STREAM_IN = 0,
  OG_STREAM_OUT = OG_LOOP_INPUTS_MAX,
  OG_STREAM_KEEP = OG_LOOP_INPUTS_MAX + OG_LOOP_OUTPUTS_MAX,
};

typedef struct og_encoder_stub {  // a call out of line
  int32_t begin, end;             // labels: of the stub, of what follows
  const og_loop_instr *instr;
  og_x86_rm operands[3];  // where they lie at the call; none: scale -1
  uint32_t live;          // registers that must survive
  int32_t result;         // register
  int32_t bits;
  int32_t origin;
} og_encoder_stub;

typedef struct og_encoder {
  og_x86 *x;
  og_arena *arena;
  const og_loop_spec *spec;
  const og_loop_lowered *l;
  bool has_wide;  // the set is AVX-512
  // Of the section that is written.
  int32_t bits;            // of a vector; 256 in row steps
  int32_t register_count;  // 16 or 32
  bool is_row_section;
  int32_t part;        // which vector of the step
  int32_t tail;        // which one
  bool is_masked;      // a tail
  bool passes_caches;  // the output that is stored
  int32_t pass;
  int32_t pass_origin;  // of the first step of the pass
  uint32_t reserved;    // registers of partial sums and of what is held
  uint32_t held_registers;
  uint32_t locked;     // registers of the current instruction
  int32_t mask_value;  // whose lanes k1 holds, or OG_LOOP_NO_VALUE
  int32_t owner[OG_ENCODER_REGISTERS_MAX];  // values, or OG_LOOP_NO_VALUE
  // By value.
  int32_t *reg;       // or -1
  int32_t *spill;     // frame offset, or -1
  int32_t *row_slot;  // frame offset, of row values; or -1
  bool *is_spilled;   // the frame holds it
  int32_t *next;      // the step that uses it next
  int32_t *pool;      // label, of numbers; or -1
  int32_t *held;      // the register that has it in every step, or -1
  int32_t *uses;      // of what could be held, in the pass
  // By step of the section: when operands a, b and c are used next.
  int32_t (*next_after)[3];
  // The frame.
  int32_t frame_bytes;
  int32_t rows_at, blocks_at, tail_at, buffer_at, stop_at;
  int32_t left_at[OG_ENCODER_TAILS], mask_at[OG_ENCODER_TAILS];
  int32_t save_at, general_at, lanes_at;  // of calls
  int32_t *stream_at;                     // frame offset by stream
  int32_t *stream_reg;                    // by stream: general register, or -1
  int32_t stream_count;
  int32_t next_row[OG_LOOP_INPUTS_MAX];  // to be fetched: register, or -1
  // By reduction.
  int32_t (*partial_reg)[OG_ENCODER_PARTS];  // or -1
  // Frame offsets where there is no register.
  int32_t (*partial_at)[OG_ENCODER_PARTS];
  int32_t (*total_at)[OG_ENCODER_VECTORS];   // frame offsets, of sums
  int32_t *joined_at;                        // frame offset
  int32_t neutral[OG_LOOP_REDUCTION_COUNT];  // labels, or -1
  int32_t mask_table, word_table, one;       // labels, or -1
  int32_t tables[OG_LOOP_TABLES];            // labels, or -1
  int32_t held_tables[OG_LOOP_TABLES];       // registers, or -1
  og_encoder_stub *stubs;
  int32_t stub_count, stub_capacity;
  bool is_short;
} og_encoder;

static inline int32_t og_encoder_lanes(const og_encoder *e) {
  return e->has_wide ? 16 : 8;
}
// Vectors of partial sums, and of a step of a pass with a reduction.
static inline int32_t og_encoder_parts(const og_encoder *e) {
  return OG_LOOP_PARTIALS / og_encoder_lanes(e);
}

// Registers that partial sums may take.
static inline int32_t og_encoder_partials_most(const og_encoder *e) {
  return e->has_wide ? 8 : 4;
}

#endif  // OG_LOOP_ENCODER_H
