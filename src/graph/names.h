// SPDX-License-Identifier: Apache-2.0
// The names of a text's values, while it is read.

#ifndef OG_GRAPH_NAMES_H
#define OG_GRAPH_NAMES_H

#include "graph/graph.h"

typedef struct og_name {
  const char *text;  // not terminated; the caller's
  int32_t length;
  opgraft_value value;
} og_name;

// Zeroed: empty. Open addressing.
typedef struct og_names {
  og_name *slots;
  uint32_t slot_count, count;
} og_names;

// False if there is none such.
bool og_names_find(const og_names *names, const char *text, size_t length,
                   opgraft_value *out_value);
// The name is not there yet; the text stays as long as the names. False: no
// memory.
bool og_names_add(og_names *names, const char *text, size_t length,
                  opgraft_value value);
void og_names_reset(og_names *names);

#endif  // OG_GRAPH_NAMES_H
