// SPDX-License-Identifier: Apache-2.0
// Formulas of modules as row programs of the graph.

#ifndef OG_IMPORT_FORMULA_H
#define OG_IMPORT_FORMULA_H

#include "graph/graph.h"

// Where node n calls an operator whose kernel is its formula, makes it a node
// `fused`, behind nodes that put its operands beside each other; `out_added`
// counts these, which stand before it then. Else leaves it as it is:
// unfused_reason says why where it calls a formula.
og_status og_import_formula(opgraft_graph *graph, int32_t n, int32_t *out_added,
                            opgraft_error *error);

#endif  // OG_IMPORT_FORMULA_H
