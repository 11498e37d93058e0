// SPDX-License-Identifier: Apache-2.0
// From a specification in the plugin form to a schema, rules and kernels.

#ifndef OPGRAFT_CLI_SPEC_PLUGIN_RULES_H
#define OPGRAFT_CLI_SPEC_PLUGIN_RULES_H

#include "spec.h"

enum { TENSORS_MAX = 32, ATTRS_MAX = 32, COLUMNS_MAX = 64 };

typedef enum presence { REQUIRED, OPTIONAL, DYNAMIC } presence;

typedef struct tensor_desc {
  const char *name;
  int32_t line;
  presence presence;
  const char *types[COLUMNS_MAX];
  int32_t type_count;
  const char *format;
  bool is_mutated;  // an input that is an output as well
  int32_t same_as;  // the earlier input with the same list, or -1
} tensor_desc;

typedef struct attr_desc {
  const char *name;
  const char *type;
  char *value;  // as the schema writes it; NULL: none
  bool is_optional;
} attr_desc;

typedef struct plugin {
  const spec *s;
  tensor_desc in[TENSORS_MAX];
  tensor_desc out[TENSORS_MAX];
  attr_desc attr[ATTRS_MAX];
  int32_t in_count;
  int32_t out_count;
  int32_t attr_count;
  int32_t columns;
} plugin;

// Makes the schema, the rules and the kernels of what was read; what the
// operator's map gives goes before. Prints what is wrong.
bool plugin_rules_make(plugin *p, const cli_node *node, spec_op *op);

#endif  // OPGRAFT_CLI_SPEC_PLUGIN_RULES_H
