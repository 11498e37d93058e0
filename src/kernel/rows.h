// SPDX-License-Identifier: Apache-2.0
// Inlined pieces that several kernels share, in the names of vec.h.

#ifndef OG_KERNEL_ROWS_H
#define OG_KERNEL_ROWS_H

#include "kernel/vec.h"

// The vector from i on of a row of `width`; zeros past its end.
OG_INLINE vf ld_left(const void *p, int64_t i, int64_t width, int element) {
  return width - i >= VW ? v_ld(p, i, element)
                         : v_ldn(p, i, width - i, element);
}

OG_INLINE void st_left(void *p, int64_t i, int64_t width, vf x, int element) {
  if (width - i >= VW)
    v_st(p, i, x, element);
  else
    v_stn(p, i, x, width - i, element);
}

// 2 sqrt(2 / pi) x (1 + 0.044715 x^2): gelu's tanh form is x * sigmoid of it.
OG_INLINE vf gelu_tanh_inner(vf x) {
  const vf cubic =
      v_fma(v_mul(x, x), v_set1(0.0713548163f), v_set1(1.59576912f));
  return v_mul(x, cubic);
}

OG_INLINE vf act_value(vf x, int kind) {
  if (kind == OG_ACT_SILU) return v_gated(x, x);
  if (kind == OG_ACT_GELU) return v_mul(x, v_normal_cdf(x));
  if (kind == OG_ACT_GELU_TANH) return v_gated(x, gelu_tanh_inner(x));
  if (kind == OG_ACT_RELU) return v_max(v_zero(), x);
  return x;
}

#endif  // OG_KERNEL_ROWS_H
