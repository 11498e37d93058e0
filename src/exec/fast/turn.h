// SPDX-License-Identifier: Apache-2.0
// Rows that are not in one run, as one.

#ifndef OG_EXEC_FAST_TURN_H
#define OG_EXEC_FAST_TURN_H

#include <stdint.h>

// Element i of row r stands r * from_row + i * from_step bytes behind `from`,
// and goes r * to_row + i * item bytes behind `to`. `item` is 1, 2, 4 or 8; all
// distances are multiples of it.
void og_turn(const char *from, int64_t from_row, int64_t from_step,
             int64_t rows, int64_t columns, int64_t item, char *to,
             int64_t to_row);

#endif  // OG_EXEC_FAST_TURN_H
