// SPDX-License-Identifier: Apache-2.0
// Chooses the row kernels.

#include "kernel/tables.h"

const og_row_kernels *og_rows(void) {
#if defined(__x86_64__)
  const int isa = og_kernel_isa();
  if (isa >= OG_KERNEL_AVX512_BF16) return &og_rows_avx512_bf16;
  if (isa >= OG_KERNEL_AVX512) return &og_rows_avx512;
  if (isa >= OG_KERNEL_AVX2) return &og_rows_avx2;
#endif
  return &og_rows_scalar;
}
