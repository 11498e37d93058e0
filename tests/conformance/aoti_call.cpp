// SPDX-License-Identifier: Apache-2.0
// Calls a C function of AOTInductor's from Python, which cannot catch what it
// throws. Integers and addresses are passed apart from doubles, as the calling
// convention of x86-64 has it, so one call serves every function.

#include <cstdint>
#include <cstdio>
#include <exception>

#define FOUR(x, i) x[i], x[i + 1], x[i + 2], x[i + 3]
#define INTS(x)                                                              \
  FOUR(x, 0), FOUR(x, 4), FOUR(x, 8), FOUR(x, 12), FOUR(x, 16), FOUR(x, 20), \
      FOUR(x, 24), FOUR(x, 28), FOUR(x, 32), FOUR(x, 36)
#define INT int64_t
#define FOUR_INTS INT, INT, INT, INT
#define FORTY_INTS                                                             \
  FOUR_INTS, FOUR_INTS, FOUR_INTS, FOUR_INTS, FOUR_INTS, FOUR_INTS, FOUR_INTS, \
      FOUR_INTS, FOUR_INTS, FOUR_INTS

// 40 integers and 8 doubles, which the function takes as many of as it has.
// Returns what it returns, or -1 and the exception's text.
extern "C" __attribute__((visibility("default"))) int32_t call(
    void *function, const int64_t *ints, const double *doubles, char *text,
    size_t size) {
  using taking = int32_t (*)(FORTY_INTS, double, double, double, double, double,
                             double, double, double);
  try {
    return reinterpret_cast<taking>(function)(INTS(ints), FOUR(doubles, 0),
                                              FOUR(doubles, 4));
  } catch (const std::exception &error) {
    std::snprintf(text, size, "%s", error.what());
    return -1;
  }
}
