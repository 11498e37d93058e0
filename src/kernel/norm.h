// SPDX-License-Identifier: Apache-2.0
// rms_norm of rows and its gradient.

#ifndef OG_KERNEL_NORM_H
#define OG_KERNEL_NORM_H

#include "kernel/env.h"

// y = x / sqrt(mean(x^2) + eps) * (weight + offset), row by row. Buffers are
// contiguous, of the type `element`.
typedef struct og_rms_norm {
  const void *x;        // [rows, width]
  const void *weight;   // [width]
  void *y;              // [rows, width], may be x; the gradient leaves it alone
  int64_t rows, width;  // width > 0
  float eps, offset;
  int element;
} og_rms_norm;

// Needs no workspace.
og_status og_rms_norm_run(const og_kernel_env *env, const og_rms_norm *norm);

// grad_x [rows, width] and grad_weight [width] from grad [rows, width]. Uses
// `rows` floats of workspace.
og_status og_rms_norm_grad_run(const og_kernel_env *env,
                               const og_rms_norm *norm, const void *grad,
                               void *grad_x, void *grad_weight);

#endif  // OG_KERNEL_NORM_H
