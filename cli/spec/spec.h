// SPDX-License-Identifier: Apache-2.0
// What `opgraft gen` reads from a YAML file: declarations as strings, with the
// lines that they came from.

#ifndef OPGRAFT_CLI_SPEC_SPEC_H
#define OPGRAFT_CLI_SPEC_SPEC_H

#include <opgraft/info.h>

#include "cli/cli.h"

// The strings of og_op, as they are called there.
#define SPEC_FIELD_LIST(X) \
  X(schema)                \
  X(shape)                 \
  X(where)                 \
  X(dtype)                 \
  X(backward)              \
  X(workspace)             \
  X(strides)               \
  X(inplace)               \
  X(row)                   \
  X(reduce)                \
  X(doc)                   \
  X(expect)                \
  X(reference)
#define SPEC_FIELD_ENUM(name) SPEC_##name,
typedef enum spec_field {
  SPEC_FIELD_LIST(SPEC_FIELD_ENUM) SPEC_FIELD_COUNT
} spec_field;
#undef SPEC_FIELD_ENUM

extern const char *const spec_field_names[SPEC_FIELD_COUNT];

typedef struct spec_kernel {
  char *dtypes;  // NULL: all
  char *isa;     // NULL: any machine
  int32_t device;
  int32_t line;
} spec_kernel;

// The operator as a module of its own; the strings are the specification's.
typedef struct spec_record {
  og_module module;
  og_op op;
  og_kernel kernels[];
} spec_record;

typedef struct spec_op {
  int32_t line;
  char *text[SPEC_FIELD_COUNT];  // NULL: not given
  int32_t text_line[SPEC_FIELD_COUNT];
  uint32_t flags;
  spec_kernel *kernels;
  int32_t kernel_count;
  bool is_shape_guessed;  // the specification has no shapes
  // Once it is checked: what the library reads from it, and from what.
  const opgraft_op *decl;
  opgraft_module *module;
  spec_record *record;
} spec_op;

typedef struct spec {
  const char *path;
  char *module;
  spec_op *ops;
  int32_t op_count;
} spec;

void spec_reset(spec *s);
// Forgets what the library read from it.
void spec_op_forget(spec_op *op);

// False, as what found it says in turn.
bool spec_error(const spec *s, int32_t line, const char *format, ...)
    CLI_PRINTF(3, 4);
// Every key of `map` is one of `keys` (ended by NULL). Prints.
bool spec_keys_check(const spec *s, const cli_node *map,
                     const char *const *keys);
spec_kernel *spec_kernel_add(spec_op *op);
// Whether a name is one in C.
bool spec_is_identifier(const char *name);
#endif  // OPGRAFT_CLI_SPEC_SPEC_H
