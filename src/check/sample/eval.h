// SPDX-License-Identifier: Apache-2.0
// Expressions over a sample, before there are tensors to infer from.

#ifndef OG_CHECK_SAMPLE_EVAL_H
#define OG_CHECK_SAMPLE_EVAL_H

#include "check/sample/sample.h"

// The value of an expression; false on overflow, division by zero, or a name
// without a value.
bool og_sample_eval(const og_sample *sample, const og_expr *expr,
                    int64_t *out_value);

#endif  // OG_CHECK_SAMPLE_EVAL_H
