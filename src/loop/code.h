// SPDX-License-Identifier: Apache-2.0
// Memory for code: what is added is copied behind what was added before.

#ifndef OG_LOOP_CODE_H
#define OG_LOOP_CODE_H

#include "loop/loop.h"

// Copies position-independent code, aligned to 64 bytes; NULL when there is no
// memory for it or the code is sealed. The result may be called once
// og_loop_code_is_sealed.
const void *og_loop_code_add(og_loop_code *code, const void *bytes,
                             size_t size);
bool og_loop_code_is_sealed(const og_loop_code *code);

#endif  // OG_LOOP_CODE_H
