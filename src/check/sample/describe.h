// SPDX-License-Identifier: Apache-2.0
// A sample as text.

#ifndef OG_CHECK_SAMPLE_DESCRIBE_H
#define OG_CHECK_SAMPLE_DESCRIBE_H

#include "check/sample/sample.h"

// "x f32[3, 5], dim=1".
void og_sample_describe(const og_sample *sample, og_text *out);

#endif  // OG_CHECK_SAMPLE_DESCRIBE_H
