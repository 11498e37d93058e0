// SPDX-License-Identifier: Apache-2.0
// Gated activations: the first half of a row, activated, times the second.

#define OG_THREADS_MAX 256
#include <opgraft/cuda_kernel.h>

#include "gated_args.h"

OG_FN float gate_activate(float x, int kind) {
  if (kind == GATED_SILU) return x / (1 + expf(-x));
  if (kind == GATED_GELU) return 0.5f * x * (1 + erff(x * 0.70710678118f));
  const float inner = 0.7978845608f * (x + 0.044715f * x * x * x);
  return 0.5f * x * (1 + tanhf(inner));
}

OG_FN void gate_piece(const gated_args *a, int64_t row, int64_t column,
                      int element) {
  const int64_t at = row * 2 * a->half + column, count = a->half - column;
  float gate[8], up[8];
  const og_piece first = og_piece_get(a->x, at, count, a->is_aligned, element);
  const og_piece second =
      og_piece_get(a->x, at + a->half, count, a->is_aligned, element);
  og_piece_floats(first, element, gate);
  og_piece_floats(second, element, up);
  OG_UNROLL
  for (int j = 0; j < OG_PIECE; ++j)
    gate[j] = gate_activate(gate[j], a->kind) * up[j];
  og_piece_put(a->y, row * a->half + column, count, a->is_aligned,
               og_piece_of(gate, element), element);
}

// Pieces are shared out over the whole grid.
OG_FN void gate_pieces(const gated_args *a, int element) {
  const int64_t total = a->rows * a->row_pieces;
  OG_EACH_THREAD(t) {
    const int64_t step = (int64_t)OG_GRID_X * OG_BLOCK_THREADS;
    for (int64_t i = (int64_t)OG_BLOCK_X * OG_BLOCK_THREADS + t; i < total;
         i += step) {
      const int64_t row = og_divide(i, a->row_pieces);
      gate_piece(a, row, (i - row * a->row_pieces) * OG_PIECE, element);
    }
  }
}

OG_KERNEL(gated_f32, gated_args, args) { gate_pieces(&args, OG_ELEMENT_F32); }
OG_KERNEL(gated_bf16, gated_args, args) { gate_pieces(&args, OG_ELEMENT_BF16); }
OG_KERNEL(gated_f16, gated_args, args) { gate_pieces(&args, OG_ELEMENT_F16); }
