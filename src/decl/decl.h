// SPDX-License-Identifier: Apache-2.0
// What an operator says, parsed once at load.
//
// og_decl_create turns the strings of an og_op into tables: parameters,
// results, shape patterns, expression programs, type rules, the gradient map.
// Everything is immutable afterwards and shared between threads. The same
// tables serve og_infer (integers, here), the Python function over SymInts
// (as JSON, og_decl_describe) and the graph engine's symbolic dims. Where
// <opgraft/info.h> has an enum for the same thing, the values are its own, so
// that the getters copy them.

#ifndef OG_DECL_DECL_H
#define OG_DECL_DECL_H

#include <opgraft/info.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "scalar/scalar.h"

// --- Schema ------------------------------------------------------------------

typedef enum og_type {
  OG_TYPE_TENSOR = OPGRAFT_TYPE_TENSOR,
  OG_TYPE_INT = OPGRAFT_TYPE_INT,
  OG_TYPE_SYM_INT = OPGRAFT_TYPE_SYM_INT,
  OG_TYPE_FLOAT = OPGRAFT_TYPE_FLOAT,
  OG_TYPE_BOOL = OPGRAFT_TYPE_BOOL,
  OG_TYPE_STR = OPGRAFT_TYPE_STR,
  OG_TYPE_SCALAR = OPGRAFT_TYPE_SCALAR,
  OG_TYPE_SCALAR_TYPE = OPGRAFT_TYPE_SCALAR_TYPE,
  OG_TYPE_DEVICE = OPGRAFT_TYPE_DEVICE,
} og_type;

typedef struct og_param {
  const char *name;
  og_type type;
  bool is_list;
  bool is_optional;          // T?, T[]?
  bool is_element_optional;  // T?[]
  bool is_keyword_only;
  bool is_mutated;  // Tensor(a!)
  bool has_default;
  int32_t list_size;      // int[2]: 2, else 0
  char alias_set;         // 'a', or 0
  int32_t index;          // among the tensor arguments, or among the others
  int32_t out_index;      // a mutated tensor's position in call->out, else -1
  og_attr default_value;  // kind NONE for None
} og_param;

typedef struct og_result {
  const char *name;  // "" when the schema names none
  og_type type;      // TENSOR, or INT: a number that `value` computes
  bool is_list;
  int32_t alias_param;  // the mutated parameter that this result is, else -1
  int32_t fresh_index;  // among the fresh results, else -1
  int32_t value_index;  // among the int results (og_decl.values), else -1
} og_result;

// --- Expressions -------------------------------------------------------------
// Integer postfix. `slot` and `value` mean what the comment says. Division
// rounds to negative infinity, as Python's; comparisons give 0 or 1. An
// operation that cannot be done (overflow, division by zero, an index out of
// range) gives a poisoned value, and so does every operation on one, but for
// what `and`, `or` and `select` did not need; only a poisoned end is an error.
// Absent arguments count 0 (a list's product 1), unbound dims 0.

