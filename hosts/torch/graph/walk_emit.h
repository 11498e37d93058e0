// SPDX-License-Identifier: Apache-2.0
// Records of a walk: a node of the FX graph as one of ours.

#ifndef OG_TORCH_WALK_EMIT_H
#define OG_TORCH_WALK_EMIT_H

#include "torch/graph/walk.h"

void walk_source_read(walk *w, PyObject *meta, opgraft_record *record);
int walk_record_add(walk *w, opgraft_record *record, PyObject *target,
                    opgraft_value *ids);
int walk_emit(walk *w, const fx_node *n, PyObject *target,
              PyObject *description, PyObject *args, PyObject *val, entry *e);
int walk_emit_getitem(walk *w, const fx_node *n, entry *e);
int walk_emit_size(walk *w, const fx_node *n, entry *e);
int walk_emit_effects(walk *w, const fx_node *n,
                      PyObject *describe_target(walk *, PyObject *), entry *e);

#endif  // OG_TORCH_WALK_EMIT_H
