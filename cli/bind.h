// SPDX-License-Identifier: Apache-2.0
// Arguments written on a command line: x=2,3 weight:bf16[3] eps=1e-6.

#ifndef OPGRAFT_CLI_BIND_H
#define OPGRAFT_CLI_BIND_H

#include <opgraft/info.h>

#include "cli.h"

// A call whose tensors have shapes and types but no data.
typedef struct cli_call {
  opgraft_frame frame;
  void **owned;  // memory that the frame's arguments point into
  int owned_count;
} cli_call;

// Tensors are name=SIZES or name:TYPE[SIZES], several of them separated by ;
// for a list; other arguments name=VALUE; none leaves out an optional. What is
// not named has its default. A tensor without a type has the first floating
// type that its rule allows, or that of the argument that it must equal.
// Prints what is wrong and returns NULL.
cli_call *cli_call_create(const opgraft_op *op, const char *const *bindings,
                          int count);
void cli_call_destroy(cli_call *call);

const char *cli_dtype_name(og_dtype dtype);
bool cli_dtype_parse(const char *text, size_t length, og_dtype *out_dtype);
// "f32[2, 3]"
void cli_tensor_print(FILE *to, const og_tensor *tensor);
void cli_attr_print(FILE *to, const og_attr *attr);

#endif  // OPGRAFT_CLI_BIND_H
