// SPDX-License-Identifier: Apache-2.0
// CUDA kernels in a subset of C that NVRTC, nvcc and a host C compiler take.
//
// A kernel is a function of one struct: OG_KERNEL(name, type, args) { ... }.
// Its body is a sequence of phases, OG_EACH_THREAD(t) { ... }, with
// OG_BARRIER() between two of which the second reads what other threads wrote.
// On the device a phase is plain code and t is the thread's index; on the host
// it is a loop over the threads of a block, one block at a time. What stands
// outside of a phase is the same for every thread. A value of a thread that
// a later phase reads is OG_PRIVATE: a register on the device, an entry of an
// array on the host. `continue` ends a phase for one thread.
//
// Blocks have one dimension, grids up to three. A .cu file may set
// OG_THREADS_MAX, the largest block, before it includes this header, and has no
// more than one barrier's worth of work in flight: sums over lanes stand
// outside of phases. Functions here are for kernels; each returns at once
// and cannot fail. The host form of a kernel is exported as
// opgraft_fake_NAME, with the parameters of a launch, for tests and for a
// libcuda that is simulated; it may run on several threads at once. The sizes
// of its parameters, with a 0 behind them, are opgraft_fake_NAME_sizes.

#ifndef OPGRAFT_CUDA_KERNEL_H
#define OPGRAFT_CUDA_KERNEL_H

#include <stdint.h>

#ifndef OG_THREADS_MAX
#define OG_THREADS_MAX 1024
#endif

#ifdef __CUDACC__

#define OG_ON_DEVICE 1
// Functions that kernels call.
#define OG_FN static __device__ __forceinline__
#define OG_UNROLL _Pragma("unroll")
#define OG_EACH_THREAD(t) \
  for (unsigned t = threadIdx.x, og_once = 1; og_once != 0; og_once = 0)
#define OG_BARRIER() __syncthreads()
#define OG_HELD 1
#define OG_OWN(name, t) ((name)[0])
#define OG_SHARED(type, name, count) __shared__ type name[count]
#define OG_BLOCK_X blockIdx.x
#define OG_BLOCK_Y blockIdx.y
#define OG_BLOCK_Z blockIdx.z
#define OG_GRID_X gridDim.x
#define OG_GRID_Y gridDim.y
#define OG_GRID_Z gridDim.z
#define OG_BLOCK_THREADS blockDim.x
#define OG_KERNEL(name, type, args)                            \
  extern "C" __global__ void __launch_bounds__(OG_THREADS_MAX) \
      name(const __grid_constant__ type args)

#else

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OG_ON_DEVICE 0
#define OG_FN static inline
#define OG_UNROLL
#define OG_EACH_THREAD(t) for (unsigned t = 0; t < og_host.block[0]; ++t)
#define OG_BARRIER() ((void)0)
#define OG_HELD OG_THREADS_MAX
#define OG_OWN(name, t) ((name)[t])
#define OG_SHARED(type, name, count) type name[count]
#define OG_BLOCK_X og_host.at[0]
#define OG_BLOCK_Y og_host.at[1]
#define OG_BLOCK_Z og_host.at[2]
#define OG_GRID_X og_host.grid[0]
#define OG_GRID_Y og_host.grid[1]
#define OG_GRID_Z og_host.grid[2]
#define OG_BLOCK_THREADS og_host.block[0]

#ifdef __cplusplus
#define OG_THREAD_LOCAL thread_local
#else
#define OG_THREAD_LOCAL _Thread_local
#endif
// The block that the host's thread runs.
static OG_THREAD_LOCAL struct { unsigned grid[3], block[3], at[3]; } og_host;

static inline int og_host_begin(const unsigned grid[3],
                                const unsigned block[3]) {
  for (int i = 0; i < 3; ++i) {
    og_host.grid[i] = grid[i];
    og_host.block[i] = block[i];
    og_host.at[i] = 0;
  }
  return grid[0] > 0 && grid[1] > 0 && grid[2] > 0 &&
         block[0] <= OG_THREADS_MAX && block[1] == 1 && block[2] == 1;
}

