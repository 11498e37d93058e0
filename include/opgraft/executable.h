// SPDX-License-Identifier: Apache-2.0
// Runs finished graphs: plans one once for given sizes, and replays it.
//
//   opgraft_executable_create(graph, host)
//   each call: opgraft_executable_begin(inputs) -> memory for call->storages
//              -> opgraft_call_run -> opgraft_call_end
//
// An executable may be used by any number of threads at once. Errors are as in
// opgraft.h, and so are structs that begin with struct_size.

#ifndef OPGRAFT_EXECUTABLE_H
#define OPGRAFT_EXECUTABLE_H

#include <opgraft/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct opgraft_executable opgraft_executable;

// --- Hosts -------------------------------------------------------------------

// A node that the host runs. The tensors' shape and strides stay as they are
// for the life of the state; their data changes when an input or output moves.
// An operand that is written (auto_functionalized) is the result that replaces
// it, holding the old contents already, so the mutating operator runs on `in`
// as it is. A result that the record gave as None is NULL in `out`.
typedef struct opgraft_node_call {
  uint32_t struct_size;
  int32_t host_node;  // record.host_node
  const char *name;   // record.name
  // The engine's operator that computes the same, "addmm" (docs/ir.md),
  // whatever the host calls it; NULL where there is none.
  const char *op;
  const opgraft_arg *args;  // sizes are numbers; a VALUE's `value` indexes in
  int32_t arg_count;
  int32_t in_count;
  const og_tensor *const *in;
  og_tensor *const *out;
  int32_t out_count;
  int32_t line;
  const char *file;
  // It has a side effect, so it may keep what it gets beyond the call: `in` is
  // memory that later steps overwrite. Never set where it writes an operand.
  int32_t may_keep;
  int32_t reserved;
  // NULL, or by result: where `run` leaves the owner of memory that it
  // donates. It does so for each result r whose out[r] is not empty and has no
  // data, and sets that to memory of out[r]'s shape and strides.
  void **donated;
  void *stream;  // as og_call.stream
} opgraft_node_call;

// What a host says of a node that it prepared.
enum {
  // `run` may be called on any thread, beside other nodes.
  OPGRAFT_NODE_ANY_THREAD = 1u,
  // Its results come in memory of their own, which `run` can donate where an
  // output is to live there (opgraft_node_call.donated).
  OPGRAFT_NODE_DONATES = 2u,
  // The way to it costs more than a kernel: the engine drops it where a
  // kernel of its own takes the node.
  OPGRAFT_NODE_SLOW = 4u,
};

// They change what a call costs, not what it computes, so that whoever sees a
// wrong result can tell which part of the engine makes it (opgraft run
// --bisect).
enum {
  // Every value that is not a view has memory of its own.
  OPGRAFT_HOST_UNSHARED = 1u,
  // Lanes wherever the graph allows them, from the first call on, whether they
  // pay or not: the clock decides nothing.
  OPGRAFT_HOST_LANES_NOW = 2u,
  // A plan in which the host runs nothing large runs on threads of the
  // engine's, which share a processor with other processes better than threads
  // that wait at a barrier. The others run on parallel_for: threads of two
  // kinds would wait for work on the same processors.
  OPGRAFT_HOST_TEAM = 4u,
  // Inputs that are OPGRAFT_INPUT_STATIC seldom change from call to call, so
  // their packed form may be kept. A change is noticed, however it is made.
  OPGRAFT_HOST_WEIGHTS_STAY = 8u,
};

