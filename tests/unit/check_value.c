// SPDX-License-Identifier: Apache-2.0
// Elements as doubles, comparison of results, guarded memory.

#include "check/sample/value.h"

#include <math.h>

#include "check/run/guard.h"
#include "test.h"

static const og_dtype f16 = {OG_CODE_FLOAT, 16, 1};
static const og_dtype f32 = {OG_CODE_FLOAT, 32, 1};
static const og_dtype f64 = {OG_CODE_FLOAT, 64, 1};
static const og_dtype bf16 = {OG_CODE_BFLOAT, 16, 1};
static const og_dtype c64 = {OG_CODE_COMPLEX, 64, 1};
static const og_dtype i8 = {OG_CODE_INT, 8, 1};
static const og_dtype u8 = {OG_CODE_UINT, 8, 1};
static const og_dtype i64 = {OG_CODE_INT, 64, 1};
static const og_dtype truth = {OG_CODE_BOOL, 8, 1};

static double there_and_back(og_dtype type, double value) {
  char memory[16] = {0};
  og_value_set(type, memory, 0, value);
  return og_value_get(type, memory, 0);
}

TEST(keeps_values) {
  static const double exact[] = {0, 1, -1, 0.5, 3, -2.25, 100};
  const og_dtype floats[] = {f16, bf16, f32, f64, c64};
  for (size_t t = 0; t < 5; ++t)
    for (size_t i = 0; i < sizeof exact / sizeof *exact; ++i)
      CHECK(there_and_back(floats[t], exact[i]) == exact[i]);
  CHECK(there_and_back(i8, -5) == -5);
  CHECK(there_and_back(i8, 300) == 127);
  CHECK(there_and_back(i8, -300) == -128);
  CHECK(there_and_back(u8, -3) == 0);
  CHECK(there_and_back(u8, 255) == 255);
  CHECK(there_and_back(i64, -1e6) == -1e6);
  CHECK(there_and_back(truth, 7) == 1);
  CHECK(isnan(there_and_back(bf16, NAN)));
}

// What is coarse is the same number in every floating type.
TEST(coarse_values_fit_every_type) {
  for (int i = -400; i < 400; ++i) {
    const double value = og_value_coarse(i * 0.0137);
    CHECK(there_and_back(f16, value) == value);
    CHECK(there_and_back(bf16, value) == value);
    CHECK(there_and_back(f32, value) == value);
  }
}

TEST(compares) {
  const float a[] = {1, NAN, 0, 1000}, b[] = {1, NAN, -0.0f, 1000.01f};
  const double c[] = {1, NAN, 0, 1000};
  CHECK_EQ(og_compare_bits(f32, a, a, 4).count, 0);
  CHECK_EQ(og_compare_bits(f32, a, b, 4).count, 1);
  CHECK_EQ(og_compare_bits(f32, a, b, 4).first, 3);
  CHECK_EQ(og_compare_near(f32, a, f32, b, 4, 1e-4).count, 0);
  CHECK_EQ(og_compare_near(f32, b, f64, c, 4, 1e-9).count, 1);
  const int64_t x[] = {1, 2}, y[] = {1, 3};
  CHECK_EQ(og_compare_near(i64, x, i64, y, 2, 1).first, 1);
}

TEST(guards_memory) {
  int64_t offset = 0;
  og_guard *right = og_guard_create(12, 4, false, OG_ROLE_RESULT, 3, 0);
  og_guard *left = og_guard_create(12, 4, true, OG_ROLE_INPUT, 1, 2);
  og_guard *empty = og_guard_create(0, 4, false, OG_ROLE_INPUT, 0, 0);
  REQUIRE(right != NULL && left != NULL && empty != NULL);
  CHECK_EQ((uintptr_t)(right->data + 12) % 4096, 0);
  CHECK_EQ((uintptr_t)left->data % 4096, 0);
  CHECK(og_guard_is_intact(right, &offset));
  right->data[-1] = 1;
  CHECK(!og_guard_is_intact(right, &offset));
  CHECK_EQ(offset, -1);
  left->data[12] = 1;
  CHECK(!og_guard_is_intact(left, &offset));
  CHECK_EQ(offset, 12);
  og_guard_place place = og_guard_find((uintptr_t)right->data + 12 + 100);
  CHECK(place.buffer == right);
  CHECK_EQ(place.after, 101);
  place = og_guard_find((uintptr_t)left->data - 8);
  CHECK(place.buffer == left);
  CHECK_EQ(place.before, 8);
  CHECK(og_guard_find((uintptr_t)&offset).buffer == NULL);
  const uintptr_t old = (uintptr_t)right->data;
  og_guards_release();
  CHECK(og_guard_find(old).buffer->is_released);
done:
  og_guards_release();
}

TEST_MAIN("check_value", CASE(keeps_values), CASE(coarse_values_fit_every_type),
          CASE(compares), CASE_NO_FAULTS(guards_memory))
