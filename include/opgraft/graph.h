// SPDX-License-Identifier: Apache-2.0
// The graph engine: build a graph from a host's records or from text, run the
// passes, plan it once for given sizes, replay it.
//
//   opgraft_graph_create -> add_input, add_node, add_output -> finish
//   opgraft_executable_create(graph, host)
//   each call: opgraft_executable_begin(inputs) -> memory for call->storages
//              -> opgraft_call_run -> opgraft_call_end
//
// A graph belongs to one thread until finish; afterwards it and its
// executable may be used by any number of threads at once. Errors are as in
// opgraft.h. Structs that the caller fills start with struct_size; zero means
// the default.

#ifndef OPGRAFT_GRAPH_H
#define OPGRAFT_GRAPH_H

#include <opgraft/opgraft.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct opgraft_graph opgraft_graph;
typedef struct opgraft_executable opgraft_executable;

// A tensor of the graph. Ids are small and never reused; -1 is "no value".
typedef int32_t opgraft_value;
// An integer that may depend on symbols: an id in the graph's table, where
// equal expressions have equal ids.
typedef int32_t opgraft_size;

// --- Building ----------------------------------------------------------------

OPGRAFT_API og_status opgraft_graph_create(const char *name,
                                           opgraft_graph **out_graph,
                                           opgraft_error *error);
OPGRAFT_API void opgraft_graph_retain(opgraft_graph *graph);
OPGRAFT_API void opgraft_graph_release(opgraft_graph *graph);

// Operators of this module, named "module.op.overload" ("default" where the
// schema has none), are called directly. The graph keeps a reference.
OPGRAFT_API og_status opgraft_graph_add_module(opgraft_graph *graph,
                                               opgraft_module *module,
                                               opgraft_error *error);

OPGRAFT_API og_status opgraft_graph_size(opgraft_graph *graph, int64_t value,
                                         opgraft_size *out_size,
                                         opgraft_error *error);
// From text: integers, symbols (a letter, then letters, digits, _), + - * //
// % **, parentheses, and the calls that sympy prints for a SymInt: Min, Max,
// Mod, FloorDiv, CeilDiv, ceildiv, min, max. Symbols are made by their first
// use.
OPGRAFT_API og_status opgraft_graph_size_parse(opgraft_graph *graph,
                                               const char *text,
                                               opgraft_size *out_size,
                                               opgraft_error *error);

enum {
  OPGRAFT_INPUT_STATIC = 1u,  // a parameter or buffer: its memory rarely moves
};

// What a value is. The engine writes results with exactly these strides, so a
// host passes what its own shape inference says.
typedef struct opgraft_value_info {
  uint32_t struct_size;
  uint32_t flags;  // OPGRAFT_INPUT_* (inputs only)
  og_dtype dtype;
  int32_t ndim;  // -1: a result that is None
  const opgraft_size *shape;
  const opgraft_size *strides;  // in elements; NULL: row-major
  // First element in its storage, in elements (id 0 is the number 0). Only the
  // difference between a view and its base matters.
  opgraft_size offset;
  // Results only: 1 + the position of the argument (in record.args) whose
  // storage this result shares, 0 where it is fresh.
  int32_t view_of;
} opgraft_value_info;

OPGRAFT_API og_status opgraft_graph_add_input(opgraft_graph *graph,
                                              const char *name,
                                              const opgraft_value_info *info,
                                              opgraft_value *out_value,
                                              opgraft_error *error);
// An input that is an integer: it has a position among the inputs, and its
// size is usually a symbol that it binds.
OPGRAFT_API og_status opgraft_graph_add_size_input(opgraft_graph *graph,
                                                   const char *name,
                                                   opgraft_size size,
                                                   opgraft_error *error);
// A tensor that is part of the graph. The bytes are copied.
OPGRAFT_API og_status opgraft_graph_add_constant(opgraft_graph *graph,
                                                 const char *name,
                                                 const og_tensor *data,
                                                 opgraft_value *out_value,
                                                 opgraft_error *error);

enum {
  OPGRAFT_ARG_NONE = 0,
  OPGRAFT_ARG_VALUE,   // value
  OPGRAFT_ARG_INT,     // i
  OPGRAFT_ARG_SIZE,    // size: an integer that may be symbolic
  OPGRAFT_ARG_FLOAT,   // f
  OPGRAFT_ARG_BOOL,    // i
  OPGRAFT_ARG_STR,     // s
  OPGRAFT_ARG_DTYPE,   // dtype
  OPGRAFT_ARG_DEVICE,  // device
  OPGRAFT_ARG_LIST,    // list, count
  OPGRAFT_ARG_OTHER,   // s: the host's own text (a layout, a memory format)
};

typedef struct opgraft_arg {
  const char *name;  // of a keyword argument; NULL for a positional one
  int32_t kind;      // OPGRAFT_ARG_*
  int32_t count;
  union {
    opgraft_value value;
    opgraft_size size;
    int64_t i;
    double f;
    const char *s;
    og_dtype dtype;
    og_device device;
    const struct opgraft_arg *list;
  };
} opgraft_arg;

