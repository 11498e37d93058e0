// SPDX-License-Identifier: Apache-2.0
// One sampled call inside a checking child: its values, runs of its kernel in
// various surroundings, and what the runs gave.

#ifndef OG_CHECK_TRIAL_H
#define OG_CHECK_TRIAL_H

#include <opgraft/check.h>

#include "base/team.h"
#include "check/buffer.h"
#include "check/sample.h"

enum { OG_ARRAYS_MAX = 64, OG_WORDS_MAX = 12 };

// A dense, row-major tensor in ordinary memory.
typedef struct og_array {
  og_dtype type;
  og_sizes sizes;
  int64_t count;  // of elements
  char *data;     // NULL: there is no such tensor
} og_array;

typedef struct og_inputs {
  og_array tensor[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST];
} og_inputs;

// Results: first the fresh ones, lists spread out, then the mutated arguments.
typedef struct og_outputs {
  int32_t count;
  og_array array[OG_ARRAYS_MAX];
  og_buffer_role role[OG_ARRAYS_MAX];
  int32_t index[OG_ARRAYS_MAX];  // fresh result, or tensor argument
  int32_t entry[OG_ARRAYS_MAX];
} og_outputs;

// --- Surroundings of a run ---------------------------------------------------

typedef enum og_share_kind {
  OG_SHARES_ONE,      // [0, total) at once
  OG_SHARES_FORWARD,  // several, one after the other
  OG_SHARES_REVERSE,
  OG_SHARES_SHUFFLED,  // in any order, of any size
  OG_SHARES_REAL,      // by threads
} og_share_kind;

typedef enum og_layout {
  OG_LAYOUT_DENSE,
  OG_LAYOUT_STRIDED,   // permuted and padded, as far as .strides allows
  OG_LAYOUT_EXPANDED,  // a dim of an argument has stride 0
  OG_LAYOUT_LOOSE,     // dims of size 1 have senseless strides
} og_layout;

typedef struct og_mode {
  og_share_kind shares;
  int32_t threads;
  bool tracks_writes;  // which share wrote what
  og_layout layout;
  uint64_t seed;       // of layout and shares
  bool is_packed;      // strided: dims in any order, but no gaps
  bool is_left;        // buffers border the unreadable page at their start
  bool has_offset;     // byte_offset is not 0, and `data` is unreadable
  bool is_read_only;   // arguments that are not mutated
  bool is_in_place;    // the first result lies where the inplace argument does
  bool guards_arrays;  // those of the call: in, out, attr, dim, the lists
  bool watches_arguments;  // which of those that are no tensors are read
  int32_t watched_tensor;  // 1 + the tensor argument; 0: none
  bool is_quiet;           // what the run does wrong is not reported
  uint8_t poison;          // of results
  uint8_t workspace_poison;
  uint8_t stack_poison;
  const og_kernel *kernel;  // NULL: the one that a host would choose
} og_mode;

extern const og_mode og_mode_plain;

typedef enum og_ran {
  OG_RAN,
  OG_RAN_REFUSED,  // the kernel said no, with a status
  OG_RAN_WRONG,    // it ran and broke a rule, which was reported
  OG_RAN_FAILED,   // check itself could not (memory)
} og_ran;

// --- A trial -----------------------------------------------------------------

typedef struct og_trial {
  const opgraft_op *op;
  const opgraft_check_options *options;
  og_sample sample;
  const opgraft_op *forward;  // whose gradient `op` is; NULL: drawn freely
  og_sample forward_sample;
  og_inputs inputs;
  og_outputs base;  // of the plain run
  bool has_base;
  bool is_settled;  // this call's values differ from run to run
  bool is_erratic;  // the operator's do: nothing is compared any more
  int32_t run_count;
  bool is_slow;  // one run takes milliseconds: only what matters most
  og_team *team;
  bool has_clash;  // two shares of the last tracked run wrote one byte
  char clash_name[64];
  char clash_text[160];
  char word[OG_WORDS_MAX][24];  // that refusals have quoted
  int32_t word_count;
  char refusal[200];
  og_status refusal_status;
  int32_t layout_count[4];  // runs by og_layout
  int32_t offset_count;
  uint32_t arguments_read;  // bits, of the last run that watched them
  uint8_t entries_read[OPGRAFT_ATTR_MAX];  // of lists, the same
  bool tensor_read;  // the last run read the tensor that it watched
} og_trial;

