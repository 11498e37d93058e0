// SPDX-License-Identifier: Apache-2.0
// Smaller samples.

#ifndef OG_CHECK_SAMPLE_SHRINK_H
#define OG_CHECK_SAMPLE_SHRINK_H

#include "check/sample/sample.h"

// Makes a smaller sample out of `sample` in the `step`th way; false when there
// are no more ways. The result need not be valid.
bool og_sample_shrink(const og_sample *sample, int32_t step, og_sample *out);

#endif  // OG_CHECK_SAMPLE_SHRINK_H
