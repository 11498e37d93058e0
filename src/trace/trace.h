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

typedef struct og_trace_run {
  const char *script;
  const char *arguments;
  const char *torch;
  const char *python;
  const char *adapter;
  const char *machine;
  const char *home;  // what reports write as ~
  int64_t threads;
} og_trace_run;

// A place that the hooks look at, and whether it is still there.
typedef struct og_trace_hook {
  const char *name;
  const char *state;  // "ok", "gone", "unused": nothing asked for it
  const char *text;
} og_trace_hook;

// A callable that the script compiled, and what it says of itself.
typedef struct og_trace_entry {
  int64_t id;
  const char *name;
  const char *file;
  int64_t line;
  const char *owner;
  const char *backend;
} og_trace_entry;

// One attempt at compiling one Python frame.
typedef struct og_trace_frame {
  int64_t id;
  int64_t entry;
  const char *name;
  const char *file;
  int64_t line;
  const char *compile;  // Dynamo's own id, "0/1"
  const char *outcome;  // "compiled", "skipped", "failed"
  const char *reason;   // of what is not compiled
  int64_t after;        // the frame whose break it continues; 0: none
  int64_t is_counted;   // Dynamo's own frame counter saw it
  int64_t is_between;   // tried only because a frame above it is split
  int64_t ns;
  int64_t restart_ns;  // of it, spent on analysis that a break threw away
  int64_t backend_ns;  // of it, spent in the backend
} og_trace_frame;

// Something that split, skipped, recompiled or fell back, at one place.
typedef struct og_trace_cause {
  int64_t frame;  // 0: none
  int64_t graph;  // 0: none
  int64_t entry;
  const char *stage;  // "dynamo", "skip", "recompile", "backend", "autograd"
  const char *id;     // "GB0124", or ""
  const char *title;
  const char *text;
  const char *file;
  int64_t line;
  const char *function;
  const char *code;
  const char *owner;      // "your code", "library X", "PyTorch", "Python"
  const char *at_file;    // where exactly, inside what the site calls
  int64_t at_line;        // 0: at the site itself
  const char *guard;      // of a recompile
  const char *operator_;  // of a fallback
} og_trace_cause;

// A graph that Dynamo captured and gave to a backend.
typedef struct og_trace_graph {
  int64_t id;
  int64_t frame;
  int64_t ops;
  int64_t boundary_bytes;  // of its results: what a break after it keeps alive
  int64_t ns;              // in the backend
  const char *backend;
} og_trace_graph;

// A graph that a backend made of one of those.
typedef struct og_trace_lower {
  int64_t graph;
  const char *kind;  // "forward", "backward", "inference"
  int64_t nodes;
  int64_t kernels;  // generated ones
  int64_t externs;  // library kernels that the backend chose
  int64_t ns;
} og_trace_lower;

// One timed call of an entry.
typedef struct og_trace_step {
  int64_t entry;
  int64_t run;
  const char *mode;  // "eager", "compiled", "marked"
  int64_t ns;
  int64_t forward_ns;  // until the entry returned
} og_trace_step;

// One compiled region inside a marked step, since the step began.
typedef struct og_trace_mark {
  int64_t entry;
  int64_t run;
  int64_t graph;
  int64_t begin;
  int64_t end;
} og_trace_mark;

// Operators of one step: inside compiled regions and outside them.
typedef struct og_trace_ops {
  int64_t entry;
  int64_t inside;
  int64_t outside;
} og_trace_ops;

// On an XLA device: what one step runs (mode "compiled", or "eager", which is
// LazyTensor tracing), or, without a mode, what the script compiled.
typedef struct og_trace_hlo {
  int64_t entry;
  const char *mode;
  int64_t graphs;
  int64_t fallbacks;  // operators that ran on the CPU
  int64_t compiles;
  int64_t compile_ns;
} og_trace_hlo;

// Time that one step spends in a fallback's operator.
typedef struct og_trace_spent {
  int64_t entry;
  const char *file;
  int64_t line;
  const char *what;
  int64_t ns;
  int64_t calls;
} og_trace_spent;

