// SPDX-License-Identifier: Apache-2.0
// Whether og_infer accepts a sample.

#ifndef OG_CHECK_SAMPLE_VALID_H
#define OG_CHECK_SAMPLE_VALID_H

#include "check/sample/sample.h"

// Settles, builds, and asks og_infer whether the call is allowed and of
// bearable size.
bool og_sample_is_valid(og_sample *sample, int64_t element_limit,
                        opgraft_error *error);

#endif  // OG_CHECK_SAMPLE_VALID_H
