// SPDX-License-Identifier: Apache-2.0
// silu_and_mul, gelu_and_mul, gelu_tanh_and_mul, swigluoai_and_mul: the first
// half of the last axis, activated, times the second.
// Source: Shazeer, "GLU Variants Improve Transformer", 2020; FlashInfer's and
// vLLM's operators of these names; swigluoai: the gpt-oss models.

#include <opgraft/op.h>

#include "base/grain.h"
#include "cuda/gated.h"
#include "cuda/launch.h"
#include "kernel/kernel.h"

enum { N, D2 };  // dims of the shape rule

// What one worker takes at a time: wide rows are cut.
enum { COLUMNS = 2048 };

static og_act act_of(const og_call *call, int kind) {
  og_act act = {.kind = kind};
  if (kind == OG_ACT_SWIGLUOAI) {
    act.alpha = (float)call->attr[0].f;
    act.limit = (float)call->attr[1].f;
  }
  return act;
}

typedef struct gate {
  const og_call *call;
  og_act act;
  int64_t half, pieces;
  int element;
} gate;

static gate gate_of(const og_call *call, int kind) {
  const int64_t half = call->dim[D2] / 2;
  return (gate){
      .call = call,
      .act = act_of(call, kind),
      .half = half,
      .pieces = (half + COLUMNS - 1) / COLUMNS,
      .element = og_element_of(call->in[0]),
  };
}

// --- Halves

static void pieces_forward(void *state, int64_t begin, int64_t end,
                           int32_t worker) {
  const gate *g = state;
  (void)worker;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t row = i / g->pieces, c = i % g->pieces * COLUMNS;
    const int64_t count = g->half - c < COLUMNS ? g->half - c : COLUMNS;
    const char *x =
        og_at(og_data(g->call->in[0]), row * 2 * g->half + c, g->element);
    og_rows()->act_and_mul(
        x, og_at(x, g->half, g->element),
        og_at(og_data(g->call->out[0]), row * g->half + c, g->element), count,
        g->act, g->element);
  }
}

static og_status gated_run(const og_call *call, int kind) {
  gate g = gate_of(call, kind);
  const int64_t piece = g.half < COLUMNS ? g.half : COLUMNS;
  return og_parallel_tasks(call, call->dim[N] * g.pieces,
                           og_grain(OG_GRAIN_MEDIUM, piece), pieces_forward,
                           &g);
}

static og_status silu_and_mul(const og_call *call) {
  return gated_run(call, OG_ACT_SILU);
}
static og_status gelu_tanh_and_mul(const og_call *call) {
  return gated_run(call, OG_ACT_GELU_TANH);
}

// --- swigluoai: gate and up interleave

enum { CHUNK = 256 };

static void split(const void *x, float *gates, float *ups, int64_t count,
                  int element) {
  float flat[2 * CHUNK];
  og_rows()->to_f32(x, flat, 2 * count, element);
  for (int64_t i = 0; i < count; ++i) {
    gates[i] = flat[2 * i];
    ups[i] = flat[2 * i + 1];
  }
}

static void interleaved_forward(void *state, int64_t begin, int64_t end,
                                int32_t worker) {
  const gate *g = state;
  float gates[CHUNK], ups[CHUNK];
  (void)worker;
  for (int64_t row = begin; row < end; ++row)
    for (int64_t c = 0; c < g->half; c += CHUNK) {
      const int64_t count = g->half - c < CHUNK ? g->half - c : CHUNK;
      const int64_t at = row * g->half + c;
      split(og_at(og_data(g->call->in[0]), 2 * at, g->element), gates, ups,
            count, g->element);
      og_rows()->act_and_mul(gates, ups, gates, count, g->act, OG_F32);
      og_rows()->from_f32(gates,
                          og_at(og_data(g->call->out[0]), at, g->element),
                          count, g->element);
    }
}

static void interleaved_backward(void *state, int64_t begin, int64_t end,
                                 int32_t worker) {
  const gate *g = state;
  float gates[CHUNK], ups[CHUNK], grad[CHUNK], flat[2 * CHUNK];
  (void)worker;
  for (int64_t row = begin; row < end; ++row)
    for (int64_t c = 0; c < g->half; c += CHUNK) {
      const int64_t count = g->half - c < CHUNK ? g->half - c : CHUNK;
      const int64_t at = row * g->half + c;
      split(og_at(og_data(g->call->in[1]), 2 * at, g->element), gates, ups,
            count, g->element);
      og_rows()->to_f32(og_at(og_data(g->call->in[0]), at, g->element), grad,
                        count, g->element);
      og_rows()->swiglu_grad(grad, gates, ups, gates, ups, count, g->act);
      for (int64_t i = 0; i < count; ++i) {
        flat[2 * i] = gates[i];
        flat[2 * i + 1] = ups[i];
      }
      og_rows()->from_f32(flat,
                          og_at(og_data(g->call->out[0]), 2 * at, g->element),
                          2 * count, g->element);
    }
}

