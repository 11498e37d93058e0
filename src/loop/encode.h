// SPDX-License-Identifier: Apache-2.0
// Machine code of a lowered program.

#ifndef OG_LOOP_ENCODE_H
#define OG_LOOP_ENCODE_H

#include "loop/lower.h"
#include "loop/x86.h"

typedef void (*og_loop_entry)(const og_loop_call *call);

// Writes a function of type og_loop_entry, which may be copied to any address
// that is a multiple of 64, to the zeroed `x`. Returns NULL, or why there is
// none. `isa`: OG_ISA_AVX2 or more. Where the spec has non-temporal stores, all
// calls are to ask for them. Records what it wrote where x->record_capacity is
// not 0; the origin of a record is 1 + the number of its
// step (row steps of pass 0, steps of pass 0, row steps of pass 1, ...), or 0.
const char *og_loop_encode(const og_loop_spec *spec,
                           const og_loop_lowered *lowered, og_isa isa,
                           og_arena *arena, og_x86 *x);

#endif  // OG_LOOP_ENCODE_H
