// SPDX-License-Identifier: Apache-2.0
// Replay: instances of plans, their steps, and what a kernel's preparation
// may ask for.
//
// A kernel is a prepare function, one for each IR operator (ops.def). It
// checks the node's shapes and types once, makes its state, and names the
// function that replay calls. Nothing is checked or allocated afterwards.

#ifndef OG_EXEC_EXEC_H
#define OG_EXEC_EXEC_H

#include <pthread.h>

#include "base/team.h"
#include "graph/element.h"
#include "plan/plan.h"

typedef struct og_run {
  opgraft_executable *executable;
  opgraft_error *error;
} og_run;

typedef og_status (*og_step_fn)(void *state, const og_run *run);

typedef struct og_step {
  og_step_fn run;
  void *state;
} og_step;

// A place that holds a pointer to a value's memory.
typedef struct og_reloc {
  void **where;
  int64_t offset_bytes;
} og_reloc;

// In the instance's arena.
typedef struct og_reloc_list {
  og_reloc *relocs;
  int32_t count, capacity;
  void *bound;  // what they were last set for
} og_reloc_list;

// What kernels of one lane write while they run, one after the other.
typedef struct og_scratch {
  void *memory;
  size_t bytes;
} og_scratch;

// What the host lets go and makes between two steps (hold.c).
typedef struct og_hold {
  struct og_instance *instance;
  int32_t after;    // position in the plan's order
  int32_t *inputs;  // that no later step reads
  int32_t input_count;
  int32_t *storages;  // that only later steps write
  int32_t storage_count;
  void **data;  // of these storages
} og_hold;

// One set of argument tables of a plan. One call at a time uses it.
typedef struct og_instance {
  struct og_instance *next;  // in the plan's list of idle ones
  struct og_plan_entry *entry;
  og_tensor *tensors;  // by value
  og_step *steps;
  int32_t *step_nodes;
  bool *step_pinned;  // runs on the thread that calls
  int32_t step_count;
  og_section *sections;  // in steps
  int32_t section_count;
  og_reloc_list arena;
  og_reloc_list *inputs;    // by input
  og_reloc_list *storages;  // by output storage
  opgraft_given *given;     // by output storage
  og_hold *holds;           // in order
  int32_t hold_count;
  void *host_call;           // the context of the call in flight
  struct og_hosted *hosted;  // states that the host made
  struct og_framed *framed;  // frames of module operators
  struct og_apart *apart;    // NULL where no input is written
  bool are_apart;            // inputs lie as they did when that was seen
  int32_t host_nodes;        // native nodes that the host took
  int32_t host_steps;        // all that it runs
  og_scratch scratch[OG_LANES_MAX];
  int64_t held_bytes;  // of a call, and by its kernels
  int64_t work;        // operations of all steps, roughly
  struct og_lease *lease;
  og_arena memory;
} og_instance;

// A plan in the executable's list, most recently used first.
typedef struct og_plan_entry {
  struct og_plan_entry *next;
  struct opgraft_executable *executable;
  og_plan *plan;
  og_instance *idle;
  int32_t users;  // calls in flight
  bool is_evicted;
  bool is_tried;  // atomic: its replays are timed (lane_trial.c)
  struct og_lane_trial *trial;
  int64_t try_at;  // atomic: replays after which another trial begins; 0: none
} og_plan_entry;

struct opgraft_executable {
  opgraft_graph *graph;
  opgraft_host host;
  og_team *team;  // NULL where the host has its own
  int32_t threads;
  int32_t lanes;          // most in a section; 1: no sections
  pthread_mutex_t mutex;  // guards what follows
  og_plan_entry *plans;
  int32_t plan_count;
  int32_t references;
  opgraft_stats stats;
};

// --- Preparation -------------------------------------------------------------

typedef struct og_prep {
  opgraft_executable *executable;
  const og_plan *plan;
  og_instance *instance;
  const og_node *node;
  int32_t lane;          // in which the node runs
  og_tensor *const *in;  // NULL for an operand that is none
  og_tensor *const *out;
  bool is_quick;  // only a form that no host is faster than, or unsupported
  // What prepare fills.
  og_step step;
  bool is_pinned;
  int64_t work;  // operations, where they are more than the elements
  opgraft_error *error;
} og_prep;

typedef og_status (*og_prepare_fn)(og_prep *prep);

// Zeroed, lives as long as the instance; NULL when memory is short.
void *og_prep_alloc(og_prep *prep, size_t size_bytes);
// Memory whose contents count during one call of the kernel only: the lane's
// other kernels write it too. Once a node. NULL when memory is short.
void *og_prep_scratch(og_prep *prep, size_t size_bytes);
// Fills the error with the node's name: what is wrong with it.
og_status og_prep_wrong(og_prep *prep, const char *what);
og_status og_prep_memory(og_prep *prep);
// `times` operations for each of `count`, for what a limit on work counts.
void og_prep_work(og_prep *prep, int64_t count, int64_t times);
// Has *where follow the tensor's memory.
og_status og_prep_pointer(og_prep *prep, void **where, const og_tensor *tensor);

// Attributes by index; the default where it is absent. A wrong kind fails.
og_status og_prep_int(og_prep *prep, int32_t index, int64_t otherwise,
                      int64_t *out);
// Whether an attribute is a float here, by itself or by its size.
bool og_prep_is_float(const og_prep *prep, int32_t index);
og_status og_prep_float(og_prep *prep, int32_t index, double otherwise,
                        double *out);
