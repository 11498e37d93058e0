// SPDX-License-Identifier: Apache-2.0
// What runs on the finished tiles of a packed contraction or convolution while
// they are in cache: the row program that reads its result (fused.c), as an
// epilogue.

#ifndef OG_EXEC_FAST_TILE_READER_H
#define OG_EXEC_FAST_TILE_READER_H

#include "exec/step/prep.h"

// A part of the result, of its type.
typedef struct og_tile {
  const void *data;
  int64_t row_bytes;  // from one of its rows to the next
  int64_t row, rows;  // among the rows of all batches
  int64_t column, columns;
} og_tile;

typedef struct og_tile_reader {
  void (*run)(void *state, const og_tile *tile, int32_t worker);
  void *state;
  bool keeps_result;  // the contraction writes its result as well
  bool may_repeat;    // a second run of all tiles gives the same
  // The address of a result of the program whose floats lie as the
  // contraction's result does, one row after the other; NULL: there is none.
  void *const *result;
} og_tile_reader;

// The reader of a packed contraction's or convolution's step, to be set; NULL
// for another step. The tiles cover the result, each element once. Workers call
// it concurrently. A convolution's rows are its channels, of all images.
og_tile_reader *og_matmul_reader(const og_step *step);
og_tile_reader *og_convolution_reader(const og_step *step);
og_tile_reader *og_winograd_reader(const og_step *step);

// Prepares a fused node as the epilogue of the step before it; it gets no step
// of its own. OG_UNSUPPORTED, with prep->refusal, where it cannot be one.
og_status og_prepare_epilogue(og_prep *prep);

#endif  // OG_EXEC_FAST_TILE_READER_H
