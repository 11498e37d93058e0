// SPDX-License-Identifier: Apache-2.0
// The IR: values, nodes, and what they share.
//
// Invariants: ids are indices; nodes stand in execution order; a value is
// defined once, before its uses. A value lies in the storage of its root: a
// view has its base's root, a result written in place the root of the operand
// that it overwrites, every other value is its own root. Offsets count
// elements from the root's first; a root's own is 0. Reading a value whose
// storage a later node has overwritten is an error that the verifier finds.

#ifndef OG_GRAPH_GRAPH_H
#define OG_GRAPH_GRAPH_H

#include <opgraft/graph.h>
#include <stdbool.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "graph/blocks.h"
#include "graph/size.h"
#include "scalar/scalar.h"

// --- Operators ---------------------------------------------------------------

// What an operator is, one row of ops.def each.
enum {
  OG_OP_VIEW = 1,        // the result is the operand's storage; no work
  OG_OP_POINTWISE = 2,   // element i of the result needs element i only
  OG_OP_RANDOM = 4,      // ordered, never merged or removed
  OG_OP_EFFECT = 8,      // ordered, never removed
  OG_OP_UPDATE = 16,     // result 0 starts as operand 0, and may overwrite it
  OG_OP_WRITE = 32,      // overwrites operand 0; the result is it, changed
  OG_OP_FOREIGN = 64,    // the host's operator, or a module's
  OG_OP_COMMUTES = 128,  // operands 0 and 1 may change places
};

enum { OG_OP_ATTR_MAX = 8 };

typedef struct og_op_info {
  const char *name;
  int32_t in_min, in_max;  // in_max -1: any number
  int32_t out_count;       // -1: any number
  // Operands are converted to the result's type, so that a literal may stand
  // for a tensor.
  bool converts;
  uint32_t flags;
  const char *attrs;       // "dims keepdim"
  const char *expression;  // of a pointwise operator, over a, b, c and d
  uint32_t classes;        // OG_CLASSES_*, that it computes in
} og_op_info;

#define OG_OP(id, in_min, in_max, outs, flags, attrs, plain, fast) OG_IR_##id,
#define OG_PW(id, arity, flags, rule, classes, expression) OG_IR_##id,
enum {
#include "graph/ops.def"
  OG_IR_COUNT
};
#undef OG_OP
#undef OG_PW

extern const og_op_info og_ops[OG_IR_COUNT];

// --- Values and nodes --------------------------------------------------------

typedef enum og_value_kind {
  OG_VALUE_INPUT,
  OG_VALUE_CONSTANT,  // a tensor that the graph holds
  OG_VALUE_LITERAL,   // one number, written where it is used
  OG_VALUE_RESULT,
} og_value_kind;

typedef struct og_value {
  og_value_kind kind;
  og_dtype dtype;
  og_device device;  // of a literal: the CPU
  int32_t ndim;
  const opgraft_size *shape;
  const opgraft_size *strides;
  opgraft_size offset;  // in its root's storage
  opgraft_value root;
  int32_t node;  // that makes it, else -1
  // Which of the node's results; an input's position; of a literal, 1 + the
  // next one.
  int32_t result;
  uint32_t flags;            // OPGRAFT_INPUT_*
  opgraft_size host_offset;  // as the host gave it, to relate views
  bool is_host_view;         // a view of the host's own, not of a pass
  const char *name;          // NULL: its number
  const void *data;          // of a constant, row-major as its strides say
  size_t data_bytes;
  union {
    int64_t i;  // a literal's number: OG_CODE_INT and OG_CODE_BOOL
    double f;   // OG_CODE_FLOAT
  } number;
} og_value;

// The node of the host's graph that a node comes from, as it was recorded.
// Several nodes may share one. VALUE arguments hold positions among the
// operands of the node that is as recorded, -1 where there is none.
typedef struct og_origin {
  const char *name;
  const opgraft_arg *args;
  int32_t arg_count;
  int32_t host_node;
  const opgraft_op *module_op;  // called directly where there is one
  const char *reason;           // why it is the host's; NULL if it is not
} og_origin;

