// SPDX-License-Identifier: Apache-2.0
// Graph files: a line of fixed length, the text, the constants, packed forms of
// some (docs/graph-file.md). What is read is not trusted.

#ifndef OG_GRAPH_FILE_H
#define OG_GRAPH_FILE_H

#include "graph/graph.h"

// --- The first line ----------------------------------------------------------

enum {
  OG_FILE_VERSION = 3,
  OG_FILE_PAGE = 4096,      // so that a mapping begins at it
  OG_FILE_COVERED_AT = 58,  // what the line's own checksum is of begins here
  OG_FILE_HEADER_BYTES = 167,
};

typedef struct og_file_header {
  uint64_t checksum;  // of what follows it, to the data
  uint64_t text_bytes, table_bytes, data_offset, data_bytes, packed_bytes;
} og_file_header;

void og_file_header_print(const og_file_header *head,
                          char line[OG_FILE_HEADER_BYTES + 1]);
// Where the packed forms begin, and how long the file is.
uint64_t og_file_packed_offset(const og_file_header *head);
uint64_t og_file_bytes(const og_file_header *head);
// How many blocks there are (graph/blocks.h), and where their sums begin.
int64_t og_file_blocks(const og_file_header *head);
uint64_t og_file_sums_offset(const og_file_header *head);

// --- Reading and writing -----------------------------------------------------

// A graph from a file's bytes, which stay as long as the graph and begin at a
// multiple of 64. `path` is for messages.
og_status og_graph_read(const char *bytes, size_t size_bytes, const char *path,
                        opgraft_graph **out_graph, opgraft_error *error);

typedef struct og_file_piece {
  int64_t offset_bytes;  // in the data
  const void *bytes;
  size_t size_bytes;
} og_file_piece;

typedef struct og_file_parts {
  const char *text;
  size_t text_bytes;
  const og_file_piece *pieces;  // in order; zeros stand between them
  int32_t piece_count;
  int32_t packed_count;
  const og_prepacked *packed;  // sorted
  int64_t data_bytes;
} og_file_parts;

// The file appears whole or not at all.
og_status og_graph_file_write(const og_file_parts *parts, const char *path,
                              opgraft_error *error);

#endif  // OG_GRAPH_FILE_H
