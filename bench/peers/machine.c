// SPDX-License-Identifier: Apache-2.0
// The machine's own limits: FMA throughput of an instruction set, bf16 dot
// products, both with the loads that a tile of a matrix product has, and
// reading memory, on the host's threads: others would share the cores with the
// host's, which spin a while after each parallel loop.

#include <opgraft/op.h>
#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define CHAINS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

__attribute__((target("avx2,fma"))) static int64_t fma_avx2(const char *data,
                                                            int64_t rounds) {
  (void)data;
#define START(i) __m256 c##i = _mm256_set1_ps(i + 1.0f);
#define STEP(i) c##i = _mm256_fmadd_ps(c##i, a, b);
#define FOLD(i) a = _mm256_add_ps(a, c##i);
  __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
  CHAINS(START)
  for (int64_t r = 0; r < rounds; ++r) {
    CHAINS(STEP)
    __asm__ volatile("" : "+x"(a), "+x"(b));
  }
  CHAINS(FOLD)
  volatile float sink = _mm256_cvtss_f32(a);
  (void)sink;
  return 12 * 8 * 2 * rounds;
#undef START
#undef STEP
#undef FOLD
}

__attribute__((target("avx512f"))) static int64_t fma_avx512(const char *data,
                                                             int64_t rounds) {
  (void)data;
#define START(i) __m512 c##i = _mm512_set1_ps(i + 1.0f);
#define STEP(i) c##i = _mm512_fmadd_ps(c##i, a, b);
#define FOLD(i) a = _mm512_add_ps(a, c##i);
  __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
  CHAINS(START)
  for (int64_t r = 0; r < rounds; ++r) {
    CHAINS(STEP)
    __asm__ volatile("" : "+v"(a), "+v"(b));
  }
  CHAINS(FOLD)
  volatile float sink = _mm512_cvtss_f32(a);
  (void)sink;
  return 12 * 16 * 2 * rounds;
#undef START
#undef STEP
#undef FOLD
}

__attribute__((target("avx512f,avx512bf16"))) static int64_t dot_avx512_bf16(
    const char *data, int64_t rounds) {
  (void)data;
#define START(i) \
  __m512 c##i = _mm512_set1_ps(i + 1.0f);  // equal ones would be one chain
#define STEP(i) c##i = _mm512_dpbf16_ps(c##i, (__m512bh)a, (__m512bh)b);
#define FOLD(i) sum = _mm512_add_ps(sum, c##i);
  __m512i a = _mm512_set1_epi16(0x3f80), b = _mm512_set1_epi16(0x3c00);
  __m512 sum = _mm512_setzero_ps();
  CHAINS(START)
  for (int64_t r = 0; r < rounds; ++r) {
    CHAINS(STEP)
    __asm__ volatile("" : "+v"(a), "+v"(b));
  }
  CHAINS(FOLD)
  volatile float sink = _mm512_cvtss_f32(sum);
  (void)sink;
  return 12 * 32 * 2 * rounds;
}
#undef START
#undef STEP
#undef FOLD

// A tile of so many rows by two vectors, over rows of a and a panel of b that
// stay in the first-level cache: each step loads two vectors and broadcasts an
// element of each row. A packed matrix product has these and more.
enum { TILE_K = 128, TILE_WIDTH = 32 };

#define SIX(X) X(0) X(1) X(2) X(3) X(4) X(5)
#define TILE_ZERO(r) vector c##r = {0}, d##r = {0};
#define TILE_ADD(r)                           \
  {                                           \
    const vector x = EACH(a[(r)*TILE_K + k]); \
    c##r = MULTIPLY(x, u, c##r);              \
    d##r = MULTIPLY(x, v, d##r);              \
  }