static inline int og_host_next(void) {
  for (int i = 0; i < 3; ++i) {
    if (++og_host.at[i] < og_host.grid[i]) return 1;
    og_host.at[i] = 0;
  }
  return 0;
}

#define OG_KERNEL(name, type, args)                                           \
  static void name(const type args);                                          \
  extern const size_t opgraft_fake_##name##_sizes[];                          \
  __attribute__((visibility("default")))                                      \
  const size_t opgraft_fake_##name##_sizes[] = {sizeof(type), 0};             \
  __attribute__((visibility("default"))) void opgraft_fake_##name(            \
      const unsigned grid[3], const unsigned block[3], unsigned shared_bytes, \
      void **parameters);                                                     \
  void opgraft_fake_##name(const unsigned grid[3], const unsigned block[3],   \
                           unsigned shared_bytes, void **parameters) {        \
    (void)shared_bytes;                                                       \
    if (!og_host_begin(grid, block))                                          \
      og_refuse(#name                                                         \
                ": the launch has an empty grid, or blocks of "               \
                "more dimensions or threads than it takes");                  \
    do name(*(const type *)parameters[0]);                                    \
    while (og_host_next());                                                   \
  }                                                                           \
  static void name(const type args)

#endif

// One value for each thread of a block, or `count` of them: OG_OWN(name, t).
#define OG_PRIVATE(type, name) type name[OG_HELD]
#define OG_PRIVATE_ARRAY(type, name, count) type name[OG_HELD][count]

// Ends the launch with an error: `text`, then a trap, after which the process
// can use the device no more. The host's form ends the process.
#if OG_ON_DEVICE
static __device__ __noinline__ void og_refuse(const char *text) {
  printf("opgraft: %s\n", text);
  __trap();
}
#else
static inline void og_refuse(const char *text) {
  fprintf(stderr, "opgraft: %s\n", text);
  abort();
}
#endif
// For what only the data can tell: an index outside of a table.
#define OG_REQUIRE(condition, text)    \
  do {                                 \
    if (!(condition)) og_refuse(text); \
  } while (0)

// --- Arithmetic --------------------------------------------------------------

#if OG_ON_DEVICE
OG_FN uint32_t og_bits(float x) { return __float_as_uint(x); }
OG_FN float og_float(uint32_t bits) { return __uint_as_float(bits); }
OG_FN float og_rsqrt(float x) { return rsqrtf(x); }
OG_FN float og_cospi(float x) { return cospif(x); }
OG_FN float og_sinpi(float x) { return sinpif(x); }
OG_FN float og_infinity(void) { return __uint_as_float(0x7f800000u); }
OG_FN float og_half_float(uint32_t half) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((unsigned short)half));
  return x;
}
OG_FN uint32_t og_float_half(float x) {
  unsigned short half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
  return half;
}
#else
OG_FN uint32_t og_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
OG_FN float og_float(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
OG_FN float og_rsqrt(float x) { return 1 / sqrtf(x); }
OG_FN float og_cospi(float x) { return (float)cos(3.14159265358979323846 * x); }
OG_FN float og_sinpi(float x) { return (float)sin(3.14159265358979323846 * x); }
OG_FN float og_infinity(void) { return INFINITY; }
OG_FN float og_half_float(uint32_t half) {
  const uint32_t sign = (half & 0x8000u) << 16, rest = half & 0x7fffu;
  if (rest >= 0x7c00u)
    return og_float(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  // Below the smallest normal number, 2^-14, a unit is 2^-24.
  if (rest < 0x400u) return og_float(sign | og_bits((float)rest * 0x1p-24f));
  return og_float(sign | ((rest << 13) + 0x38000000u));
}
OG_FN uint32_t og_float_half(float x) {
  const uint32_t bits = og_bits(x), sign = bits >> 16 & 0x8000u;
  const uint32_t rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return sign | 0x7e00u;
  if (rest >= 0x47800000u) return sign | 0x7c00u;
  // The addition rounds to the unit of small numbers.
  if (rest < 0x38800000u)
    return sign | (og_bits(og_float(rest) + 0.5f) - 0x3f000000u);
  return sign | (rest + 0xc8000fffu + (rest >> 13 & 1u)) >> 13;
}
#endif

OG_FN float og_bfloat_float(uint32_t bfloat) { return og_float(bfloat << 16); }
// Rounds to nearest, ties to even.
OG_FN uint32_t og_float_bfloat(float x) {
#if OG_ON_DEVICE && __CUDA_ARCH__ >= 800
  unsigned short bfloat;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bfloat) : "f"(x));
  return bfloat;
#else
  const uint32_t bits = og_bits(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16 | 0x40u) & 0xffffu;
  return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
#endif
}

