// SPDX-License-Identifier: Apache-2.0
// rms_norm of rows, after a residual's addition or without it.
//
// Several threads have a row: up to 32 of them within a warp, or a whole block.
// They keep HELD pieces each, and read what is further back again.

#define OG_THREADS_MAX 512
#include <opgraft/cuda_kernel.h>

#include "norm_args.h"

enum { HELD = 4 };

// Elements [i, i + 8) of a row, with the residual added and stored.
OG_FN og_piece norm_read(const norm_args *a, int64_t row, int64_t i,
                         int element) {
  const int64_t at = row * a->width + i, count = a->width - i;
  const og_piece x = og_piece_get(a->x, at, count, a->is_aligned, element);
  if (a->residual == 0) return x;
  float sum[8], other[8];
  const og_piece residual =
      og_piece_get(a->residual, at, count, a->is_aligned, element);
  og_piece_floats(x, element, sum);
  og_piece_floats(residual, element, other);
  OG_UNROLL
  for (int j = 0; j < OG_PIECE; ++j) sum[j] += other[j];
  const og_piece out = og_piece_of(sum, element);
  og_piece_put(a->residual, at, count, a->is_aligned, out, element);
  return out;
}

OG_FN float norm_squares(og_piece x, int element) {
  float value[8], sum = 0;
  og_piece_floats(x, element, value);
  OG_UNROLL
  for (int j = 0; j < OG_PIECE; ++j) sum += value[j] * value[j];
  return sum;
}

OG_FN void norm_write(const norm_args *a, int64_t row, int64_t i, og_piece x,
                      float scale, int element) {
  const int64_t count = a->width - i;
  float value[8], weight[8];
  og_piece_floats(x, element, value);
  og_piece_floats(og_piece_get(a->weight, i, count, a->is_aligned, element),
                  element, weight);
  OG_UNROLL
  for (int j = 0; j < OG_PIECE; ++j)
    value[j] = value[j] * scale * (weight[j] + a->offset);
  og_piece_put(a->y, row * a->width + i, count, a->is_aligned,
               og_piece_of(value, element), element);
}

OG_FN void norm_rows(const norm_args *a, int element) {
  OG_SHARED(float, sums, 32);
  OG_PRIVATE(float, sum);
  OG_PRIVATE_ARRAY(og_piece, held, HELD);
  const int64_t lanes = a->lanes;
  const int64_t first =
      (int64_t)OG_BLOCK_X * (OG_BLOCK_THREADS / (unsigned)a->lanes);
  // What is read again: the residual's sum where there is one.
  const void *from = a->residual != 0 ? a->residual : a->x;

  OG_EACH_THREAD(t) {
    const int64_t row = first + t / (unsigned)a->lanes;
    const int64_t lane = t & (unsigned)(a->lanes - 1);
    OG_OWN(sum, t) = 0;
    if (row >= a->rows) continue;
    OG_UNROLL
    for (int k = 0; k < HELD; ++k) {
      const int64_t i = (k * lanes + lane) * OG_PIECE;
      if (i < a->width) {
        OG_OWN(held, t)[k] = norm_read(a, row, i, element);
        OG_OWN(sum, t) += norm_squares(OG_OWN(held, t)[k], element);
      }
    }
    for (int64_t i = (HELD * lanes + lane) * OG_PIECE; i < a->width;
         i += lanes * OG_PIECE)
      OG_OWN(sum, t) += norm_squares(norm_read(a, row, i, element), element);
  }
  if (a->lanes <= 32)
    og_lanes_sum(sum, 1, 1, (unsigned)a->lanes);
  else
    og_block_sum(sum, sums);
  OG_EACH_THREAD(t) {
    const int64_t row = first + t / (unsigned)a->lanes;
    const int64_t lane = t & (unsigned)(a->lanes - 1);
    if (row >= a->rows) continue;
    const float scale = og_rsqrt(OG_OWN(sum, t) / (float)a->width + a->eps);
    OG_UNROLL
    for (int k = 0; k < HELD; ++k) {
      const int64_t i = (k * lanes + lane) * OG_PIECE;
      if (i < a->width)
        norm_write(a, row, i, OG_OWN(held, t)[k], scale, element);
    }
    for (int64_t i = (HELD * lanes + lane) * OG_PIECE; i < a->width;
         i += lanes * OG_PIECE)
      norm_write(a, row, i,
                 og_piece_get(from, row * a->width + i, a->width - i,
                              a->is_aligned, element),
                 scale, element);
  }
}

OG_KERNEL(norm_f32, norm_args, args) { norm_rows(&args, OG_ELEMENT_F32); }
OG_KERNEL(norm_bf16, norm_args, args) { norm_rows(&args, OG_ELEMENT_BF16); }
OG_KERNEL(norm_f16, norm_args, args) { norm_rows(&args, OG_ELEMENT_F16); }
