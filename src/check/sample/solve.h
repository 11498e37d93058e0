// SPDX-License-Identifier: Apache-2.0
// Changes values of a random sample until its conditions hold.

#ifndef OG_CHECK_SAMPLE_SOLVE_H
#define OG_CHECK_SAMPLE_SOLVE_H

#include "check/sample/randomize.h"

// False where they do not within some hundred changes.
bool og_sample_solve(og_sample *sample, og_profile profile, og_random *random);

#endif  // OG_CHECK_SAMPLE_SOLVE_H
