// SPDX-License-Identifier: Apache-2.0
// What operands become before an operator computes, see aten.def.

#ifndef OG_IMPORT_NUMBERS_H
#define OG_IMPORT_NUMBERS_H

#include "import/args.h"

// Converts the operands as the row's column says. What a replay has to convert
// becomes a copy in front of the node.
og_status og_numbers_convert(og_import *import, og_spec_args *args);

#endif  // OG_IMPORT_NUMBERS_H
