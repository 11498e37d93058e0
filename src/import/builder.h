// SPDX-License-Identifier: Apache-2.0
// A graph that is built while a host walks its own.

#ifndef OG_IMPORT_BUILDER_H
#define OG_IMPORT_BUILDER_H

#include <opgraft/builder.h>

#include "import/import.h"

enum { OG_BUILDER_UNSET = -1 };  // kind of what an unset node stands for

// Arguments, or results, some of whose lists are still open. Items of an open
// list stand behind those of the list that it is in.
typedef struct og_tree {
  opgraft_arg *items;
  int32_t count, capacity;
  struct {
    int32_t first;
    const char *name;
  } open[OG_IMPORT_DEPTH - 1];
  int32_t depth;
} og_tree;

typedef struct og_base {
  opgraft_value value;
  opgraft_value_info info;  // of what it becomes
  int32_t writers;
  // One argument writes all of it, in no list, and no other does: that argument
  // is the base. Else views of it are written, and it stands for itself.
  bool is_whole;
} og_base;

// An argument that is written; its VALUE is the position here until the views
// are made.
typedef struct og_written {
  int32_t base;
  bool is_view;
  opgraft_value_info info;  // of the view
  opgraft_value value;
} og_written;

struct opgraft_builder {
  opgraft_graph *graph;
  opgraft_arg *nodes;  // by the host's number
  int32_t node_count, node_capacity;
  og_arena memory;
  // The operator that was begun.
  bool is_begun, is_functional;
  opgraft_record record;
  og_tree args, results;
  opgraft_value_info *infos;  // of results that are tensors, or None
  int32_t info_count, info_capacity;
  og_base *bases;
  int32_t base_count, base_capacity;
  og_written *written;
  int32_t written_count, written_capacity;
};

// The error of a call that does not fit where the builder is.
og_status og_builder_wrong(const opgraft_builder *b, og_status code,
                           const char *what, opgraft_error *error);
// OG_INVALID where no operator was begun.
og_status og_builder_ready(const opgraft_builder *b, opgraft_error *error);
// Copies the struct and its arrays.
og_status og_builder_info(opgraft_builder *b, const opgraft_value_info *from,
                          opgraft_value_info *out, opgraft_error *error);
// Room for a node, which OG_INVALID says is set already.
og_status og_builder_reserve(opgraft_builder *b, int32_t node,
                             opgraft_error *error);

// Appends to the innermost open list.
og_status og_tree_add(opgraft_builder *b, og_tree *tree, const opgraft_arg *arg,
                      opgraft_error *error);

// A list opens in the innermost open one; `name` is copied.
og_status og_tree_open(opgraft_builder *b, og_tree *tree, const char *name,
                       opgraft_error *error);
og_status og_tree_close(opgraft_builder *b, og_tree *tree,
                        opgraft_error *error);

// The record of a functional operator: makes the views that it writes, and
// fills `record` with arguments and results. `out_base`, by base: the record's
// result that it becomes.
og_status og_builder_functional(opgraft_builder *b, opgraft_record *record,
                                int32_t *out_base, opgraft_error *error);

#endif  // OG_IMPORT_BUILDER_H
