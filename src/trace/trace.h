// SPDX-License-Identifier: Apache-2.0
// The event file: what one run of a script compiled, split and cost
// (docs/doctor-events.md), and the root causes that join it.
//
// Every string of a trace lives in its arena and is never NULL. Times are in
// nanoseconds.

#ifndef OG_TRACE_TRACE_H
#define OG_TRACE_TRACE_H

#include <opgraft/opgraft.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/text.h"

// The kinds of line and their fields.
typedef const char *og_trace_TEXT;
typedef int64_t og_trace_INT;
typedef double og_trace_REAL;
#define OG_LINE(kind) typedef struct og_trace_##kind {
#define OG_FIELD(kind, type, member) og_trace_##type member;
#define OG_FIELD_AS(kind, type, member, key) og_trace_##type member;
#define OG_END(kind) \
  }                  \
  og_trace_##kind;
#include "trace/lines.def"
#undef OG_LINE
#undef OG_FIELD
#undef OG_FIELD_AS
#undef OG_END

typedef struct og_trace_list {
  void *items;
  int32_t count;
  int32_t capacity;
} og_trace_list;

#define OG_LINE(kind) OG_TRACE_##kind,
#define OG_FIELD(kind, type, member)
#define OG_FIELD_AS(kind, type, member, key)
#define OG_END(kind)
typedef enum og_trace_kind {
#include "trace/lines.def"
  OG_TRACE_KIND_COUNT,
} og_trace_kind;
#undef OG_LINE

typedef struct og_trace {
  og_arena arena;
  og_trace_list list[OG_TRACE_KIND_COUNT];
  int32_t unknown_count;  // lines of a kind that this reader does not know
  bool is_truncated;      // the last line has no end: the run was cut short
} og_trace;

// Reads an event file. The bytes may be freed afterwards. OG_INVALID names the
// line; OG_MEMORY, OG_VERSION. The trace is to be reset in any case.
og_status og_trace_read(const char *bytes, size_t size, og_trace *out_trace,
                        opgraft_error *error);
void og_trace_reset(og_trace *trace);

// og_trace_run_at, og_trace_run_count and so on.
#define OG_LINE(name)                                                    \
  static inline const og_trace_##name *og_trace_##name##_at(             \
      const og_trace *trace, int32_t index) {                            \
    return (const og_trace_##name *)trace->list[OG_TRACE_##name].items + \
           index;                                                        \
  }                                                                      \
  static inline int32_t og_trace_##name##_count(const og_trace *trace) { \
    return trace->list[OG_TRACE_##name].count;                           \
  }
#include "trace/lines.def"
#undef OG_LINE
#undef OG_FIELD
#undef OG_FIELD_AS
#undef OG_END

#endif  // OG_TRACE_TRACE_H