static og_status swigluoai_and_mul(const og_call *call) {
  gate g = gate_of(call, OG_ACT_SWIGLUOAI);
  return og_parallel_tasks(call, call->dim[N],
                           og_grain(OG_GRAIN_MEDIUM, g.half),
                           interleaved_forward, &g);
}
static og_status swigluoai_and_mul_backward(const og_call *call) {
  gate g = gate_of(call, OG_ACT_SWIGLUOAI);
  return og_parallel_tasks(call, call->dim[N],
                           og_grain(OG_GRAIN_MEDIUM, g.half),
                           interleaved_backward, &g);
}

// --- Declaration

// Behind the texts: the formula, where that is the kernel of CPUs.
#define GATED(name, attrs, passed, text, ...)                      \
  {                                                                \
    .schema = #name "(Tensor x" attrs ") -> Tensor",               \
    .shape = "x[*N, D2] -> [*N, D2 // 2]", .where = "D2 % 2 == 0", \
    .dtype = "x: f32|bf16|f16 -> x",                               \
    .backward = #name "_backward(grad, x" passed ") -> x",         \
    .flags = OG_DETERMINISTIC, .doc = text,                        \
    .kernels = OG_KERNELS(name##_kernels), __VA_ARGS__             \
  }
#define GATED_BACKWARD(name, attrs, ...)                                   \
  {                                                                        \
    .schema = #name "_backward(Tensor grad, Tensor x" attrs ") -> Tensor", \
    .shape = "grad[*N, D2 // 2], x[*N, D2] -> [*N, D2]",                   \
    .where = "D2 % 2 == 0", .dtype = "grad: x, x: f32|bf16|f16 -> x",      \
    .flags = OG_DETERMINISTIC, .doc = "The gradient of " #name ".",        \
    __VA_ARGS__                                                            \
  }

OG_KERNELS_BY_ISA(silu_and_mul_kernels, "f32|bf16|f16", silu_and_mul,
                  OG_CUDA_KERNEL("f32|bf16|f16", NULL, og_silu_and_mul_cuda));
static const og_kernel gelu_and_mul_kernels[] = {
    OG_CUDA_KERNEL("f32|bf16|f16", NULL, og_gelu_and_mul_cuda)};
OG_KERNELS_BY_ISA(gelu_tanh_and_mul_kernels, "f32|bf16|f16", gelu_tanh_and_mul,
                  OG_CUDA_KERNEL("f32|bf16|f16", NULL,
                                 og_gelu_tanh_and_mul_cuda));
OG_KERNELS_BY_ISA(swigluoai_and_mul_kernels, "f32|bf16|f16", swigluoai_and_mul);
OG_KERNELS_BY_ISA(swigluoai_and_mul_backward_kernels, "f32|bf16|f16",
                  swigluoai_and_mul_backward);

// g is the gate, u what it lets pass.
#define PARTS "g, u = halves(x); "

static const og_op ops[] = {
    GATED(silu_and_mul, "", "", "silu(x[:D]) * x[D:] of the last axis."),
    GATED(gelu_and_mul, "", "", "gelu(x[:D]) * x[D:] of the last axis.",
          .row = PARTS "y = half * g * (1 + erf(g * sqrt_half)) * u"),
    GATED(gelu_tanh_and_mul, "", "",
          "gelu(x[:D]) * x[D:] of the last axis, gelu in its tanh form."),
    GATED(swigluoai_and_mul, ", float alpha=1.702, float limit=7.0",
          ", alpha, limit",
          "gate = x[0::2] clamped from above, up = x[1::2] clamped to both "
          "sides by limit: gate * sigmoid(alpha * gate) * (up + 1)."),
    GATED_BACKWARD(silu_and_mul, "",
                   .row = PARTS
                   "s = sigmoid(g); "
                   "y = join(grad * u * s * (1 + g * (1 - s)), grad * g * s)"),
    GATED_BACKWARD(gelu_and_mul, "",
                   .row = PARTS
                   "p = half * (1 + erf(g * sqrt_half)); "
                   "y = join(grad * u * (p + g * inverse_sqrt_two_pi * "
                   "exp(-half * g * g)), grad * g * p)"),
    GATED_BACKWARD(gelu_tanh_and_mul, "",
                   .row =
                       PARTS "c = 2 * sqrt_two_over_pi; "
                             "s = sigmoid(c * g * (1 + gelu_cubic * g * g)); "
                             "y = join(grad * u * s * (1 + g * (1 - s) * c * "
                             "(1 + 3 * gelu_cubic * g * g)), grad * g * s)"),
    GATED_BACKWARD(swigluoai_and_mul, ", float alpha, float limit",
                   .kernels = OG_KERNELS(swigluoai_and_mul_backward_kernels)),
};
OG_MODULE(gated_activations, ops)
