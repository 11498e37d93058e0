// SPDX-License-Identifier: Apache-2.0
// Packed contraction: AVX-512.

#include "kernel/tables.h"

#if defined(__x86_64__)
#define OG_VEC 2
#define OG_GEMM_TABLE og_gemm_avx512
#include "kernel/gemm.inc"
#endif
