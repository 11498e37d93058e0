// SPDX-License-Identifier: Apache-2.0
// A row program as C: the instructions of lanes.def, in loops that compilers
// vectorise. It computes the bits of the interpreter with any compiler that
// keeps to IEEE arithmetic, and calls no libm but by the library that loads it.

#ifndef OG_LOOP_ENCODE_C_H
#define OG_LOOP_ENCODE_C_H

#include "loop/lower.h"

// What stands before the functions of a file.
void og_loop_c_begin(og_text *out);
// static void NAME(const og_loop_call *call)
void og_loop_c_write(const og_loop_spec *spec, const og_loop_lowered *lowered,
                     const char *name, og_text *out);

#endif  // OG_LOOP_ENCODE_C_H
