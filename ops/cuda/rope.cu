// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding: a block has one token at a time, computes its
// angles once, and turns all heads of q and k by them.

#define OG_THREADS_MAX 256
#include <opgraft/cuda_kernel.h>

#include "rope_args.h"

OG_FN void rope_turn(float x[8], float y[8], const float *cos, const float *sin,
                     int count, float sign) {
  OG_UNROLL
  for (int j = 0; j < OG_PIECE; ++j) {
    if (j >= count) continue;
    const float a = x[j], b = y[j], s = sign * sin[j];
    x[j] = a * cos[j] - b * s;
    y[j] = b * cos[j] + a * s;
  }
}

// Pairs [first, first + count) of a head, where pairs are halves apart.
OG_FN void rope_halves(const rope_args *a, const void *base, void *out,
                       int64_t from, int64_t to, int first, int count,
                       const float *cos, const float *sin, int element) {
  float x[8], y[8];
  const int aligned = a->is_aligned;
  og_piece_floats(og_piece_get(base, from + first, count, aligned, element),
                  element, x);
  og_piece_floats(
      og_piece_get(base, from + a->half + first, count, aligned, element),
      element, y);
  rope_turn(x, y, cos + first, sin + first, count, a->sign);
  og_piece_put(out, to + first, count, aligned, og_piece_of(x, element),
               element);
  og_piece_put(out, to + a->half + first, count, aligned,
               og_piece_of(y, element), element);
}

// The same where pairs are neighbours: 16 elements.
OG_FN void rope_neighbours(const rope_args *a, const void *base, void *out,
                           int64_t from, int64_t to, int first, int count,
                           const float *cos, const float *sin, int element) {
  float flat[16], x[8], y[8];
  const int aligned = a->is_aligned;
  const int more = 2 * count - OG_PIECE;
  const int64_t at = from + 2 * first, to_at = to + 2 * first;
  og_piece_floats(og_piece_get(base, at, 2 * count, aligned, element), element,
                  flat);
  og_piece_floats(og_piece_get(base, at + OG_PIECE, more, aligned, element),
                  element, flat + 8);
  OG_UNROLL
  for (int j = 0; j < OG_PIECE; ++j) x[j] = flat[2 * j], y[j] = flat[2 * j + 1];
  rope_turn(x, y, cos + first, sin + first, count, a->sign);
  OG_UNROLL
  for (int j = 0; j < OG_PIECE; ++j) flat[2 * j] = x[j], flat[2 * j + 1] = y[j];
  og_piece_put(out, to_at, 2 * count, aligned, og_piece_of(flat, element),
               element);
  og_piece_put(out, to_at + OG_PIECE, more, aligned,
               og_piece_of(flat + 8, element), element);
}

OG_FN void rope_rest(const rope_args *a, const void *base, void *out,
                     int64_t from, int64_t to, int element) {
  for (int64_t i = 2 * a->half; i < a->width && (base != out || from != to);
       ++i)
    og_element_store(out, to + i, og_element_load(base, from + i, element),
                     element);
}

// What one thread does: eight pairs of a head, or what does not turn of it.
OG_FN void rope_part(const rope_args *a, const rope_tensor *x, int64_t token,
                     int64_t head, int part, int parts, const float *cos,
                     const float *sin, int element) {
  const int64_t from = token * x->from_token + head * x->from_head;
  const int64_t to = token * x->to_token + head * x->to_head;
  const int first = part * OG_PIECE;
  const int left = a->half - first, count = left < OG_PIECE ? left : OG_PIECE;
  if (part == parts)
    rope_rest(a, x->from, x->to, from, to, element);
  else if (a->is_interleaved)
    rope_neighbours(a, x->from, x->to, from, to, first, count, cos, sin,
                    element);
  else
    rope_halves(a, x->from, x->to, from, to, first, count, cos, sin, element);
}

OG_FN int64_t rope_position(const rope_args *a, int64_t token) {
  return a->position_bits == 32 ? ((const int32_t *)a->positions)[token]
                                : ((const int64_t *)a->positions)[token];
}

OG_FN void rope_angles(const rope_args *a, int64_t token, unsigned pair,
                       float *cos, float *sin) {
  const double position = (double)rope_position(a, token);
  double turns = position * (double)a->turns_high[pair];
  turns += position * (double)a->turns_low[pair];
  turns -= rint(turns);
  cos[pair] = og_cospi((float)(2 * turns));
  sin[pair] = og_sinpi((float)(2 * turns));
}

OG_FN void rope_tokens(const rope_args *a, int element) {
  OG_SHARED(float, cos, ROPE_PAIRS_MAX);
  OG_SHARED(float, sin, ROPE_PAIRS_MAX);
  const int parts = (a->half + OG_PIECE - 1) / OG_PIECE;
  const int has_rest = a->width > 2 * a->half;
  const unsigned of_head = (unsigned)(parts + has_rest);
  const unsigned heads = (unsigned)(a->tensor[0].heads + a->tensor[1].heads);
  for (int64_t token = OG_BLOCK_X; token < a->tokens; token += OG_GRID_X) {
    OG_EACH_THREAD(t) {
      for (unsigned pair = t; pair < (unsigned)a->half;
           pair += OG_BLOCK_THREADS)
        rope_angles(a, token, pair, cos, sin);
    }
    OG_BARRIER();
    OG_EACH_THREAD(t) {
      for (unsigned i = t; i < heads * of_head; i += OG_BLOCK_THREADS) {
        const unsigned head = i / of_head, part = i % of_head;
        const unsigned before = (unsigned)a->tensor[0].heads;
        const int second = head >= before;
        rope_part(a, &a->tensor[second], token, second ? head - before : head,
                  (int)part, parts, cos, sin, element);
      }
    }
    OG_BARRIER();
  }
}

OG_KERNEL(rope_f32, rope_args, args) { rope_tokens(&args, OG_ELEMENT_F32); }
OG_KERNEL(rope_bf16, rope_args, args) { rope_tokens(&args, OG_ELEMENT_BF16); }
OG_KERNEL(rope_f16, rope_args, args) { rope_tokens(&args, OG_ELEMENT_F16); }
