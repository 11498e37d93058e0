// SPDX-License-Identifier: Apache-2.0
// Elements of any type as doubles, to be compared and summed up.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

static double half_double(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double sign = bits >> 15 ? -1.0 : 1.0;
  if (exponent == 31)
    return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
  if (exponent == 0) return sign * ldexp(fraction, -24);
  return sign * ldexp(1024 + fraction, exponent - 25);
}

static double bfloat_double(uint16_t bits) {
  const uint32_t wide = (uint32_t)bits << 16;
  float number;
  memcpy(&number, &wide, sizeof number);
  return (double)number;
}

#define READ(type)                      \
  do {                                  \
    type number;                        \
    memcpy(&number, at, sizeof number); \
    return (double)number;              \
  } while (0)

static double unsigned_double(int bytes, const void *at) {
  switch (bytes) {
    case 1:
      READ(uint8_t);
    case 2:
      READ(uint16_t);
    case 4:
      READ(uint32_t);
    default:
      READ(uint64_t);
  }
}

static double signed_double(int bytes, const void *at) {
  switch (bytes) {
    case 1:
      READ(int8_t);
    case 2:
      READ(int16_t);
    case 4:
      READ(int32_t);
    default:
      READ(int64_t);
  }
}

static double float_double(int bytes, const void *at) {
  uint16_t half;
  if (bytes == 4) READ(float);
  if (bytes == 8) READ(double);
  memcpy(&half, at, sizeof half);
  return half_double(half);
}

static double element_double(og_dtype dtype, const void *at) {
  uint16_t half;
  switch (dtype.code) {
    case OG_CODE_INT:
      return signed_double(dtype.bits / 8, at);
    case OG_CODE_FLOAT:
      return float_double(dtype.bits / 8, at);
    case OG_CODE_BFLOAT:
      memcpy(&half, at, sizeof half);
      return bfloat_double(half);
    default:
      return unsigned_double(dtype.bits / 8, at);
  }
}

double *cli_tensor_doubles(const og_tensor *tensor, int64_t *out_count) {
  cli_tensor dense;
  cli_tensor_copy(tensor, NULL, &dense);
  og_dtype dtype = tensor->dtype;
  *out_count = og_numel(tensor);
  if (dtype.code == OG_CODE_COMPLEX) {
    dtype = (og_dtype){OG_CODE_FLOAT, (uint8_t)(dtype.bits / 2), 1};
    *out_count *= 2;
  }
  double *numbers = cli_alloc((size_t)*out_count, sizeof *numbers);
  for (int64_t i = 0; i < *out_count; ++i)
    numbers[i] =
        element_double(dtype, (char *)dense.memory + i * (dtype.bits / 8));
  free(dense.memory);
  return numbers;
}
