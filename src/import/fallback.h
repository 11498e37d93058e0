// SPDX-License-Identifier: Apache-2.0
// Records without a translation: nodes that the host or a module runs.

#ifndef OG_IMPORT_FALLBACK_H
#define OG_IMPORT_FALLBACK_H

#include "import/import.h"

// A node that the host runs: operator `name` with these arguments, for
// `reason`.
og_status og_import_fallback(og_import *import, const char *name,
                             const opgraft_arg *args, int32_t arg_count,
                             const char *reason);

#endif  // OG_IMPORT_FALLBACK_H
