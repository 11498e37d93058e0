// SPDX-License-Identifier: Apache-2.0
// Arguments of a record, by position, name or the last column of aten.def.

#ifndef OG_IMPORT_ARGS_H
#define OG_IMPORT_ARGS_H

#include "import/import.h"

// A positional argument; NULL if there are fewer, or `position` is negative.
const opgraft_arg *og_arg_at(const og_import *import, int32_t position);
// By name, else by position (-1: by name only); NULL if it is not given or
// None.
const opgraft_arg *og_arg_find(const og_import *import, int32_t position,
                               const char *name);
bool og_arg_int(const og_import *import, const opgraft_arg *arg, int64_t *out);
// A size from an integer argument, constant or not.
og_status og_arg_size(og_import *import, const opgraft_arg *arg,
                      opgraft_size *out);

// What the spec of the row says: operands, then attributes by the IR
// operator's list.
typedef struct og_spec_args {
  opgraft_value in[OG_IMPORT_OPERANDS];
  int32_t in_count;
  opgraft_arg attrs[OG_OP_ATTR_MAX];
} og_spec_args;
og_status og_spec_read(og_import *import, og_spec_args *out);
// A number or tensor argument as an operand: a literal, or a value.
og_status og_operand(og_import *import, const opgraft_arg *arg,
                     opgraft_value *out);

#endif  // OG_IMPORT_ARGS_H
