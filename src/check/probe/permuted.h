// SPDX-License-Identifier: Apache-2.0
// Whether an operator has a dim whose places are alike.

#ifndef OG_CHECK_PROBE_PERMUTED_H
#define OG_CHECK_PROBE_PERMUTED_H

#include "check/run/trial.h"

// Whether, at three large sizes of the dim or more, arguments in another order
// along it give the same result, or the result in that order: the operator does
// not group, window or mask by position.
bool og_is_symmetric(og_trial *trial, int32_t dim);

#endif  // OG_CHECK_PROBE_PERMUTED_H
