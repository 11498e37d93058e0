// SPDX-License-Identifier: Apache-2.0
// libm's functions on lanes.

#include "loop/call.h"

#include <string.h>

#include "scalar/forms.h"
#include "scalar/scalar.h"

#define CALL_1(form) form(a)
#define CALL_2(form) form(a, b)
#define CALL_3(form) 0  // operators, which are never called
#define ANY(id, arity) \
  case OG_SCALAR_##id: \
    return CALL_##arity(og_scalar_##id##_f32);
#define FLOAT ANY
#define INT(id, arity)
static float call(int32_t scalar_op, float a, float b) {
  switch (scalar_op) {
#define OG_SCALAR(id, arity, mark, level, classes, ...) classes(id, arity)
#include "scalar/scalar.def"
#undef OG_SCALAR
    default:
      return 0;
  }
}

void og_loop_call_lanes(int32_t scalar_op, int64_t n, const og_loop_lane *a,
                        const og_loop_lane *b, const og_loop_lane *mask,
                        og_loop_lane *out) {
  for (int64_t i = 0; i < n; ++i)
    out[i].f =
        mask[i].u == 0 ? 0 : call(scalar_op, a[i].f, b != NULL ? b[i].f : 0);
}

float og_loop_call_named(const char *name, float a, float b) {
  for (int32_t op = 0; op < OG_SCALAR_COUNT; ++op)
    if (strcmp(og_scalar_name(op), name) == 0) return call(op, a, b);
  return 0;
}

void og_loop_running_sum(og_loop_reduction kind, int64_t width, float *row) {
  const bool is_reversed = kind == OG_LOOP_CUMSUM_REVERSED;
  double sum = 0;
  for (int64_t i = 0; i < width; ++i) {
    float *at = &row[is_reversed ? width - 1 - i : i];
    sum += (double)*at;
    *at = (float)sum;
  }
}
