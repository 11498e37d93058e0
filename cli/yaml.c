// SPDX-License-Identifier: Apache-2.0
// YAML into a tree: by libyaml where the build found it, else by PyYAML in the
// program's Python, which writes the same tree as JSON.

#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#ifdef HAVE_LIBYAML
#include <yaml.h>

// libyaml compares each key of its own, anchor and %TAG with all before it, and
// each token with all brackets that are open.
enum { DEPTH_MAX = 64, NODES_MAX = 100000, NAMES_MAX = 1000 };

typedef struct source {
  yaml_document_t document;
  const char *path;
  int32_t nodes;  // made; an alias stands for a copy of what it names
} source;

static cli_node *node_from(source *from, int index, int depth);

static cli_node *scalar_from(const yaml_node_t *node) {
  cli_node *out = cli_alloc(1, sizeof *out);
  out->kind = CLI_STRING;
  out->is_quoted = node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
  out->text = cli_strndup((const char *)node->data.scalar.value,
                          node->data.scalar.length);
  return out;
}

static bool map_fill(source *from, const yaml_node_t *node, cli_node *out,
                     int depth) {
  cli_node **link = &out->first;
  for (yaml_node_pair_t *pair = node->data.mapping.pairs.start;
       pair < node->data.mapping.pairs.top; ++pair, ++out->count) {
    const yaml_node_t *key = yaml_document_get_node(&from->document, pair->key);
    const int line = (int)key->start_mark.line + 1;
    if (key->type != YAML_SCALAR_NODE) {
      cli_error("%s:%d: a key is a list or a map, expected a word", from->path,
                line);
      return false;
    }
    const char *name = (const char *)key->data.scalar.value;
    if (out->count == NAMES_MAX) {
      cli_error("%s:%d: more than %d keys in one map", from->path, line,
                NAMES_MAX);
      return false;
    }
    if (cli_node_get(out, name) != NULL) {
      cli_error("%s:%d: '%s' stands twice in one map; drop one", from->path,
                line, name);
      return false;
    }
    *link = node_from(from, pair->value, depth + 1);
    if (*link == NULL) return false;
    (*link)->key = cli_strndup(name, key->data.scalar.length);
    link = &(*link)->next;
  }
  return true;
}

static bool list_fill(source *from, const yaml_node_t *node, cli_node *out,
                      int depth) {
  cli_node **link = &out->first;
  for (yaml_node_item_t *item = node->data.sequence.items.start;
       item < node->data.sequence.items.top; ++item, ++out->count) {
    *link = node_from(from, *item, depth + 1);
    if (*link == NULL) return false;
    link = &(*link)->next;
  }
  return true;
}

static bool has_room(source *from, int line, int depth) {
  if (depth > DEPTH_MAX) {
    cli_error(
        "%s:%d: more than %d levels deep, or an anchor that holds "
        "itself",
        from->path, line, DEPTH_MAX);
    return false;
  }
  if (++from->nodes <= NODES_MAX) return true;
  cli_error(
      "%s:%d: more than %d values, aliases counted with what they "
      "name",
      from->path, line, NODES_MAX);
  return false;
}

static cli_node *node_from(source *from, int index, int depth) {
  const yaml_node_t *node = yaml_document_get_node(&from->document, index);
  const int line = (int)node->start_mark.line + 1;
  if (!has_room(from, line, depth)) return NULL;
  bool is_right = true;
  cli_node *out;
  if (node->type == YAML_SCALAR_NODE) {
    out = scalar_from(node);
  } else {
    out = cli_alloc(1, sizeof *out);
    out->kind = node->type == YAML_MAPPING_NODE ? CLI_MAP : CLI_LIST;
    is_right = out->kind == CLI_MAP ? map_fill(from, node, out, depth)
                                    : list_fill(from, node, out, depth);
  }
  out->line = line;
  if (is_right) return out;
  cli_node_destroy(out);
  return NULL;
}

static bool parser_begin(yaml_parser_t *parser, const char *text, size_t size) {
  if (yaml_parser_initialize(parser) == 0) {
    cli_error("not enough memory");
    return false;
  }
  yaml_parser_set_input_string(parser, (const unsigned char *)text, size);
  return true;
}

// Where a token begins or ends something: 1, -1 or 0 levels.
static int levels_of(yaml_token_type_t type) {
  switch (type) {
    case YAML_BLOCK_SEQUENCE_START_TOKEN:
    case YAML_BLOCK_MAPPING_START_TOKEN:
    case YAML_FLOW_SEQUENCE_START_TOKEN:
    case YAML_FLOW_MAPPING_START_TOKEN:
      return 1;
    case YAML_BLOCK_END_TOKEN:
    case YAML_FLOW_SEQUENCE_END_TOKEN:
    case YAML_FLOW_MAPPING_END_TOKEN:
      return -1;
    default:
      return 0;
  }
}

