// SPDX-License-Identifier: Apache-2.0
// What the typed functions call that the file exports for each operator;
// names.c writes their source.

#ifndef OG_HOSTS_AOTI_CALL_H
#define OG_HOSTS_AOTI_CALL_H

#include "aoti/abi.h"

// `words` holds the arguments in the schema's order, `results` where each fresh
// result goes. Returns 0; a wrong call raises c10::Error through the caller.
int32_t opgraft_aoti_call(int32_t op, const union aoti_word *words,
                          void **const *results);
// The same of an operator with one fresh result, which goes into tensor `out`:
// AOTInductor plans its memory like that of its own buffers.
int32_t opgraft_aoti_call_into(int32_t op, const union aoti_word *words,
                               void *out);

#endif  // OG_HOSTS_AOTI_CALL_H
