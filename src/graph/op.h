// SPDX-License-Identifier: Apache-2.0
// The operator table and its look-ups.

#ifndef OG_GRAPH_OP_H
#define OG_GRAPH_OP_H

#include "graph/graph.h"

// The expression of a pointwise operator; slots of loads are operands. Failure:
// OG_INVALID, at the span, which the tests rule out.
og_status og_op_parse(int32_t op, og_scalar_code *out, opgraft_error *error);
// -1 if there is none.
int32_t og_op_find(const char *name, size_t length);
// The position of an attribute among the operator's, -1 if it has none such.
int32_t og_op_attr_index(int32_t op, const char *name, size_t length);
// The name of attribute `index` (with its length), NULL past the last.
const char *og_op_attr_name(int32_t op, int32_t index, size_t *out_length);
int32_t og_op_attr_count(int32_t op);
// A node's attribute by index; kind NONE if absent. Accessors with a default.
const opgraft_arg *og_node_attr(const og_node *node, int32_t index);

#endif  // OG_GRAPH_OP_H
