// SPDX-License-Identifier: Apache-2.0
// Operators of the kinds that public libraries have, written anew: what their
// files share. Each is right, and says in `where` what its integers mean.

#ifndef KINDS_H
#define KINDS_H

#include <stdbool.h>

#include "../../modules/operators.h"

#define KERNEL(name) static og_status name(const og_call *call)
#define IN(i) og_f32(call->in[i])
#define OUT(i) og_f32_mut(call->out[i])
#define DIM(d) (call->dim[d])
#define INT(k) (call->attr[k].i)
#define NUMBER(k) ((float)call->attr[k].f)

// An operator of one kernel, for all types that its dtype rule has.
#define ONE(of, function) .dtype = of, RUN(NULL, function)

static inline og_status refused(const og_call *call, const char *name,
                                int64_t i, int64_t found) {
  return og_failf(call, OG_INVALID, "%s[%lld] is %lld, which is out of range",
                  name, (long long)i, (long long)found);
}

#define REQUIRE_RANGE(t, name, begin, end)                                     \
  for (int64_t i_ = 0; i_ < og_numel(call->in[t]); ++i_)                       \
    if (og_i64(call->in[t])[i_] < (begin) || og_i64(call->in[t])[i_] >= (end)) \
  return refused(call, name, i_, og_i64(call->in[t])[i_])

// Offsets are those of all rows, or refused.
static inline bool are_offsets(const og_tensor *t, int64_t rows) {
  const int64_t count = og_numel(t), *at = og_i64(t);
  for (int64_t i = 0; i < count; ++i)
    if (at[i] < (i > 0 ? at[i - 1] : 0) || at[i] > rows) return false;
  return count == 0 || (at[0] == 0 && (count == 1 || at[count - 1] == rows));
}
#define REQUIRE_OFFSETS(t, rows)       \
  if (!are_offsets(call->in[t], rows)) \
  return og_fail(call, OG_INVALID, "offsets have to be those of all rows")

static inline float sigmoid(float x) { return 1 / (1 + expf(-x)); }

#endif  // KINDS_H
