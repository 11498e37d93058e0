// SPDX-License-Identifier: Apache-2.0
// Elements of any type as doubles, to be compared and summed up.

#include <opgraft/float8.h>
#include <string.h>

#include "graph_file.h"

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
  og_half half;
  if (bytes == 4) READ(float);
  if (bytes == 8) READ(double);
  memcpy(&half, at, sizeof half);
  return (double)og_half_to_float(half);
}

static double element_double(og_dtype dtype, const void *at) {
  og_bfloat bfloat;
  switch (dtype.code) {
    case OG_CODE_INT:
      return signed_double(dtype.bits / 8, at);
    case OG_CODE_FLOAT:
      return float_double(dtype.bits / 8, at);
    case OG_CODE_BFLOAT:
      memcpy(&bfloat, at, sizeof bfloat);
      return (double)og_bfloat_to_float(bfloat);
    case OG_CODE_F8E4M3:
      return (double)og_e4m3_to_float(*(const og_e4m3 *)at);
    case OG_CODE_F8E5M2:
      return (double)og_e5m2_to_float(*(const og_e5m2 *)at);
    default:
      return unsigned_double(dtype.bits / 8, at);
  }
}

// Of a complex type, what its two parts are.
static og_dtype part_dtype(og_dtype dtype) {
  if (dtype.code != OG_CODE_COMPLEX) return dtype;
  return (og_dtype){OG_CODE_FLOAT, (uint8_t)(dtype.bits / 2), 1};
}

int64_t cli_tensor_count(const og_tensor *tensor) {
  const int64_t parts = tensor->dtype.code == OG_CODE_COMPLEX ? 2 : 1;
  return og_numel(tensor) * parts;
}

double cli_tensor_number(const og_tensor *tensor, int64_t index) {
  const og_dtype dtype = part_dtype(tensor->dtype);
  const int64_t part_bytes = dtype.bits / 8;
  int64_t at = 0, part = 0, dense = 1;
  if (tensor->dtype.code == OG_CODE_COMPLEX) {
    part = index % 2;
    index /= 2;
  }
  for (int32_t d = tensor->ndim - 1; d >= 0; --d) {
    const int64_t stride = tensor->strides ? tensor->strides[d] : dense;
    at += index % tensor->shape[d] * stride;
    index /= tensor->shape[d];
    dense *= tensor->shape[d];
  }
  const char *base = (const char *)tensor->data + tensor->byte_offset;
  return element_double(
      dtype, base + at * (tensor->dtype.bits / 8) + part * part_bytes);
}
