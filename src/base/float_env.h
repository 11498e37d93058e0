// SPDX-License-Identifier: Apache-2.0
// The thread's floating-point environment: rounding, flush-to-zero, masks of
// exceptions. Code that is not ours runs in a host whose results depend on it.

#ifndef OG_BASE_FLOAT_ENV_H
#define OG_BASE_FLOAT_ENV_H

#include <stddef.h>
#include <stdint.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#include <fenv.h>
#endif

// Control bits only: flags of exceptions that were seen change with every
// rounding. x86: MXCSR, and the x87 control word above it; AArch64: FPCR;
// elsewhere what the C library can tell, the rounding mode.
typedef uint64_t og_float_env;

#if defined(__SSE__)
enum { OG_MXCSR_CONTROL = 0xffc0 };
#endif

// Alone: reading it costs less than MXCSR.
static inline uint16_t og_x87_get(void) {
  uint16_t word = 0;
#if defined(__SSE__)
  __asm__ volatile("fnstcw %0" : "=m"(word));
#endif
  return word;
}

static inline void og_x87_set(uint16_t wanted) {
  if (__builtin_expect(og_x87_get() == wanted, 1)) return;
#if defined(__SSE__)
  __asm__ volatile("fldcw %0" : : "m"(wanted));
#endif
}

static inline og_float_env og_float_env_get(void) {
#if defined(__SSE__)
  return (og_float_env)og_x87_get() << 32 | (_mm_getcsr() & OG_MXCSR_CONTROL);
#elif defined(__aarch64__)
  og_float_env fpcr;
  __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
  return fpcr;
#else
  return (og_float_env)fegetround();
#endif
}

// Writes only what differs: a write stalls the processor, a read does not.
static inline void og_float_env_set(og_float_env wanted) {
  const og_float_env now = og_float_env_get();
  if (__builtin_expect(now == wanted, 1)) return;
#if defined(__SSE__)
  _mm_setcsr((_mm_getcsr() & ~(uint32_t)OG_MXCSR_CONTROL) | (uint32_t)wanted);
  og_x87_set((uint16_t)(wanted >> 32));
#elif defined(__aarch64__)
  __asm__ volatile("msr fpcr, %0" : : "r"(wanted));
#else
  fesetround((int)wanted);
#endif
}

// What differs between two: "flush-to-zero, the rounding mode"; "" for equal
// ones.
void og_float_env_name(og_float_env a, og_float_env b, char *out, size_t size);

#endif  // OG_BASE_FLOAT_ENV_H
