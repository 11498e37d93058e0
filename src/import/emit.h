// SPDX-License-Identifier: Apache-2.0
// What handlers make: results of the record, nodes with its source line.

#ifndef OG_IMPORT_EMIT_H
#define OG_IMPORT_EMIT_H

#include "import/import.h"

// Gives up, with a sentence that says why.
og_status og_give_up(og_import *import, const char *reason);
// The record's result as a new value, row-major or as the host says.
og_status og_result_make(og_import *import, int32_t index);
og_status og_results(og_import *import);
// A node with the record's source line.
og_status og_append(og_import *import, int32_t op, const opgraft_value *in,
                    int32_t in_count, const opgraft_value *out,
                    int32_t out_count, const opgraft_arg *attrs);
// A node whose results are the record's.
og_status og_emit(og_import *import, int32_t op, const opgraft_value *in,
                  int32_t in_count, const opgraft_arg *attrs);
// A node with one new result of this type and shape, row-major.
og_status og_emit_new(og_import *import, int32_t op, const opgraft_value *in,
                      int32_t in_count, const opgraft_arg *attrs,
                      og_dtype dtype, int32_t ndim, const opgraft_size *shape,
                      opgraft_value *out);
// Result `index` as a view of `base`.
og_status og_emit_view(og_import *import, opgraft_value base, int32_t index);

#endif  // OG_IMPORT_EMIT_H
