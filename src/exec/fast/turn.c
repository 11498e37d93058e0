// SPDX-License-Identifier: Apache-2.0

#include "exec/fast/turn.h"

#include "kernel/kernel.h"

#define TURN(type)                                \
  for (int64_t r = 0; r < rows; ++r)              \
    for (int64_t i = 0; i < columns; ++i)         \
  *(type *)(void *)(to + r * to_row + i * item) = \
      *(const type *)(const void *)(from + r * from_row + i * from_step)

void og_turn(const char *from, int64_t from_row, int64_t from_step,
             int64_t rows, int64_t columns, int64_t item, char *to,
             int64_t to_row) {
  if (item == 4 && from_row == item && from_step > 0)
    og_gemm(OG_F32)->transpose((const float *)(const void *)from,
                               from_step / item, rows, columns,
                               (float *)(void *)to, to_row / item);
  else if (item == 8)
    TURN(uint64_t);
  else if (item == 4)
    TURN(uint32_t);
  else if (item == 2)
    TURN(uint16_t);
  else
    TURN(uint8_t);
}
