// SPDX-License-Identifier: Apache-2.0
// Chooses the row kernels.

#include "kernel/tables.h"

const og_row_kernels *og_rows(void) {
#define OG_ISA(name, level, machine, test) \
  machine([OG_ISA_##level] = &og_rows_##name, )
  static const og_row_kernels *const tables[] = {
#include "base/isa.def"
  };
#undef OG_ISA
  return tables[og_isa_used()];
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
