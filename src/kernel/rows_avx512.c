// SPDX-License-Identifier: Apache-2.0
// Row kernels: AVX-512.

#include "kernel/tables.h"

#if defined(__x86_64__)
#define OG_VEC 2
#define OG_ROWS_TABLE og_rows_avx512
#include "kernel/rows.inc"
#endif
