// SPDX-License-Identifier: Apache-2.0
// A new list of nodes in place of a graph's, among them some of a pass's own.

#ifndef OG_PASS_REBUILD_H
#define OG_PASS_REBUILD_H

#include "graph/graph.h"

typedef struct og_rebuild {
  opgraft_graph *graph;
  og_node *nodes;  // the new list
  int32_t count, capacity;
  opgraft_error *error;
} og_rebuild;

typedef struct og_view_layout {
  int32_t ndim;
  opgraft_size shape[OPGRAFT_RANK_MAX], strides[OPGRAFT_RANK_MAX];
  opgraft_size offset;
} og_view_layout;

// Puts a node, as it is, behind those that are there.
og_status og_rebuild_put(og_rebuild *list, const og_node *node);
// Puts a node, at the source line of `like`. The arrays are copied.
og_status og_rebuild_node(og_rebuild *list, const og_node *like, int32_t op,
                          const opgraft_value *in, int32_t in_count,
                          const opgraft_value *out, int32_t out_count,
                          const opgraft_arg *attrs, int32_t attr_count);
// Puts a view of a value with a layout of its own.
og_status og_rebuild_view(og_rebuild *list, const og_node *like,
                          opgraft_value of, const og_view_layout *layout,
                          opgraft_value *out);
// A vector of channels as [channels, 1, ..], beside a tensor of `ndim` dims.
og_status og_rebuild_channels(og_rebuild *list, const og_node *like,
                              opgraft_value vector, int32_t ndim,
                              opgraft_value *out);
// A pointwise node of one operand or (b >= 0) two, whose result has the shape
// of a value and is f32, so that nothing is rounded in between.
og_status og_rebuild_pointwise(og_rebuild *list, const og_node *like,
                               int32_t op, opgraft_value a, opgraft_value b,
                               opgraft_value shape, opgraft_value *out);
// Makes the list the graph's; its values know their new nodes. Values that no
// node of the list makes should have been given the node -1.
void og_rebuild_finish(og_rebuild *list);
// Frees a list that was not finished.
void og_rebuild_reset(og_rebuild *list);

// Puts a node, or others in its place, and then counts a change.
typedef og_status (*og_rebuild_fn)(og_rebuild *list, const og_node *node,
                                   int32_t *changes);
// A pass of mode max-autotune that looks at one node at a time.
og_status og_rebuild_each(opgraft_graph *graph, og_rebuild_fn put,
                          int32_t *out_changes, opgraft_error *error);

#endif  // OG_PASS_REBUILD_H
