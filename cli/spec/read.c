// SPDX-License-Identifier: Apache-2.0
// A specification: a YAML file with operators of either form.

#include "read.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli/yaml.h"
#include "own.h"
#include "plugin.h"

static bool op_read(spec *s, const cli_node *node) {
  if (node->kind != CLI_MAP)
    return spec_error(s, node->line,
                      "an operator is not a map, expected schema: ... or "
                      "op_name: ...");
  s->ops = cli_realloc(s->ops, (size_t)s->op_count + 1, sizeof *s->ops);
  spec_op *op = &s->ops[s->op_count++];
  *op = (spec_op){.line = node->line};
  if (cli_node_get(node, "op_name") != NULL ||
      cli_node_get(node, "op_type") != NULL)
    return spec_plugin_read(s, node, op);
  return spec_own_read(s, node, op);
}

// A C identifier from a file's name.
static char *identifier_from(const char *path) {
  const char *base = cli_base_name(path);
  char *name = cli_strndup(base, strcspn(base, "."));
  for (char *c = name; *c != '\0'; ++c)
    if (!isalnum((unsigned char)*c)) *c = '_';
  if (name[0] != '\0' && !isdigit((unsigned char)name[0])) return name;
  char *longer = cli_format("ops_%s", name);
  free(name);
  return longer;
}

static bool module_name_read(spec *s, const cli_node *root) {
  const cli_node *node = cli_node_get(root, "module");
  if (node == NULL) {
    s->module = identifier_from(s->path);
    return true;
  }
  bool is_right = node->kind == CLI_STRING && node->text[0] != '\0' &&
                  !isdigit((unsigned char)node->text[0]) &&
                  strlen(node->text) < 64;
  for (const char *c = is_right ? node->text : ""; *c != '\0'; ++c)
    is_right = is_right && (isalnum((unsigned char)*c) || *c == '_');
  if (!is_right)
    return spec_error(s, node->line,
                      "the module is '%s', expected up to 63 letters, "
                      "digits and underscores",
                      node->text != NULL ? node->text : "[...]");
  s->module = cli_format("%s", node->text);
  return true;
}

// One operator, a list of them, or a map with `ops`.
static bool root_read(spec *s, const cli_node *root) {
  static const char *const keys[] = {"module", "ops", NULL};
  const cli_node *list = root;
  if (root->kind == CLI_MAP && cli_node_get(root, "ops") == NULL)
    return module_name_read(s, NULL) && op_read(s, root);
  if (root->kind == CLI_MAP) {
    if (!spec_keys_check(s, root, keys)) return false;
    list = cli_node_get(root, "ops");
  }
  if (!module_name_read(s, root->kind == CLI_MAP ? root : NULL)) return false;
  if (list->kind != CLI_LIST || list->first == NULL)
    return spec_error(s, list->line,
                      "no operators; expected a list of maps with schema "
                      "or op_name");
  for (const cli_node *n = list->first; n != NULL; n = n->next)
    if (!op_read(s, n)) return false;
  return true;
}

bool spec_read(const char *path, spec *out_spec) {
  *out_spec = (spec){.path = path};
  cli_node *root = cli_yaml_read(path);
  if (root == NULL) return false;
  const bool is_right = root_read(out_spec, root);
  cli_node_destroy(root);
  if (!is_right) spec_reset(out_spec);
  return is_right;
}
