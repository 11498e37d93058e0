// SPDX-License-Identifier: Apache-2.0
// Row kernels: AVX2.

#include "kernel/tables.h"

#if defined(__x86_64__)
#define OG_VEC 1
#define OG_ROWS_TABLE og_rows_avx2
#include "kernel/rows.inc"
#endif
