// SPDX-License-Identifier: Apache-2.0
// A kernel that computes any pointwise expression, in blocks over f64 values.

#ifndef OG_DECL_POINTWISE_H
#define OG_DECL_POINTWISE_H

#include "decl/decl.h"

// A kernel for any pointwise operator: call->derived is its og_pointwise.
// Tensors may have any strides, broadcast, and any type but complex ones.
og_status og_pointwise_run(const og_call *call);

#endif  // OG_DECL_POINTWISE_H