#define OG_CODE_LIST(X)                                                      \
  X(CONST, "const")         /* push value */                                 \
  X(DIM, "dim")             /* push dim slot (a pack: its product) */        \
  X(ATTR, "attr")           /* push int, bool or SymInt argument slot */     \
  X(ATTR_AT, "attr_at")     /* i -> int-list argument slot, element i */     \
  X(ATTR_LEN, "attr_len")   /* push the length of list argument slot */      \
  X(ATTR_PROD, "attr_prod") /* push the product of int-list argument slot */ \
  X(ATTR_SUM, "attr_sum")   /* push the sum of int-list argument slot */     \
  X(LIST_LEN, "list_len")   /* push the length of tensor-list argument */    \
  X(PACK_RANK, "pack_rank") /* push the count of dims of pack slot */        \
  X(PACK_AT, "pack_at")     /* i -> pack slot, dim i (negative from end) */  \
  X(VARY_AT, "vary_at")     /* i -> varying dim slot in list entry i */      \
  X(GIVEN_TENSOR,                                                            \
    "given_tensor")           /* push 1 if tensor argument slot is there */  \
  X(GIVEN_ATTR, "given_attr") /* push 1 if argument slot is not None */      \
  X(INDEX, "index")           /* push i of the output list being inferred */ \
  X(THREADS, "threads")       /* push the thread count (workspace only) */   \
  X(ITEM_BYTES, "item_bytes") /* push the element size of tensor argument */ \
  X(FLOAT_SIGN, "float_sign") /* push the sign of float argument slot less   \
                                 the number whose bits `value` holds */      \
  X(ADD, "add")                                                              \
  X(SUB, "sub")                                                              \
  X(MUL, "mul")                                                              \
  X(FLOOR_DIV, "floor_div") /* a // b; b == 0 is an error */                 \
  X(CEIL_DIV, "ceil_div")                                                    \
  X(MOD, "mod")                                                              \
  X(NEG, "neg")                                                              \
  X(MIN, "min")                                                              \
  X(MAX, "max")                                                              \
  X(SELECT, "select") /* c a b -> c ? a : b */                               \
  X(EQ, "eq")                                                                \
  X(NE, "ne")                                                                \
  X(LT, "lt")                                                                \
  X(LE, "le")                                                                \
  X(GT, "gt")                                                                \
  X(GE, "ge")                                                                \
  X(AND, "and")                                                              \
  X(OR, "or")                                                                \
  X(NOT, "not")
#define OG_CODE_ENUM(name, text) OG_CODE_##name##_,
enum { OG_CODE_LIST(OG_CODE_ENUM) OG_CODE_COUNT_ };
#undef OG_CODE_ENUM

typedef struct og_instruction {
  int32_t op;  // OG_CODE_*_
  int32_t slot;
  int64_t value;
} og_instruction;

typedef struct og_expr {
  const og_instruction *code;
  int32_t count;  // 0: no expression
  int32_t begin;  // span in the declaration string
  int32_t end;
  bool needs_packs;  // asks for a pack's rank or dims, or a varying dim's
} og_expr;

enum {
  OG_EXPR_DEPTH_MAX = 64,  // values on the stack
  OG_EXPR_CODE_MAX = 256   // instructions of one expression
};

// --- Shapes ------------------------------------------------------------------

typedef enum og_dim_kind {
  OG_DIM_SIZE = OPGRAFT_DIM_SIZE,    // D: one size
  OG_DIM_PACK = OPGRAFT_DIM_PACK,    // *N: any number of dims
  OG_DIM_VARY = OPGRAFT_DIM_VARY,    // D~: one size in each entry of a list
  OG_DIM_FOUND = OPGRAFT_DIM_FOUND,  // K <= bound: set by the kernel
} og_dim_kind;

typedef struct og_dim {
  const char *name;
  og_dim_kind kind;
  bool is_always_bound;  // else only when an optional argument is given
} og_dim;

typedef enum og_item_kind {
  OG_ITEM_DIM,        // dim: binds it, or compares with it when bound
  OG_ITEM_PACK,       // dim
  OG_ITEM_EXPR,       // expr: compared (argument) or computed (result)
  OG_ITEM_FOUND,      // dim, expr: its bound (results, first item only)
  OG_ITEM_ATTR_PACK,  // attr: *sizes, the dims from an int list
  OG_ITEM_BROADCAST,  // packs: *broadcast(A, B, ...)
  OG_ITEM_PERMUTE,    // packs[0], attr: *permute(N, dims)
  OG_ITEM_DROP,       // packs[0], attr: *drop(N, dims): without those dims
  OG_ITEM_KEEP,       // packs[0], attr: *keep(N, dims): those dims become 1
  OG_ITEM_INSERT,     // packs[0], attr, expr: *insert(N, dim, size): one more
                      // dim there (results only)
} og_item_kind;
// The five before the last may also stand in an argument's pattern, where they
// are compared, once what they are computed from is bound.

