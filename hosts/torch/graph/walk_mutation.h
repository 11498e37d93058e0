// SPDX-License-Identifier: Apache-2.0
// auto_functionalized_v2: a mutating operator made functional.

#ifndef OG_TORCH_WALK_MUTATION_H
#define OG_TORCH_WALK_MUTATION_H

#include "torch/graph/walk.h"

int walk_functionalized(walk *w, const fx_node *n);

#endif  // OG_TORCH_WALK_MUTATION_H
