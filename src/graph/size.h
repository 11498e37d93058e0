// SPDX-License-Identifier: Apache-2.0
// Expressions over symbols, interned: equal expressions, equal ids.

#ifndef OG_GRAPH_SIZE_H
#define OG_GRAPH_SIZE_H

#include <opgraft/graph.h>
#include <stdbool.h>

#include "base/memory.h"
#include "base/text.h"
#include "graph/size_op.h"

// `a` and `b` are ids below the expression's own; with one operand, b is a.
typedef struct og_size_expr {
  int32_t op;  // og_size_op
  opgraft_size a, b;
  int32_t depth;
  int64_t value;
} og_size_expr;

// Ids 0 and 1 are the numbers 0 and 1.
typedef struct og_sizes {
  og_size_expr *exprs;
  int32_t count, capacity;
  int32_t *slots;  // hash table of ids, -1 is empty
  int32_t slot_count;
  const char **symbols;
  opgraft_size *symbol_ids;
  int32_t symbol_count, symbol_capacity;
  og_arena names;
} og_sizes;

enum { OG_SIZE_ZERO = 0, OG_SIZE_ONE = 1 };
// Bounds every recursion over an expression or its text.
enum { OG_SIZE_DEPTH_MAX = 256 };

og_status og_sizes_init(og_sizes *sizes, opgraft_error *error);
void og_sizes_reset(og_sizes *sizes);

// Failure of these: OG_MEMORY, or OG_INVALID where constants overflow or
// divide by zero, or an operator of integers gets a float.
og_status og_size_const(og_sizes *sizes, int64_t value, opgraft_size *out,
                        opgraft_error *error);
og_status og_size_float(og_sizes *sizes, double value, opgraft_size *out,
                        opgraft_error *error);
og_status og_size_symbol(og_sizes *sizes, const char *name, size_t length,
                         opgraft_size *out, opgraft_error *error);
og_status og_size_make(og_sizes *sizes, og_size_op op, opgraft_size a,
                       opgraft_size b, opgraft_size *out, opgraft_error *error);
bool og_size_is_float(const og_sizes *sizes, opgraft_size size);
// True with the number if it is an integer constant.
bool og_size_get(const og_sizes *sizes, opgraft_size size, int64_t *out_value);
// Every expression's value for these symbol values, a float's as its bits;
// `out_values` has sizes->count places. Failure: OG_SHAPE on overflow or
// division by zero of an expression.
og_status og_sizes_eval(const og_sizes *sizes, const int64_t *symbols,
                        int64_t *out_values, opgraft_error *error);

// An argument whose size is a number: an INT or a FLOAT.
void og_size_resolve(const og_sizes *sizes, const int64_t *values,
                     opgraft_arg *arg);

#endif  // OG_GRAPH_SIZE_H
