// SPDX-License-Identifier: Apache-2.0
// The candidate OG_BY_WINOGRAD of a convolution.

#ifndef OG_EXEC_FAST_WINOGRAD_H
#define OG_EXEC_FAST_WINOGRAD_H

#include "exec/step/prep.h"

// OG_UNSUPPORTED for other taps, strides, dilations and types, for groups, and
// where functions are to have libm's bits (OPGRAFT_OPTION_MATH_STRICT).
og_status og_prepare_winograd(og_prep *prep);
// Whether it is known to be faster than sums of taps: enough channels to pay
// for the transforms. Of a convolution of f32.
bool og_winograd_pays(const og_prep *prep);

#endif  // OG_EXEC_FAST_WINOGRAD_H
