// SPDX-License-Identifier: Apache-2.0
// Names' values from the shapes of arguments.

#ifndef OG_CHECK_SAMPLE_BIND_H
#define OG_CHECK_SAMPLE_BIND_H

#include "check/sample/sample.h"

// Sets dims, packs and varying dims from `shape`, as far as the shapes match
// the operator's patterns; false where memory is short.
bool og_sample_bind(og_sample *sample);

#endif  // OG_CHECK_SAMPLE_BIND_H
