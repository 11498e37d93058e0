// SPDX-License-Identifier: Apache-2.0
// ROWS_n(X) is X(0) X(1) ... X(n - 1): one statement for each row of a tile.
// EACH_TILE_n(X, ...) is X(1, ...) ... X(n, ...): a tile for each number of
// rows, and TILE_LIST_n(name) the array of name_1 to name_n.

#ifndef OG_KERNEL_TILE_ROWS_H
#define OG_KERNEL_TILE_ROWS_H

#define ROWS_1(X) X(0)
#define ROWS_2(X) ROWS_1(X) X(1)
#define ROWS_3(X) ROWS_2(X) X(2)
#define ROWS_4(X) ROWS_3(X) X(3)
#define ROWS_5(X) ROWS_4(X) X(4)
#define ROWS_6(X) ROWS_5(X) X(5)
#define ROWS_7(X) ROWS_6(X) X(6)
#define ROWS_8(X) ROWS_7(X) X(7)
#define ROWS_9(X) ROWS_8(X) X(8)
#define ROWS_10(X) ROWS_9(X) X(9)
#define ROWS_11(X) ROWS_10(X) X(10)
#define ROWS_12(X) ROWS_11(X) X(11)
#define ROWS_13(X) ROWS_12(X) X(12)
#define ROWS_14(X) ROWS_13(X) X(13)

#define EACH_TILE_6(X, ...) \
  X(1, __VA_ARGS__)         \
  X(2, __VA_ARGS__)         \
  X(3, __VA_ARGS__)         \
  X(4, __VA_ARGS__)         \
  X(5, __VA_ARGS__)         \
  X(6, __VA_ARGS__)
#define EACH_TILE_14(X, ...)  \
  EACH_TILE_6(X, __VA_ARGS__) \
  X(7, __VA_ARGS__)           \
  X(8, __VA_ARGS__)           \
  X(9, __VA_ARGS__)           \
  X(10, __VA_ARGS__)          \
  X(11, __VA_ARGS__)          \
  X(12, __VA_ARGS__)          \
  X(13, __VA_ARGS__)          \
  X(14, __VA_ARGS__)

#define TILE_LIST_6(name) \
  { NULL, name##_1, name##_2, name##_3, name##_4, name##_5, name##_6 }
#define TILE_LIST_14(name)                                             \
  {                                                                    \
    NULL, name##_1, name##_2, name##_3, name##_4, name##_5, name##_6,  \
        name##_7, name##_8, name##_9, name##_10, name##_11, name##_12, \
        name##_13, name##_14                                           \
  }

#endif  // OG_KERNEL_TILE_ROWS_H
