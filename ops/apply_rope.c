// SPDX-License-Identifier: Apache-2.0
// apply_rope: rotary position embedding of q and k.
// Source: Su et al., "RoFormer", 2021; the scaling of Llama 3.1; FlashInfer's
// apply_rope_pos_ids, apply_llama31_rope and apply_rope_with_cos_sin_cache.

#include <math.h>
#include <opgraft/op.h>
#include <string.h>

#include "base/grain.h"
#include "cuda/launch.h"
#include "cuda/rope.h"
#include "kernel/kernel.h"

// What is the same for all tokens.
typedef struct rope {
  const og_call *call;
  const og_tensor *from[2];  // q and k, [N, H, D]
  og_tensor *to[2];
  const og_tensor *positions;
  const float *turns_high, *turns_low;
  const og_tensor *table;  // cos and sin by position, or NULL
  char *scratch;           // cos and sin of a token, for each worker
  int64_t half;
  float sign;
  int interleave;
} rope;

static int64_t position_at(const og_tensor *positions, int64_t i) {
  return positions->dtype.bits == 32 ? og_i32(positions)[i]
                                     : og_i64(positions)[i];
}

static void token_rotate(const rope *r, int64_t token, const float *cos,
                         const float *sin) {
  for (int t = 0; t < 2; ++t) {
    const og_tensor *x = r->from[t];
    og_tensor *y = r->to[t];
    const int element = og_element_of(x);
    const int64_t rest = x->shape[2] - 2 * r->half;
    for (int64_t h = 0; h < x->shape[1]; ++h) {
      const void *from =
          og_at(og_data(x), token * x->strides[0] + h * x->strides[1], element);
      void *to =
          og_at(og_data(y), token * y->strides[0] + h * y->strides[1], element);
      og_rows()->rotate(from, to, r->half, cos, sin, r->interleave, r->sign,
                        element);
      if (rest > 0 && from != to)
        memcpy(og_at(to, 2 * r->half, element),
               og_at(from, 2 * r->half, element),
               (size_t)rest * og_element_bytes(element));
    }
  }
}

static void tokens_rotate(void *state, int64_t begin, int64_t end,
                          int32_t worker) {
  const rope *r = state;
  float *cos = (float *)(void *)(r->scratch + worker * r->half * 8);
  float *sin = cos + r->half;
  for (int64_t token = begin; token < end; ++token) {
    const int64_t position = position_at(r->positions, token);
    if (r->table == NULL) {
      og_rows()->angles((double)position, r->turns_high, r->turns_low, r->half,
                        cos, sin);
    } else {
      const int element = og_element_of(r->table);
      const void *row =
          og_at(og_data(r->table), position * 2 * r->half, element);
      og_rows()->to_f32(row, cos, 2 * r->half, element);
    }
    token_rotate(r, token, cos, sin);
  }
}

static og_status tokens_run(rope *r) {
  return og_parallel_tasks(r->call, r->positions->shape[0], OG_GRAIN_TOKENS,
                           tokens_rotate, r);
}

// --- Frequencies from theta

// Attributes, in schema order.
enum { ROTARY_DIM, INTERLEAVE, SCALE, THETA, LOW, HIGH, OLD_CONTEXT };

static double frequency_scaled(const og_attr *attr, double frequency) {
  const double scaled = frequency / attr[SCALE].f;
  if (attr[OLD_CONTEXT].i <= 0) return scaled;
  const double low = attr[LOW].f, high = attr[HIGH].f;
  const double waves =
      (double)attr[OLD_CONTEXT].i * frequency / 6.283185307179586;
  double smooth = (waves - low) / (high - low);
  smooth = smooth < 0 ? 0 : smooth > 1 ? 1 : smooth;
  return (1 - smooth) * scaled + smooth * frequency;
}

// Pairs that turn.
static int64_t half_of(const og_call *call) {
  const og_attr *rotary = &call->attr[ROTARY_DIM];
  return (rotary->kind == OG_ATTR_NONE ? call->in[0]->shape[2] : rotary->i) / 2;
}

// Turns of each pair for one position: `half` high parts, then low ones.
static void turns_fill(const og_attr *attr, int64_t half, float *turns) {
  // One power, then products: the error of 128 of them is below 1e-13.
  const double step = half > 0 ? pow(attr[THETA].f, -1.0 / (double)half) : 1;
  double frequency = 1;
  for (int64_t i = 0; i < half; ++i, frequency *= step) {
    const double t = frequency_scaled(attr, frequency) / 6.283185307179586;
    turns[i] = (float)t;
    turns[half + i] = (float)(t - (double)turns[i]);
  }
}

