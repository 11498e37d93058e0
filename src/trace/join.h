// SPDX-License-Identifier: Apache-2.0
// A trace joined: frames to graphs to backend graphs, causes to root causes,
// the time between compiled regions to the roots that made the gaps.

#ifndef OG_TRACE_JOIN_H
#define OG_TRACE_JOIN_H

#include "trace/trace.h"

// Median and quartiles of a quantity over the timed runs.
typedef struct og_spread {
  double median;
  double low;
  double high;
  int32_t count;  // runs; 0: not measured
} og_spread;

// One root cause: everything that happened because of one place in the source.
typedef struct og_root {
  const og_trace_cause *cause;  // the first that named it
  const char *stage;
  const char *id;           // "" where the registry has none
  const char *guard;        // of a recompile, or ""
  const og_trace_fix *fix;  // the best one tried or proposed; NULL: none
  int32_t hits;
  bool is_frame_eager;    // a whole frame of its own function is skipped for it
  double cold_ns;         // compile time that would not have been spent
  double boundary_bytes;  // that the splits keep alive, the most at once
  og_spread steady_ns;    // per step
} og_root;

typedef struct og_frames {
  int64_t total;
  int64_t compiled;
  int64_t skipped;
  int64_t unexplained;
} og_frames;

// What one step runs on an XLA device.
typedef struct og_hlo {
  int64_t graphs;
  int64_t fallbacks;  // operators that run on the CPU
} og_hlo;

// The pointers stay valid as long as the trace.
typedef struct og_joined {
  const og_trace *trace;
  og_root *root;  // by steady time, then cold time, then place
  int32_t root_count;
  og_frames frames;
  int32_t fx_count;       // graphs that Dynamo captured
  int32_t backend_count;  // graphs that backends made of them
  int64_t kernel_count;
  int64_t extern_count;
  int64_t ops_inside;  // operators of one step in compiled regions
  int64_t ops_outside;
  bool has_ops;
  bool has_hlo;
  og_hlo compiled_hlo;
  og_hlo lazy_hlo;  // of the eager step: LazyTensor tracing
  int64_t hlo_compiles;
  double hlo_compile_ns;
  og_spread eager_ns;  // of one step, all entries together
  og_spread compiled_ns;
  double reachable_ns;  // 0: not measured
  double stretch;       // of fixed work, its 90th percentile over its least
                   // while steps were timed, 9 times of 10; 0: not measured
  double dynamo_ns;  // compile time without the backend's
  double backend_ns;
  double hooks_ns;
  double compile_ns;
} og_joined;

// What the times say of eager and compiled.
typedef enum og_times {
  OG_TIMES_NONE,       // one of the two was not measured
  OG_TIMES_BUSY,       // other work held the processors
  OG_TIMES_SPREAD,     // the two spreads overlap
  OG_TIMES_DIFFERENT,  // one of the two is faster
} og_times;

// OG_MEMORY only. `joined` is to be reset in any case.
og_status og_trace_join(const og_trace *trace, og_joined *out_joined,
                        opgraft_error *error);
void og_joined_reset(og_joined *joined);

// The captured share of a step's operators, 0 to 1; -1 where not measured.
double og_joined_captured(const og_joined *joined);
og_times og_joined_times(const og_joined *joined);
// Milliseconds per step that the roots are charged with, all together.
double og_joined_lost_ms(const og_joined *joined);

#endif  // OG_TRACE_JOIN_H
