// SPDX-License-Identifier: Apache-2.0
// Packed forms of weights in a graph file (docs/graph-file.md): which there
// are, and where. What a form is, its maker knows (exec/fast/packs.h).

#ifndef OG_GRAPH_PREPACKED_H
#define OG_GRAPH_PREPACKED_H

#include "graph/graph.h"

enum { OG_PREPACKED_NAME = 24, OG_PREPACKED_ALIGNMENT = 64 };

struct og_prepacked {
  char form[OG_PREPACKED_NAME];  // "f32-panels16"
  int64_t offset_bytes;          // of element (0, 0) in the graph's data
  int64_t n, k;                  // columns and steps
  int64_t n_stride, k_stride;
  int64_t size_bytes;
  const char *bytes;
};

// Their order in a file: by all but size and bytes.
int og_prepacked_compare(const og_prepacked *a, const og_prepacked *b);
// The lines of the table.
void og_prepacked_print(const og_prepacked *packed, int32_t count,
                        og_text *out);
// The table of a file whose forms are `bytes`. It is in the arena. False, with
// what is wrong in out_wrong: the table is not one that og_prepacked_print
// wrote for so many bytes, or memory is short (NULL then).
bool og_prepacked_read(const char *table, size_t table_bytes, const char *bytes,
                       size_t size_bytes, og_arena *arena,
                       og_prepacked **out_packed, int32_t *out_count,
                       const char **out_wrong);
// The one of the graph's file that compares equal, and is so long; NULL: none.
const og_prepacked *og_prepacked_find(const opgraft_graph *graph,
                                      const og_prepacked *wanted);
// From the first form's beginning to the last one's end.
int64_t og_prepacked_bytes_of(const og_prepacked *packed, int32_t count);
// Where the form begins that comes after one that ends here.
int64_t og_prepacked_align(int64_t offset_bytes);

#endif  // OG_GRAPH_PREPACKED_H
