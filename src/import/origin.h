// SPDX-License-Identifier: Apache-2.0
// Where a node comes from: the host's record, copied once for all its nodes.

#ifndef OG_IMPORT_ORIGIN_H
#define OG_IMPORT_ORIGIN_H

#include "import/import.h"

// The record's origin, which all its nodes share; made without arguments where
// there is none yet.
og_status og_origin_get(og_import *import, og_origin **out_origin);
// Copies the record's arguments into its origin, their values as positions
// among the operands of the node just added. Where each is one of them, the
// node is as recorded.
og_status og_origin_say(og_import *import);
// The origin of a node that the host runs: these arguments of this operator,
// whose values become the node's operands, in order. There is room for
// OG_IMPORT_OPERANDS of them in `in`.
og_status og_origin_foreign(og_import *import, const char *name,
                            const opgraft_arg *args, int32_t arg_count,
                            opgraft_value *in, int32_t *in_count,
                            og_origin **out_origin);

#endif  // OG_IMPORT_ORIGIN_H