// A proposed remedy of the cause at file:line, and what trying it showed.
typedef struct og_trace_fix {
  const char *file;
  int64_t line;
  const char *at_file;  // as the cause has them; "" where it has none
  int64_t at_line;
  const char *id;
  const char *class_;  // "flag", "adopt", "rewrite", "hoist", ...
  const char *title;
  const char *diff;
  const char *status;  // "proposed", "verified", "unverified", ...
  const char *text;    // what the trial found
  double before_ms;
  double after_ms;
} og_trace_fix;

typedef struct og_trace_source {
  const char *file;
  int64_t line;
  const char *text;
} og_trace_source;

typedef struct og_trace_note {
  const char *text;
} og_trace_note;

// What stands once in a file; the last line of a kind wins.
typedef struct og_trace_counts {
  int64_t total;  // Dynamo's own frame counters
  int64_t ok;
  int64_t hooks_ns;
  int64_t compile_ns;
  double reachable_ms;  // one step with every verified fix; 0: not measured
  double stretch;       // of a fixed piece of work while steps were timed
} og_trace_counts;

typedef struct og_trace_end {
  const char *status;  // "ok", "raised", "exit"
  const char *text;
} og_trace_end;

typedef struct og_trace_list {
  void *items;
  int32_t count;
  int32_t capacity;
} og_trace_list;

// The kinds of line: a row per kind in trace.c.
typedef enum og_trace_kind {
  OG_TRACE_RUN,
  OG_TRACE_HOOK,
  OG_TRACE_ENTRY,
  OG_TRACE_FRAME,
  OG_TRACE_CAUSE,
  OG_TRACE_GRAPH,
  OG_TRACE_LOWER,
  OG_TRACE_STEP,
  OG_TRACE_MARK,
  OG_TRACE_OPS,
  OG_TRACE_HLO,
  OG_TRACE_SPENT,
  OG_TRACE_FIX,
  OG_TRACE_SOURCE,
  OG_TRACE_NOTE,
  OG_TRACE_COUNTS,
  OG_TRACE_END,
  OG_TRACE_KIND_COUNT,
} og_trace_kind;

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

#define OG_TRACE_GETTER(name, type, kind)                                \
  static inline const type *og_trace_##name##_at(const og_trace *trace,  \
                                                 int32_t index) {        \
    return (const type *)trace->list[kind].items + index;                \
  }                                                                      \
  static inline int32_t og_trace_##name##_count(const og_trace *trace) { \
    return trace->list[kind].count;                                      \
  }
OG_TRACE_GETTER(run, og_trace_run, OG_TRACE_RUN)
OG_TRACE_GETTER(hook, og_trace_hook, OG_TRACE_HOOK)
OG_TRACE_GETTER(entry, og_trace_entry, OG_TRACE_ENTRY)
OG_TRACE_GETTER(frame, og_trace_frame, OG_TRACE_FRAME)
OG_TRACE_GETTER(cause, og_trace_cause, OG_TRACE_CAUSE)
OG_TRACE_GETTER(graph, og_trace_graph, OG_TRACE_GRAPH)
OG_TRACE_GETTER(lower, og_trace_lower, OG_TRACE_LOWER)
OG_TRACE_GETTER(step, og_trace_step, OG_TRACE_STEP)
OG_TRACE_GETTER(mark, og_trace_mark, OG_TRACE_MARK)
OG_TRACE_GETTER(ops, og_trace_ops, OG_TRACE_OPS)
OG_TRACE_GETTER(hlo, og_trace_hlo, OG_TRACE_HLO)
OG_TRACE_GETTER(spent, og_trace_spent, OG_TRACE_SPENT)
OG_TRACE_GETTER(fix, og_trace_fix, OG_TRACE_FIX)
OG_TRACE_GETTER(source, og_trace_source, OG_TRACE_SOURCE)
OG_TRACE_GETTER(note, og_trace_note, OG_TRACE_NOTE)
OG_TRACE_GETTER(counts, og_trace_counts, OG_TRACE_COUNTS)
OG_TRACE_GETTER(end, og_trace_end, OG_TRACE_END)
#undef OG_TRACE_GETTER

#endif  // OG_TRACE_TRACE_H
