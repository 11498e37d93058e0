// SPDX-License-Identifier: Apache-2.0
// Row programs run one instruction at a time, on tiles that stay in the cache.

#ifndef OG_LOOP_INTERPRET_H
#define OG_LOOP_INTERPRET_H

#include "loop/lower.h"

enum { OG_LOOP_TILE = 128 };  // elements; a multiple of OG_LOOP_PARTIALS

// Where values lie while a pass runs.
typedef struct og_loop_tiles {
  const int32_t *slots;  // by pass and value
  int32_t count;         // of tiles
} og_loop_tiles;

// False when memory is short.
bool og_loop_tiles_init(og_loop_tiles *tiles, const og_loop_lowered *lowered,
                        og_arena *arena);

// Elements of a scratch row for rows of this width.
static inline int64_t og_loop_kept_width(int64_t width) {
  return (width + OG_LOOP_PARTIALS - 1) / OG_LOOP_PARTIALS * OG_LOOP_PARTIALS;
}

// The call's scratch memory: kept rows, then tiles.
void og_loop_interpret(const og_loop_spec *spec, const og_loop_lowered *lowered,
                       const og_loop_tiles *tiles, const og_loop_call *call);

#endif  // OG_LOOP_INTERPRET_H