// Values of index arguments lie below this.
int64_t og_index_bound(const og_sample *sample);
// Draws the values that the sample's seed says; false when memory is short.
bool og_inputs_fill(og_inputs *inputs, const og_sample *sample);
// Makes each argument that may be broadcast equal along one dim, which
// out_dim[t] names, else -1. True if there is any.
bool og_inputs_expand(og_inputs *inputs, const og_sample *sample, uint64_t seed,
                      int32_t out_dim[OPGRAFT_ARG_MAX]);
bool og_inputs_copy(og_inputs *to, const og_inputs *from);
void og_inputs_reset(og_inputs *inputs);
void og_outputs_reset(og_outputs *outputs);
bool og_sizes_equal(const og_sizes *a, const og_sizes *b);
bool og_array_create(og_array *array, og_dtype type, const og_sizes *sizes);
// The array as a tensor; both borrow `strides` and the array's sizes.
void og_array_as_tensor(const og_array *array, int64_t *strides,
                        og_tensor *out);

// Runs the sample on `inputs`. Where it returns OG_RAN, *out holds the results,
// which the caller resets; else *out is empty.
og_ran og_trial_run(og_trial *trial, const og_sample *sample,
                    const og_inputs *inputs, const og_mode *mode,
                    og_outputs *out);

// Tells the parent; further runs go on. `argument` may be "".
void og_trial_report(og_trial *trial, int32_t kind, bool is_note,
                     const char *argument, const char *format, ...)
    OG_PRINTF(5, 6);

// Tells whether the kernel read the argument.
void og_trial_tell_use(og_trial *trial, const char *argument, bool is_used);

// Elements of an argument: the first, one between, the last. Tells which of
// them something depends on, as bits.
// OG_END_READ: on none, but the kernel read the argument.
enum { OG_END_FIRST, OG_END_NONE, OG_END_LAST, OG_END_READ, OG_END_COUNT };
void og_trial_tell_ends(og_trial *trial, const char *argument, uint32_t used);

// The orders in which memory may have the items of a result's shape: 0 is the
// declared one.
enum { OG_ORDER_ITEMS = 4, OG_ORDERS_MAX = 24 };
int32_t og_order_count(int32_t items);
void og_order_get(int32_t items, int32_t which, int32_t out[OG_ORDER_ITEMS]);
// Tells in which of them (bits) a change of an argument lies where it should
// along an item of a fresh result.
void og_trial_tell_order(og_trial *trial, int32_t fresh, int32_t item,
                         uint32_t fits);

// A buffer's or an output's name for people: "x", "xs[1]", "result".
void og_name_of(const opgraft_op *op, og_buffer_role role, int32_t index,
                int32_t entry, char *out, size_t size);

// Compares two sets of results, bit by bit (slack 0) or nearly; slack below 0
// chooses by the type. A difference is described in *out_text as
// "y[3]: 1.5, not 2", its name in out_name.
typedef struct og_verdict {
  bool differs;
  bool is_integral;
  bool is_same_type;
  int64_t count;  // elements that differ
  int64_t total;
  char name[64];
  char text[160];
} og_verdict;
og_verdict og_outputs_compare(const opgraft_op *op, const og_outputs *found,
                              const og_outputs *wanted, double slack);

// --- Shares (share.c) --------------------------------------------------------

typedef struct og_region {
  char *data;
  size_t bytes;
  char name[64];
  bool is_per_worker;  // one worker's shares may overlap
  unsigned char *shadow;
  uint8_t *owner;
} og_region;

enum { OG_REGIONS_MAX = 96 };

typedef struct og_share_host {
  og_trial *trial;
  const og_mode *mode;
  og_random random;
  int32_t depth;
  int32_t worker;
  bool has_shared;  // parallel_for was called
  int32_t region_count;
  og_region region[OG_REGIONS_MAX];
} og_share_host;

og_status og_share_parallel_for(const og_call *call, int64_t total,
                                int64_t grain, og_task_fn fn, void *state);
// Notes memory whose writers are watched.
void og_share_watch(og_share_host *host, void *data, size_t bytes,
                    const char *name, bool is_per_worker);
// The module's own static data, as regions; none where the operator is linked
// into the process.
typedef struct og_span {
  char *data;
  size_t bytes;
} og_span;
int32_t og_static_spans(const og_kernel *kernel, og_span *out, int32_t max);

#endif  // OG_CHECK_TRIAL_H
