// SPDX-License-Identifier: Apache-2.0
// Operators over lists of tensors, as one node for each element. An argument
// that is a list gives its own element to each.

#include "import/args.h"
#include "import/emit.h"

// The lists are as long as the result; an empty one gives nothing.
static og_status lists_check(og_import *import) {
  const opgraft_record *record = import->record;
  for (int32_t i = 0; i < record->arg_count; ++i)
    if (record->args[i].kind == OPGRAFT_ARG_LIST &&
        record->args[i].count != record->result_count)
      return og_give_up(import, "its lists differ in length");
  return OG_OK;
}

og_status og_import_foreach(og_import *import) {
  og_spec_args args;
  OG_TRY(lists_check(import));
  for (int32_t r = 0; r < import->record->result_count; ++r) {
    import->element = r + 1;
    OG_TRY(og_spec_read(import, &args));
    OG_TRY(og_result_make(import, r));
    OG_TRY(og_append(import, import->row->op, args.in, args.in_count,
                     &import->out[r], 1, args.attrs));
  }
  return OG_OK;
}

// The host's is Python, so it is not offered the node.
og_status og_import_fma(og_import *import) {
  og_spec_args args;
  OG_TRY(og_spec_read(import, &args));
  OG_TRY(og_result_make(import, 0));
  return og_append(import, OG_IR_fma, args.in, 3, import->out, 1, NULL);
}
