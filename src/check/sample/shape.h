// SPDX-License-Identifier: Apache-2.0
// Shapes from names.

#ifndef OG_CHECK_SAMPLE_SHAPE_H
#define OG_CHECK_SAMPLE_SHAPE_H

#include "check/sample/sample.h"

// Works out `shape` from the names; false if the sample contradicts itself.
bool og_sample_build(og_sample *sample);

#endif  // OG_CHECK_SAMPLE_SHAPE_H
