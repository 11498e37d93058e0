// SPDX-License-Identifier: Apache-2.0
// A tensor in guarded memory: an argument or result of a run.

#ifndef OG_CHECK_RUN_PLACE_H
#define OG_CHECK_RUN_PLACE_H

#include "check/run/guard.h"
#include "check/run/mode.h"
#include "check/sample/sample.h"

typedef struct og_placed {
  og_tensor tensor;  // `shape` and `strides` are the arrays below
  int64_t shape[OG_SAMPLE_RANK];
  int64_t strides[OG_SAMPLE_RANK];
  og_guard *buffer;  // NULL: there is no such tensor
  char *before;      // the buffer's bytes before the call, or NULL
  og_tensor given;   // as the kernel got it, with its shape and strides
  int64_t given_sizes[2 * OG_SAMPLE_RANK];
  og_role role;
  int32_t index;
  int32_t entry;  // in a list
} og_placed;

// Strides for the shape, as the mode and the declaration's rule have them;
// `expanded` is the dim that gets stride 0 where the mode says so, or -1.
void og_placed_lay(og_placed *placed, const og_mode *mode, og_stride_rule rule,
                   int32_t expanded, og_random *random);
// Gives the tensor memory of its own; shape and strides are set. False when
// memory is short.
bool og_placed_put(og_placed *placed, const og_mode *mode);
// Keeps the buffer's bytes as they are now; false when memory is short.
bool og_placed_keep(og_placed *placed);
// From and to dense elements in row-major order.
void og_placed_store(const og_placed *placed, const char *dense);
void og_placed_load(const og_placed *placed, char *dense);
// Sets the elements (og_poison), in memory that is laid out as the buffer is.
void og_placed_fill(const og_placed *placed, char *memory, uint16_t poison);

// Notes the tensor as the kernel gets it.
void og_placed_give(og_placed *placed, const og_tensor *given);
// Whether it is still that tensor: its memory, shape, strides and offset.
bool og_placed_is_given(const og_placed *placed, const og_tensor *now);
// The first byte of the buffer that has changed though it may not: any of an
// argument, of others those between the elements. -1: there is none.
int64_t og_placed_stray(const og_placed *placed);

#endif  // OG_CHECK_RUN_PLACE_H