// Before anything reads the text whose time may be the square of its length.
// Text that is not YAML is refused by the reader behind this.
static bool tokens_check(yaml_parser_t *parser, const char *path) {
  int depth = 0, names = 0;
  yaml_token_t token;
  for (bool is_more = true; is_more && yaml_parser_scan(parser, &token) != 0;) {
    const int line = (int)token.start_mark.line + 1;
    is_more = token.type != YAML_STREAM_END_TOKEN;
    depth += levels_of(token.type);
    names += token.type == YAML_ANCHOR_TOKEN ||
             token.type == YAML_TAG_DIRECTIVE_TOKEN;
    yaml_token_delete(&token);
    if (depth > DEPTH_MAX + 1)
      cli_error("%s:%d: more than %d levels deep", path, line, DEPTH_MAX);
    else if (names > NAMES_MAX)
      cli_error("%s:%d: more than %d anchors and %%TAG directives", path, line,
                NAMES_MAX);
    else
      continue;
    return false;
  }
  return true;
}

static bool text_check(const char *path, const char *text, size_t size) {
  yaml_parser_t parser;
  if (!parser_begin(&parser, text, size)) return false;
  const bool is_right = tokens_check(&parser, path);
  yaml_parser_delete(&parser);
  return is_right;
}

cli_node *cli_yaml_read(const char *path) {
  size_t size;
  char *text = cli_file_read(path, &size);
  if (text == NULL) return NULL;
  yaml_parser_t parser;
  source from = {.path = path};
  cli_node *root = NULL;
  if (!text_check(path, text, size) || !parser_begin(&parser, text, size)) {
    free(text);
    return NULL;
  }
  if (yaml_parser_load(&parser, &from.document) == 0) {
    cli_error("%s:%d: is not YAML: %s", path, (int)parser.problem_mark.line + 1,
              parser.problem != NULL ? parser.problem : "unreadable");
  } else {
    if (yaml_document_get_root_node(&from.document) == NULL)
      cli_error("%s:1: is empty, expected the specification of an operator",
                path);
    else
      root = node_from(&from, 1, 0);
    yaml_document_delete(&from.document);
  }
  yaml_parser_delete(&parser);
  free(text);
  return root;
}

#else

// From ["map", line, [[key, value], ...]], ["list", line, [value, ...]] and
// ["text", line, "text", quoted] to the tree.
static cli_node *node_from(const cli_node *json) {
  const char *kind = cli_node_at(json, 0)->text;
  const cli_node *content = cli_node_at(json, 2);
  cli_node *out = cli_alloc(1, sizeof *out);
  out->line = (int32_t)strtol(cli_node_at(json, 1)->text, NULL, 10);
  if (strcmp(kind, "text") == 0) {
    out->kind = CLI_STRING;
    out->text = cli_format("%s", content->text);
    out->is_quoted = cli_node_at(json, 3)->text[0] == 't';
    return out;
  }
  out->kind = strcmp(kind, "map") == 0 ? CLI_MAP : CLI_LIST;
  cli_node **link = &out->first;
  for (const cli_node *n = content->first; n != NULL; n = n->next) {
    *link = node_from(out->kind == CLI_MAP ? cli_node_at(n, 1) : n);
    if (out->kind == CLI_MAP)
      (*link)->key = cli_format("%s", cli_node_at(n, 0)->text);
    link = &(*link)->next;
    ++out->count;
  }
  return out;
}

cli_node *cli_yaml_read(const char *path) {
  size_t size;
  char *text = cli_file_read(path, &size);  // says what is wrong with the file
  if (text == NULL) return NULL;
  free(text);
  const char *python = cli_python();
  if (python == NULL) {
    cli_error(
        "%s: reading YAML needs libyaml when opgraft is built, or a "
        "Python with PyYAML beside it; none was found",
        path);
    return NULL;
  }
  char *const argv[] = {(char *)(uintptr_t)python, (char[]){"-m"},
                        (char[]){"opgraft._adopt.gen"}, (char *)(uintptr_t)path,
                        NULL};
  const int status = cli_process_capture(argv, false, &text);
  cli_node *json =
      status == 0 ? cli_json_parse(text, strlen(text), NULL) : NULL;
  cli_node *root = json != NULL ? node_from(json) : NULL;
  // Status 2 is _gen's own message, which has said what is wrong.
  if (root == NULL && status != CLI_FAILED)
    cli_error(
        "%s: %s -m opgraft._gen could not read it; its messages stand "
        "above",
        path, python);
  cli_node_destroy(json);
  free(text);
  return root;
}

#endif