#define TILE_FOLD(r) sum += c##r + d##r;
#define TILE(name, isa, ROWS, count, lanes, flops)                             \
  __attribute__((target(isa))) static int64_t tile_##name(const char *data,    \
                                                          int64_t rounds) {    \
    typedef float vector __attribute__((vector_size(4 * (lanes)), may_alias)); \
    float a[(count)*TILE_K],                                                   \
        b[TILE_WIDTH * TILE_K] __attribute__((aligned(64)));                   \
    const int64_t passes = rounds / TILE_K + 1;                                \
    (void)data;                                                                \
    for (int64_t i = 0; i < (count)*TILE_K; ++i) a[i] = 0.999f;                \
    for (int64_t i = 0; i < TILE_WIDTH * TILE_K; ++i) b[i] = 0.001f;           \
    vector sum = {0};                                                          \
    for (int64_t p = 0; p < passes; ++p) {                                     \
      ROWS(TILE_ZERO) const vector *from = (const vector *)(const void *)b;    \
      __asm__ volatile("" : : "r"(a), "r"(b) : "memory");                      \
      for (int64_t k = 0; k < TILE_K; ++k, from += TILE_WIDTH / (lanes)) {     \
        const vector u = from[0], v = from[1];                                 \
        ROWS(TILE_ADD)                                                         \
      }                                                                        \
      ROWS(TILE_FOLD)                                                          \
    }                                                                          \
    volatile float sink = sum[0];                                              \
    (void)sink;                                                                \
    return (int64_t)(count)*2 * (lanes) * (flops)*TILE_K * passes;             \
  }

#define EACH(x) ((vector)_mm256_set1_ps(x))
#define MULTIPLY(x, y, c) \
  ((vector)_mm256_fmadd_ps((__m256)(x), (__m256)(y), (__m256)(c)))
TILE(avx2, "avx2,fma", SIX, 6, 8, 2)
#undef EACH
#undef MULTIPLY
#define EACH(x) ((vector)_mm512_set1_ps(x))
#define MULTIPLY(x, y, c) \
  ((vector)_mm512_fmadd_ps((__m512)(x), (__m512)(y), (__m512)(c)))
TILE(avx512, "avx512f", CHAINS, 12, 16, 2)
#undef MULTIPLY
#define MULTIPLY(x, y, c)                                               \
  ((vector)_mm512_dpbf16_ps((__m512)(c),                                \
                            (__m512bh)_mm512_castps_si512((__m512)(x)), \
                            (__m512bh)_mm512_castps_si512((__m512)(y))))
TILE(avx512_bf16, "avx512f,avx512bf16", CHAINS, 12, 16, 4)

// AMX: four tiles of sums, of two tiles of rows by two of columns, which stay
// or are loaded from the first-level cache. opgraft has asked for the tiles.
typedef struct amx_shape {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} amx_shape;
enum { AMX_TILES = 8, AMX_BYTES = 1024, AMX_STEPS = 8 };
#define AMX(name, EACH_ROUND)                                                \
  __attribute__((target("amx-tile,amx-bf16"))) static int64_t name(          \
      const char *data, int64_t rounds) {                                    \
    char from[4 * AMX_STEPS * AMX_BYTES] __attribute__((aligned(64))) = {0}; \
    float sums[AMX_BYTES / 4];                                               \
    amx_shape shape = {.palette = 1};                                        \
    (void)data;                                                              \
    for (int i = 0; i < AMX_TILES; ++i) {                                    \
      shape.rows[i] = 16;                                                    \
      shape.row_bytes[i] = 64;                                               \
    }                                                                        \
    for (size_t i = 1; i < sizeof from; i += 2) from[i] = 0x3c;              \
    __asm__ volatile("" : : "r"(from), "r"(&shape) : "memory");              \
    _tile_loadconfig(&shape);                                                \
    _tile_zero(0);                                                           \
    _tile_zero(1);                                                           \
    _tile_zero(2);                                                           \
    _tile_zero(3);                                                           \
    AMX_LOAD(0)                                                              \
    for (int64_t r = 0; r < rounds; ++r) {                                   \
      EACH_ROUND _tile_dpbf16ps(0, 4, 6);                                    \
      _tile_dpbf16ps(1, 4, 7);                                               \
      _tile_dpbf16ps(2, 5, 6);                                               \
      _tile_dpbf16ps(3, 5, 7);                                               \
    }                                                                        \
    _tile_stored(0, sums, 64);                                               \
    __asm__ volatile("" : : "r"(sums) : "memory");                           \
    _tile_release();                                                         \
    return 4 * 16 * 16 * 32 * 2 * rounds;                                    \
  }
#define AMX_LOAD(step)                                            \
  {                                                               \
    const char *at = from + 4 * AMX_BYTES * ((step) % AMX_STEPS); \
    _tile_loadd(4, at, 64);                                       \
    _tile_loadd(5, at + AMX_BYTES, 64);                           \
    _tile_loadd(6, at + 2 * AMX_BYTES, 64);                       \
    _tile_loadd(7, at + 3 * AMX_BYTES, 64);                       \
  }
