// SPDX-License-Identifier: Apache-2.0
// One loop for each pointwise row of ops.def and each type that it computes in.

#include "base/loops.h"
#include "exec/plain/pointwise.h"
#include "exec/step/nest.h"
#include "scalar/forms.h"
// Last: it defines exp(a) and others for the rows' expressions.
#include "scalar/names.h"

// The compiler makes a plain loop of the cases that are common.
#define LOOP(expression)                                                    \
  {                                                                         \
    const T *p = in[0], *q = in[1], *r = in[2], *s = in[3];                 \
    const int64_t pi = step[0], qi = step[1], ri = step[2], si = step[3];   \
    T *y = out;                                                             \
    if (pi == 1 && qi == 1 && ri == 0 && si == 0) {                         \
      const T c = *r, d = *s;                                               \
      for (int64_t i = 0; i < n; ++i) {                                     \
        const T a = p[i], b = q[i];                                         \
        (void)a, (void)b, (void)c, (void)d;                                 \
        y[i] = (T)(expression);                                             \
      }                                                                     \
    } else if (pi == 1 && qi == 0 && ri == 0 && si == 0) {                  \
      const T b = *q, c = *r, d = *s;                                       \
      for (int64_t i = 0; i < n; ++i) {                                     \
        const T a = p[i];                                                   \
        (void)a, (void)b, (void)c, (void)d;                                 \
        y[i] = (T)(expression);                                             \
      }                                                                     \
    } else {                                                                \
      for (int64_t i = 0; i < n; ++i) {                                     \
        const T a = p[i * pi], b = q[i * qi], c = r[i * ri], d = s[i * si]; \
        (void)a, (void)b, (void)c, (void)d;                                 \
        y[i] = (T)(expression);                                             \
      }                                                                     \
    }                                                                       \
  }

#define OG_OP(id, in_min, in_max, outs, flags, attrs, plain, fast)
#define PARAMETERS \
  (int64_t n, void *out, const void *const *in, const int64_t *step)
#define LOOP_F32(id, expression)                                \
  OG_LOOP_BODY void f32_##id##_body PARAMETERS LOOP(expression) \
      OG_LOOP_FORMS(f32_##id, PARAMETERS, (n, out, in, step))
#define LOOP_F64(id, expression) \
  static void f64_##id PARAMETERS LOOP(expression)
#define LOOP_I64(id, expression) \
  static void i64_##id PARAMETERS LOOP(expression)
#define NO_LOOP(id, expression)

// The same text for each type; a row says which of the types it has.
#define OG_PW(id, arity, flags, rule, classes, expression) \
  classes(id, expression)

#define T float
#define OG_FORM(name) og_scalar_##name##_f32
#define ANY LOOP_F32
#define FLOAT LOOP_F32
#define INT NO_LOOP
#include "graph/ops.def"
#undef T
#undef OG_FORM
#undef ANY
#undef FLOAT

#define T double
#define OG_FORM(name) og_scalar_##name##_f64
#define ANY LOOP_F64
#define FLOAT LOOP_F64
#include "graph/ops.def"
#undef T
#undef OG_FORM
#undef ANY
#undef FLOAT
#undef INT

#define T int64_t
#define OG_FORM(name) og_scalar_##name##_i64
#define ANY LOOP_I64
#define FLOAT NO_LOOP
#define INT LOOP_I64
#include "graph/ops.def"
#undef T
#undef OG_FORM
#undef ANY
#undef FLOAT
#undef INT

#undef OG_PW

#define RESULT true
#define OPERANDS false
#define ANY(id) OG_LOOP_ROW(f32_##id), BOTH(f64_##id), BOTH(i64_##id)
#define FLOAT(id) OG_LOOP_ROW(f32_##id), BOTH(f64_##id), BOTH(NULL)
#define INT(id) BOTH(NULL), BOTH(NULL), BOTH(i64_##id)
#define BOTH(loop) \
  { loop, loop }
#define OG_PW(id, arity, flags, rule, classes, expression) \
  [OG_IR_##id] = {rule, {classes(id)}},
const og_pointwise_row og_pointwise_rows[OG_IR_COUNT] = {
#include "graph/ops.def"
};
