// SPDX-License-Identifier: Apache-2.0
// What each operator of the tests would write again: its kernels and its
// module, where it is declared.

#ifndef OPERATORS_H
#define OPERATORS_H

#include <math.h>
#include <opgraft/op.h>
#include <string.h>

// .kernels = KERNELS({.dtypes = "f32", .run = f}, ...), where the row stands.
#define KERNELS(...) OG_KERNELS(((const og_kernel[]){__VA_ARGS__}))

// One CPU kernel for `types`; NULL: for all of the dtype rule.
#define RUN(types, function) \
  .kernels = KERNELS({.device = OG_CPU, .dtypes = types, .run = function})

// A kernel that gives each row of x[*N, D] to `row(call, x, y, D)`.
#define EACH_ROW(name, row)                                                    \
  static og_status name(const og_call *call) {                                 \
    const int64_t n = call->dim[1];                                            \
    for (int64_t r = 0; r < call->dim[0]; ++r)                                 \
      row(call, og_f32(call->in[0]) + r * n, og_f32_mut(call->out[0]) + r * n, \
          n);                                                                  \
    return OG_OK;                                                              \
  }

// Ends the file: its module is these operators.
#define MODULE(name, ...)                   \
  static const og_op ops[] = {__VA_ARGS__}; \
  OG_MODULE(name, ops)

#endif  // OPERATORS_H
