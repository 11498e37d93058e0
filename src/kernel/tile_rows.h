// SPDX-License-Identifier: Apache-2.0
// ROWS_n(X) is X(0) X(1) ... X(n - 1): one statement for each row of a tile.
// EACH_TILE_n(X, ...) is X(1, ...) ... X(n, ...): a tile for each number of
// rows, and TILE_LIST_n(name) the array of name_1 to name_n.

#ifndef OG_KERNEL_TILE_ROWS_H
#define OG_KERNEL_TILE_ROWS_H

#include "kernel/vec.h"

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

#define EACH_TILE_2(X, ...) X(1, __VA_ARGS__) X(2, __VA_ARGS__)
#define EACH_TILE_3(X, ...) EACH_TILE_2(X, __VA_ARGS__) X(3, __VA_ARGS__)
#define EACH_TILE_4(X, ...) EACH_TILE_3(X, __VA_ARGS__) X(4, __VA_ARGS__)
#define EACH_TILE_6(X, ...)   \
  EACH_TILE_4(X, __VA_ARGS__) \
  X(5, __VA_ARGS__)           \
  X(6, __VA_ARGS__)
#define EACH_TILE_7(X, ...) EACH_TILE_6(X, __VA_ARGS__) X(7, __VA_ARGS__)
#define EACH_TILE_14(X, ...)  \
  EACH_TILE_7(X, __VA_ARGS__) \
  X(8, __VA_ARGS__)           \
  X(9, __VA_ARGS__)           \
  X(10, __VA_ARGS__)          \
  X(11, __VA_ARGS__)          \
  X(12, __VA_ARGS__)          \
  X(13, __VA_ARGS__)          \
  X(14, __VA_ARGS__)

#define TILE_LIST_2(name) \
  { NULL, name##_1, name##_2 }
#define TILE_LIST_3(name) \
  { NULL, name##_1, name##_2, name##_3 }
#define TILE_LIST_4(name) \
  { NULL, name##_1, name##_2, name##_3, name##_4 }
#define TILE_LIST_7(name) \
  { NULL, name##_1, name##_2, name##_3, name##_4, name##_5, name##_6, name##_7 }
#define TILE_LIST_6(name) \
  { NULL, name##_1, name##_2, name##_3, name##_4, name##_5, name##_6 }
#define TILE_LIST_14(name)                                             \
  {                                                                    \
    NULL, name##_1, name##_2, name##_3, name##_4, name##_5, name##_6,  \
        name##_7, name##_8, name##_9, name##_10, name##_11, name##_12, \
        name##_13, name##_14                                           \
  }

// The rows of `a`, `stride` bytes apart. Where there are many, four bases and
// the scales of an address reach all of them, so that a loop over their columns
// needs few registers: gcc keeps what does not fit in vector registers, and
// moves it back on the ports that multiply. ROWS_HOLD keeps it from deriving
// more.
#if OG_V_HAS_MASKS
#define ROWS_AT(a, stride)                                      \
  int64_t gap = (stride);                                       \
  const char *row0 = (const char *)(a), *row3 = row0 + 3 * gap; \
  const char *row5 = row0 + 5 * gap, *row10 = row0 + 10 * gap;
#define ROWS_HOLD \
  __asm__("" : "+r"(row0), "+r"(row3), "+r"(row5), "+r"(row10), "+r"(gap));
#define ROWS_NEXT(bytes) \
  row0 += (bytes);       \
  row3 += (bytes);       \
  row5 += (bytes);       \
  row10 += (bytes);
#define ROW_0 row0
#define ROW_1 (row0 + gap)
#define ROW_2 (row0 + 2 * gap)
#define ROW_3 row3
#define ROW_4 (row0 + 4 * gap)
#define ROW_5 row5
#define ROW_6 (row5 + gap)
#define ROW_7 (row5 + 2 * gap)
#define ROW_8 (row0 + 8 * gap)
#define ROW_9 (row5 + 4 * gap)
#define ROW_10 row10
#define ROW_11 (row3 + 8 * gap)
#define ROW_12 (row10 + 2 * gap)
#define ROW_13 (row5 + 8 * gap)
#else
#define ROWS_AT(a, stride)      \
  const int64_t gap = (stride); \
  const char *row0 = (const char *)(a);
#define ROWS_HOLD
#define ROWS_NEXT(bytes) row0 += (bytes);
#define ROW_0 (row0 + 0 * gap)
#define ROW_1 (row0 + gap)
#define ROW_2 (row0 + 2 * gap)
#define ROW_3 (row0 + 3 * gap)
#define ROW_4 (row0 + 4 * gap)
#define ROW_5 (row0 + 5 * gap)
#endif

// What a tile asks for while it multiplies, `ahead`: a list of lines or a
// stretch of memory. Who includes tile.inc says which: TILE_AHEAD(part) is
// LINES_part, STRETCH_part or RESULTS_part. FOR(i, n, by) is the tile's loop.

enum { LINE_BYTES = 64 };

// Lines of a list, one every few steps, and the others behind the loop.
#define LINES_BEGIN                    \
  const void *const *line = ahead->at; \
  const void *const *const lines_end = line + ahead->count;
#define LINES_FOR(i, n, by) \
  for (int64_t i = 0; i < (n) && lines_ask(&line, lines_end, i); i += (by))
#define LINES_END \
  while (line < lines_end) __builtin_prefetch(*line++, 0, 2);

OG_INLINE int lines_ask(const void *const **line, const void *const *lines_end,
                        int64_t i) {
  enum { EVERY = 4 };
  if (i % EVERY == 0 && *line < lines_end) __builtin_prefetch(*(*line)++, 0, 2);
  return 1;
}

// Two stretches of memory, a little of both every step: memory gives more from
// two pages in turns than from one, and lines that are prefetched again cost
// less than a branch that is mispredicted.
typedef struct og_stretch {
  const char *at;
  int64_t second;  // bytes to the other stretch
  int64_t each;    // bytes a step
} og_stretch;
#define STRETCH_BEGIN            \
  const char *asked = ahead->at; \
  const int64_t asked_second = ahead->second, asked_each = ahead->each;
#define STRETCH_FOR(i, n, by)                                      \
  for (int64_t i = 0; i < (n) && stretch_ask(asked, asked_second); \
       i += (by), asked += asked_each)
#define STRETCH_END

OG_INLINE int stretch_ask(const char *asked, int64_t second) {
  __builtin_prefetch(asked, 0, 2);
  __builtin_prefetch(asked + second, 0, 2);
  return 1;
}

// Rows of results, which are written after the loop, one row a step: `each`
// bytes apart, the last one `second` bytes after the first. A row has two
// lines.
#define RESULTS_BEGIN            \
  const char *asked = ahead->at; \
  const char *const asked_last = asked + ahead->second;
#define RESULTS_FOR(i, n, by)                        \
  for (int64_t i = 0; i < (n) && results_ask(asked); \
       i += (by), asked += asked < asked_last ? ahead->each : 0)
#define RESULTS_END

OG_INLINE int results_ask(const char *asked) {
  enum { WRITE = 1, NEAR = 3 };
  __builtin_prefetch(asked, WRITE, NEAR);
  __builtin_prefetch(asked + LINE_BYTES, WRITE, NEAR);
  return 1;
}

#endif  // OG_KERNEL_TILE_ROWS_H
