// SPDX-License-Identifier: Apache-2.0
// Matrix products and exchanges of one warp, for kernels of 16-bit elements.
//
// Each function is called outside of phases by all threads of a block, whose
// size is a multiple of 32, and works on OG_PRIVATE values. `stride` counts the
// values of a thread, which only the host form needs. With g = lane / 4 and
// c = lane % 4, a word holds two elements, the first in its low half. Devices
// before compute capability 8.0 have no such product: OG_HAS_MMA is 0 there.
// Source: PTX ISA, "Warp Level Matrix Instructions".

#ifndef OG_OPS_CUDA_WARP_MMA_H
#define OG_OPS_CUDA_WARP_MMA_H

#include <opgraft/cuda_kernel.h>

#if OG_ON_DEVICE && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 800)
#define OG_HAS_MMA 0
#else
#define OG_HAS_MMA 1
#endif

#if !OG_ON_DEVICE
OG_FN float mma_half(uint32_t word, int half, int element) {
  const uint32_t bits = half ? word >> 16 : word & 0xffffu;
  return element == OG_ELEMENT_BF16 ? og_bfloat_float(bits)
                                    : og_half_float(bits);
}

// The product of the warp whose first values these are.
OG_FN void mma_warp_run(float *d, unsigned d_stride, const uint32_t *a,
                        unsigned a_stride, const uint32_t *b, unsigned b_stride,
                        int element) {
  float rows[16][16], columns[8][16];
  for (unsigned i = 0; i < 16 * 16; ++i) {
    const unsigned row = i / 16, k = i % 16, lane = row % 8 * 4 + k % 8 / 2;
    rows[row][k] =
        mma_half(a[lane * a_stride + row / 8 + k / 8 * 2], k % 2, element);
    if (row < 8)
      columns[row][k] = mma_half(b[lane * b_stride + k / 8], k % 2, element);
  }
  for (unsigned i = 0; i < 16 * 8; ++i) {
    const unsigned row = i / 8, column = i % 8;
    float sum = 0;
    for (unsigned k = 0; k < 16; ++k) sum += rows[row][k] * columns[column][k];
    d[(row % 8 * 4 + column / 2) * d_stride + row / 8 * 2 + column % 2] += sum;
  }
}
#endif

// D[16, 8] += A[16, 16] B[16, 8], of type `element`, sums in float32
// (mma.m16n8k16). a: {A[g], A[g + 8]} at columns 2c and 2c + 1, then the same
// at 2c + 8. b: B[2c .. 2c + 1][g], B[2c + 8 .. 2c + 9][g]. d: D[g][2c],
// D[g][2c + 1], D[g + 8][2c], D[g + 8][2c + 1].
OG_FN void og_mma_16x8x16(float *d, unsigned d_stride, const uint32_t *a,
                          unsigned a_stride, const uint32_t *b,
                          unsigned b_stride, int element) {
#if OG_ON_DEVICE
  (void)d_stride, (void)a_stride, (void)b_stride;
#if OG_HAS_MMA
  if (element == OG_ELEMENT_BF16)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
#else
  for (unsigned first = 0; first < og_host.block[0]; first += 32)
    mma_warp_run(d + first * d_stride, d_stride, a + first * a_stride, a_stride,
                 b + first * b_stride, b_stride, element);
#endif
}

// The transpose of an 8 x 8 matrix: a thread's word is its [g][2c .. 2c + 1]
// (movmatrix.m8n8.trans).
OG_FN void og_mma_transpose(uint32_t *word, unsigned stride) {
#if OG_ON_DEVICE
  (void)stride;
#if OG_HAS_MMA
  uint32_t turned;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;"
               : "=r"(turned)
               : "r"(word[0]));
  word[0] = turned;
#endif
#else
  for (unsigned first = 0; first < og_host.block[0]; first += 32) {
    uint32_t turned[32];
    for (unsigned lane = 0; lane < 32; ++lane) {
      const unsigned g = lane / 4, shift = g % 2 * 16;
      const unsigned from = first + lane % 4 * 8 + g / 2;
      turned[lane] = (word[from * stride] >> shift & 0xffffu) |
                     (word[(from + 4) * stride] >> shift & 0xffffu) << 16;
    }
    for (unsigned lane = 0; lane < 32; ++lane)
      word[(first + lane) * stride] = turned[lane];
  }
#endif
}

OG_FN float mma_join(float a, float b, int is_sum) {
  return is_sum ? a + b : a > b ? a : b;
}

// The sum, or the largest, of the first `count` values over the eight threads
// of a warp that have the same c; each of them gets it.
OG_FN void og_mma_columns(float *values, unsigned stride, unsigned count,
                          int is_sum) {
#if OG_ON_DEVICE
  (void)stride;
  OG_UNROLL
  for (int step = 4; step < 32; step *= 2) {
    OG_UNROLL
    for (unsigned k = 0; k < count; ++k)
      values[k] = mma_join(
          values[k], __shfl_xor_sync(0xffffffffu, values[k], step), is_sum);
  }
#else
  for (unsigned t = 0; t < og_host.block[0]; ++t) {
    if (t % 32 >= 4) continue;
    for (unsigned k = 0; k < count; ++k) {
      float all = values[t * stride + k];
      for (unsigned g = 1; g < 8; ++g)
        all = mma_join(all, values[(t + 4 * g) * stride + k], is_sum);
      for (unsigned g = 0; g < 8; ++g) values[(t + 4 * g) * stride + k] = all;
    }
  }
#endif
}

// The low halves of two words, or the high ones, as one word.
OG_FN uint32_t og_mma_pair(uint32_t first, uint32_t second, int is_high) {
#if OG_ON_DEVICE
  return __byte_perm(first, second, is_high ? 0x7632 : 0x5410);
#else
  return is_high ? first >> 16 | (second & 0xffff0000u)
                 : (first & 0xffffu) | second << 16;
#endif
}

OG_FN uint32_t og_vec_word(og_vec v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

#endif  // OG_OPS_CUDA_WARP_MMA_H
