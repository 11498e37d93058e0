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

void og_column_sums_step(og_column_sums *sums, int64_t row, int64_t rows,
                         int64_t count) {
  if ((row + 1) % OG_CARRY_ROWS == 0 || row + 1 == rows)
    og_rows()->carry(sums->part, sums->total, sums->lost, count);
}

void og_column_sums_store(og_column_sums *sums, void *to, int64_t count,
                          int element) {
  og_rows()->accumulate(sums->lost, 1, sums->total, count);
  og_rows()->from_f32(sums->total, to, count, element);
}
