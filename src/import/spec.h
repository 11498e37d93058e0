// SPDX-License-Identifier: Apache-2.0
// The last column of aten.def: which of a record's arguments become operands
// and attributes. A graph parses a row's column once.

#ifndef OG_IMPORT_SPEC_H
#define OG_IMPORT_SPEC_H

#include "base/memory.h"
#include "import/import.h"

// One operand or attribute.
typedef struct og_spec_item {
  const char *name;  // of the keyword argument; NULL: by position only
  int32_t
      position;  // of the positional argument; -1: by keyword only, or fixed
  int32_t attr;  // index among the IR operator's attributes; -1: an operand
  bool is_required;      // there is no default
  opgraft_arg fallback;  // where the record has nothing: a number, or NONE
} og_spec_item;

typedef struct og_spec {
  int32_t count;
  og_spec_item items[];
} og_spec;

// NULL where memory is short. The row's strings outlive the result.
const og_spec *og_spec_parse(og_arena *arena, const og_aten_row *row);

#endif  // OG_IMPORT_SPEC_H