// a / b, by a short division where both are short.
OG_FN int64_t og_divide(int64_t a, int64_t b) {
  if (((a | b) >> 32) == 0) return (int64_t)((uint32_t)a / (uint32_t)b);
  return a / b;
}

// --- Elements ----------------------------------------------------------------

// What a buffer holds. A function with an `element` is fast where that is a
// constant: give it as one from each kernel.
enum { OG_ELEMENT_F32, OG_ELEMENT_BF16, OG_ELEMENT_F16 };

OG_FN float og_element_load(const void *base, int64_t i, int element) {
  if (element == OG_ELEMENT_F32) return ((const float *)base)[i];
  const uint32_t bits = ((const uint16_t *)base)[i];
  return element == OG_ELEMENT_BF16 ? og_bfloat_float(bits)
                                    : og_half_float(bits);
}

OG_FN uint32_t og_element_bits(float x, int element) {
  return element == OG_ELEMENT_BF16 ? og_float_bfloat(x) : og_float_half(x);
}

OG_FN void og_element_store(void *base, int64_t i, float x, int element) {
  if (element == OG_ELEMENT_F32)
    ((float *)base)[i] = x;
  else
    ((uint16_t *)base)[i] = (uint16_t)og_element_bits(x, element);
}

// 16 bytes that are loaded at once.
#if OG_ON_DEVICE
typedef uint4 og_vec;
#else
typedef struct og_vec {
  uint32_t x, y, z, w;
} og_vec;
#endif

// Eight elements as they lie in memory; v[1] is for 32 bits only.
enum { OG_PIECE = 8 };
typedef struct og_piece {
  og_vec v[2];
} og_piece;

// Elements [i, i + 8), which lie at a multiple of 16 bytes.
OG_FN og_piece og_piece_load(const void *base, int64_t i, int element) {
  og_piece p;
  if (element == OG_ELEMENT_F32) {
    const og_vec *at = (const og_vec *)((const float *)base + i);
    p.v[0] = at[0];
    p.v[1] = at[1];
  } else {
    p.v[0] = *(const og_vec *)((const uint16_t *)base + i);
    p.v[1] = p.v[0];
  }
  return p;
}

OG_FN void og_piece_store(void *base, int64_t i, og_piece p, int element) {
  if (element == OG_ELEMENT_F32) {
    og_vec *at = (og_vec *)((float *)base + i);
    at[0] = p.v[0];
    at[1] = p.v[1];
  } else {
    *(og_vec *)((uint16_t *)base + i) = p.v[0];
  }
}

OG_FN void og_word_floats(uint32_t word, int element, float *out) {
  if (element == OG_ELEMENT_BF16) {
    out[0] = og_float(word << 16);
    out[1] = og_float(word & 0xffff0000u);
  } else {
    out[0] = og_half_float(word & 0xffffu);
    out[1] = og_half_float(word >> 16);
  }
}

OG_FN void og_piece_floats(og_piece p, int element, float out[8]) {
  if (element == OG_ELEMENT_F32) {
    out[0] = og_float(p.v[0].x), out[1] = og_float(p.v[0].y);
    out[2] = og_float(p.v[0].z), out[3] = og_float(p.v[0].w);
    out[4] = og_float(p.v[1].x), out[5] = og_float(p.v[1].y);
    out[6] = og_float(p.v[1].z), out[7] = og_float(p.v[1].w);
    return;
  }
  og_word_floats(p.v[0].x, element, out);
  og_word_floats(p.v[0].y, element, out + 2);
  og_word_floats(p.v[0].z, element, out + 4);
  og_word_floats(p.v[0].w, element, out + 6);
}

