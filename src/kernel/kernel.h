// SPDX-License-Identifier: Apache-2.0
// Micro-kernels: rows, packed contraction, attention, convolution.
//
// Self-contained (libc and libm), so that operator modules link it statically
// and the graph engine uses the same code. Each table exists once per
// instruction set; the getters choose by the machine, lowered by
// OPGRAFT_ISA (base/isa.def). Nothing here allocates or keeps state.

#ifndef OG_KERNEL_KERNEL_H
#define OG_KERNEL_KERNEL_H

#include <opgraft/op.h>
#include <stddef.h>
#include <stdint.h>

#include "base/isa.h"

// What contractions of this element use: bf16 dots only where they are faster.
og_isa og_contraction_isa(int element);
// Whether contractions of int8 use VNNI, with AVX-512 (`is_long`) or AVX2:
// where the machine has it, and OPGRAFT_ISA names no set below avx512_bf16.
int og_has_vnni(int is_long);

// The kernel records of an operator whose function chooses by og_isa_used():
// one for each level, so that `opgraft inspect --why` names the one in use.
// What follows are records of other devices.
#define OG_KERNELS_BY_ISA(array, types, function, ...)                       \
  static const og_kernel array[] = {                                         \
      {.device = OG_CPU, .dtypes = types, .isa = "avx512", .run = function}, \
      {.device = OG_CPU, .dtypes = types, .isa = "avx2", .run = function},   \
      {.device = OG_CPU, .dtypes = types, .run = function},                  \
      __VA_ARGS__}

// What a buffer holds. Arithmetic is f32 in every case. What follows OG_F16 is
// for packed weights alone, whose bytes are counted: int8 with a scale for each
// column; int4 with one for each group of so many steps; codes of 4 and 8 bits
// with a scale and a zero for each group.
enum { OG_F32, OG_BF16, OG_F16, OG_I8, OG_I4_32, OG_I4_64, OG_I4_128 };
enum { OG_U4_32 = OG_I4_128 + 1, OG_U4_64, OG_U4_128 };
enum { OG_U8_32 = OG_U4_128 + 1, OG_U8_64, OG_U8_128 };
// Of a cache of attention alone, as OG_I8 is there: float8, whose largest
// number is 448 and which has no infinity, and the upper half of f16. Kernels
// read the first as its numbers over 256.
enum { OG_E4M3 = OG_U8_128 + 1, OG_E5M2 };
static inline size_t og_element_bytes(int element) {
  return element == OG_F32 ? 4 : element >= OG_I8 ? 1 : 2;
}
static inline int og_has_groups(int element) { return element > OG_I8; }
static inline int og_has_zeros(int element) { return element >= OG_U4_32; }
static inline int og_is_nibbles(int element) {
  return og_has_groups(element) && element < OG_U8_32;
}
// Of types with groups.
static inline int64_t og_group_steps(int element) {
  return (int64_t)32 << ((element - OG_I4_32) % 3);
}
static inline int64_t og_group_count(int64_t k, int element) {
  return (k + og_group_steps(element) - 1) / og_group_steps(element);
}
static inline int og_element_of(const og_tensor *t) {
  if (t->dtype.bits == 32) return OG_F32;
  return t->dtype.code == OG_CODE_BFLOAT ? OG_BF16 : OG_F16;
}
// Element i of a buffer.
static inline void *og_at(const void *p, int64_t i, int element) {
  return (char *)(uintptr_t)p + (size_t)i * og_element_bytes(element);
}

// --- Rows --------------------------------------------------------------------

// Gated and plain activations.
enum {
  OG_ACT_NONE,
  OG_ACT_SILU,       // x * sigmoid(x)
  OG_ACT_GELU,       // x * Phi(x)
  OG_ACT_GELU_TANH,  // the tanh form of gelu
  OG_ACT_RELU,
  OG_ACT_SWIGLUOAI,  // clamped: min(g, l) * sigmoid(a g) * (clamp(u, l) + 1)
};