typedef struct og_item {
  og_item_kind kind;
  int32_t dim;
  int32_t attr;  // the int (or int-list) argument, -1 if none. In an argument
                 // pattern, D@attr: the dim that this argument picks
  og_expr expr;
  int32_t packs[8];
  int32_t pack_count;
  int32_t begin;
  int32_t end;
} og_item;

typedef struct og_pattern {
  int32_t tensor;  // tensor argument position
  int32_t item_count;
  const og_item *items;
  int32_t pack_count;  // items that stand for any number of dims
  int32_t pick;        // the item D@attr, else -1
  bool is_list;        // every entry of a tensor list
  bool is_plain;       // no list, no D@attr, at most one item *N, no computed
                       // packs: what the fast matcher takes
  bool has_exprs;      // sizes to compare once all names are bound
  int32_t begin;
  int32_t end;
} og_pattern;

typedef enum og_shape_kind {
  OG_SHAPE_ITEMS,     // [*N, O]
  OG_SHAPE_LIKE,      // like x: x's sizes and strides
  OG_SHAPE_LIST,      // {i < count: [items]}
  OG_SHAPE_CALLBACK,  // the operator's own infer
} og_shape_kind;

typedef struct og_shape_rule {
  og_shape_kind kind;
  int32_t like_tensor;
  og_expr list_count;
  int32_t begin;  // span in the shape string
  int32_t end;
  int32_t item_count;
  const og_item *items;
} og_shape_rule;

typedef struct og_condition {
  og_expr expr;
  const char *text;
} og_condition;

// What `where` says of an integer argument's values. No host looks at values:
// the kernel refuses others, and check and bench draw such.
typedef struct og_value_range {
  int32_t tensor;
  bool is_offsets;  // from 0, not falling, to `end`; else below `end`
  og_expr begin;
  og_expr end;
} og_value_range;

// --- Types -------------------------------------------------------------------

enum {
  OG_TYPE_SET_MAX = 24,  // types in the table
  OG_VARIABLE_MAX = 8    // free types of one operator
};

// A set of dtypes, by index into og_dtype_table.
typedef uint32_t og_type_set;

typedef struct og_type_rule {  // of a tensor argument
  int32_t same_as;   // the tensor argument whose type this one has, or -1
  int32_t variable;  // the free type that this argument binds or (with same_as)
                     // has; -1 where only one type is possible
  og_type_set set;   // what it takes
} og_type_rule;

typedef enum og_out_type_kind {
  OG_OUT_TYPE_FIXED = OPGRAFT_DTYPE_FIXED,      // dtype
  OG_OUT_TYPE_SAME = OPGRAFT_DTYPE_SAME,        // tensor
  OG_OUT_TYPE_PROMOTE = OPGRAFT_DTYPE_PROMOTE,  // params: torch.result_type
  OG_OUT_TYPE_ATTR = OPGRAFT_DTYPE_ATTR,  // attr, a ScalarType; when None,
                                          // `tensor`
} og_out_type_kind;

typedef struct og_out_type {
  og_out_type_kind kind;
  og_dtype dtype;
  int32_t tensor;
  int32_t attr;
  int32_t params[8];  // parameter positions (tensors and Scalars)
  int32_t param_count;
} og_out_type;

typedef enum og_stride_rule {
  OG_STRIDES_CONTIGUOUS = OPGRAFT_STRIDES_CONTIGUOUS,
  OG_STRIDES_ANY = OPGRAFT_STRIDES_ANY,
  // The last dim has stride 1 (or size <= 1).
  OG_STRIDES_LAST = OPGRAFT_STRIDES_LAST,
} og_stride_rule;

// --- Gradient ----------------------------------------------------------------

typedef enum og_grad_kind {
  OG_GRAD_MISSING = OPGRAFT_GRAD_MISSING,  // asking for one is an error
  OG_GRAD_NONE = OPGRAFT_GRAD_NONE,        // "none": zero, by the author's word
  OG_GRAD_OPERATOR = OPGRAFT_GRAD_OPERATOR,
  OG_GRAD_DERIVED = OPGRAFT_GRAD_DERIVED,
} og_grad_kind;

