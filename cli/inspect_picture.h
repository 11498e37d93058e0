// SPDX-License-Identifier: Apache-2.0
// A plan as a picture: nodes in the order in which they run, who runs each,
// what they read, and which memory is in use when.

#ifndef OPGRAFT_CLI_INSPECT_PICTURE_H
#define OPGRAFT_CLI_INSPECT_PICTURE_H

#include <stdbool.h>

#include "json.h"

typedef struct cli_picture_row {
  const cli_node *node;  // of the schedule
  int32_t index;         // among its nodes
  int32_t step;          // a view's is that of what it shares memory with
  int32_t row;           // in the picture, from the top
  int64_t live_bytes;    // of the arenas, while it runs
} cli_picture_row;

// What opgraft_executable_schedule said, with what drawing it needs.
typedef struct cli_picture {
  const cli_node *tree;
  const cli_node **values;  // by id; NULL where the schedule has none
  int32_t *makers;          // by id: the row that makes it, -1: none
  int32_t value_count;
  cli_picture_row *rows;  // from the top
  int32_t row_count;
  int32_t *row_of_step;
  int32_t step_count;
  int64_t arena_bytes, bound_bytes;  // of all arenas
} cli_picture;

// The tree stays for as long as the picture.
void cli_picture_init(const cli_node *tree, cli_picture *out);
void cli_picture_reset(cli_picture *picture);
// Both write to stdout.
void cli_picture_svg(const cli_picture *picture);
void cli_picture_page(const cli_picture *picture, const char *schedule);

// Where buffer `b` of the schedule begins, in all arenas one after another.
int64_t cli_picture_offset(const cli_picture *picture, const cli_node *buffer);
// "%a, %b": the first `most` names of a list of values.
void cli_picture_names(const cli_picture *picture, const cli_node *ids,
                       int32_t most);
// Text that may come from anywhere, as the text of an element or attribute and
// nothing else; `most` characters, then an ellipsis. -1: all.
void cli_xml_print(const char *text, int32_t most);

#endif  // OPGRAFT_CLI_INSPECT_PICTURE_H
