// SPDX-License-Identifier: Apache-2.0
// One float of any width in memory, as a double.

#include "base/float_value.h"

#include <opgraft/float8.h>
#include <string.h>

double og_float_load(og_dtype dtype, const void *at) {
  og_half half;
  og_bfloat bfloat;
  og_e4m3 e4m3;
  og_e5m2 e5m2;
  float single;
  double number;
  if (dtype.code == OG_CODE_BFLOAT) {
    memcpy(&bfloat, at, sizeof bfloat);
    return (double)og_bfloat_to_float(bfloat);
  }
  if (dtype.code == OG_CODE_F8E4M3) {
    memcpy(&e4m3, at, sizeof e4m3);
    return (double)og_e4m3_to_float(e4m3);
  }
  if (dtype.code == OG_CODE_F8E5M2) {
    memcpy(&e5m2, at, sizeof e5m2);
    return (double)og_e5m2_to_float(e5m2);
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
  } else if (dtype.code == OG_CODE_F8E4M3) {
    const og_e4m3 e4m3 = og_e4m3_from_float((float)number);
    memcpy(at, &e4m3, sizeof e4m3);
  } else if (dtype.code == OG_CODE_F8E5M2) {
    const og_e5m2 e5m2 = og_e5m2_from_float((float)number);
    memcpy(at, &e5m2, sizeof e5m2);
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
