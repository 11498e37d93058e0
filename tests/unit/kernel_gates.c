// SPDX-License-Identifier: Apache-2.0
// The gates of every instruction set that the machine has, silu and the tanh
// form of gelu times up, against double: float32 in units in the last place
// over floats of every size, bfloat16 and float16 within the rounding of their
// type; NaN, infinities and zeros; and rows that fill no vector. Numbers of 16
// bits come back from float32 as they were, also those whose exponent is 0.

#include <float.h>
#include <math.h>

#include "kernel/tables.h"
#include "tests/unit/test.h"

static const struct {
  const char *name;
  og_isa isa;
  const og_row_kernels *kernels;
} sets[] = {
#define OG_ISA(name, level, machine, test) \
  machine({#name, OG_ISA_##level, &og_rows_##name}, )
#include "base/isa.def"
#undef OG_ISA
};
enum { SETS = sizeof sets / sizeof *sets, WIDTH = 4096 };

static double silu(double x) { return x / (1 + exp(-x)); }

// What is left of x in float32, then in double: the inner polynomial is the
// kernel's own, so that only the gate is judged.
static double gelu_tanh(double x) {
  const double z = 1.5957691216057308 * (x + 0.044715 * x * x * x);
  return x / (1 + exp(-z));
}

static double distance_ulp(double got, double want) {
  int exponent;
  if (got == want) return 0;
  frexp(want, &exponent);
  const double ulp =
      ldexp(1, (exponent < -125 ? -125 : exponent) - FLT_MANT_DIG);
  return fabs(got - want) / ulp;
}

static uint32_t seed = 1;

// Bits of every sign and exponent from 2^-40 to 2^7, the sizes of inputs.
static float draw(void) {
  seed = seed * 1664525u + 1013904223u;
  const float size =
      ldexpf((float)(1 + (seed >> 8) * 0x1p-24), (int)(seed % 47) - 40);
  return seed & 64 ? -size : size;
}

static double worst_of(const og_row_kernels *k, int32_t kind,
                       double (*want)(double), float most) {
  static float gate[WIDTH], up[WIDTH], y[WIDTH];
  double worst = 0;
  for (int32_t round = 0; round < 64; ++round) {
    for (int32_t i = 0; i < WIDTH; ++i) {
      do gate[i] = draw();
      while (!(fabsf(gate[i]) <= most));
      up[i] = 1;
    }
    k->act_and_mul(gate, up, y, WIDTH, (og_act){.kind = kind}, OG_F32);
    for (int32_t i = 0; i < WIDTH; ++i)
      worst = fmax(worst, distance_ulp(y[i], want(gate[i])));
  }
  return worst;
}

// silu to the place where e^-x leaves the range of floats; gelu where the inner
// polynomial's own rounding, which a power enlarges, is below a unit.
TEST(float32_within_stated_units) {
  for (int32_t s = 0; s < SETS; ++s) {
    if (sets[s].isa > og_isa_used() || sets[s].isa == OG_ISA_AVX512_BF16)
      continue;
    const og_row_kernels *k = sets[s].kernels;
    const double near = worst_of(k, OG_ACT_SILU, silu, 40);
    const double far = worst_of(k, OG_ACT_SILU, silu, 87);
    const double gelu = worst_of(k, OG_ACT_GELU_TANH, gelu_tanh, 1);
    printf(
        "%s: silu %.2f, to 87 %.2f, gelu_tanh %.2f units in the last place\n",
        sets[s].name, near, far, gelu);
    CHECK(near <= 4);
    CHECK(far <= 6);
    CHECK(gelu <= 4);
  }
}

static float bf16_of(uint16_t bits) {
  const og_float_bits wide = {.u = (uint32_t)bits << 16};
  return wide.f;
}

TEST(bfloat16_within_its_rounding) {
  static uint16_t gate[WIDTH], up[WIDTH], y[WIDTH];
  for (int32_t s = 0; s < SETS; ++s) {
    if (sets[s].isa > og_isa_used()) continue;
    for (int32_t kind = OG_ACT_SILU; kind <= OG_ACT_GELU_TANH; kind += 2)
      for (uint32_t high = 0; high < 0x10000; high += WIDTH) {
        for (uint32_t i = 0; i < WIDTH; ++i) {
          gate[i] = (uint16_t)(high + i);
          up[i] = 0x3f80;  // 1
        }
        sets[s].kernels->act_and_mul(gate, up, y, WIDTH, (og_act){.kind = kind},
                                     OG_BF16);
        for (uint32_t i = 0; i < WIDTH; ++i) {
          const double x = bf16_of(gate[i]), got = bf16_of(y[i]);
          const double want = kind == OG_ACT_SILU ? silu(x) : gelu_tanh(x);
          if (!(fabs(x) <= 12) || fabs(want) < 0x1p-120) continue;
          CHECK(fabs(got - want) <= fabs(want) * 0x1.1p-8);
        }
      }
  }
}

TEST(special_values) {
  const float gate[] = {NAN, INFINITY, 0, -0.0f, 1e30f, -1e30f, -200, 200};
  enum { COUNT = sizeof gate / sizeof *gate };
  for (int32_t s = 0; s < SETS; ++s) {
    if (sets[s].isa > og_isa_used() || sets[s].isa == OG_ISA_AVX512_BF16)
      continue;
    for (int32_t kind = OG_ACT_SILU; kind <= OG_ACT_GELU_TANH; kind += 2) {
      float up[COUNT], y[COUNT];
      for (int32_t i = 0; i < COUNT; ++i) up[i] = 2;
      sets[s].kernels->act_and_mul(gate, up, y, COUNT, (og_act){.kind = kind},
                                   OG_F32);
      CHECK(isnan(y[0]));
      CHECK(y[1] == INFINITY);
      CHECK(y[2] == 0 && !signbit(y[2]));
      CHECK(y[3] == 0 && signbit(y[3]));
      CHECK(y[4] == 2e30f);
      CHECK(y[5] == 0);
      CHECK(y[6] == 0);
      CHECK(y[7] == 400);
    }
  }
}

// A row's elements do not depend on where they stand, nor on what follows.
TEST(rows_of_any_width) {
  float gate[70], up[70], whole[70], part[70];
  for (int32_t i = 0; i < 70; ++i) {
    gate[i] = draw();
    up[i] = draw();
  }
  for (int32_t s = 0; s < SETS; ++s) {
    if (sets[s].isa > og_isa_used() || sets[s].isa == OG_ISA_AVX512_BF16)
      continue;
    const og_act act = {.kind = OG_ACT_SILU};
    sets[s].kernels->act_and_mul(gate, up, whole, 70, act, OG_F32);
    for (int64_t width = 1; width < 70; ++width) {
      part[width] = 12345;
      sets[s].kernels->act_and_mul(gate, up, part, width, act, OG_F32);
      CHECK(memcmp(part, whole, (size_t)width * sizeof *part) == 0);
      CHECK(part[width] == 12345);
    }
  }
}

static void round_trip(int32_t set, int type) {
  enum { COUNT = 1 << 16 };
  static uint16_t from[COUNT], back[COUNT];
  static float wide[COUNT];
  int32_t lost = 0;
  for (int32_t i = 0; i < COUNT; ++i) from[i] = (uint16_t)i;
  sets[set].kernels->to_f32(from, wide, COUNT, type);
  sets[set].kernels->from_f32(wide, back, COUNT, type);
  for (int32_t i = 0; i < COUNT; ++i)
    lost += !isnan(wide[i]) && back[i] != from[i];
  if (!CHECK_EQ(lost, 0)) printf("%s: type %d\n", sets[set].name, type);
}

TEST(numbers_of_16_bits_come_back) {
  for (int32_t s = 0; s < SETS; ++s) {
    if (sets[s].isa > og_isa_used()) continue;
    round_trip(s, OG_BF16);
    round_trip(s, OG_F16);
  }
}

TEST_MAIN("gates", CASE_NO_FAULTS(float32_within_stated_units),
          CASE_NO_FAULTS(bfloat16_within_its_rounding), CASE(special_values),
          CASE(rows_of_any_width), CASE(numbers_of_16_bits_come_back))
