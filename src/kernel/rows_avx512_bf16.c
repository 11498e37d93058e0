// SPDX-License-Identifier: Apache-2.0
// Row kernels: AVX-512 with the conversion to bf16.

#include "kernel/tables.h"

#if defined(__x86_64__)
#define OG_VEC 3
#define OG_ROWS_TABLE og_rows_avx512_bf16
#include "kernel/rows.inc"
#endif
