// SPDX-License-Identifier: Apache-2.0
// Draws samples.

#ifndef OG_CHECK_SAMPLE_DRAW_H
#define OG_CHECK_SAMPLE_DRAW_H

#include "check/sample/randomize.h"

// Draws a sample that og_infer accepts; false if none was found, with the last
// refusal in *error.
bool og_sample_draw(const opgraft_op *op, og_profile profile,
                    const int32_t types[OG_VARIABLE_MAX], uint64_t seed,
                    og_sample *out, opgraft_error *error);

#endif  // OG_CHECK_SAMPLE_DRAW_H
