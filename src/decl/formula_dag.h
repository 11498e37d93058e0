// SPDX-License-Identifier: Apache-2.0
// A formula's values as a graph in which each value stands once, for what is
// derived from it (formula_grad.c).
//
// Nodes come behind their operands. `needs` are bits of the formula's inputs:
// where one of these is absent the node has no value.

#ifndef OG_DECL_FORMULA_DAG_H
#define OG_DECL_FORMULA_DAG_H

#include "decl/formula.h"

enum {
  // + og_loop_reduction: of operand 0; running sums are among them.
  OG_DAG_REDUCE = OG_SCALAR_COUNT,
  // Operand 0 where all inputs of `slot` (bits) are given, else operand 1; none
  // of them: no value.
  OG_DAG_CHOICE = OG_DAG_REDUCE + OG_LOOP_REDUCTION_COUNT,
  OG_DAG_NODES_MAX = 1 << 13,
  OG_DAG_BUCKETS = 1 << 12,
};

typedef struct og_dag_node {
  int32_t op;
  bool is_row;  // one element for the row
  uint32_t needs;
  int32_t slot;  // of loads: an input, or behind these what the reader says
  int32_t in[3];
  double value;
  int32_t next;  // in the bucket
} og_dag_node;

typedef struct og_dag {
  const og_decl *decl;
  const struct og_formula *f;
  og_dag_node *nodes;
  int32_t count;
  int32_t own_count;  // those of the formula itself come first
  bool simplifies;  // what is derived; a formula's own values stay as they are
  bool failed;      // too large; what is added then is node 0
  int32_t buckets[OG_DAG_BUCKETS];
  int32_t current[OG_LOOP_STATEMENTS_MAX];  // by the formula's name
  int32_t outputs[OG_LOOP_OUTPUTS_MAX];     // the node of each output
} og_dag;

// The values of the declaration's formula. False when memory is short.
bool og_dag_init(og_dag *dag, const og_decl *decl);
void og_dag_reset(og_dag *dag);

// Each gives the node that has the value, which may be there already.
int32_t og_dag_const(og_dag *dag, double value);
int32_t og_dag_load(og_dag *dag, int32_t slot, bool is_row, uint32_t needs);
int32_t og_dag_add(og_dag *dag, int32_t op, int32_t a, int32_t b, int32_t c);
int32_t og_dag_reduce(og_dag *dag, og_loop_reduction reduction, int32_t a);
int32_t og_dag_choice(og_dag *dag, uint32_t given, int32_t a, int32_t b);

bool og_dag_is_const(const og_dag *dag, int32_t node, double value);
int32_t og_dag_arity(const og_dag_node *node);
// Whether a tensor or result has one element for each row. (What lacks a pack
// that ends in the row has so only in a call.)
bool og_dag_is_row_place(const struct og_formula *f,
                         const og_formula_place *place);

#endif  // OG_DECL_FORMULA_DAG_H