// What the engine asks of its host. `run` is called on the thread that runs
// the call, but for nodes that may run on any; `prepare` on the one that begins
// it, `release` on any.
typedef struct opgraft_host {
  uint32_t struct_size;
  uint32_t flags;  // OPGRAFT_HOST_*
  void *context;
  // Gets a node ready for one instance of a plan: what `run` gets in
  // *out_state, OPGRAFT_NODE_* in *out_flags, which is 0 before. Asked for
  // nodes without an operator of the engine's, and for those that choose.c
  // offers it (docs/engine.md). OG_UNSUPPORTED: it has nothing for this node.
  og_status (*prepare)(void *context, const opgraft_node_call *node,
                       void **out_state, uint32_t *out_flags,
                       opgraft_error *error);
  og_status (*run)(void *context, void *state, const opgraft_node_call *node,
                   opgraft_error *error);
  void (*release)(void *context, void *state);
  // As og_call.parallel_for; NULL: the engine's own threads.
  og_status (*parallel_for)(const og_call *call, int64_t total, int64_t grain,
                            og_task_fn fn, void *state);
  // That parallel_for may use; 0: one, and for the engine's own threads as many
  // as the machine has.
  int32_t threads;
  int32_t plan_limit;  // plans kept for different sizes; 0: 16
  // Independent parts of a graph run at once where the first replays show that
  // it pays: in so many lanes at most; 0: as many as threads, 1: never. On a
  // device they are streams, and 0 is 1.
  int32_t lanes;
  int32_t reserved;
  // Between two steps of a call, on its thread: no later step reads these
  // inputs, so their memory may go; these storages are written soon, so memory
  // for storages[k] is to be left in out_data[k], as opgraft_call_run takes it.
  // `call_context` is the call's. NULL: all inputs and storages are there for
  // the whole call.
  og_status (*memory_event)(void *call_context, const int32_t *inputs,
                            int32_t input_count, const int32_t *storages,
                            int32_t storage_count, void **out_data,
                            opgraft_error *error);
  // For graphs of somebody else: a call that needs more bytes (its arena and
  // outputs, and what kernels keep) is OG_MEMORY, one that takes more
  // operations, counted roughly, OG_UNSUPPORTED, both when it begins. 0: none.
  int64_t max_bytes;
  int64_t max_work;
  // Which kernel runs which node, as opgraft_executable_rules gives it; copied
  // by opgraft_executable_create, which says what is wrong with it. NULL: none.
  const char *rules;
  // How many threads a call may use now, where OPGRAFT_HOST_TEAM holds; more
  // than `threads` counts as `threads`. On the thread that calls. NULL: always
  // `threads`.
  int32_t (*threads_now)(void *context);
  // In mode max-autotune (OPGRAFT_OPTION_MAX_AUTOTUNE): so long may candidates
  // be timed, all plans of an executable together; 0: no timing decides.
  int64_t tune_ns;
  // What timing found is read from and added to this file (opgraft/tune.h);
  // NULL: it is kept for the process only. Copied, as the next is.
  const char *tune_file;
  // Whose kernels are timed, so that others' times do not count: "torch 2.13.0,
  // opgraft 0.1.0".
  const char *tune_with;
  // What the tuner has to say: one line without an end, or what it is at (NULL:
  // it is done) for who looks on. NULL: it says nothing.
  void (*log)(void *context, const char *text, int32_t is_progress);
} opgraft_host;

// --- Running -----------------------------------------------------------------

// Keeps a reference to the finished graph. The context outlives it. OG_DEVICE
// where a value is not on the CPU, the only device that graphs run on.
OPGRAFT_API og_status opgraft_executable_create(
    opgraft_graph *graph, const opgraft_host *host,
    opgraft_executable **out_executable, opgraft_error *error);
OPGRAFT_API void opgraft_executable_release(opgraft_executable *executable);

// Memory that the host gives for a call: what outputs live in. Fixed, as
// opgraft_output and opgraft_donated are.
typedef struct opgraft_storage {
  size_t size_bytes;
  // The first output that is the whole of it, else the first that lies in it;
  // on its tensor's device.
  int32_t output;
  int32_t whole;  // 1: that output is the whole of it, without gaps
} opgraft_storage;

enum {
  OPGRAFT_OUTPUT_NONE = 0,
  OPGRAFT_OUTPUT_STORAGE,   // in storages[index]
  OPGRAFT_OUTPUT_INPUT,     // a view of input `index` (or the input itself)
  OPGRAFT_OUTPUT_CONSTANT,  // a view of the graph's constant: tensor.data
  OPGRAFT_OUTPUT_SIZE,      // an integer: size
};

typedef struct opgraft_output {
  int32_t kind;  // OPGRAFT_OUTPUT_*
  int32_t index;
  int64_t size;
  og_tensor tensor;  // shape, strides, and byte_offset in its storage or input
} opgraft_output;

// Where a storage's memory comes from.
typedef struct opgraft_donated {
  // The tensor that a step of the host donates in its place; or NULL.
  const og_tensor *tensor;
  void *owner;      // of that: the caller's to release, after an error too
  int32_t is_late;  // 1: host.memory_event makes it during the call
  int32_t reserved;
} opgraft_donated;

// What a graph touches of an input's storage by views of it (as_strided), where
// that is beyond the input's own elements or a stride is negative, which not
// every host allows: bytes [low, high) from its first element.
typedef struct opgraft_reach {
  int32_t input;
  int32_t is_reversed;
  int64_t low, high;
} opgraft_reach;

// One call in flight: an instance of a plan with its own argument tables and
// arena. The arrays are the plan's and valid until opgraft_call_end. The caller
// sets struct_size before opgraft_executable_begin, which fills the rest, and
// `context` before opgraft_call_run; it has both, and `instance`, at least.
typedef struct opgraft_call {
  uint32_t struct_size;
  uint32_t reserved;
  void *instance;  // NULL: no call is in flight
  void *context;   // the host's own, which host.memory_event gets
  const opgraft_storage *storages;
  const opgraft_output *outputs;
  opgraft_donated *donated;  // by storage
  int32_t storage_count;
  int32_t output_count;
  int32_t host_step_count;  // steps that the host runs
  int32_t section_count;    // stretches of it that run on several threads
  // That these are allowed the caller checks before it runs.
  const opgraft_reach *reaches;
  int32_t reach_count;
  int32_t reserved_end;
} opgraft_call;

