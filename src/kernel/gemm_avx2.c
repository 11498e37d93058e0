// SPDX-License-Identifier: Apache-2.0
// Packed contraction: AVX2.

#include "kernel/tables.h"

#if defined(__x86_64__)
#define OG_VEC 1
#define OG_GEMM_TABLE og_gemm_avx2
#include "kernel/gemm.inc"
#endif
