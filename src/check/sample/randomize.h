// SPDX-License-Identifier: Apache-2.0
// Random values for every name of a declaration.

#ifndef OG_CHECK_SAMPLE_RANDOMIZE_H
#define OG_CHECK_SAMPLE_RANDOMIZE_H

#include "check/sample/sample.h"

// How large and how odd a sample is to be.
typedef enum og_profile {
  OG_PROFILE_TINY,   // 1 to 4
  OG_PROFILE_MIXED,  // 0, 1, odd, even, around a vector's width
  OG_PROFILE_ZERO,   // one empty dim
  OG_PROFILE_ONES,
  OG_PROFILE_EDGE,    // a condition just holds
  OG_PROFILE_LARGE,   // one dim of about 1000
  OG_PROFILE_SMOOTH,  // small and not empty: for gradients
} og_profile;

// Gives every name a random value. The shape rule and its conditions need not
// hold for them.
void og_sample_randomize(og_sample *sample, og_profile profile,
                         og_random *random);
int64_t og_sample_size(og_profile profile, og_random *random);
// Sets the attributes that follow from packs: axes, permutations, subsets.
void og_sample_follow(og_sample *sample, og_random *random);

#endif  // OG_CHECK_SAMPLE_RANDOMIZE_H
