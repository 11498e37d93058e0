// SPDX-License-Identifier: Apache-2.0
// Expressions over symbols as text.

#ifndef OG_GRAPH_SIZE_PRINT_H
#define OG_GRAPH_SIZE_PRINT_H

#include "base/text.h"
#include "graph/size.h"

void og_size_print(const og_sizes *sizes, opgraft_size size, og_text *out);

#endif  // OG_GRAPH_SIZE_PRINT_H
