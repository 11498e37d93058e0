// SPDX-License-Identifier: Apache-2.0
// Lines of inputs that are fetched before they are read.

#ifndef OG_LOOP_ENCODE_PREFETCH_H
#define OG_LOOP_ENCODE_PREFETCH_H

#include "loop/encoder.h"

// Chooses what the elements of the pass fetch. `spare` are general registers
// that hold no stream.
void og_encoder_prefetch_begin(og_encoder *e, const int32_t *spare,
                               int32_t spare_count);
// Beside the load of an input's elements.
void og_encoder_prefetch(og_encoder *e, int32_t input);

#endif  // OG_LOOP_ENCODE_PREFETCH_H
