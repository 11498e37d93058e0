// SPDX-License-Identifier: Apache-2.0
// Fused programs whose results no cache holds: stored past the caches, with the
// same numbers, wherever a result begins in a line and however it is shared
// out; a smaller result is stored as ever. The memory around a result stays.

#include <opgraft/executable.h>
#include <stdlib.h>

#include "base/machine.h"
#include "machine.h"
#include "test.h"

enum { MOST_BYTES = 256 << 20, SPARE = 64, WIDTH = 1008, CODE_BYTES = 1 << 16 };

static const float mark = -77;

static float number(int64_t i) { return (float)(i * 7 % 1009 - 504) / 8; }

typedef struct buffers {
  float *x, *y;
  int64_t rows;  // of WIDTH elements, more than the cache holds
} buffers;

static bool buffers_make(buffers *b) {
  b->rows = og_machine_cache_bytes() / (4 * WIDTH) + 2;
  const size_t count = (size_t)(b->rows * WIDTH);
  b->x = aligned_alloc(64, (count * 4 + 63) / 64 * 64);
  b->y = aligned_alloc(64, (count * 4 + 63) / 64 * 64 + 8 * SPARE);
  if (b->x == NULL || b->y == NULL) return false;
  for (size_t i = 0; i < count; ++i) b->x[i] = number((int64_t)i);
  return true;
}

static void buffers_free(buffers *b) {
  free(b->x);
  free(b->y);
}

static bool program_run(const buffers *b, int64_t rows, const char *program,
                        int32_t threads, void *y, bool *out_is_nontemporal) {
  static char code[CODE_BYTES];
  char text[256];
  size_t length;
  machine m = {0};
  const opgraft_host host = {.struct_size = sizeof host, .threads = threads};
  int64_t shape[2] = {rows, WIDTH}, strides[2] = {WIDTH, 1};
  const og_tensor tensor = {.data = b->x,
                            .device = {OG_CPU, 0},
                            .ndim = 2,
                            .dtype = {OG_CODE_FLOAT, 32, 1},
                            .shape = shape,
                            .strides = strides};
  const og_tensor *in[1] = {&tensor};
  opgraft_call call = {.struct_size = sizeof call};
  void *storages[1] = {y};
  snprintf(text, sizeof text,
           "graph t(%%x: f32[%d, %d]) {\n  %%y: f32[%d, %d] = fused(%%x; "
           "program=\"%s\")\n  return %%y\n}\n",
           (int)rows, WIDTH, (int)rows, WIDTH, program);
  bool is_right = machine_make(&m, text, &host) &&
                  opgraft_executable_begin(m.executable, in, NULL, 1, &call,
                                           &m.error) == OG_OK;
  if (is_right) {
    is_right = opgraft_call_run(&call, storages, &m.error) == OG_OK;
    opgraft_call_end(&call);
  }
  is_right = is_right && stats_of(&m).fast_nodes == 1 &&
             opgraft_executable_code(m.executable, NULL, code, sizeof code,
                                     &length, &m.error) == OG_OK;
  if (is_right)
    *out_is_nontemporal = strstr(code, ", non-temporal stores") != NULL;
  else
    printf("%s\n%s", m.error.text, text);
  machine_free(&m);
  return is_right;
}

// The results of x + x, or of the distance to the row's greatest element.
static bool are_right(const buffers *b, const void *y, bool is_reduced) {
  float row[WIDTH];
  for (int64_t r = 0; r < b->rows; ++r) {
    const float *x = b->x + r * WIDTH;
    memcpy(row, (const char *)y + r * (int64_t)sizeof row, sizeof row);
    float most = x[0];
    for (int64_t i = 1; i < WIDTH; ++i) most = x[i] > most ? x[i] : most;
    for (int64_t i = 0; i < WIDTH; ++i)
      if (row[i] != (is_reduced ? x[i] - most : x[i] + x[i])) return false;
  }
  return true;
}

TEST(results_beyond_the_cache) {
  // Elements before a result: whole rows begin at a line in one case of two.
  static const int64_t places[] = {7, 16, 1, 3};
  buffers b = {0};
  bool is_nontemporal;
  if (og_machine_cache_bytes() > MOST_BYTES) {
    printf("skipped: the last-level cache is too large for a test\n");
    return;
  }
  REQUIRE(buffers_make(&b));
  for (int32_t k = 0; k < 4; ++k) {
    const bool is_reduced = k % 2 != 0;
    float *y = b.y + places[k], *end = y + b.rows * WIDTH;
    for (int64_t i = 0; i < SPARE; ++i) b.y[i] = end[i] = mark;
    REQUIRE(program_run(
        &b, b.rows,
        is_reduced ? "s = row_max(x0); y0 = x0 - s" : "y0 = x0 + x0", 1 + k % 3,
        y, &is_nontemporal));
    CHECK(is_nontemporal);
    CHECK(are_right(&b, y, is_reduced));
    for (int64_t i = 0; i < places[k]; ++i) CHECK(b.y[i] == mark);
    for (int64_t i = 0; i < SPARE; ++i) CHECK(end[i] == mark);
  }
done:
  buffers_free(&b);
}

// A written input may begin at any byte.
TEST(results_between_two_elements) {
  static const int64_t places[] = {1, 62};
  buffers b = {0};
  bool is_nontemporal;
  if (og_machine_cache_bytes() > MOST_BYTES) return;
  REQUIRE(buffers_make(&b));
  for (int32_t k = 0; k < 2; ++k) {
    char *y = (char *)b.y + places[k];
    REQUIRE(program_run(&b, b.rows, "y0 = x0 + x0", 1, y, &is_nontemporal));
    CHECK(are_right(&b, y, false));
  }
done:
  buffers_free(&b);
}

TEST(small_results_stay_in_the_cache) {
  buffers b = {0};
  bool is_nontemporal = true;
  if (og_machine_cache_bytes() > MOST_BYTES) return;
  REQUIRE(buffers_make(&b));
  REQUIRE(program_run(&b, b.rows / 2, "y0 = x0 + x0", 1, b.y, &is_nontemporal));
  CHECK(!is_nontemporal);
done:
  buffers_free(&b);
}

TEST_MAIN("exec_nontemporal", CASE_NO_FAULTS(results_beyond_the_cache),
          CASE_NO_FAULTS(results_between_two_elements),
          CASE_NO_FAULTS(small_results_stay_in_the_cache))
