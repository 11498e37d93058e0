// SPDX-License-Identifier: Apache-2.0
// Row programs in f64, or in int64 that wraps: the arithmetic that the row
// engine (loop.h) has not. Plain C, statement by statement over a whole row.
//
// A sum adds as the row engine does: elements i modulo 32 into 32 partial sums,
// which are joined pairwise.

#ifndef OG_LOOP_PLAIN_H
#define OG_LOOP_PLAIN_H

#include "loop/loop.h"

// Scratch memory of a call, 64-byte aligned and one thread's.
size_t og_loop_plain_bytes(const og_loop_program *program, int64_t width);

// Runs a call (loop.h) in class F64 or I64. All of a row is read before any of
// it is written. A float that an integer type cannot hold is cut to its range,
// a NaN is 0; integers are cut to the type's low bits.
void og_loop_plain_run(const og_loop_program *program,
                       const og_loop_operand *inputs,
                       const og_loop_operand *outputs, og_class class,
                       const og_loop_call *call);

// Stores n values of the class, 8 bytes each, as it does.
void og_loop_plain_store(og_class class, og_dtype dtype, int64_t n,
                         const void *from, void *to);

#endif  // OG_LOOP_PLAIN_H
