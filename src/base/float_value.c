// SPDX-License-Identifier: Apache-2.0
// One float of any width in memory, as a double.

#include "base/float_value.h"

#include <opgraft/float16.h>
#include <string.h>

double og_float_load(og_dtype dtype, const void *at) {
  og_half half;
  og_bfloat bfloat;
  float single;
  double number;
  if (dtype.code == OG_CODE_BFLOAT) {
    memcpy(&bfloat, at, sizeof bfloat);
    return (double)og_bfloat_to_float(bfloat);
  }
  if (dtype.bits == 16) {
    memcpy(&half, at, sizeof half);
    return (double)og_half_to_float(half);
  }
  if (dtype.bits == 32) {
    memcpy(&single, at, sizeof single);
    return (double)single;
  }
  memcpy(&number, at, sizeof number);
  return number;
}

void og_float_store(og_dtype dtype, void *at, double number) {
  if (dtype.code == OG_CODE_BFLOAT) {
    const og_bfloat bfloat = og_bfloat_from_float((float)number);
    memcpy(at, &bfloat, sizeof bfloat);
  } else if (dtype.bits == 16) {
    const og_half half = og_half_from_float((float)number);
    memcpy(at, &half, sizeof half);
  } else if (dtype.bits == 32) {
    const float single = (float)number;
    memcpy(at, &single, sizeof single);
  } else {
    memcpy(at, &number, sizeof number);
  }
}