static og_status rope_run(const og_call *call, float sign) {
  const int64_t half = half_of(call);
  float *turns = call->workspace;
  turns_fill(call->attr, half, turns);
  rope r = {
      .call = call,
      .from = {call->in[0], call->in[1]},
      .to = {call->out[0], call->out[1]},
      .positions = call->in[2],
      .turns_high = turns,
      .turns_low = turns + half,
      .scratch = (char *)(turns + 2 * half),
      .half = half,
      .sign = sign,
      .interleave = call->attr[INTERLEAVE].i != 0,
  };
  return tokens_run(&r);
}

// The workspace is the device's: turns are made here and go with the launch.
static og_status rope_run_cuda(const og_call *call, float sign) {
  float turns[OG_ROPE_CUDA_WIDTH_MAX];
  const int64_t half = half_of(call);
  turns_fill(call->attr, half, turns);
  return og_rope_cuda(call, turns, turns + half, half, sign);
}

static og_status apply_rope(const og_call *call) { return rope_run(call, 1); }

static og_status apply_rope_backward(const og_call *call) {
  return rope_run(call, -1);
}

static og_status apply_rope_cuda(const og_call *call) {
  return rope_run_cuda(call, 1);
}

static og_status apply_rope_backward_cuda(const og_call *call) {
  return rope_run_cuda(call, -1);
}

// --- A table of cos and sin

static og_status table_run(const og_call *call, float sign) {
  enum { Q, K, POSITIONS, TABLE };
  const og_tensor *table = call->in[TABLE];
  const og_tensor *positions = call->in[POSITIONS];
  for (int64_t i = 0; i < positions->shape[0]; ++i) {
    const int64_t position = position_at(positions, i);
    if (position >= 0 && position < table->shape[0]) continue;
    return og_failf(call, OG_INVALID,
                    "positions[%lld] is %lld, but cos_sin_cache has %lld rows",
                    (long long)i, (long long)position,
                    (long long)table->shape[0]);
  }
  rope r = {
      .call = call,
      .from = {call->in[Q], call->in[K]},
      .to = {call->out[0], call->out[1]},
      .positions = positions,
      .table = table,
      .scratch = call->workspace,
      .half = table->shape[1] / 2,
      .sign = sign,
      .interleave = call->attr[0].i == 0,
  };
  return tokens_run(&r);
}

static og_status rope_with_table(const og_call *call) {
  return table_run(call, 1);
}

static og_status rope_with_table_backward(const og_call *call) {
  return table_run(call, -1);
}

// --- Declaration

OG_KERNELS_BY_ISA(kernels, "f32|bf16|f16, i32|i64", apply_rope,
                  OG_CUDA_KERNEL("f32|bf16|f16, i32|i64", og_rope_cuda_supports,
                                 apply_rope_cuda));
OG_KERNELS_BY_ISA(backward_kernels, "f32|bf16|f16, i32|i64",
                  apply_rope_backward,
                  OG_CUDA_KERNEL("f32|bf16|f16, i32|i64", og_rope_cuda_supports,
                                 apply_rope_backward_cuda));
OG_KERNELS_BY_ISA(table_kernels, "f32|bf16|f16, i32|i64, f32|bf16|f16",
                  rope_with_table);
OG_KERNELS_BY_ISA(table_backward_kernels, "f32|bf16|f16, i32|i64, f32|bf16|f16",
                  rope_with_table_backward);

#define SETTINGS                                            \
  "*, int? rotary_dim=None, bool interleave=False, "        \
  "float rope_scale=1.0, float rope_theta=10000.0, "        \
  "float low_freq_factor=1.0, float high_freq_factor=4.0, " \
  "int old_context_len=0"
#define PASSED                                                        \
  "rotary_dim, interleave, rope_scale, rope_theta, low_freq_factor, " \
  "high_freq_factor, old_context_len"
#define ARGUMENTS "q[N, HQ, D], k[N, HK, D], pos_ids[N]"
#define TABLE_ARGUMENTS \
  "q[N, HQ, D], k[N, HK, D], positions[N], cos_sin_cache[P, R]"
#define RESULTS " -> [N, HQ, D], [N, HK, D]"
#define WHERE                          \
  "rotary_dim >= 0, rotary_dim <= D, " \
  "(given(rotary_dim) or D % 2 == 0) and rotary_dim % 2 == 0"
#define TABLE_WHERE "R % 2 == 0, R <= D, positions in [0, P)"
#define TYPES "q: f32|bf16|f16, k: q, pos_ids: i32|i64"
#define TABLE_TYPES \
  "q: f32|bf16|f16, k: q, positions: i32|i64, cos_sin_cache: f32|bf16|f16"