typedef struct og_act {
  int32_t kind;
  float alpha;  // OG_ACT_SWIGLUOAI only
  float limit;
} og_act;

// One row of `width` elements each. Every buffer of a call has the type
// `element` unless it is a float pointer. Rows may start at any element.
typedef struct og_row_kernels {
  // Also of a cache's elements.
  void (*to_f32)(const void *x, float *y, int64_t width, int element);
  void (*from_f32)(const float *x, void *y, int64_t width, int element);
  // y = x * rsqrt(mean(x^2) + eps) * (weight + offset). y may be x.
  void (*rms_norm)(const void *x, const void *weight, void *y, int64_t width,
                   float eps, float offset, int element);
  // x += y
  void (*add)(void *x, const void *y, int64_t width, int element);
  // y = (x - mean) * rstd * weight + bias; weight and bias may be NULL.
  void (*layer_norm)(const void *x, const void *weight, const void *bias,
                     void *y, int64_t width, float eps, int element);
  // grad_x of layer_norm; also gives mean and rstd of x.
  void (*layer_norm_grad)(const void *grad, const void *x, const void *weight,
                          void *grad_x, int64_t width, float eps,
                          float *out_mean_rstd, int element);
  // sum[i] += grad[i] * (x[i] - mean) * scale, bias_sum[i] += grad[i];
  // bias_sum may be NULL.
  void (*norm_weight_grad)(const void *grad, const void *x, float mean,
                           float scale, float *sum, float *bias_sum,
                           int64_t width, int element);
  // y = act(gate) * up, for OG_ACT_SWIGLUOAI with its clamps. The step of gate
  // and up is 1, or 2 where they interleave.
  void (*act_and_mul)(const void *gate, const void *up, void *y, int64_t width,
                      og_act act, int element);
  // Its gradient, of OG_ACT_SWIGLUOAI.
  void (*swiglu_grad)(const float *grad, const float *gate, const float *up,
                      float *grad_gate, float *grad_up, int64_t width,
                      og_act act);
  // Rotates pairs by cos and sin (half entries each): (i, i + half), or
  // (2i, 2i + 1) where interleaved. sign -1 turns back. y may be x.
  void (*rotate)(const void *x, void *y, int64_t half, const float *cos,
                 const float *sin, int interleaved, float sign, int element);
  // cos and sin of position * frequency for frequencies in turns, high and low
  // parts.
  void (*angles)(double position, const float *turns_high,
                 const float *turns_low, int64_t half, float *out_cos,
                 float *out_sin);
  // y = exp(x - max) / sum; returns the sum before dividing.
  void (*softmax)(const void *x, float *y, int64_t width, float scale,
                  int element);
  // y[i] += scale * x[i]
  void (*accumulate)(const float *x, float scale, float *y, int64_t width);
  // total[i] += part[i], lost[i] += what that rounds away, part[i] = 0.
  void (*carry)(float *part, float *total, float *lost, int64_t width);
} og_row_kernels;
const og_row_kernels *og_rows(void);

// Sums of columns over many rows: `part` takes OG_CARRY_ROWS of them, so that
// what a sum rounds does not grow with their number.
enum { OG_CARRY_ROWS = 16, OG_CARRY_COLUMNS = 256 };
typedef struct og_column_sums {
  float part[OG_CARRY_COLUMNS];
  float total[OG_CARRY_COLUMNS];
  float lost[OG_CARRY_COLUMNS];
} og_column_sums;
// After row `row` of `rows` is in `part`.
void og_column_sums_step(og_column_sums *sums, int64_t row, int64_t rows,
                         int64_t count);
// The sums, as `count` elements of a tensor.
void og_column_sums_store(og_column_sums *sums, void *to, int64_t count,
                          int element);

// --- Packed contraction ------------------------------------------------------

