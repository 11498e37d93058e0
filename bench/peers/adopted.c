// SPDX-License-Identifier: Apache-2.0
// A C library as others ship it.

#include <stdint.h>

__attribute__((visibility("default"))) void twice(float *out, const float *x,
                                                  int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * 2;
}