static const og_op ops[] = {
    {
        .schema = "apply_rope(Tensor q, Tensor k, Tensor pos_ids, " SETTINGS
                  ") -> (Tensor q_rope, Tensor k_rope)",
        .shape = ARGUMENTS RESULTS,
        .where = WHERE,
        .dtype = TYPES " -> q, q",
        .backward =
            "apply_rope_backward(grad_q_rope, grad_k_rope, pos_ids, " PASSED
            ") -> q, k",
        .workspace = "(1 + threads) * D * 4",
        .strides = "q: last, k: last",
        .flags = OG_DETERMINISTIC,
        .reduce = "N; HQ, HK: same",
        .doc = "Rotates the first rotary_dim (all, if not given) of each head "
               "by position: halves, or neighbours where interleave. With "
               "old_context_len, frequencies are scaled as in Llama 3.1.",
        .kernels = OG_KERNELS(kernels),
    },
    {
        .schema = "apply_rope_inplace(Tensor(a!) q, Tensor(b!) k, "
                  "Tensor pos_ids, " SETTINGS ") -> (Tensor(a!), Tensor(b!))",
        .shape = ARGUMENTS,
        .where = WHERE,
        .dtype = TYPES,
        .workspace = "(1 + threads) * D * 4",
        .strides = "q: last, k: last",
        .flags = OG_DETERMINISTIC,
        .reduce = "N; HQ, HK: same",
        .doc = "As apply_rope, in place.",
        .kernels = OG_KERNELS(kernels),
    },
    {
        .schema = "apply_rope_backward(Tensor q, Tensor k, Tensor pos_ids, "
                  "int? rotary_dim, bool interleave, float rope_scale, "
                  "float rope_theta, float low_freq_factor, "
                  "float high_freq_factor, int old_context_len) "
                  "-> (Tensor grad_q, Tensor grad_k)",
        .shape = ARGUMENTS RESULTS,
        .where = WHERE,
        .dtype = TYPES " -> q, q",
        .workspace = "(1 + threads) * D * 4",
        .strides = "q: last, k: last",
        .flags = OG_DETERMINISTIC,
        .reduce = "N; HQ, HK: same",
        .doc = "The gradient of apply_rope: the turn back.",
        .kernels = OG_KERNELS(backward_kernels),
    },
    {
        .schema = "apply_rope_with_cos_sin_cache(Tensor q, Tensor k, "
                  "Tensor positions, Tensor cos_sin_cache, *, "
                  "bool is_neox=True) -> (Tensor q_rope, Tensor k_rope)",
        .shape = TABLE_ARGUMENTS RESULTS,
        .where = TABLE_WHERE,
        .dtype = TABLE_TYPES " -> q, q",
        .backward = "apply_rope_with_cos_sin_cache_backward(grad_q_rope, "
                    "grad_k_rope, positions, cos_sin_cache, is_neox) -> q, k",
        .workspace = "threads * D * 4",
        .strides = "q: last, k: last",
        .flags = OG_DETERMINISTIC,
        .reduce = "N; HQ, HK: same",
        .doc = "As apply_rope, with rows [cos, sin] for each position. "
               "is_neox turns halves, else neighbours. cos_sin_cache gets no "
               "gradient.",
        .expect = "no_gradient: cos_sin_cache",
        .kernels = OG_KERNELS(table_kernels),
    },
    {
        .schema = "apply_rope_with_cos_sin_cache_inplace(Tensor(a!) q, "
                  "Tensor(b!) k, Tensor positions, Tensor cos_sin_cache, *, "
                  "bool is_neox=True) -> (Tensor(a!), Tensor(b!))",
        .shape = TABLE_ARGUMENTS,
        .where = TABLE_WHERE,
        .dtype = TABLE_TYPES,
        .workspace = "threads * D * 4",
        .strides = "q: last, k: last",
        .flags = OG_DETERMINISTIC,
        .reduce = "N; HQ, HK: same",
        .doc = "As apply_rope_with_cos_sin_cache, in place.",
        .kernels = OG_KERNELS(table_kernels),
    },
    {
        .schema = "apply_rope_with_cos_sin_cache_backward(Tensor q, Tensor k, "
                  "Tensor positions, Tensor cos_sin_cache, bool is_neox) "
                  "-> (Tensor grad_q, Tensor grad_k)",
        .shape = TABLE_ARGUMENTS RESULTS,
        .where = TABLE_WHERE,
        .dtype = TABLE_TYPES " -> q, q",
        .workspace = "threads * D * 4",
        .strides = "q: last, k: last",
        .flags = OG_DETERMINISTIC,
        .reduce = "N; HQ, HK: same",
        .doc = "The gradient of apply_rope_with_cos_sin_cache.",
        .kernels = OG_KERNELS(table_backward_kernels),
    },
};
OG_MODULE(apply_rope, ops)
