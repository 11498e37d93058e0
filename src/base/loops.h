// SPDX-License-Identifier: Apache-2.0
// Plain loops that the compiler makes once for each of two instruction sets.
//
//   OG_LOOP_BODY void add_body(int64_t n, const float *from, float *to) {
//     for (int64_t i = 0; i < n; ++i) to[i] += from[i];
//   }
//   OG_LOOP(add, (int64_t n, const float *from, float *to), (n, from, to))
//
// defines add, which runs what OPGRAFT_ISA leaves of the machine. The results
// are the same: nothing is contracted or reordered. A loop that a step keeps as
// a pointer is chosen when the step is prepared, not at every call:
//
// clang-format off
//   OG_LOOP_FORMS(add, (int64_t n, const float *from, float *to),
//                 (n, from, to))
//   static const add_fn adds[OG_LOOP_SETS] = OG_LOOP_ROW(add);
//   const add_fn chosen = adds[og_loop_set()];
// clang-format on

#ifndef OG_BASE_LOOPS_H
#define OG_BASE_LOOPS_H

#include <stdbool.h>

#include "base/isa.h"

static inline bool og_loops_use_avx2(void) {
  return og_isa_used() >= OG_ISA_AVX2;
}
static inline bool og_loops_use_avx512(void) {
  return og_isa_used() >= OG_ISA_AVX512;
}

// Of loops that are written for each set, and use og_loops_use_avx2().
#if defined(__x86_64__) && defined(__GNUC__)
#define OG_LOOPS_HAVE_AVX2 1
#define OG_LOOPS_AVX2_FMA __attribute__((target("avx2,fma")))
#define OG_LOOPS_AVX512 __attribute__((target("avx512f")))
#else
#define OG_LOOPS_HAVE_AVX2 0
#endif

// The index of the form to use.
enum { OG_LOOP_SETS = 2 };
static inline int og_loop_set(void) { return og_loops_use_avx2() ? 1 : 0; }

#define OG_LOOP_BODY static inline __attribute__((always_inline))
#if OG_LOOPS_HAVE_AVX2
#define OG_LOOP_FORMS(name, parameters, arguments)                     \
  static void name##_plain parameters { name##_body arguments; }       \
  static __attribute__((target("avx2"))) void name##_avx2 parameters { \
    name##_body arguments;                                             \
  }
#define OG_LOOP_ROW(name) \
  { name##_plain, name##_avx2 }
#define OG_LOOP(name, parameters, arguments) \
  OG_LOOP_FORMS(name, parameters, arguments) \
  static void name parameters {              \
    if (og_loops_use_avx2())                 \
      name##_avx2 arguments;                 \
    else                                     \
      name##_plain arguments;                \
  }
#else
#define OG_LOOP_FORMS(name, parameters, arguments) \
  static void name##_plain parameters { name##_body arguments; }
#define OG_LOOP_ROW(name) \
  { name##_plain, name##_plain }
#define OG_LOOP(name, parameters, arguments) \
  static void name parameters { name##_body arguments; }
#endif

#endif  // OG_BASE_LOOPS_H
