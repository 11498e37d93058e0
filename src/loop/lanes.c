// SPDX-License-Identifier: Apache-2.0
// Instructions on arrays of lanes, once for each of two instruction sets.

#include "loop/lanes.h"

#include <math.h>
#include <opgraft/float16.h>
#include <string.h>

#include "base/loops.h"
#include "loop/call.h"
#include "loop/tables.h"
#include "scalar/scalar.h"

// --- What forms call ---------------------------------------------------------

// a * b + c, rounded once, without the machine's instruction. The product is
// exact in double; the sum is rounded to odd there, so that the second rounding
// is right (Boldo and Melquiond, "Emulation of a FMA and correctly rounded
// sums: proved algorithms using rounding to odd", 2008).
static inline float fma_exact(float a, float b, float c) {
  union {
    double f;
    uint64_t u;
  } sum;
  const double product = (double)a * (double)b, addend = (double)c;
  sum.f = product + addend;
  const double back = sum.f - product;
  const double error = (product - (sum.f - back)) + (addend - back);
  const bool is_exact = !(error < 0 || error > 0);
  const uint64_t step = (error > 0) == (sum.f > 0) ? 1 : (uint64_t)-1;
  if (!is_exact && (sum.u & 1) == 0) sum.u += step;
  return (float)sum.f;
}

static inline int32_t og_loop_to_int(float a) {
  return a >= -0x1p31f && a < 0x1p31f ? (int32_t)a : INT32_MIN;
}

static inline uint32_t og_loop_shift_sign(uint32_t a, uint32_t count) {
  return a >> count | (a >> 31 != 0 ? ~(~0u >> count) : 0);
}

// In two steps, of which the first is exact. Of a NaN b, a is one too.
static inline float og_loop_scale(float a, float b) {
  const uint32_t bias = 0x3f800000u, n = (uint32_t)og_loop_to_int(b);
  const uint32_t half = og_loop_shift_sign(n, 1);
  const og_loop_lane first = {.u = (half << 23) + bias};
  const og_loop_lane second = {.u = ((n - half) << 23) + bias};
  return a * first.f * second.f;
}

// The first where one is NaN, as scalar.def's.
#define MAX(a, b) ((a) != (a) || (a) > (b) ? (a) : (b))
#define MIN(a, b) ((a) != (a) || (a) < (b) ? (a) : (b))

static void call_lanes(int64_t n, const og_loop_lane *a, const og_loop_lane *b,
                       const og_loop_lane *c, uint32_t imm, og_loop_lane *out) {
  og_loop_call_lanes((int32_t)imm, n, a, b, c, out);
}

// --- The sets ----------------------------------------------------------------

#define SET(name) name##_plain
#define TARGET
#define OG_LOOP_FMA fma_exact
#include "loop/lanes.inc"
#undef SET
#undef TARGET
#undef OG_LOOP_FMA

#if OG_LOOPS_HAVE_AVX2
#define SET(name) name##_avx2
#define TARGET OG_LOOPS_AVX2_FMA
#define OG_LOOP_FMA __builtin_fmaf
#include "loop/lanes.inc"
#undef SET
#undef TARGET
#undef OG_LOOP_FMA
#define CHOOSE(name) (og_loops_use_avx2() ? name##_avx2 : name##_plain)
#else
#define CHOOSE(name) name##_plain
#endif

og_loop_lanes_fn og_loop_lanes_find(og_loop_op op) { return CHOOSE(table)[op]; }

void og_loop_lanes_reduce(og_loop_reduction kind, int64_t n,
                          const og_loop_lane *from, og_loop_lane *partials) {
  CHOOSE(reduce)(kind, n, from, partials);
}

og_loop_lane og_loop_neutral(og_loop_reduction kind) {
  return (og_loop_lane){.f = kind == OG_LOOP_SUM   ? 0
                             : kind == OG_LOOP_MAX ? -INFINITY
                                                   : INFINITY};
}

og_loop_lane og_loop_lanes_join(og_loop_reduction kind,
                                const og_loop_lane *partials) {
  og_loop_lane joined[OG_LOOP_PARTIALS];
  memcpy(joined, partials, sizeof joined);
  for (int32_t half = OG_LOOP_PARTIALS / 2; half > 0; half /= 2)
    og_loop_lanes_reduce(kind, half, joined + half, joined);
  return joined[0];
}

// --- Memory ------------------------------------------------------------------

#define LOAD(T, result, value)                                       \
  for (int64_t i = 0; i < n; ++i) {                                  \
    T x;                                                             \
    memcpy(&x, (const char *)from + (size_t)i * sizeof x, sizeof x); \
    out[i].result = value;                                           \
  }                                                                  \
  break;

void og_loop_lanes_load(og_loop_memory memory, int64_t n, const void *from,
                        og_loop_lane *out) {
  switch (memory) {
    case OG_LOOP_32:
      memcpy(out, from, (size_t)n * sizeof *out);
      break;
    case OG_LOOP_ZERO16:
      LOAD(uint16_t, u, x)
    case OG_LOOP_SIGN16:
      LOAD(int16_t, i, x)
    case OG_LOOP_ZERO8:
      LOAD(uint8_t, u, x)
    case OG_LOOP_SIGN8:
      LOAD(int8_t, i, x)
    case OG_LOOP_F16:
      LOAD(og_half, f, og_half_to_float(x))
    case OG_LOOP_I64:
      LOAD(int64_t, f, (float)x)
  }
}
#undef LOAD

static int64_t to_i64(float a) {
  return a >= -0x1p63f && a < 0x1p63f ? (int64_t)a : INT64_MIN;
}

#define STORE(T, value)                                      \
  for (int64_t i = 0; i < n; ++i) {                          \
    const T x = value;                                       \
    memcpy((char *)to + (size_t)i * sizeof x, &x, sizeof x); \
  }                                                          \
  break;

void og_loop_lanes_store(og_loop_memory memory, int64_t n,
                         const og_loop_lane *from, void *to) {
  switch (memory) {
    case OG_LOOP_32:
      memcpy(to, from, (size_t)n * sizeof *from);
      break;
    case OG_LOOP_ZERO16:
    case OG_LOOP_SIGN16:
      STORE(uint16_t, (uint16_t)from[i].u)
    case OG_LOOP_ZERO8:
    case OG_LOOP_SIGN8:
      STORE(uint8_t, (uint8_t)from[i].u)
    case OG_LOOP_F16:
      STORE(og_half, og_half_from_float(from[i].f))
    case OG_LOOP_I64:
      STORE(int64_t, to_i64(from[i].f))
  }
}
#undef STORE
