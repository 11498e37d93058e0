// SPDX-License-Identifier: Apache-2.0
// gelu, exact or by tanh, as a string says; other strings are refused.

#include "../../modules/operators.h"

enum { N };

static int find_form(const og_call *call) {
  if (strcmp(call->attr[0].s, "none") == 0) return 0;
  return strcmp(call->attr[0].s, "tanh") == 0 ? 1 : -1;
}

// The gate and its slope: y = x * gate(x).
static double gate(double x, int is_tanh, double *slope) {
  if (!is_tanh) {
    *slope = exp(-0.5 * x * x) * 0.3989422804014327;
    return 0.5 * (1 + erf(x * 0.7071067811865476));
  }
  const double inner = 0.7978845608028654 * (x + 0.044715 * x * x * x);
  const double t = tanh(inner);
  *slope = 0.5 * (1 - t * t) * 0.7978845608028654 * (1 + 0.134145 * x * x);
  return 0.5 * (1 + t);
}

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int form = find_form(call);
  double slope;
  if (form < 0)
    return og_fail(call, OG_INVALID,
                   "gelu: approximate is neither none nor tanh");
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y[i] = (float)((double)x[i] * gate((double)x[i], form, &slope));
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  const float *x = og_f32(call->in[1]);
  float *dx = og_f32_mut(call->out[0]);
  const int form = find_form(call);
  if (form < 0)
    return og_fail(call, OG_INVALID,
                   "gelu_backward: approximate is neither none nor tanh");
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    double slope;
    const double own = gate((double)x[i], form, &slope);
    dx[i] = (float)((double)grad[i] * (own + (double)x[i] * slope));
  }
  return OG_OK;
}

MODULE(gelu,
       {.schema = "gelu(Tensor x, str approximate=\"none\") -> Tensor",
        .shape = "x[*N] -> [*N]",
        .backward = "gelu_backward(grad, x, approximate) -> x",
        RUN("f32", forward)},
       {.schema =
            "gelu_backward(Tensor grad, Tensor x, str approximate) -> Tensor",
        .shape = "grad[*N], x[*N] -> [*N]",
        RUN("f32", backward)})