typedef struct og_node {
  int32_t op;
  int32_t in_count, out_count;
  uint32_t flags;  // OG_OP_RANDOM, OG_OP_EFFECT of a foreign operator
  opgraft_value *in;
  opgraft_value *out;
  const opgraft_arg *attrs;  // by the operator's list; NULL if it has none
  const og_origin *origin;   // NULL: a view, or a graph read from text
  // The node computes the origin's operator on its own operands, so
  // that the host may run it. Who changes the one but not the other clears it.
  bool is_as_recorded;
  // Of result r: 1 + the operand whose old contents it starts from, 0 if none;
  // NULL if no result does. A result may lie in another one's storage: an
  // operator that writes parts of a base gives the base, then the parts.
  const int32_t *update;
  // Of result r: why it could not be written in place. Set by the pass.
  const char **clone_reason;
  // Why the node is in no row program, where it might be; set by pass fuse.
  const char *unfused_reason;
  int32_t
      member_count;  // of a row program: the nodes that it took the place of
  const char *file;  // NULL: the source is not known
  int32_t line;      // 0: `file` is a module of the model, not a file
  bool is_removed;
  // It depends on constants and parameters alone; set by pass steady.
  bool is_steady;
} og_node;

typedef struct og_input {
  const char *name;
  opgraft_value value;  // -1: an integer
  opgraft_size size;    // of an integer
} og_input;

typedef struct og_output {
  opgraft_value value;  // -1: none or an integer
  opgraft_size size;    // -1 if it is not an integer
} og_output;

// What one pass did.
typedef struct og_pass_stat {
  const char *name;
  int32_t changes;
  int64_t time_ns;
} og_pass_stat;

enum { OG_PASS_MAX = 16 };

typedef struct og_prepacked og_prepacked;

struct opgraft_graph {
  int32_t references;  // atomic
  bool is_finished;
  bool is_text;  // read from text: views may not leave their storage
  const char *name;
  og_sizes sizes;
  og_value *values;
  int32_t value_count, value_capacity;
  int32_t literal_head;  // 1 + the last literal
  og_node *nodes;
  int32_t node_count, node_capacity;
  og_input *inputs;
  int32_t input_count, input_capacity;
  og_output *outputs;
  int32_t output_count, output_capacity;
  opgraft_module **modules;
  int32_t module_count, module_capacity;
  og_pass_stat pass_stats[OG_PASS_MAX];
  int32_t pass_stat_count;
  uint32_t option_flags;  // OPGRAFT_OPTION_*, from the first pass on
  int64_t import_ns, passes_ns;
  // The file that it was read from; constants lie in `data`, a part of it.
  og_mapping file;
  const char *data;
  size_t data_bytes;
  og_blocks blocks;       // its data and packed forms, to be checked
  og_prepacked *packed;   // by og_prepacked_compare
  const char *file_text;  // NULL: it is not of a graph file
  size_t file_text_bytes;
  int32_t packed_count;
  struct og_import_table *import_table;  // the importer's
  const char *last_file;                 // of the record before
  og_arena arena;
};

// --- Building ----------------------------------------------------------------

og_status og_graph_no_memory(opgraft_error *error);

// The graph keeps a reference to the module; once, however often it is given.
// OG_INVALID after finish.
og_status og_graph_hold(opgraft_graph *graph, opgraft_module *module,
                        opgraft_error *error);

// What a caller says of a value, who may be of another age.
og_status og_value_info_copy(const opgraft_value_info *from,
                             opgraft_value_info *out, opgraft_error *error);
// A new value that is its own root, row-major where `strides` is NULL. The
// arrays are copied.
og_status og_graph_add_value(opgraft_graph *graph, og_value_kind kind,
                             og_dtype dtype, og_device device, int32_t ndim,
                             const opgraft_size *shape,
                             const opgraft_size *strides,
                             opgraft_value *out_value, opgraft_error *error);
og_status og_graph_literal_int(opgraft_graph *graph, int64_t number,
                               opgraft_value *out_value, opgraft_error *error);
og_status og_graph_literal_bool(opgraft_graph *graph, bool number,
                                opgraft_value *out_value, opgraft_error *error);
og_status og_graph_literal_float(opgraft_graph *graph, double number,
                                 opgraft_value *out_value,
                                 opgraft_error *error);
