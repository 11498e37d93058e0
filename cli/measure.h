// SPDX-License-Identifier: Apache-2.0
// What `opgraft bench` measures, and what it found.

#ifndef OPGRAFT_CLI_MEASURE_H
#define OPGRAFT_CLI_MEASURE_H

#include <opgraft/info.h>
#include <opgraft/sample.h>

#include "cli.h"

enum { BLOCKS = 15, BLOCKS_LEAST = 3, DIMS_MAX = 32, HANG_SECONDS = 60 };

typedef struct bench_case {
  const opgraft_op *op;
  opgraft_sample *sample;  // NULL: no call was found
  opgraft_error error;
  void *results[OPGRAFT_OUT_MAX];  // memory of plain fresh results
  int64_t bytes;                   // read and written by one call
  bool is_reference;  // the same call of the case before, of another module
  bool is_mutating;
  bool has_lists;  // among arguments or results
  int32_t index_order;
  char kernel[160];
} bench_case;

typedef enum case_state {
  CASE_TODO,
  CASE_READY,  // calibrated
  CASE_DONE,
  CASE_REFUSED,  // the call gave an error
  CASE_DIED,
} case_state;

typedef struct case_result {
  case_state state;
  int32_t died_of;  // signal
  int64_t repeats;  // calls of one block
  int32_t blocks;   // BLOCKS, or fewer where one call takes long
  double block_ns[BLOCKS];
  int32_t block_count;
  char text[sizeof((opgraft_error *)0)->text];
} case_result;

typedef struct shared {
  int32_t at;  // the case whose call runs
  case_result result[];
} shared;

typedef struct bench {
  bench_case *cases;
  int32_t count;
  int32_t capacity;
  opgraft_sample_options options;
  const char *dim_names[DIMS_MAX];
  int64_t dim_sizes[DIMS_MAX];
  int32_t threads;
  int64_t time_ms;
  shared *found;
} bench;

// A case for each operator (or only `wanted`) and combination of types, and
// behind it one of `reference` (NULL: none), where that has the operator.
void bench_cases_make(bench *b, const opgraft_module *module,
                      const opgraft_op *wanted,
                      const opgraft_module *reference);
void bench_cases_reset(bench *b);
// Fills b->found. Prints what is wrong and returns an exit status.
int bench_measure(bench *b);

#endif  // OPGRAFT_CLI_MEASURE_H
