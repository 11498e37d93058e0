// SPDX-License-Identifier: Apache-2.0
// A sample as text.

#ifndef OG_CHECK_SAMPLE_DESCRIBE_H
#define OG_CHECK_SAMPLE_DESCRIBE_H

#include "check/sample/sample.h"

// "x f32[3, 5], dim=1".
void og_sample_describe(const og_sample *sample, og_text *out);
// The same; behind the sizes of each tensor, or entry of a list, `write` may
// say more. It may be NULL.
typedef void (*og_describe_fn)(void *state, int32_t tensor, int32_t entry,
                               og_text *out);
void og_sample_describe_with(const og_sample *sample, og_describe_fn write,
                             void *state, og_text *out);

#endif  // OG_CHECK_SAMPLE_DESCRIBE_H
