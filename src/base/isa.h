// SPDX-License-Identifier: Apache-2.0
// Which instruction sets this machine has, and which ones may be used.
//
// Needs libc only: kernels are linked into operator modules with a copy of it.

#ifndef OG_BASE_ISA_H
#define OG_BASE_ISA_H

#include <stdbool.h>

// What a row of isa.def is for: left out where the compiler has no such set.
#define OG_ANY(...) __VA_ARGS__
#if defined(__x86_64__) && defined(__GNUC__)
#define OG_X86(...) __VA_ARGS__
#else
#define OG_X86(...)
#endif

typedef enum og_isa {
#define OG_ISA(name, level, machine, test) OG_ISA_##level,
#include "base/isa.def"
#undef OG_ISA
  OG_ISA_UNKNOWN,
} og_isa;

// The best level that the machine has, lowered by OPGRAFT_ISA=NAME where that
// is set. Read once; any thread.
og_isa og_isa_used(void);
// Whether the machine has dots of bytes: of 64 of them at a time, or of 32.
bool og_isa_has_vnni(bool is_long);
// NULL or "" is scalar, another word OG_ISA_UNKNOWN.
og_isa og_isa_parse(const char *name);
const char *og_isa_name(og_isa isa);

#endif  // OG_BASE_ISA_H