// Appends a node; operands, results and attributes are copied. Results must
// be values without a node.
og_status og_graph_append(opgraft_graph *graph, int32_t op,
                          const opgraft_value *in, int32_t in_count,
                          const opgraft_value *out, int32_t out_count,
                          const opgraft_arg *attrs, int32_t *out_node,
                          opgraft_error *error);
// The literal after it was stored as this type.
og_status og_graph_literal_as(opgraft_graph *graph, opgraft_value literal,
                              og_dtype dtype, opgraft_value *out_value,
                              opgraft_error *error);
const char *og_graph_string(opgraft_graph *graph, const char *text);

// The row-major strides of a shape.
og_status og_graph_strides(opgraft_graph *graph, const opgraft_size *shape,
                           int32_t ndim, opgraft_size *out_strides,
                           opgraft_error *error);
// Whether two values have equal shape (and strides and offset in one storage).
bool og_value_same_shape(const og_value *a, const og_value *b);
bool og_value_same_place(const og_value *a, const og_value *b);
bool og_value_is_dense(opgraft_graph *graph, const og_value *value);

// --- Messages ----------------------------------------------------------------

// Operands, then results, by one index; -1: missing.
static inline opgraft_value og_node_value(const og_node *node, int32_t i) {
  return i < node->in_count ? node->in[i] : node->out[i - node->in_count];
}

// What a record has for an argument; NULL where it has nothing.
const opgraft_arg *og_origin_arg(const og_origin *origin, const char *name,
                                 int32_t position);

// The operator's name, as the host says it where there is one.
static inline const char *og_node_name(const og_node *node) {
  return node->origin != NULL ? node->origin->name : og_ops[node->op].name;
}

// Of a message: room for what og_node_source writes.
typedef struct og_source {
  char text[160];
} og_source;

// " (model.py:12)", " (module encoder.0)", or "" where the source is not known
// or the node is NULL; in `out`.
const char *og_node_source(const og_node *node, og_source *out);

// Whether result r lies in the storage of another result of its node.
static inline bool og_result_is_part(const opgraft_graph *graph,
                                     const og_node *node, int32_t r) {
  if (node->out[r] < 0) return false;
  const og_value *value = &graph->values[node->out[r]];
  const og_value *root = &graph->values[value->root];
  return value->root != node->out[r] && root->kind == OG_VALUE_RESULT &&
         root->node == value->node;
}

// The node that makes a value; NULL: none does.
static inline const og_node *og_maker_of(const opgraft_graph *graph,
                                         opgraft_value value) {
  const int32_t node = value >= 0 ? graph->values[value].node : -1;
  return node >= 0 ? &graph->nodes[node] : NULL;
}

static inline bool og_op_is(const og_node *node, uint32_t flag) {
  return (og_ops[node->op].flags & flag) != 0;
}

static inline bool og_is_contraction(const og_node *node) {
  return node->op == OG_IR_matmul || node->op == OG_IR_addmm;
}

// The OPGRAFT_OPTION_PRECISION_*, with OPGRAFT_OPTION_ACTIVATIONS_INT8 or
// without, and what they are called. A name that begins another, and flags that
// are a part of another's, stand behind it.
typedef struct og_precision {
  uint32_t flag;
  const char *name;
} og_precision;
enum {
  OG_PRECISIONS = 9,
  OG_PRECISION_FLAGS =
      OPGRAFT_OPTION_PRECISION_BF16 | OPGRAFT_OPTION_PRECISION_INT8 |
      OPGRAFT_OPTION_PRECISION_INT4 | OPGRAFT_OPTION_PRECISION_INT4_64 |
      OPGRAFT_OPTION_PRECISION_INT4_32 | OPGRAFT_OPTION_ACTIVATIONS_INT8
};
extern const og_precision og_precisions[OG_PRECISIONS];
// The first that is in flags; NULL: none is.
const og_precision *og_precision_find(uint32_t flags);
const char *og_precision_name(uint32_t flags);
// What was asked for: of a contraction's or convolution's weight, else of the
// graph.
uint32_t og_precision_of(const opgraft_graph *graph, const og_node *node);

// Whether a kernel may hand its result to a reader part by part.
static inline bool og_has_tiles(const og_node *node) {
  return og_is_contraction(node) || node->op == OG_IR_convolution;
}

#endif  // OG_GRAPH_GRAPH_H
