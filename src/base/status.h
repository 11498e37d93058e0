// SPDX-License-Identifier: Apache-2.0
// Errors as data: every fallible function fills the caller's opgraft_error.

#ifndef OG_BASE_STATUS_H
#define OG_BASE_STATUS_H

#include <opgraft/opgraft.h>
#include <stdarg.h>

#define OG_TRY(expr)                                  \
  do {                                                \
    const og_status og_try_status = (expr);           \
    if (og_try_status != OG_OK) return og_try_status; \
  } while (0)

#if defined(__GNUC__)
#define OG_PRINTF(format_index, first) \
  __attribute__((format(printf, format_index, first)))
#define OG_LIKELY(x) __builtin_expect(!!(x), 1)
#define OG_UNLIKELY(x) __builtin_expect(!!(x), 0)
#else
#define OG_PRINTF(format_index, first)
#define OG_LIKELY(x) (x)
#define OG_UNLIKELY(x) (x)
#endif

// Fills `error` (which may be NULL) and returns `code`. The text is a whole
// sentence that names operator and argument itself; `op` and `argument`, which
// may be NULL, are there for programs. begin and end are -1 where no
// declaration text is meant; else they are byte offsets into one string of the
// declaration, and `argument` is that string's field ("shape"). The values of
// the format may point into *error.
og_status og_error_set(opgraft_error *error, og_status code, const char *op,
                       const char *argument, const char *format, ...)
    OG_PRINTF(5, 6);
og_status og_error_at(opgraft_error *error, og_status code, const char *op,
                      const char *argument, int32_t begin, int32_t end,
                      const char *format, ...) OG_PRINTF(7, 8);

// What makes a noun fit its count: "%d dim%s".
static inline const char *og_plural(int64_t count) {
  return count == 1 ? "" : "s";
}

#endif  // OG_BASE_STATUS_H
