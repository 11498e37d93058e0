// SPDX-License-Identifier: Apache-2.0
// Graphs: built from a host's records or from text, finished by the passes.
//
//   opgraft_graph_create -> add_input, add_node, add_output -> finish
//
// executable.h runs them. A graph belongs to one thread until finish;
// afterwards any number of threads may use it at once. Errors are as in
// opgraft.h, and so are structs that begin with struct_size.

#ifndef OPGRAFT_GRAPH_H
#define OPGRAFT_GRAPH_H

#include <opgraft/opgraft.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct opgraft_graph opgraft_graph;

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
// schema has none), are called directly: by nodes that are there, of a graph
// that was opened or parsed too, and by those to come. The graph keeps a
// reference. OG_INVALID after finish.
OPGRAFT_API og_status opgraft_graph_add_module(opgraft_graph *graph,
                                               opgraft_module *module,
                                               opgraft_error *error);

OPGRAFT_API og_status opgraft_graph_size(opgraft_graph *graph, int64_t value,
                                         opgraft_size *out_size,
                                         opgraft_error *error);
// From text: integers, floats, symbols (a letter, then letters, digits, _),
// + - * // % **, parentheses, and the calls that sympy prints for a SymInt or
// SymFloat or that docs/ir.md lists. Symbols are made by their first use. A
// float may be an argument, but no dim, stride, input or output.
OPGRAFT_API og_status opgraft_graph_size_parse(opgraft_graph *graph,
                                               const char *text,
                                               opgraft_size *out_size,
                                               opgraft_error *error);

enum {
  // Flags may have one of OPGRAFT_OPTION_PRECISION_* besides: of contractions
  // whose weight it is, in place of the graph's.
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
  og_device device;  // where its memory is; {0, 0}: the CPU
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

enum {
  OPGRAFT_WRITTEN = 1,   // a result replaces it
  OPGRAFT_WRITTEN_PART,  // a view of a base: that is replaced
  OPGRAFT_WRITTEN_BASE,  // no argument of the operator's, behind those
};

// Fixed.
typedef struct opgraft_arg {
  const char *name;  // of a keyword argument; NULL for a positional one
  int16_t kind;      // OPGRAFT_ARG_*
  int16_t written;   // of a VALUE that the operator writes: OPGRAFT_WRITTEN_*
  int32_t count;     // of a LIST: its entries
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
  uint32_t result_size;  // sizeof(opgraft_value_info): they lie so far apart
  int32_t line;
  const char *file;  // the user's source; may be NULL
  // The node's own number in the host's graph; fallbacks are called with it.
  int32_t host_node;
  int32_t reserved;
} opgraft_record;

enum {
  OPGRAFT_RECORD_RANDOM = 1u,       // ordered, never merged
  OPGRAFT_RECORD_SIDE_EFFECT = 2u,  // ordered, never removed
  OPGRAFT_RECORD_MUTATES = 4u,      // writes arguments that it does not name
  // A number that its tensor's type cannot hold does not wrap around: the host
  // runs the node.
  OPGRAFT_RECORD_NO_WRAP = 8u,
};

// Translates the record by its row in src/import/aten.def, a module's
// declaration, or, where there is none, as a node that the host runs.
// out_values has room for result_count ids.
//
// Two names carry mutation. "auto_functionalized" stands for a mutating
// operator made functional: args[0] is its name as STR, then come its
// arguments in schema order, then the bases of those that are views. Written
// VALUE arguments say so in opgraft_arg.written; results are
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
// Names the value of output `index`, as text and profiles show it. A value that
// has a name keeps it; a name that text cannot hold is left out.
OPGRAFT_API og_status opgraft_graph_name_output(opgraft_graph *graph,
                                                int32_t index, const char *name,
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
  OPGRAFT_OPTION_FALLBACK_ERROR = 1u,  // a node that is left to the host
  OPGRAFT_OPTION_CLONE_ERROR = 2u,     // a mutation that needs a copy
  // Fused loops and tuned kernels (docs/graph.md): passes and executables read
  // it.
  OPGRAFT_OPTION_MAX_AUTOTUNE = 4u,
  // Functions in fused loops are libm's, not our vector forms.
  OPGRAFT_OPTION_MATH_STRICT = 8u,
  // With OPGRAFT_OPTION_MAX_AUTOTUNE, and one of them: contractions of f32
  // round their operands to bf16 and add up in f32; weights that stay become
  // int8, with a scale for each column, or int4, with one for each group of
  // 128, 64 or 32 of a column's elements (docs/numerics.md).
  OPGRAFT_OPTION_PRECISION_BF16 = 16u,
  OPGRAFT_OPTION_PRECISION_INT8 = 32u,
  OPGRAFT_OPTION_PRECISION_INT4 = 64u,
  OPGRAFT_OPTION_PRECISION_INT4_64 = 128u,
  OPGRAFT_OPTION_PRECISION_INT4_32 = 256u,
  // With one of int8 and int4: over such weights activations are rounded to
  // int8 as well, with a scale for each row.
  OPGRAFT_OPTION_ACTIVATIONS_INT8 = 512u,
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

// C of a module's formulas and what is derived from them, one function for each
// program in f32 that calls of one floating type need: what `opgraft build`
// compiles beside the author's file, for machines that the row engine does not
// know. Empty without formulas. Any thread. Lengths as opgraft_graph_print.
OPGRAFT_API size_t opgraft_module_print_code(const opgraft_module *module,
                                             char *buffer, size_t size);

#ifdef __cplusplus
}
#endif

#endif  // OPGRAFT_GRAPH_H
