// SPDX-License-Identifier: Apache-2.0
// Packed contraction: the bf16 dot product.

#include "kernel/tables.h"

#if defined(__x86_64__)
#define OG_VEC 3
#define OG_GEMM_TABLE og_gemm_avx512_bf16
#include "kernel/gemm.inc"
#endif