OG_FN uint32_t og_floats_word(const float *x, int element) {
  return og_element_bits(x[0], element) | og_element_bits(x[1], element) << 16;
}

OG_FN og_piece og_piece_of(const float x[8], int element) {
  og_piece p;
  if (element == OG_ELEMENT_F32) {
    p.v[0].x = og_bits(x[0]), p.v[0].y = og_bits(x[1]);
    p.v[0].z = og_bits(x[2]), p.v[0].w = og_bits(x[3]);
    p.v[1].x = og_bits(x[4]), p.v[1].y = og_bits(x[5]);
    p.v[1].z = og_bits(x[6]), p.v[1].w = og_bits(x[7]);
    return p;
  }
  p.v[0].x = og_floats_word(x, element);
  p.v[0].y = og_floats_word(x + 2, element);
  p.v[0].z = og_floats_word(x + 4, element);
  p.v[0].w = og_floats_word(x + 6, element);
  p.v[1] = p.v[0];
  return p;
}

// The same for elements of which only `count` are there, anywhere in memory;
// the others are 0, or not written. is_aligned: og_piece_load's condition.
OG_FN og_piece og_piece_get(const void *base, int64_t i, int64_t count,
                            int is_aligned, int element) {
  float x[8];
  if (is_aligned && count >= OG_PIECE) return og_piece_load(base, i, element);
  OG_UNROLL
  for (int j = 0; j < OG_PIECE; ++j)
    x[j] = j < count ? og_element_load(base, i + j, element) : 0;
  return og_piece_of(x, element);
}

OG_FN void og_piece_put(void *base, int64_t i, int64_t count, int is_aligned,
                        og_piece p, int element) {
  float x[8];
  if (is_aligned && count >= OG_PIECE) {
    og_piece_store(base, i, p, element);
    return;
  }
  og_piece_floats(p, element, x);
  OG_UNROLL
  for (int j = 0; j < OG_PIECE; ++j)
    if (j < count) og_element_store(base, i + j, x[j], element);
}

// --- Sums over threads -------------------------------------------------------

// Outside of phases, by all threads of the block. `values` are OG_PRIVATE,
// `stride` of each thread, of which the first `count` are summed: each thread
// gets the sums over the `width` threads whose indices differ from its own
// below `width`, a power of 2 up to 32.
OG_FN void og_lanes_sum(float *values, unsigned stride, unsigned count,
                        unsigned width) {
#if OG_ON_DEVICE
  (void)stride;
  for (unsigned step = width / 2; step > 0; step /= 2) {
    OG_UNROLL
    for (unsigned k = 0; k < count; ++k)
      values[k] += __shfl_xor_sync(0xffffffffu, values[k], (int)step);
  }
#else
  for (unsigned first = 0; first < og_host.block[0]; first += width)
    for (unsigned k = 0; k < count; ++k) {
      float sum = 0;
      for (unsigned t = first; t < first + width; ++t)
        sum += values[t * stride + k];
      for (unsigned t = first; t < first + width; ++t)
        values[t * stride + k] = sum;
    }
#endif
}

// One value of each thread, summed over the block, whose size is a multiple of
// 32. `shared` is OG_SHARED, of 32.
OG_FN void og_block_sum(float *value, float *shared) {
#if OG_ON_DEVICE
  og_lanes_sum(value, 1, 1, 32);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value[0];
  __syncthreads();
  value[0] = threadIdx.x % 32 < blockDim.x / 32 ? shared[threadIdx.x % 32] : 0;
  og_lanes_sum(value, 1, 1, 32);
  __syncthreads();
#else
  (void)shared;
  og_lanes_sum(value, 1, 1, og_host.block[0]);
#endif
}

#endif  // OPGRAFT_CUDA_KERNEL_H