// One node of the host's graph, in the host's words. Everything is copied.
typedef struct opgraft_record {
  uint32_t struct_size;
  uint32_t flags;    // OPGRAFT_RECORD_*
  const char *name;  // "aten.add.Tensor", "norms.rms_norm.default"
  const opgraft_arg *args;
  int32_t arg_count;
  int32_t result_count;
  const opgraft_value_info *results;  // one for each tensor; lists are flat
  const char *file;                   // the user's source; may be NULL
  int32_t line;
  // The node's own number in the host's graph; fallbacks are called with it.
  int32_t host_node;
} opgraft_record;

enum {
  OPGRAFT_WRITTEN = 1,   // a result replaces it
  OPGRAFT_WRITTEN_PART,  // a view of a base: that is replaced
  OPGRAFT_WRITTEN_BASE,  // no argument of the operator's, behind those
};

enum {
  OPGRAFT_RECORD_RANDOM = 1u,       // ordered, never merged
  OPGRAFT_RECORD_SIDE_EFFECT = 2u,  // ordered, never removed
  OPGRAFT_RECORD_MUTATES = 4u,      // writes arguments that it does not name
};

// Translates the record by its row in src/import/aten.def, a module's
// declaration, or, where there is none, as a node that the host runs.
// out_values has room for result_count ids.
//
// Two names carry mutation. "auto_functionalized" stands for a mutating
// operator made functional: args[0] is its name as STR, then come its
// arguments in schema order, then the bases of those that are views. Written
// VALUE arguments say so in opgraft_arg.count (OPGRAFT_WRITTEN_*); results are
// the returns, then one new value for each written argument and base, in
// order. "aten.copy_.default" on an input is the write-back at the end.
OPGRAFT_API og_status opgraft_graph_add_node(opgraft_graph *graph,
                                             const opgraft_record *record,
                                             opgraft_value *out_values,
                                             opgraft_error *error);
// The names of the rows of src/import/aten.def, without "aten."; NULL past the
// end.
OPGRAFT_API const char *opgraft_graph_row(int32_t index);
// In order; -1 for an output that is None.
OPGRAFT_API og_status opgraft_graph_add_output(opgraft_graph *graph,
                                               opgraft_value value,
                                               opgraft_error *error);
OPGRAFT_API og_status opgraft_graph_add_size_output(opgraft_graph *graph,
                                                    opgraft_size size,
                                                    opgraft_error *error);

// --- Passes ------------------------------------------------------------------

typedef struct opgraft_options {
  uint32_t struct_size;
  uint32_t flags;       // OPGRAFT_OPTION_*
  const char *disable;  // names of passes that do not run: "cse, reinplace"
  // Called with the text of the graph after import ("import") and after each
  // pass. `context` is passed on.
  void (*dump)(void *context, const char *pass, const char *text);
  void *context;
} opgraft_options;

enum {
  OPGRAFT_OPTION_FALLBACK_ERROR = 1u,  // a node that the host must run
  OPGRAFT_OPTION_CLONE_ERROR = 2u,     // a mutation that needs a copy
};

// Verifies, runs the passes, verifies after each. No building afterwards.
OPGRAFT_API og_status opgraft_graph_finish(opgraft_graph *graph,
                                           const opgraft_options *options,
                                           opgraft_error *error);

// --- Text --------------------------------------------------------------------

// docs/ir.md says the form. The graph is not finished yet.
OPGRAFT_API og_status opgraft_graph_parse(const char *text, size_t length,
                                          opgraft_graph **out_graph,
                                          opgraft_error *error);
// Return the length without NUL, 0 when memory is short; write at most `size`
// bytes, with a NUL.
OPGRAFT_API size_t opgraft_graph_print(const opgraft_graph *graph, char *buffer,
                                       size_t size);
OPGRAFT_API size_t opgraft_graph_print_dot(const opgraft_graph *graph,
                                           char *buffer, size_t size);

// --- Running -----------------------------------------------------------------

// A node that the host runs. The tensors' shape and strides stay as they are
// for the life of the state; their data changes when an input or output moves.
// An operand that is written (auto_functionalized) is the result that replaces
// it, holding the old contents already, so the mutating operator runs on `in`
// as it is. A result that the record gave as None is NULL in `out`.
typedef struct opgraft_node_call {
  uint32_t struct_size;
  int32_t host_node;        // record.host_node
  const char *name;         // record.name
  const opgraft_arg *args;  // sizes are numbers; a VALUE's `value` indexes in
  int32_t arg_count;
  int32_t in_count;
  const og_tensor *const *in;
  og_tensor *const *out;
  int32_t out_count;
  int32_t line;
  const char *file;
  // The engine has a kernel of its own: the host takes the node only if it is
  // quick to reach, and says OG_UNSUPPORTED otherwise.
  int32_t is_optional;
  int32_t reserved;
  // NULL, or by result: where `run` leaves the owner of memory that it hands
  // over. It does so for each result r whose out[r] is not empty and has no
  // data, and sets that to memory of out[r]'s shape and strides.
  void **given;
} opgraft_node_call;