// y[m, n] = sum_k x[m, k] * w[n, k]. Weights are packed once, in panels of 16
// columns [k][16] of their own type, bf16 in pairs of steps [k / 2][16][2],
// 8 bits in quads [k / 4][16][4], int8 as bytes that are 128 more; 4 bits in
// pairs of quads [k / 8][16][4], int4 8 more, the first in the low halves of
// bytes. A panel begins with what its groups have, f16: scales
// [k / group][16], or with zeros [k / group][2][16], the second what is added
// to a code less 8, or less 128, before it is scaled; memory gives half as much
// where a panel is not read from its first byte to its last. K and N are padded
// to 2, of int8 4, of groups a whole one, and 16.
enum { OG_PANEL = 16 };
// Of what a panel's groups have, in whole lines.
static inline int64_t og_group_bytes(int64_t k, int element) {
  enum { LINE = 64 };
  if (!og_has_groups(element)) return 0;
  const int64_t each = (og_has_zeros(element) ? 2 : 1) * 2 * OG_PANEL;
  return (og_group_count(k, element) * each + LINE - 1) / LINE * LINE;
}
size_t og_packed_bytes(int64_t n, int64_t k, int element);

enum { OG_GEMM_PART_ROWS = 128 };  // of what og_epilogue.tile gets, at most

// What happens to the sums of a row and a column, in this order.
typedef struct og_epilogue {
  // [n], of columns whose weights have 8 or 4 bits; or NULL
  const float *scales;
  const void *bias;  // [n] of the type of x, f32 with wide_bias, or NULL
  int32_t act;       // OG_ACT_NONE, SILU, GELU, GELU_TANH, RELU
  int32_t wide;      // y is f32 whatever x is: what comes next adds it up
  int32_t wide_bias;
  // Runs over rows [row, row + rows) and columns [column, column + columns) of
  // y once they are complete, while they are in cache; `y` is their first
  // element. Together these parts are all rows and columns of the run. Where
  // the run's y is NULL, which has to be wide, a part is in the worker's
  // scratch and is lost when the hook returns, which may change it. A part has
  // at most OG_GEMM_PART_ROWS rows. NULL: no hook.
  void (*tile)(void *state, void *y, int64_t y_stride, int64_t row,
               int64_t rows, int64_t column, int64_t columns, int worker);
  void *state;
  int worker;  // handed to the hook
  // Where the hook writes what it makes of row 0 and column 0, floats, and the
  // bytes from row to row: prefetched. NULL: it is not known.
  const void *result;
  int64_t result_row_bytes;
  // Whether the panels are in the worker's caches: tiles prefetch lines of
  // results, not the next panel.
  int32_t has_near_panels;
  // Whether column n - 1, where it is alone in its panel, may be computed by
  // dot products. They round otherwise, so nothing but the problem's shape may
  // decide which column that is.
  int32_t dots_last;
  // Rows have 8 bits (og_gemm_kernels.quantize).
  int32_t has_short_rows;
  // Steps of k that one chain of sums adds up, at most, an even number: what it
  // rounds grows with its length. 0: as many as the kernel likes.
  int32_t run_steps;
} og_epilogue;

// w[n, k], its elements so many elements apart along each.
typedef struct og_gemm_weights {
  const void *data;
  int64_t n, k;
  int64_t n_stride, k_stride;
  int element;
  int is_rounded;  // of f32: panels are bf16, rounded to even
} og_gemm_weights;
static inline int og_panels_type(const og_gemm_weights *w) {
  return w->is_rounded ? OG_BF16 : w->element;
}
// Panels [panel_begin, panel_end), the first of them at `packed`.
void og_gemm_pack(const og_gemm_weights *w, int64_t panel_begin,
                  int64_t panel_end, void *packed);

// What og_gemm_quantize and og_gemm_codes_pack write: panels [begin, end) of
// `type`, 8 or 4 bits, the first of them at `packed`, and their columns'
// scales, zero behind the last.
typedef struct og_gemm_narrow {
  int type;
  int64_t begin, end;
  uint8_t *packed;
  float *scales;
} og_gemm_narrow;
// w is f32 or 16 bits wide, or int8, which stays with a scale of 1. The scale
// of int8 is a column's largest magnitude / 127; of a group of int4 its element
// of largest magnitude / -8; with zeros its range, of which 0 is, / 15 or 255,
// and its zero a code. Groups' are f16, in units of their column's scale, a
// power of two. Elements are rounded to even. Adds the squares of what rounding
// lost, and of the elements: not finite where an element is not.
void og_gemm_quantize(const og_gemm_weights *w, const og_gemm_narrow *to,
                      double *lost, double *size);