// Checks the inputs (count, dtype, rank, sizes, strides), finds or makes the
// plan for their sizes, leases an instance and binds the inputs. in[i] is NULL
// where input i is an integer, which is ints[i] then; ints may be NULL if the
// graph has no such input. The tensors need not outlive this function; the
// memory that they point to must stay until opgraft_call_end, or until
// host.memory_event has named the input. OG_INVALID also where
// out_call->struct_size is not set.
OPGRAFT_API og_status opgraft_executable_begin(opgraft_executable *executable,
                                               const og_tensor *const *in,
                                               const int64_t *ints,
                                               int32_t count,
                                               opgraft_call *out_call,
                                               opgraft_error *error);
// Replays. storage_data[i] is memory of storages[i].size_bytes, aligned to 64
// bytes where the host can; NULL, where donated[i] has a tensor (then the
// host's step sets donated[i].owner) or is late. An error names the operator
// and the source line.
OPGRAFT_API og_status opgraft_call_run(opgraft_call *call,
                                       void *const *storage_data,
                                       opgraft_error *error);
// Releases the instance; also after an error of opgraft_call_run.
OPGRAFT_API void opgraft_call_end(opgraft_call *call);

// Plans the given sizes beforehand ("gears"): each symbol of the graph once,
// and its value. OG_INVALID for a symbol that is missing, unknown or there
// twice.
OPGRAFT_API og_status opgraft_executable_plan(opgraft_executable *executable,
                                              const char *const *symbols,
                                              const int64_t *values,
                                              int32_t count,
                                              opgraft_error *error);

// --- What happened -----------------------------------------------------------

typedef struct opgraft_stats {
  uint32_t struct_size;
  int32_t nodes;  // without views
  int32_t views;
  int32_t native;      // nodes with an IR operator or a module's
  int32_t fallbacks;   // nodes that only the host can run
  int32_t host_nodes;  // native ones that the host took (contractions)
  int32_t clones;
  int32_t plans;  // kept now
  int64_t clone_bytes;
  int64_t replays;
  int64_t replans_shape;      // a plan was made for new sizes
  int64_t rebinds_input;      // a static input's memory moved
  int64_t rebinds_arena;      // an instance got another arena
  int64_t instances;          // argument tables made: most calls at once
  int64_t arena_bytes;        // of the last plan, on all devices
  int64_t lower_bound_bytes;  // of the last plan
  // Extra bytes if the process's plans did not share arenas.
  int64_t shared_bytes;
  int64_t import_ns, passes_ns, plan_ns;  // the last of each
  int64_t replans_lanes;  // a plan was made again with lanes, or without
  int32_t lanes;          // most at once in the last plan; 1: none
  int32_t sections;       // stretches of the last plan that have lanes
  // A replay of the last plan that got lanes: without them, and with.
  int64_t serial_ns, lanes_ns;
  int32_t fast_nodes;  // native ones that a fast kernel of ours took
  int32_t reserved;
  int64_t launches;      // that the host gave a device, in all replays
  int64_t captures;      // stretches of launches
  int64_t recaptures;    // because an address moved that a capture freezes
  int64_t device_waits;  // of the host for the device
} opgraft_stats;

// out_stats->struct_size is set by the caller; OG_INVALID where it is not.
OPGRAFT_API og_status
opgraft_executable_stats(const opgraft_executable *executable,
                         opgraft_stats *out_stats, opgraft_error *error);
// All of it as JSON, with the list of fallbacks and clones (operator, reason,
// file, line) and what each pass did. Lengths as opgraft_graph_print.
OPGRAFT_API size_t opgraft_executable_describe(
    const opgraft_executable *executable, char *buffer, size_t size);
// Which kernel runs which node of the plans that are kept, and why: one rule a
// line, as opgraft_host.rules takes them ("matmul f32[2,3] f32[3,4] ->
// f32[2,4]: fast  # why"; an operator alone stands for all its nodes, * for
// any; docs/graph.md). Lengths as opgraft_graph_print.
OPGRAFT_API size_t opgraft_executable_rules(
    const opgraft_executable *executable, char *buffer, size_t size);
// The row programs of the plans that are kept and that no call runs, with their
// machine code, and of each instruction which step of the program it computes
// (docs/cli.md, inspect). `isa`: a name of OPGRAFT_ISA, which the machine need
// not have; NULL: the one in use. out_length is without the NUL, of which at
// most `size` bytes are written. Failure: OG_INVALID for another set,
// OG_MEMORY.
OPGRAFT_API og_status opgraft_executable_code(
    const opgraft_executable *executable, const char *isa, char *buffer,
    size_t size, size_t *out_length, opgraft_error *error);

// The plan that ran or was made last, as JSON: its nodes in the graph's order,
// who runs each and why, what they read and write, and when which part of an
// arena is in use, by the steps of the plan's order (docs/graph.md). Without a
// plan, "nodes" is empty. Lengths as opgraft_graph_print.
OPGRAFT_API size_t opgraft_executable_schedule(
    const opgraft_executable *executable, char *buffer, size_t size);

#ifdef __cplusplus
}
#endif

#endif  // OPGRAFT_EXECUTABLE_H
