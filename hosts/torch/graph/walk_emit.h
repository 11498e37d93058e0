// SPDX-License-Identifier: Apache-2.0
// A node of the FX graph, given to the builder.

#ifndef OG_TORCH_WALK_EMIT_H
#define OG_TORCH_WALK_EMIT_H

#include "torch/graph/walk.h"

// Has the builder begin an operator, which the host calls as `target`: name and
// flags are the record's, the rest is filled.
int walk_begin_operator(walk *w, const fx_node *n, opgraft_record *record,
                        PyObject *target, int is_functional);
// Each gives node n to the builder.
int walk_emit(walk *w, const fx_node *n);
int walk_emit_getitem(walk *w, const fx_node *n);
int walk_emit_size(walk *w, const fx_node *n);
int walk_emit_effects(walk *w, const fx_node *n,
                      PyObject *describe_target(walk *, PyObject *));

#endif  // OG_TORCH_WALK_EMIT_H