// Weights that came as codes: scale * (code - zero).
typedef struct og_gemm_codes {
  const uint8_t *data;  // [n, k], a byte each, so many bytes apart
  int64_t n, k;
  int64_t n_stride, k_stride;
  // [n, ceil(k / group)], dense; group is a multiple of the type's. zeros may
  // be NULL: 8, of 8 bits 128.
  const float *scales, *zeros;
  int64_t group;
} og_gemm_codes;
// `to` has a type with zeros. False where a scale or zero is not finite, or a
// zero is farther from the codes than f16 reaches. Scales and zeros of f16 and
// bf16, zeros that are codes, stay what they are where a column's scales are
// within a factor of 2^14.
int og_gemm_codes_pack(const og_gemm_codes *codes, const og_gemm_narrow *to);

// What a row of x takes in 16 or 8 bits, for panels of 8 and 4 bits.
int64_t og_gemm_row_bytes(int64_t k);

typedef struct og_gemm_kernels {
  int32_t tile_columns;  // that a tile computes, needed or not
  int32_t tile_rows;     // that a tile has at most
  // og_gemm_pack. All forms give the same panels.
  void (*pack)(const og_gemm_weights *w, int64_t panel_begin, int64_t panel_end,
               void *packed);
  // to[r, i] = from[i, r], for `rows` rows of `columns`; strides in floats.
  void (*transpose)(const float *from, int64_t from_stride, int64_t rows,
                    int64_t columns, float *to, int64_t to_stride);
  // A row of k elements in 16 bits: og_gemm_row_bytes(k) from `to` on, aligned
  // as floats. An element is off by at most 1 / 65278 of the row's largest
  // magnitude. With the type of the panels for `short_for`, not 0: in 8 bits,
  // off by a 254th. A row with a NaN has NaN for results; one with infinities
  // has theirs. This and the next two are of og_gemm(OG_I8) alone.
  void (*quantize)(const void *x, int64_t k, int element, int short_for,
                   void *to);
  // og_gemm_quantize and og_gemm_codes_pack. All forms give the same panels.
  void (*narrow)(const og_gemm_weights *w, const og_gemm_narrow *to,
                 double *lost, double *size);
  int (*codes_pack)(const og_gemm_codes *codes, const og_gemm_narrow *to);
  // Columns of panels [panel_begin, panel_end) for m rows. x has the type
  // `element`, and y unless it is wide. Panels have the type `weights`: the
  // same; 8 or 4 bits, whose scales the epilogue has, under rows of
  // `quantize`, as many bytes apart, of x of this type; or OG_BF16 under x of
  // f32, which is rounded to bf16 where products are dots. `scratch` has
  // OG_GEMM_SCRATCH bytes for each worker, aligned as floats. `next`, which
  // this worker reads after these panels, is prefetched meanwhile; it may be
  // NULL.
  void (*run)(const void *x, int64_t x_stride, const void *packed, int64_t m,
              int64_t n, int64_t k, int64_t panel_begin, int64_t panel_end,
              const void *next, void *y, int64_t y_stride, og_epilogue epilogue,
              void *scratch, int element, int weights);
} og_gemm_kernels;
// By the type of the panels.
const og_gemm_kernels *og_gemm(int element);
// What one worker needs for og_gemm_kernels.run. A row of k floats has to fit:
// OG_GEMM_MAX_K.
enum { OG_GEMM_SCRATCH = 640 * 1024, OG_GEMM_MAX_K = 131070 };

#include "kernel/attention.h"
#include "kernel/conv.h"
#include "kernel/winograd.h"

#endif  // OG_KERNEL_KERNEL_H