AMX(dot_amx_bf16, )
AMX(tile_amx_bf16, AMX_LOAD(r))
#endif

#if defined(__x86_64__) && defined(__GLIBC__)
#define EACH_ISA __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define EACH_ISA
#endif

// A line, added to a sum that stays in registers: an array of sums would live
// in memory, and its latency would be what is measured.
typedef uint64_t line __attribute__((vector_size(64), aligned(8), may_alias));

// Reads `bytes` bytes in so many streams, each a multiple of READ_STEP: what
// the hardware prefetches in one stream ends at its page.
enum { READ_STEP = 256 };
#define READ(STREAMS)                                                       \
  EACH_ISA static int64_t read_##STREAMS(const char *data, int64_t bytes) { \
    const int64_t part = bytes / STREAMS / READ_STEP * READ_STEP;           \
    line a = {0}, b = {0}, c = {0}, d = {0};                                \
    for (int64_t i = 0; i < part; i += READ_STEP)                           \
      for (int64_t s = 0; s < STREAMS; ++s) {                               \
        const line *p = (const line *)(const void *)(data + s * part + i);  \
        a += p[0];                                                          \
        b += p[1];                                                          \
        c += p[2];                                                          \
        d += p[3];                                                          \
      }                                                                     \
    a += b + (c + d);                                                       \
    volatile uint64_t sink = a[0];                                          \
    (void)sink;                                                             \
    return part * STREAMS;                                                  \
  }
READ(1)
READ(8)

// Does `amount` of work, on `data` where it needs any, and returns how many
// FLOPs or bytes that is.
typedef int64_t work_fn(const char *data, int64_t amount);

static const struct {
  const char *name;
  work_fn *run;
  int32_t has_data;
} works[] = {
#if defined(__x86_64__)
    {"fma_avx2", fma_avx2, 0},
    {"fma_avx512", fma_avx512, 0},
    {"dot_avx512_bf16", dot_avx512_bf16, 0},
    {"tile_avx2", tile_avx2, 0},
    {"tile_avx512", tile_avx512, 0},
    {"tile_avx512_bf16", tile_avx512_bf16, 0},
    {"dot_amx_bf16", dot_amx_bf16, 0},
    {"tile_amx_bf16", tile_amx_bf16, 0},
#endif
    {"read_1", read_1, 1},
    {"read_8", read_8, 1},
};

typedef struct shared {
  const char *data;
  int64_t amount;  // of each thread
  work_fn *run;
  int64_t stride;  // bytes from one thread's data to the next one's
  atomic_llong done;
} shared;

static void shared_run(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  shared *s = state;
  (void)worker;
  for (int64_t i = begin; i < end; ++i)
    atomic_fetch_add(&s->done, s->run(s->data + i * s->stride, s->amount));
}

enum { N };  // dims of the shape rule

static og_status work(const og_call *call) {
  const int32_t count = (int32_t)(sizeof works / sizeof *works);
  int32_t i = 0;
  while (i < count && strcmp(works[i].name, call->attr[0].s) != 0) ++i;
  if (i == count) return og_fail(call, OG_INVALID, "what: no such work here");
  const int64_t part = call->dim[N] / call->threads / READ_STEP * READ_STEP;
  shared s = {
      .data = og_data(call->in[0]),
      .amount = works[i].has_data ? part : call->attr[1].i,
      .run = works[i].run,
      .stride = works[i].has_data ? part : 0,
  };
  atomic_init(&s.done, 0);
  const og_status status =
      og_parallel_tasks(call, call->threads, 1, shared_run, &s);
  *(int64_t *)og_data(call->out[0]) = atomic_load(&s.done);
  return status;
}

static const og_kernel work_kernels[] = {
    {.device = OG_CPU, .run = work},
};

static const og_op ops[] = {
    {
        .schema = "work(Tensor data, str what, int rounds=0) -> Tensor",
        .shape = "data[N] -> [1]",
        .dtype = "data: u8 -> int64",
        .backward = "none",
        .kernels = OG_KERNELS(work_kernels),
    },
};
OG_MODULE(bench_machine, ops)
