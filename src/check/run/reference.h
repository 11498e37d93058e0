// SPDX-License-Identifier: Apache-2.0
// What the declaration's `reference` says of a call.

#ifndef OG_CHECK_RUN_REFERENCE_H
#define OG_CHECK_RUN_REFERENCE_H

#include "check/run/array.h"

// Computes fresh result `fresh`, of these sizes, in f64; false where the call
// has complex numbers or too many of them, or memory is short. *out is the
// caller's to free (out->data).
bool og_reference_eval(const og_sample *sample, const og_inputs *inputs,
                       int32_t fresh, const og_dims *sizes, og_array *out);

#endif  // OG_CHECK_RUN_REFERENCE_H