typedef struct og_grad {
  og_grad_kind kind;
  const char *op_name;
  const opgraft_grad_arg *args;
  int32_t arg_count;
  const int32_t *targets;  // parameter of each result of the backward operator
  int32_t target_count;
} og_grad;

// --- Parts -------------------------------------------------------------------
// How a call is made of calls on parts of its arguments: what a host that
// shards tensors, and `opgraft check`, read from `reduce`.

typedef enum og_parts_join {
  OG_JOIN_NONE,  // every output has the dim: parts are put one after another
  // How an output without the dim comes from those of the parts.
  OG_JOIN_SAME,  // each part has the whole
  OG_JOIN_SUM,
  OG_JOIN_PROD,
  OG_JOIN_MAX,
  OG_JOIN_MIN,
} og_parts_join;

enum { OG_CUT_DIMS_MAX = 4 };

typedef struct og_cut {
  // Cut into equally many parts; of several, one of size 1 stays whole.
  int32_t dims[OG_CUT_DIMS_MAX];
  int32_t dim_count;
  int32_t block;  // a part's size is a multiple of it
  og_parts_join join;
  // Bits of tensor arguments without the dims that the sum must count once.
  uint64_t once;
  int32_t unless_attr;  // a str argument, -1 if none: where it has this value,
  const char *unless_text;  // nothing is cut
} og_cut;

// --- What check would find, and is meant -------------------------------------

typedef enum og_expect_kind {
  OG_EXPECT_UNUSED,       // nothing depends on the argument
  OG_EXPECT_UNUSED_END,   // nor on its first or last element, or those between
  OG_EXPECT_UNMUTATED,    // declared as mutated, it stays as it is
  OG_EXPECT_NO_GRADIENT,  // no gradient, or not everywhere; of a result: its
                          // own gradient goes nowhere
  OG_EXPECT_NAN,          // where a mask hides a row, it becomes NaN
  OG_EXPECT_TYPE_DEPENDENT,  // its layout differs between types
  OG_EXPECT_COUNT,
} og_expect_kind;

typedef struct og_expect {
  og_expect_kind kind;
  const char *name;  // of an argument, or of a result as og_result_name has it
} og_expect;

// --- What the results are ----------------------------------------------------
// Expressions in f64 over named dims. A node is a program over the dims `free`
// and `over`, and then reduced over the latter.

typedef enum og_reduce {
  OG_REDUCE_NONE,
  OG_REDUCE_SUM,
  OG_REDUCE_MEAN,
  OG_REDUCE_PROD,
  OG_REDUCE_MAX,
  OG_REDUCE_MIN,
} og_reduce;

// Slots of loads: tensors, then nodes, then places along a dim; of numbers:
// other arguments, then sizes of dims.
enum {
  OG_REFERENCE_NODES = OPGRAFT_ARG_MAX,
  OG_REFERENCE_NODE_MAX = 32,
  OG_REFERENCE_PLACES = OG_REFERENCE_NODES + OG_REFERENCE_NODE_MAX,
  OG_REFERENCE_SIZES = OPGRAFT_ATTR_MAX,
};

typedef struct og_reference_node {
  og_scalar_program program;
  og_reduce reduce;
  uint64_t free;  // bits of dims
  uint64_t over;
} og_reference_node;

typedef struct og_reference {
  const og_reference_node *nodes;  // each behind those that it loads
  int32_t node_count;
  const int32_t *results;  // the node of each fresh result
} og_reference;

// --- The declaration ---------------------------------------------------------

