// SPDX-License-Identifier: Apache-2.0
// Operators that read and write what a gated activation and a norm do, and
// compute next to nothing: what moving the data costs bounds their time.

#include <opgraft/op.h>

#if defined(__x86_64__) && defined(__GLIBC__)
#define EACH_ISA __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define EACH_ISA
#endif

EACH_ISA static void mix(const uint64_t *restrict x, const uint64_t *restrict y,
                         uint64_t *restrict out, int64_t words) {
  for (int64_t i = 0; i < words; ++i) out[i] = x[i] ^ y[i];
}

EACH_ISA static void mix_three(const uint64_t *restrict x,
                               const uint64_t *restrict y,
                               const uint64_t *restrict z,
                               uint64_t *restrict out, int64_t words) {
  for (int64_t i = 0; i < words; ++i) out[i] = x[i] ^ y[i] ^ z[i];
}

enum { N, D };  // dims of the shape rules

static int64_t row_words(const og_call *call) {
  return call->dim[D] * call->in[0]->dtype.bits / 64;
}

static og_status move_halves(const og_call *call) {
  const int64_t words = row_words(call) / 2;
  const uint64_t *x = og_data(call->in[0]);
  uint64_t *out = og_data(call->out[0]);
  for (int64_t r = 0; r < call->dim[N]; ++r, x += 2 * words, out += words)
    mix(x, x + words, out, words);
  return OG_OK;
}

static og_status move_rows(const og_call *call) {
  const int64_t words = row_words(call);
  const uint64_t *x = og_data(call->in[0]);
  const uint64_t *weight = og_data(call->in[1]), *bias = og_data(call->in[2]);
  uint64_t *out = og_data(call->out[0]);
  for (int64_t r = 0; r < call->dim[N]; ++r, x += words, out += words)
    mix_three(x, weight, bias, out, words);
  return OG_OK;
}

static const og_kernel halves_kernels[] = {
    {.device = OG_CPU, .run = move_halves},
};
static const og_kernel rows_kernels[] = {
    {.device = OG_CPU, .run = move_rows},
};

static const og_op ops[] = {
    {
        .schema = "halves(Tensor x) -> Tensor",
        .shape = "x[*N, D2] -> [*N, D2 // 2]",
        .where = "D2 % 16 == 0",
        .dtype = "x: f32|bf16 -> x",
        .kernels = OG_KERNELS(halves_kernels),
    },
    {
        .schema = "rows(Tensor x, Tensor weight, Tensor bias) -> Tensor",
        .shape = "x[*N, D], weight[D], bias[D] -> [*N, D]",
        .where = "D % 8 == 0",
        .dtype = "x: f32|bf16, weight: x, bias: x -> x",
        .kernels = OG_KERNELS(rows_kernels),
    },
};
OG_MODULE(bench_move, ops)
