// SPDX-License-Identifier: Apache-2.0
// Specifications in our own form, which has the fields of og_op.

#include "own.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool field_read(const spec *s, const cli_node *map, spec_field field,
                       spec_op *op) {
  const char *name = spec_field_names[field];
  const cli_node *node = cli_node_get(map, name);
  if (node == NULL) return true;
  if (node->kind != CLI_STRING)
    return spec_error(s, node->line, "%s is a %s, expected text", name,
                      node->kind == CLI_LIST ? "list" : "map");
  op->text[field] = cli_format("%s", node->text);
  op->text_line[field] = node->line;
  // Folded text ends with its line break.
  for (size_t n = strlen(node->text);
       n > 0 && isspace((unsigned char)op->text[field][n - 1]); --n)
    op->text[field][n - 1] = '\0';
  return true;
}

static bool flags_read(const spec *s, const cli_node *map, spec_op *op) {
  static const struct {
    const char *name;
    uint32_t flag;
  } flags[] = {
      {"deterministic", OG_DETERMINISTIC},
      {"random", OG_RANDOM},
      {"side_effect", OG_SIDE_EFFECT},
      {"capture_same_shape", OG_CAPTURE_SAME_SHAPE},
      {"capture_never", OG_CAPTURE_NEVER},
      {"batch_loop", OG_BATCH_LOOP},
  };
  enum { COUNT = sizeof flags / sizeof *flags };
  const cli_node *list = cli_node_get(map, "flags");
  if (list != NULL && list->kind != CLI_LIST)
    return spec_error(s, list->line,
                      "flags is not a list, expected [deterministic, "
                      "...]");
  for (const cli_node *n = list ? list->first : NULL; n != NULL; n = n->next) {
    uint32_t found = 0;
    for (int i = 0; i < COUNT; ++i)
      if (n->text != NULL && strcmp(n->text, flags[i].name) == 0)
        found = flags[i].flag;
    if (found == 0)
      return spec_error(s, n->line,
                        "the flag '%s' is unknown, expected deterministic, "
                        "random, side_effect, capture_same_shape, "
                        "capture_never or batch_loop",
                        n->text != NULL ? n->text : "[...]");
    op->flags |= found;
  }
  return true;
}

static bool device_read(const spec *s, const cli_node *node,
                        int32_t *out_device) {
  static const struct {
    const char *name;
    int32_t device;
  } devices[] = {{"cpu", OG_CPU},
                 {"cuda", OG_CUDA},
                 {"rocm", OG_ROCM},
                 {"ext", OG_EXT_DEV}};
  for (size_t i = 0; i < sizeof devices / sizeof *devices; ++i)
    if (node->text != NULL && strcmp(node->text, devices[i].name) == 0) {
      *out_device = devices[i].device;
      return true;
    }
  return spec_error(s, node->line,
                    "the device is '%s', expected cpu, cuda, rocm or ext",
                    node->text != NULL ? node->text : "[...]");
}

static bool kernel_read(const spec *s, const cli_node *node, spec_op *op) {
  static const char *const keys[] = {"dtypes", "isa", "device", NULL};
  if (node->kind == CLI_STRING) {  // "f32" is {dtypes: f32}
    spec_kernel *kernel = spec_kernel_add(op);
    kernel->line = node->line;
    kernel->dtypes = cli_format("%s", node->text);
    return true;
  }
  if (node->kind != CLI_MAP)
    return spec_error(s, node->line,
                      "a kernel is a list, expected its types, as in f32, "
                      "or {dtypes: f32, isa: avx2}");
  if (!spec_keys_check(s, node, keys)) return false;
  spec_kernel *kernel = spec_kernel_add(op);
  const cli_node *device = cli_node_get(node, "device");
  kernel->line = node->line;
  if (cli_node_text(node, "dtypes")[0] != '\0')
    kernel->dtypes = cli_format("%s", cli_node_text(node, "dtypes"));
  if (cli_node_text(node, "isa")[0] != '\0')
    kernel->isa = cli_format("%s", cli_node_text(node, "isa"));
  return device == NULL || device_read(s, device, &kernel->device);
}

bool spec_own_read(const spec *s, const cli_node *node, spec_op *op) {
  const char *keys[SPEC_FIELD_COUNT + 3] = {"flags", "kernels"};
  for (int i = 0; i < SPEC_FIELD_COUNT; ++i) keys[i + 2] = spec_field_names[i];
  if (!spec_keys_check(s, node, keys)) return false;
  op->line = node->line;
  for (int i = 0; i < SPEC_FIELD_COUNT; ++i)
    if (!field_read(s, node, (spec_field)i, op)) return false;
  if (op->text[SPEC_schema] == NULL)
    return spec_error(s, node->line,
                      "an operator without a schema; expected schema: "
                      "\"f(Tensor x) -> Tensor\", or op_name: f");
  const cli_node *kernels = cli_node_get(node, "kernels");
  if (kernels != NULL && kernels->kind != CLI_LIST)
    return spec_error(s, kernels->line,
                      "kernels is not a list, expected [f32, ...]");
  for (const cli_node *n = kernels ? kernels->first : NULL; n; n = n->next)
    if (!kernel_read(s, n, op)) return false;
  return flags_read(s, node, op);
}
