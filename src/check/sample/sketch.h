// SPDX-License-Identifier: Apache-2.0
// A sample as the frame of a call without memory: inference looks at shapes.

#ifndef OG_CHECK_SAMPLE_SKETCH_H
#define OG_CHECK_SAMPLE_SKETCH_H

#include "check/sample/sample.h"

// `frame` points into the rest of this struct and into the sample.
typedef struct og_sketch {
  opgraft_frame frame;
  og_tensor tensor[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST];
  og_tensor *entry[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST];
  int64_t strides[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST][OG_SAMPLE_RANK];
} og_sketch;

// NULL where memory is short. The sample stays as it is while the sketch is
// used.
og_sketch *og_sketch_create(const og_sample *sample);
void og_sketch_destroy(og_sketch *sketch);

#endif  // OG_CHECK_SAMPLE_SKETCH_H
