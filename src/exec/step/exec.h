// SPDX-License-Identifier: Apache-2.0
// Replay: executables, the instances of their plans, and their steps.

#ifndef OG_EXEC_STEP_EXEC_H
#define OG_EXEC_STEP_EXEC_H

#include <pthread.h>

#include "base/team.h"
#include "plan/plan.h"
#include "scalar/element.h"

typedef struct og_apart og_apart;
typedef struct og_rules og_rules;
typedef struct og_pack og_pack;
typedef struct og_kept og_kept;
typedef struct og_tuning og_tuning;
typedef struct og_lease og_lease;
typedef struct og_onboard og_onboard;
struct og_loop_code;

// How long a call takes from its first loop of several chunks on.
typedef struct og_loops_time {
  int64_t expected_ns;  // as the replay before it did; 0: not known
  int64_t begun_ns;     // 0: there was no such loop yet
} og_loops_time;

typedef struct og_run {
  opgraft_executable *executable;
  opgraft_error *error;
  // Where the call's own team is kept, which its first loop leases; NULL: the
  // call runs on the executable's threads or the host's.
  og_team **team;
  og_loops_time *loops_time;  // NULL: of nobody's interest
  bool leaves_steady;         // steps whose results are kept do not run
} og_run;

typedef og_status (*og_step_fn)(void *state, const og_run *run);

typedef struct og_step {
  og_step_fn run;
  void *state;
} og_step;

// What stands beside a step; a replay reads it where steps are left out.
typedef struct og_step_info {
  int32_t node;
  bool is_pinned;    // runs on the thread that calls
  bool is_steady;    // may be left out (steady.h)
  og_device device;  // runs there
  void *stream;      // the device's, in the order of which it runs; NULL: none
} og_step_info;

// Who may run a node: a kernel of exec/plain, one of exec/fast, the host, the
// fast one over weights that stay packed from call to call, the step before it
// on each tile that it finishes, or a convolution's through transformed tiles.
typedef enum og_candidate {
  OG_BY_PLAIN,
  OG_BY_FAST,
  OG_BY_HOST,
  OG_BY_PACKED,
  OG_BY_EPILOGUE,
  OG_BY_WINOGRAD,
  OG_BY_COUNT
} og_candidate;

typedef struct og_chosen {
  og_candidate by;
  const char *reason;  // NULL: the node was not asked about
} og_chosen;

// A place that holds a pointer to a value's memory.
typedef struct og_reloc {
  void **where;
  int64_t offset_bytes;
} og_reloc;

// In the instance's memory.
typedef struct og_reloc_list {
  og_reloc *relocs;
  int32_t count, capacity;
  void *bound;    // what they were last set for
  int64_t moves;  // how often they were set
} og_reloc_list;

// What kernels of one lane write while they run, one after the other.
typedef struct og_scratch {
  void *memory;
  size_t bytes;
} og_scratch;

// What the host frees and allocates between two steps (hold.c).
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
  og_step_info *step_infos;
  int32_t step_count;
  og_section *sections;  // in steps
  int32_t section_count;
  og_reloc_list *arenas;     // by arena of the plan
  og_reloc_list *inputs;     // by input
  og_reloc_list *storages;   // by output storage
  opgraft_donated *donated;  // by output storage
  og_hold *holds;            // in order
  int32_t hold_count;
  void *host_call;           // the context of the call in flight
  struct og_hosted *hosted;  // states that the host made
  struct og_framed *framed;  // frames of module operators
  struct og_looped *looped;  // row programs
  struct og_loop_code *loop_code;
  og_onboard *onboard;       // what it does on a device; NULL: all is the CPU's
  bool is_twin;              // of one that does
  struct og_apart *apart;    // NULL where no input is written
  bool are_apart;            // inputs lie as they did when that was seen
  og_chosen *chosen;         // by node; NULL: nobody asks
  struct og_steady *steady;  // NULL: no step is
  void *kept;                // memory of steady results
  int32_t host_nodes;        // native nodes that the host took
  int32_t fast_nodes;        // that a fast kernel took
  int32_t host_steps;        // all that it runs
  int32_t host_loops;        // of those: may run on several threads
  bool has_team;             // runs on threads of the engine's, not the host's
  int64_t loops_ns;          // of the last replay, from its first loop on
  og_scratch scratch[OG_LANES_MAX];
  int64_t pack_ns;     // that it packed constants
  int64_t tune_ns;     // that candidates were timed for it
  int64_t held_bytes;  // of a call, and by its kernels
  int64_t work;        // operations of all steps, roughly
  og_lease **leases;   // by arena of the plan
  og_arena memory;
} og_instance;

// A plan in the executable's list, most recently used first.
typedef struct og_plan_entry {
  struct og_plan_entry *next;
  struct opgraft_executable *executable;
  og_plan *plan;
  og_instance *idle;
  og_chosen *chosen;  // by node; NULL until there is an instance
  int64_t *node_ns;   // atomic, by node: of profiled calls; NULL: of none
  int32_t users;      // calls in flight
  bool is_evicted;
  bool is_tried;  // atomic: its replays are timed (lane_trial.c)
  struct og_lane_trial *trial;
  int64_t try_at;  // atomic: replays after which another trial begins; 0: none
} og_plan_entry;

struct opgraft_executable {
  opgraft_graph *graph;
  opgraft_host host;
  og_rules *rules;    // of host.rules; NULL: none
  og_tuning *tuning;  // NULL: no timing decides
  og_team *team;      // NULL where the host has its own
  int32_t threads;
  int32_t lanes;          // most in a section; 1: no sections
  pthread_mutex_t mutex;  // guards what follows
  og_plan_entry *plans;
  int32_t plan_count;
  int32_t references;
  opgraft_stats stats;
  og_pack *packs;  // constants, packed
  og_kept *kept;   // weights among the inputs
  // Atomic: what making instances took, but for packing and timing; packing,
  // with that of weights among the inputs; and timing candidates.
  int64_t prepare_ns, pack_ns, tune_ns;
};

#endif  // OG_EXEC_STEP_EXEC_H
