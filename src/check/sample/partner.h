// SPDX-License-Identifier: Apache-2.0
// A sample in the types that a comparison wants.

#ifndef OG_CHECK_SAMPLE_PARTNER_H
#define OG_CHECK_SAMPLE_PARTNER_H

#include "check/sample/sample.h"

// What a free type is compared with.
typedef enum og_partner {
  OG_PARTNER_WIDER,  // of the same family
  OG_PARTNER_INTEGER,
  OG_PARTNER_FLOAT,
  OG_PARTNER_COUNT,
} og_partner;

// The sample with each free type as wide as such a partner of it may be; false
// where that changes no type, or no kernel takes it.
bool og_sample_convert(const og_sample *sample, og_partner kind,
                       og_sample *out);

#endif  // OG_CHECK_SAMPLE_PARTNER_H