og_status og_prep_ints(og_prep *prep, int32_t index, int64_t *out,
                       int32_t capacity, int32_t *out_count);
// A dim, which may be negative, of a tensor with `rank` dims.
og_status og_prep_dim(og_prep *prep, int32_t index, int32_t rank,
                      int32_t *out_dim);

bool og_same_shape(const og_tensor *a, const og_tensor *b);
bool og_is_float(const og_tensor *tensor);
bool og_is_int(const og_tensor *tensor);

// Runs fn on shares of [0, total), on the host's threads or ours.
og_status og_run_parallel(const og_run *run, int64_t total, int64_t grain,
                          og_task_fn fn, void *state);
// Fills the run's error.
og_status og_run_fail(const og_run *run, og_status code, const char *format,
                      ...) OG_PRINTF(3, 4);

// --- Steps -------------------------------------------------------------------

int64_t og_now_ns(void);
// All steps. section_ns, which may be NULL, gets the time of each section. An
// error names the step.
og_status og_steps_run(const og_instance *instance, const og_run *run,
                       int64_t *section_ns);
// One after the other, and the time of each.
og_status og_steps_run_timed(const og_instance *instance, const og_run *run,
                             int64_t *step_ns);

// --- Lanes that pay (lane_trial.c)
// ------------------------------------------------

// Under the mutex: a new entry's replays are timed, if lanes are wanted.
void og_lane_trial_begin(og_plan_entry *entry);
// A replay of an entry that is tried.
og_status og_lane_trial_run(const og_instance *instance, const og_run *run);
// Another trial, now that entry->try_at replays were.
void og_lane_trial_again(og_plan_entry *entry);
void og_lane_trial_destroy(struct og_lane_trial *trial);

// --- Plans -------------------------------------------------------------------

// Under the mutex. Not in the executable's list yet.
og_status og_entry_create(opgraft_executable *executable,
                          const int64_t *symbols,
                          const og_lane_request *request,
                          og_plan_entry **out_entry, opgraft_error *error);
void og_entry_destroy(og_plan_entry *entry);
// Under the mutex: `made` takes the place of `entry`, which goes when its last
// call does.
void og_entry_replace(og_plan_entry *entry, og_plan_entry *made);

// --- Instances ---------------------------------------------------------------

og_status og_instance_create(og_plan_entry *entry, og_instance **out_instance,
                             opgraft_error *error);
void og_instance_destroy(og_instance *instance);
// Prepares a node as the instance's next step, if it has anything to do.
// `operands` has room for its operands and results, and stays.
og_status og_node_prepare(og_prep *prep, og_tensor **operands);
void og_relocs_set(og_reloc_list *list, void *base);
void og_storages_bind(og_instance *instance, void *const *storage_data);
// Names the step's operator and source line in front of what it said.
og_status og_step_failed(const og_instance *instance, int32_t step,
                         og_status status, opgraft_error *error);

// Gives the node to the host; *out_taken says whether it took it. `optional`:
// the engine could run it as well.
og_status og_prepare_hosted(og_prep *prep, bool is_optional, bool *out_taken);
og_status og_prepare_module(og_prep *prep);
// Results that start as an operand get its contents, unless they are it.
void og_updates_start(og_tensor *const *in, og_tensor *const *out,
                      int32_t out_count, const int32_t *update);
// Finds the holds of an instance whose arrays are made, and, once its steps
// are, which storages they make.
og_status og_holds_make(og_instance *instance, const og_plan *plan);
void og_holds_settle(og_instance *instance);
og_status og_hold_run(void *hold, const og_run *run);
// Frees what the host and the modules prepared.
void og_hosted_release(og_instance *instance);
void og_framed_release(og_instance *instance);

// --- Written inputs (apart.c) ------------------------------------------------

typedef struct og_apart og_apart;

// Finds the inputs that the graph writes.
og_status og_apart_make(og_instance *instance, opgraft_error *error);
// That no written input overlaps itself or another one, of an instance that
// has any; `moves` inputs lie elsewhere than at the last check. Failure:
// OG_INVALID, with both names.
og_status og_apart_check(const og_instance *instance,
                         const og_tensor *const *in, int32_t moves,
                         opgraft_error *error);

// --- The process's arenas ----------------------------------------------------

typedef struct og_lease og_lease;

// Memory of at least `size_bytes`, for one call; `wanted` is tried first (it
// may be gone). Any thread.
og_status og_lease_take(size_t size_bytes, og_lease *wanted,
                        og_lease **out_lease, void **out_memory,
                        opgraft_error *error);
void og_lease_give(og_lease *lease);
// While an executable lives, idle arenas are kept.
void og_lease_users_add(int32_t change);
// A plan that wants an arena of this size was made, or (negative) is gone.
void og_lease_want(int64_t change_bytes);
// What the process's plans would need besides, had each an arena of its own.
int64_t og_lease_shared_bytes(void);

#define OG_OP(id, in_min, in_max, outs, flags, attrs, kernel) \
  og_status og_prepare_##kernel(og_prep *prep);
#define OG_PW(id, arity, flags, rule, on_float, on_int)
#include "graph/ops.def"
#undef OG_OP
#undef OG_PW
og_status og_prepare_pointwise(og_prep *prep);

#endif  // OG_EXEC_EXEC_H
