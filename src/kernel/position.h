// SPDX-License-Identifier: Apache-2.0
// What attention adds to or does with positions: ALiBi, rotary embedding.

#ifndef OG_KERNEL_POSITION_H
#define OG_KERNEL_POSITION_H

#include <stdint.h>

// The usual slopes of ALiBi (Press et al., 2022) for head `head` of `heads`.
float og_alibi_slope(int32_t head, int32_t heads);
// 1 / (theta^(2i / dim) scale) in turns, as a high and a low float.
void og_rope_turns(int32_t dim, double theta, double scale, float *out_high,
                   float *out_low);

#endif  // OG_KERNEL_POSITION_H