typedef struct og_decl {
  const og_op *record;  // a copy of the module's, filled up with zeros to
                        // this library's size
  og_kernel *kernels;   // copied to this library's size
  int32_t kernel_count;
  // What kernel k takes of free type v: kernel_types[k * OG_VARIABLE_MAX + v];
  // from its `dtypes`, all types where that is NULL.
  og_type_set *kernel_types;
  uint32_t flags;
  const char *name;       // "f" or "f.overload"
  const char *base_name;  // "f"
  const char *overload;   // "" if none
  og_param *params;
  int32_t param_count;
  int32_t tensor_count;
  int32_t attr_count;
  int32_t mutated_count;
  int32_t *tensor_params;  // parameter position by tensor position
  int32_t *attr_params;
  uint16_t *attr_kinds;      // by attribute: the OG_ATTR_* it may have, as bits
  int32_t *mutated_tensors;  // tensor position by position in call->out
  og_result *results;
  int32_t result_count;
  int32_t fresh_count;
  int32_t *fresh_results;  // result position by fresh index
  og_dim *dims;
  int32_t dim_count;
  og_pattern *patterns;  // in an order in which each can be matched
  int32_t pattern_count;
  bool has_expr_items;    // a pattern has exprs to compare
  og_shape_rule *shapes;  // by fresh index
  og_expr *values;        // of the int results, by value_index
  int32_t value_count;
  og_condition *conditions;
  int32_t condition_count;
  og_value_range *ranges;  // at most one of a tensor argument
  int32_t range_count;
  og_type_rule *types;  // by tensor position
  int32_t type_variable_count;
  og_out_type *out_types;   // by fresh index
  og_stride_rule *strides;  // by tensor position
  og_expr workspace;
  og_grad grad;
  og_cut *cuts;
  int32_t cut_count;
  og_expect *expects;
  int32_t expect_count;
  int32_t inplace_param;  // of a derived in-place form, or -1
  bool has_lists;         // a tensor list among arguments or results
  bool has_data_dependent_result;
  bool is_formula_derived;     // the kernel is the formula itself
  bool is_derived;             // the operator is another formula's derivative
  struct og_formula *formula;  // of `row`, or NULL (decl/formula.h)
  const og_op *gradient;       // derived from the formula, or NULL
  const og_grad *derived_by;   // of a derivative that was asked for, or NULL
  const og_reference *reference;  // of `reference`, or NULL
  const struct og_quick *quick;   // tables for the short way, or NULL
  og_arena arena;                 // owns all of the above
} og_decl;

// Parses every string of `record` (op_size bytes of which are valid). Failure:
// OG_INVALID with the declaration's span, OG_MEMORY.
og_status og_decl_create(const og_op *record, uint32_t op_size,
                         og_decl **out_decl, opgraft_error *error);
void og_decl_destroy(og_decl *decl);
// Of a tensor argument; NULL: it has none.
static inline const og_pattern *og_pattern_of(const og_decl *decl,
                                              int32_t tensor) {
  for (int32_t p = 0; p < decl->pattern_count; ++p)
    if (decl->patterns[p].tensor == tensor) return &decl->patterns[p];
  return NULL;
}

// --- Frames and types --------------------------------------------------------

// What frame->heap chains: og_alloc'd (or og_alloc_aligned) blocks that start
// with this header; the last one's next is NULL. opgraft_frame_reset frees each
// with og_free.
typedef struct og_frame_block {
  struct og_frame_block *next;
  uint64_t pad[7];  // what follows is 64-byte aligned where the block is
} og_frame_block;

enum { OG_DTYPE_CODES = 13, OG_DTYPE_BYTES = 17 };
// By code and size in bytes: index + 1, or 0.
extern const uint8_t og_dtype_indices[OG_DTYPE_CODES][OG_DTYPE_BYTES];
// -1 if it is not in the table.
static inline int32_t og_dtype_index(og_dtype dtype) {
  if (dtype.code >= OG_DTYPE_CODES || dtype.bits > 128 || dtype.bits % 8 != 0 ||
      dtype.lanes != 1)
    return -1;
  return og_dtype_indices[dtype.code][dtype.bits / 8] - 1;
}

#endif  // OG_DECL_DECL_H