enum {
  // Every value in memory of its own: what sharing is compared with.
  OPGRAFT_HOST_UNSHARED = 1u,
  // Lanes wherever the graph allows them, from the first call on: a test's.
  OPGRAFT_HOST_LANES_NOW = 2u,
};

// What the engine asks of its host. `run` is called on the thread that runs
// the call, but for states that are free; `prepare` on the one that begins it,
// `release` on any.
typedef struct opgraft_host {
  uint32_t struct_size;
  uint32_t flags;  // OPGRAFT_HOST_*
  void *context;
  // Gets a node ready for one instance of a plan. OG_UNSUPPORTED for a node
  // that the engine can run itself means that it should. Asked for nodes
  // without an IR operator, and for contractions, convolutions and the like.
  og_status (*prepare)(void *context, const opgraft_node_call *node,
                       void **out_state, opgraft_error *error);
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
  // it pays: in so many lanes at most; 0: as many as threads, 1: never.
  int32_t lanes;
  int32_t reserved;
  // Whether this state may run on any thread, beside other nodes. NULL: none.
  int32_t (*is_free)(void *context, void *state);
  // Whether this state's results come in memory of their own, which `run` can
  // hand over where an output is to live there. NULL: none.
  int32_t (*gives)(void *context, void *state);
} opgraft_host;

// Keeps a reference to the finished graph. The context outlives it.
OPGRAFT_API og_status opgraft_executable_create(
    opgraft_graph *graph, const opgraft_host *host,
    opgraft_executable **out_executable, opgraft_error *error);
OPGRAFT_API void opgraft_executable_release(opgraft_executable *executable);

// Memory that the host gives for a call: what outputs live in.
typedef struct opgraft_storage {
  size_t size_bytes;
  int32_t output;  // the first output that lies in it
  int32_t whole;   // 1: that output is the whole of it, without gaps
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

// What a step of the host hands over in place of a storage.
typedef struct opgraft_given {
  const og_tensor *tensor;  // the whole of it; NULL: the caller gives memory
  void *owner;              // the caller's to release, after an error too
} opgraft_given;

// One call in flight: an instance of a plan with its own argument tables and
// arena. The arrays are the plan's and valid until opgraft_call_end.
typedef struct opgraft_call {
  void *instance;
  const opgraft_storage *storages;
  const opgraft_output *outputs;
  int32_t storage_count;
  int32_t output_count;
  int32_t host_step_count;  // steps that the host runs
  int32_t section_count;    // stretches of it that run on several threads
  opgraft_given *given;     // by storage
} opgraft_call;

// Checks the inputs (count, dtype, rank, sizes, strides), finds or makes the
// plan for their sizes, leases an instance and binds the inputs. in[i] is NULL
// where input i is an integer, which is ints[i] then; ints may be NULL if the
// graph has no such input. The tensors need not outlive this function; the
// memory that they point to must stay until opgraft_call_end.
OPGRAFT_API og_status opgraft_executable_begin(opgraft_executable *executable,
                                               const og_tensor *const *in,
                                               const int64_t *ints,
                                               int32_t count,
                                               opgraft_call *out_call,
                                               opgraft_error *error);
// Replays. storage_data[i] is memory of storages[i].size_bytes, aligned to 64
// bytes where the host can; NULL, where given[i] has a tensor: then the host's
// step sets given[i].owner. An error names the operator and the source line.
OPGRAFT_API og_status opgraft_call_run(opgraft_call *call,
                                       void *const *storage_data,
                                       opgraft_error *error);
// Gives the instance back; also after an error of opgraft_call_run.
OPGRAFT_API void opgraft_call_end(opgraft_call *call);

// Plans the given sizes beforehand ("gears"): symbols and their values.
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
  int64_t arena_bytes;        // of the last plan
  int64_t lower_bound_bytes;  // of the last plan
  // What the process's plans would need besides, had each its own arena.
  int64_t shared_bytes;
  int64_t import_ns, passes_ns, plan_ns;  // the last of each
  int64_t replans_lanes;  // a plan was made again with lanes, or without
  int32_t lanes;          // most at once in the last plan; 1: none
  int32_t sections;       // stretches of the last plan that have lanes
  // A replay of the last plan that got lanes: without them, and with.
  int64_t serial_ns, lanes_ns;
} opgraft_stats;

OPGRAFT_API void opgraft_executable_stats(const opgraft_executable *executable,
                                          opgraft_stats *stats);
// All of it as JSON, with the list of fallbacks and clones (operator, reason,
// file, line) and what each pass did. Lengths as opgraft_graph_print.
OPGRAFT_API size_t opgraft_executable_describe(
    const opgraft_executable *executable, char *buffer, size_t size);

#ifdef __cplusplus
}
#endif

#endif  // OPGRAFT_GRAPH_H
