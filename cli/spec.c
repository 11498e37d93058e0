// SPDX-License-Identifier: Apache-2.0
// Specifications: our own form, which has the fields of og_op, and what both
// forms share.

#include "spec.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define SPEC_FIELD_NAME(name) #name,
const char *const spec_field_names[SPEC_FIELD_COUNT] = {
    SPEC_FIELD_LIST(SPEC_FIELD_NAME)};
#undef SPEC_FIELD_NAME

int spec_error(const spec *s, int32_t line, const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return cli_error("%s:%d: %s", s->path, (int)line, text);
}

bool spec_keys_check(const spec *s, const cli_node *map,
                     const char *const *keys) {
  int count = 0;
  while (keys[count] != NULL) ++count;
  for (const cli_node *n = map->first; n != NULL; n = n->next) {
    bool is_known = false;
    for (int i = 0; i < count; ++i) is_known |= strcmp(n->key, keys[i]) == 0;
    if (is_known) continue;
    const char *near = cli_nearest(n->key, keys, count);
    spec_error(s, n->line, "'%s' means nothing here%s%s%s", n->key,
               near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
               near != NULL ? "'?" : "; remove it");
    return false;
  }
  return true;
}

spec_kernel *spec_kernel_add(spec_op *op) {
  op->kernels = cli_realloc(op->kernels, (size_t)op->kernel_count + 1,
                            sizeof *op->kernels);
  op->kernels[op->kernel_count] = (spec_kernel){.device = OG_CPU};
  return &op->kernels[op->kernel_count++];
}

// --- Our own form ------------------------------------------------------------

static bool field_read(const spec *s, const cli_node *map, spec_field field,
                       spec_op *op) {
  const char *name = spec_field_names[field];
  const cli_node *node = cli_node_get(map, name);
  if (node == NULL) return true;
  if (node->kind != CLI_STRING) {
    spec_error(s, node->line, "%s is a %s, wanted text", name,
               node->kind == CLI_LIST ? "list" : "map");
    return false;
  }
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
                      "flags is no list, wanted [deterministic, "
                      "...]") == CLI_OK;
  for (const cli_node *n = list ? list->first : NULL; n != NULL; n = n->next) {
    uint32_t found = 0;
    for (int i = 0; i < COUNT; ++i)
      if (n->text != NULL && strcmp(n->text, flags[i].name) == 0)
        found = flags[i].flag;
    if (found == 0)
      return spec_error(s, n->line,
                        "the flag '%s' is unknown, wanted deterministic, "
                        "random, side_effect, capture_same_shape, "
                        "capture_never or batch_loop",
                        n->text != NULL ? n->text : "[...]") == CLI_OK;
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
  spec_error(s, node->line, "the device is '%s', wanted cpu, cuda, rocm or ext",
             node->text != NULL ? node->text : "[...]");
  return false;
}

static bool kernel_read(const spec *s, const cli_node *node, spec_op *op) {
  static const char *const keys[] = {"dtypes", "isa", "device", NULL};
  if (node->kind == CLI_STRING) {  // "f32" is {dtypes: f32}
    spec_kernel *kernel = spec_kernel_add(op);
    kernel->line = node->line;
    kernel->dtypes = cli_format("%s", node->text);
    return true;
  }
  if (node->kind != CLI_MAP) {
    spec_error(s, node->line,
               "a kernel is a list, wanted its types, as in f32, "
               "or {dtypes: f32, isa: avx2}");
    return false;
  }
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

static bool own_read(const spec *s, const cli_node *node, spec_op *op) {
  const char *keys[SPEC_FIELD_COUNT + 3] = {"flags", "kernels"};
  for (int i = 0; i < SPEC_FIELD_COUNT; ++i) keys[i + 2] = spec_field_names[i];
  if (!spec_keys_check(s, node, keys)) return false;
  op->line = node->line;
  for (int i = 0; i < SPEC_FIELD_COUNT; ++i)
    if (!field_read(s, node, (spec_field)i, op)) return false;
  if (op->text[SPEC_schema] == NULL) {
    spec_error(s, node->line,
               "an operator without a schema; wanted schema: "
               "\"f(Tensor x) -> Tensor\", or op_name: f");
    return false;
  }
  const cli_node *kernels = cli_node_get(node, "kernels");
  if (kernels != NULL && kernels->kind != CLI_LIST) {
    spec_error(s, kernels->line, "kernels is no list, wanted [f32, ...]");
    return false;
  }
  for (const cli_node *n = kernels ? kernels->first : NULL; n; n = n->next)
    if (!kernel_read(s, n, op)) return false;
  return flags_read(s, node, op);
}

// --- The file ----------------------------------------------------------------

static bool op_read(spec *s, const cli_node *node) {
  if (node->kind != CLI_MAP) {
    spec_error(s, node->line,
               "an operator is no map, wanted schema: ... or "
               "op_name: ...");
    return false;
  }
  s->ops = cli_realloc(s->ops, (size_t)s->op_count + 1, sizeof *s->ops);
  spec_op *op = &s->ops[s->op_count++];
  *op = (spec_op){.line = node->line};
  if (cli_node_get(node, "op_name") != NULL ||
      cli_node_get(node, "op_type") != NULL)
    return spec_plugin_read(s, node, op);
  return own_read(s, node, op);
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
  if (!is_right) {
    spec_error(s, node->line,
               "the module is '%s', wanted up to 63 letters, "
               "digits and underscores",
               node->text != NULL ? node->text : "[...]");
    return false;
  }
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
  if (list->kind != CLI_LIST || list->first == NULL) {
    spec_error(s, list->line,
               "no operators; wanted a list of maps with schema "
               "or op_name");
    return false;
  }
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

void spec_reset(spec *s) {
  for (int32_t i = 0; i < s->op_count; ++i) {
    spec_op *op = &s->ops[i];
    for (int f = 0; f < SPEC_FIELD_COUNT; ++f) free(op->text[f]);
    for (int32_t k = 0; k < op->kernel_count; ++k) {
      free(op->kernels[k].dtypes);
      free(op->kernels[k].isa);
    }
    free(op->kernels);
    cli_node_destroy(op->decl);
  }
  free(s->ops);
  free(s->module);
  *s = (spec){0};
}
