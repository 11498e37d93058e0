// SPDX-License-Identifier: Apache-2.0
// Checked sizes, the process allocator, and arenas.

#ifndef OG_BASE_MEMORY_H
#define OG_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// false on overflow; *out is then unset. Inline, for they stand in every loop
// over dims.
#if defined(__GNUC__)
#define OG_CHECKED(name, type, op, fits)                    \
  static inline bool og_##name(type a, type b, type *out) { \
    return !__builtin_##op##_overflow(a, b, out);           \
  }
#else
#define OG_CHECKED(name, type, op, fits)                    \
  static inline bool og_##name(type a, type b, type *out) { \
    if (!(fits)) return false;                              \
    *out = a OG_CHECKED_##op b;                             \
    return true;                                            \
  }
#define OG_CHECKED_add +
#define OG_CHECKED_sub -
#define OG_CHECKED_mul *
#endif
OG_CHECKED(size_mul, size_t, mul, b == 0 || a <= SIZE_MAX / b)
OG_CHECKED(size_add, size_t, add, a <= SIZE_MAX - b)
OG_CHECKED(i64_add, int64_t, add,
           b >= 0 ? a <= INT64_MAX - b : a >= INT64_MIN - b)
OG_CHECKED(i64_sub, int64_t, sub,
           b >= 0 ? a >= INT64_MIN + b : a <= INT64_MAX + b)
OG_CHECKED(i64_mul, int64_t, mul,
           a == 0 || b == 0 ||
               (a > 0 ? (b > 0 ? a <= INT64_MAX / b : b >= INT64_MIN / a)
                      : (b > 0 ? a >= INT64_MIN / b
                               : a != INT64_MIN && b >= INT64_MAX / a)))
#undef OG_CHECKED

// Division that rounds down or up, and the rest of the first, which has the
// sign of b. False where b is 0 or the result does not fit.
static inline bool og_i64_floor_mod(int64_t a, int64_t b, int64_t *out) {
  *out = 0;
  if (b == 0 || b == -1) return b != 0;
  *out = a % b;
  if (*out != 0 && (*out < 0) != (b < 0)) *out += b;
  return true;
}
static inline bool og_i64_floor_div(int64_t a, int64_t b, int64_t *out) {
  *out = 0;
  if (b == 0 || (a == INT64_MIN && b == -1)) return false;
  *out = a / b - (a % b != 0 && (a < 0) != (b < 0));
  return true;
}
static inline bool og_i64_ceil_div(int64_t a, int64_t b, int64_t *out) {
  if (!og_i64_floor_div(a, b, out)) return false;
  *out += a % b != 0;
  return true;
}

// Every allocation of the library goes through these, so that a test can make
// the nth one fail: og_alloc_fail_at(n) fails allocation n (0 = the next) and
// all later ones until og_alloc_fail_at(-1). For tests, one thread.
void *og_alloc(size_t size_bytes);  // uninitialised
void *og_alloc_zeroed(size_t count, size_t size_bytes);
void *og_alloc_aligned(size_t alignment, size_t size_bytes);  // and huge pages
void *og_realloc(void *memory, size_t size_bytes);  // keeps `memory` on failure
void og_free(void *memory);
void og_alloc_fail_at(int64_t n);
// Memory of OG_HUGE_LEAST bytes or more that will be filled: where the system
// has huge pages for who asks, its first touch takes one fault for each 2 MiB,
// not for each 4 KiB, and what no cache holds is read faster, up to 1.5 times.
// What it holds stays. The first huge pages of a virtual machine may be slow to
// come.
enum { OG_HUGE_BYTES = 2 << 20, OG_HUGE_LEAST = 2 * OG_HUGE_BYTES };
void og_huge_ask(void *memory, size_t size_bytes);
// Grows an array from og_alloc until it has room for `count` elements; false,
// and as it was, when memory is short.
bool og_array_reserve(void **array, int32_t count, int32_t *capacity,
                      size_t element_bytes);

// Memory that is freed all at once. A zeroed og_arena is ready to use.
typedef struct og_arena_block og_arena_block;
typedef struct og_arena {
  og_arena_block *head;
} og_arena;

// 16-byte aligned and zeroed; NULL when memory is short.
void *og_arena_alloc(og_arena *arena, size_t size_bytes);
void *og_arena_array(og_arena *arena, size_t count, size_t size_bytes);
char *og_arena_strndup(og_arena *arena, const char *text, size_t length);
void og_arena_destroy(og_arena *arena);

// Row-major strides; an empty dim counts as 1, so that strides stay distinct.
// Returns how many elements they span, -1 where that is beyond 63 bits.
static inline int64_t og_row_major(const int64_t *shape, int32_t ndim,
                                   int64_t *out_strides) {
  int64_t span = 1;
  bool fits = true;
  for (int32_t d = ndim - 1; d >= 0; --d) {
    out_strides[d] = span;
    fits &= og_i64_mul(span, shape[d] > 1 ? shape[d] : 1, &span);
  }
  return fits ? span : -1;
}

#endif  // OG_BASE_MEMORY_H
