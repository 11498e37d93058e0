// SPDX-License-Identifier: Apache-2.0
// Expressions over symbols: what is printed reads back as what it was, with
// every operator and with constants at the ends of their types; no expression
// holds a number that is not finite.

#include <float.h>
#include <math.h>

#include "graph/size.h"
#include "graph/size_parse.h"
#include "graph/size_print.h"
#include "unit/test.h"

enum { TRIALS = 3000, GROWTH = 24 };

static uint64_t state;

static int64_t draw(int64_t below) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((state >> 33) % (uint64_t)below);
}

static og_status leaf(og_sizes *sizes, opgraft_size *out,
                      opgraft_error *error) {
  static const int64_t whole[] = {0,
                                  1,
                                  -1,
                                  2,
                                  3,
                                  -7,
                                  INT64_MAX,
                                  INT64_MIN,
                                  8,
                                  -2,
                                  63,
                                  INT64_MAX,
                                  INT64_MIN + 1,
                                  5};
  static const double real[] = {0.0,   -0.0,    1.0,  -1.0,    0.1, -2.5,
                                1e300, DBL_MAX, 1e-9, DBL_MIN, 3.0, 0x1p-1074};
  static const char names[] = "abc";
  switch (draw(3)) {
    case 0:
      return og_size_const(sizes, whole[draw(sizeof whole / sizeof *whole)],
                           out, error);
    case 1:
      return og_size_float(sizes, real[draw(sizeof real / sizeof *real)], out,
                           error);
    default:
      return og_size_symbol(sizes, &names[draw(3)], 1, out, error);
  }
}

// Grows a pool of expressions out of one another; those that cannot be (an
// overflow, a float where an integer belongs) are left out.
static int grow(og_sizes *sizes, opgraft_size *pool, opgraft_error *error) {
  int count = 0;
  for (int i = 0; i < 6; ++i)
    if (leaf(sizes, &pool[count], error) == OG_OK) ++count;
  for (int i = 0; i < GROWTH && count > 0; ++i) {
    const og_size_op op = (og_size_op)draw(OG_SIZE_OP_COUNT);
    if (og_size_ops[op].operand_count == 0) continue;
    const opgraft_size a = pool[draw(count)];
    const opgraft_size b =
        og_size_ops[op].operand_count == 2 ? pool[draw(count)] : a;
    if (og_size_make(sizes, op, a, b, &pool[count], error) == OG_OK) ++count;
  }
  return count;
}

static bool reads_back(const og_sizes *sizes, opgraft_size size) {
  og_sizes again;
  opgraft_error error;
  og_text text = {0}, second = {0};
  opgraft_size read;
  size_t used = 0;
  og_size_print(sizes, size, &text);
  bool same = !text.failed && og_sizes_init(&again, &error) == OG_OK;
  if (same) {
    same = og_size_read(&again, text.data, text.length, &used, &read, &error) ==
               OG_OK &&
           used == text.length &&
           og_size_is_float(&again, read) == og_size_is_float(sizes, size);
    if (same) {
      og_size_print(&again, read, &second);
      same = !second.failed && strcmp(text.data, second.data) == 0;
    }
    og_sizes_reset(&again);
  }
  if (!same && test_now.fault < 0)
    printf("%s reads back as %s\n", text.data,
           second.data ? second.data : error.text);
  og_text_reset(&text);
  og_text_reset(&second);
  return same;
}

TEST(round_trip) {
  int64_t tried = 0;
  for (int trial = 0; trial < TRIALS; ++trial) {
    og_sizes sizes;
    opgraft_error error;
    opgraft_size pool[6 + GROWTH];
    state = (uint64_t)trial;
    if (!CHECK(og_sizes_init(&sizes, &error) == OG_OK)) return;
    const int count = grow(&sizes, pool, &error);
    bool same = true;
    for (int i = 0; i < count && same; ++i, ++tried)
      same = reads_back(&sizes, pool[i]);
    og_sizes_reset(&sizes);
    if (!CHECK(same)) return;
  }
  CHECK(tried > 10 * TRIALS);
}

static og_status read_text(og_sizes *sizes, const char *text,
                           opgraft_size *out) {
  opgraft_error error;
  size_t used;
  return og_size_read(sizes, text, strlen(text), &used, out, &error);
}

TEST(ends_of_types) {
  og_sizes sizes = {0};
  opgraft_error error;
  opgraft_size size;
  int64_t value = 0;
  REQUIRE(og_sizes_init(&sizes, &error) == OG_OK);
  REQUIRE(read_text(&sizes, "-9223372036854775808", &size) == OG_OK);
  CHECK(og_size_get(&sizes, size, &value));
  CHECK_EQ(value, INT64_MIN);
  CHECK(read_text(&sizes, "9223372036854775808", &size) == OG_INVALID);
  REQUIRE(read_text(&sizes, "-2**2", &size) == OG_OK);
  CHECK(og_size_get(&sizes, size, &value));
  CHECK_EQ(value, -4);
  REQUIRE(read_text(&sizes, "-0.0", &size) == OG_OK);
  CHECK(signbit(og_bits_double(sizes.exprs[size].value)));
  CHECK(read_text(&sizes, "float(s) + 1e999", &size) == OG_INVALID);
  CHECK(read_text(&sizes, "1.5e308*10.0", &size) == OG_INVALID);
  CHECK(og_size_float(&sizes, INFINITY, &size, &error) == OG_INVALID);
  CHECK(og_size_float(&sizes, NAN, &size, &error) == OG_INVALID);
done:
  og_sizes_reset(&sizes);
}

TEST_MAIN("graph_size", CASE_NO_FAULTS(round_trip), CASE(ends_of_types))
