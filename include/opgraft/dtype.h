// SPDX-License-Identifier: Apache-2.0
// The types of elements: constants, which any thread may read.

#ifndef OPGRAFT_DTYPE_H
#define OPGRAFT_DTYPE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Type codes, DLPack's.
enum {
  OG_CODE_INT = 0,
  OG_CODE_UINT = 1,
  OG_CODE_FLOAT = 2,
  OG_CODE_BFLOAT = 4,
  OG_CODE_COMPLEX = 5,
  OG_CODE_BOOL = 6,
  OG_CODE_F8E4M3 = 10,  // torch.float8_e4m3fn
  OG_CODE_F8E5M2 = 12,
};

typedef struct og_dtype {
  uint8_t code;  // OG_CODE_INT, ...
  uint8_t bits;
  uint16_t lanes;  // 1
} og_dtype;

// X(name, long name, code, bits): the types that a declaration may have.
#define OG_DTYPE_LIST(X)                      \
  X(f16, float16, OG_CODE_FLOAT, 16)          \
  X(bf16, bfloat16, OG_CODE_BFLOAT, 16)       \
  X(f32, float32, OG_CODE_FLOAT, 32)          \
  X(f64, float64, OG_CODE_FLOAT, 64)          \
  X(i8, int8, OG_CODE_INT, 8)                 \
  X(i16, int16, OG_CODE_INT, 16)              \
  X(i32, int32, OG_CODE_INT, 32)              \
  X(i64, int64, OG_CODE_INT, 64)              \
  X(u8, uint8, OG_CODE_UINT, 8)               \
  X(u16, uint16, OG_CODE_UINT, 16)            \
  X(u32, uint32, OG_CODE_UINT, 32)            \
  X(u64, uint64, OG_CODE_UINT, 64)            \
  X(bool, bool, OG_CODE_BOOL, 8)              \
  X(c64, complex64, OG_CODE_COMPLEX, 64)      \
  X(c128, complex128, OG_CODE_COMPLEX, 128)   \
  X(f8e4m3, float8_e4m3fn, OG_CODE_F8E4M3, 8) \
  X(f8e5m2, float8_e5m2, OG_CODE_F8E5M2, 8)

#ifdef __cplusplus
}
#endif

#endif  // OPGRAFT_DTYPE_H
