// SPDX-License-Identifier: Apache-2.0
// What the files of pass `fuse` share.
//
// A *recipe* is a node's form in a row program, or why it has none. A
// *unit* is a node, or nodes that become one; units are kept in an order in
// which the graph could run (fuse_units.c). When no more can join, each unit
// with recipes is written as one program (fuse_text.c).

#ifndef OG_PASS_FUSE_H
#define OG_PASS_FUSE_H

#include "base/text.h"
#include "graph/graph.h"
#include "loop/program.h"

// The rows of operand data that stay in a core's cache between the phases of a
// program that reduces them.
enum { OG_FUSE_ROW_BYTES_MAX = 512 * 1024 };

typedef enum og_fuse_dims {
  OG_FUSE_ANY,
  OG_FUSE_LAST,
  OG_FUSE_RANK
} og_fuse_dims;

// A row of fuse.def; pointwise operators have theirs from their expression.
typedef struct og_fuse_row {
  const char *text;  // NULL: it has none
  const char *defaults;
  og_fuse_dims dims;
} og_fuse_row;

typedef struct og_recipe {
  const char *text;    // statements; NULL: none
  const char *reason;  // then why; NULL where nobody would expect one
  const char *defaults;
  int32_t ndim;
  const opgraft_size *shape;    // of its rows: [.., W]
  const opgraft_size *strides;  // of results of that shape; NULL: none is
  bool reduces;
  bool needs_elements;  // rows without elements are an error
  // Its result is rounded to fewer bits, which a reader has to see.
  bool narrows;
} og_recipe;

// An order that must stay: `node` runs first.
typedef struct og_before {
  int32_t node;
  bool may_join;  // the reader finds the value in a program that has both
} og_before;

typedef struct og_unit {
  int32_t first, last;  // members, by position in the graph
  int32_t count;
  int32_t slot;  // in the order
  int32_t statements;
  int32_t ndim;  // -1: it cannot be fused
  const opgraft_size *shape, *strides;
  bool reduces;
} og_unit;

typedef struct og_fuser {
  opgraft_graph *graph;
  opgraft_error *error;
  og_arena memory;  // of the pass
  og_recipe *recipes;
  // By value: the result of a row program that a view only broadcasts or gives
  // a last dim of 1; else the value itself.
  opgraft_value *through;
  bool *is_output;
  int32_t *readers;       // nodes that read a value, one after the other
  int32_t *first_reader;  // by value, into readers; count + 1 places
  og_before *before;      // of node n: [before_at[n], before_at[n + 1])
  int32_t *before_at;
  og_unit *units;    // by their first member
  int32_t *unit_of;  // by node; -1: a view, or removed
  int32_t *next;     // the unit's next member, -1 ends
  int32_t *order;    // of units
  int32_t order_count;
  int32_t *stamp;  // by value, of the last count
  int32_t stamps;
} og_fuser;

// Fills the recipes.
og_status og_fuse_recipes(og_fuser *f);
// Whether value v of the node is read, or an output.
bool og_fuse_is_read(const og_fuser *f, opgraft_value v);

// An attribute that is one number, whatever the sizes are.
bool og_fuse_number(const og_fuser *f, const opgraft_arg *attr, double *out);

// Fills what units are made of, and joins them.
og_status og_fuse_units(og_fuser *f);
// Whether a value of a member is needed outside of its unit (or of `with`).
bool og_fuse_escapes(const og_fuser *f, opgraft_value v, int32_t unit,
                     int32_t with);

// A fused unit as a node: operands, results and the program's text, in the
// graph's arena.
og_status og_fuse_write(og_fuser *f, int32_t unit, og_node *out);

extern const og_fuse_row og_fuse_rows[OG_IR_COUNT];

#endif  // OG_PASS_FUSE_H
