// SPDX-License-Identifier: Apache-2.0
// JSON into a tree, and asking the tree.

#ifndef OPGRAFT_CLI_JSON_H
#define OPGRAFT_CLI_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum cli_kind {
  CLI_NULL,
  CLI_BOOL,
  CLI_NUMBER,
  CLI_STRING,
  CLI_LIST,
  CLI_MAP,
} cli_kind;

typedef struct cli_node {
  cli_kind kind;
  bool is_quoted;    // a YAML scalar in quotes
  int32_t line;      // from 1; 0 where it is not known
  const char *key;   // in a map
  const char *text;  // a scalar as it is written
  int32_t count;     // of children
  struct cli_node *first;
  struct cli_node *next;
} cli_node;

// NULL when it is not JSON; out_offset is then where.
cli_node *cli_json_parse(const char *text, size_t length, size_t *out_offset);
void cli_node_destroy(cli_node *node);
// A map's entry, NULL if there is none or `map` is not a map.
const cli_node *cli_node_get(const cli_node *map, const char *key);
const cli_node *cli_node_at(const cli_node *list, int32_t index);
const char *cli_node_text(const cli_node *map, const char *key);  // or ""
int64_t cli_node_int(const cli_node *map, const char *key, int64_t fallback);

#endif  // OPGRAFT_CLI_JSON_H
