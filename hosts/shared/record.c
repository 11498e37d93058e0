// SPDX-License-Identifier: Apache-2.0
// The record of the file that this is linked into. Apart from the rest because
// the query function has the name of a type of opgraft.h.

#include "shared/record.h"

// The operator file's, by OG_MODULE.
const og_module *opgraft_module(uint32_t max_abi);

const og_module *og_own_record(void) { return opgraft_module(OG_ABI_VERSION); }
