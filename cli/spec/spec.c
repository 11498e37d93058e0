// SPDX-License-Identifier: Apache-2.0
// What the readers of both forms of a specification share.

#include "spec.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define SPEC_FIELD_NAME(name) #name,
const char *const spec_field_names[SPEC_FIELD_COUNT] = {
    SPEC_FIELD_LIST(SPEC_FIELD_NAME)};
#undef SPEC_FIELD_NAME

bool spec_error(const spec *s, int32_t line, const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  cli_error("%s:%d: %s", s->path, (int)line, text);
  return false;
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
    return spec_error(s, n->line, "'%s' means nothing here%s%s%s", n->key,
                      near != NULL ? "; did you mean '" : "",
                      near != NULL ? near : "",
                      near != NULL ? "'?" : "; remove it");
  }
  return true;
}

spec_kernel *spec_kernel_add(spec_op *op) {
  op->kernels = cli_realloc(op->kernels, (size_t)op->kernel_count + 1,
                            sizeof *op->kernels);
  op->kernels[op->kernel_count] = (spec_kernel){.device = OG_CPU};
  return &op->kernels[op->kernel_count++];
}

bool spec_is_identifier(const char *name) {
  if (name[0] == '\0' || isdigit((unsigned char)name[0])) return false;
  for (const char *c = name; *c != '\0'; ++c)
    if (!isalnum((unsigned char)*c) && *c != '_') return false;
  return true;
}

// --- Reading -----------------------------------------------------------------

void spec_op_forget(spec_op *op) {
  if (op->module != NULL) opgraft_module_release(op->module);
  free(op->record);
  op->module = NULL;
  op->decl = NULL;
  op->record = NULL;
}

void spec_reset(spec *s) {
  for (int32_t i = 0; i < s->op_count; ++i) {
    spec_op *op = &s->ops[i];
    spec_op_forget(op);
    for (int f = 0; f < SPEC_FIELD_COUNT; ++f) free(op->text[f]);
    for (int32_t k = 0; k < op->kernel_count; ++k) {
      free(op->kernels[k].dtypes);
      free(op->kernels[k].isa);
    }
    free(op->kernels);
  }
  free(s->ops);
  free(s->module);
  *s = (spec){0};
}
