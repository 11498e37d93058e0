// SPDX-License-Identifier: Apache-2.0
// What attention adds to or does with positions: ALiBi, rotary embedding.

#include "kernel/position.h"

#include <math.h>

float og_alibi_slope(int32_t head, int32_t heads) {
  int32_t whole = 1;
  while (whole * 2 <= heads) whole *= 2;
  const float step = head < whole ? -8.0f / (float)whole : -4.0f / (float)whole;
  const int32_t power = head < whole ? head + 1 : 2 * (head - whole) + 1;
  return exp2f(step * (float)power);
}

void og_rope_turns(int32_t dim, double theta, double scale, float *out_high,
                   float *out_low) {
  for (int32_t i = 0; i < dim / 2; ++i) {
    const double turns = pow(theta, -2.0 * i / dim) / scale / 6.283185307179586;
    out_high[i] = (float)turns;
    out_low[i] = (float)(turns - (double)out_high[i]);
  }
}
