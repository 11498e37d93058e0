// SPDX-License-Identifier: Apache-2.0
// Memory for code: what is added is copied behind what was added before.

#ifndef OG_LOOP_CODE_H
#define OG_LOOP_CODE_H

#include "loop/encode.h"

// What the encoder does. Row programs know it through the code that they are
// given alone, so that a library links without it and interprets.
typedef struct og_loop_coder {
  const char *(*encode)(const og_loop_spec *spec,
                        const og_loop_lowered *lowered, og_isa isa,
                        og_arena *arena, og_x86 *x);
  const void *(*add)(og_loop_code *code, const void *bytes, size_t size);
} og_loop_coder;

struct og_loop_code {
  const og_loop_coder *coder;
  struct og_loop_chunk *chunks;  // the newest first
  bool is_sealed;
};

// Copies position-independent code, aligned to 64 bytes; NULL when there is no
// memory for it or the code is sealed. The result may be called once
// og_loop_code_is_sealed.
const void *og_loop_code_add(og_loop_code *code, const void *bytes,
                             size_t size);
static inline bool og_loop_code_is_sealed(const og_loop_code *code) {
  return code != NULL && code->is_sealed;
}

#endif  // OG_LOOP_CODE_H
