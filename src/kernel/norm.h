// SPDX-License-Identifier: Apache-2.0
// rms_norm as an operator, forward and backward, for those that differ in what
// they add to the weight.

#ifndef OG_KERNEL_NORM_H
#define OG_KERNEL_NORM_H

#include <opgraft/op.h>

// y = x / sqrt(mean(x^2) + eps) * (weight + offset). Arguments x[*N, D] and
// weight[D], attribute eps; dims N and D.
og_status og_rms_norm_run(const og_call *call, float offset);

// grad_x and grad_weight from grad, x and weight. Uses N floats of workspace.
og_status og_rms_norm_grad_run(const og_call *call, float offset);

#endif  // OG_KERNEL_NORM_H
