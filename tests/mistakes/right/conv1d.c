// SPDX-License-Identifier: Apache-2.0
// A one-dimensional convolution with stride, padding and optional bias, and its
// gradients.

#include "../../modules/operators.h"

enum { N, C, L, F, K };

typedef struct geometry {
  int64_t batch, channels, length, features, taps, result, stride, padding;
} geometry;
static geometry shape_of(const og_tensor *x, const og_tensor *weight,
                         const og_call *call) {
  geometry g;
  g.channels = weight->shape[1];
  g.features = weight->shape[0];
  g.taps = weight->shape[2];
  g.length = x->shape[x->ndim - 1];
  g.batch = 1;
  for (int32_t d = 0; d < x->ndim - 2; ++d) g.batch *= x->shape[d];
  g.stride = call->attr[0].i;
  g.padding = call->attr[1].i;
  g.result = (g.length + 2 * g.padding - g.taps) / g.stride + 1;
  return g;
}

// The input position of tap k of result l, -1 in the padding.
static int64_t input_at(const geometry *g, int64_t l, int64_t k) {
  const int64_t at = l * g->stride + k - g->padding;
  return at >= 0 && at < g->length ? at : -1;
}

static float output_at(const geometry *g, const float *x, const float *weight,
                       int64_t l) {
  float sum = 0;
  for (int64_t c = 0; c < g->channels; ++c) {
    for (int64_t k = 0; k < g->taps; ++k) {
      const int64_t at = input_at(g, l, k);
      if (at >= 0) sum += x[c * g->length + at] * weight[c * g->taps + k];
    }
  }
  return sum;
}

static void forward_maps(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  const float *w = og_f32(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  const float *bias = call->in[2] ? og_f32(call->in[2]) : NULL;
  const geometry g = shape_of(call->in[0], call->in[1], call);
  for (int64_t map = begin; map < end; ++map) {
    const int64_t b = map / g.features, f = map % g.features;
    for (int64_t l = 0; l < g.result; ++l)
      y[map * g.result + l] = output_at(&g, x + b * g.channels * g.length,
                                        w + f * g.channels * g.taps, l) +
                              (bias ? bias[f] : 0);
  }
}

static og_status forward(const og_call *call) {
  return og_parallel_for(call, call->dim[N] * call->dim[F], 1, forward_maps);
}
static void add_map(const geometry *g, const float *grad, const float *x,
                    const float *w, float *dx, float *dw) {
  for (int64_t l = 0; l < g->result; ++l) {
    for (int64_t ck = 0; ck < g->channels * g->taps; ++ck) {
      const int64_t at = input_at(g, l, ck % g->taps);
      if (at < 0) continue;
      const int64_t i = ck / g->taps * g->length + at;
      dx[i] += grad[l] * w[ck];
      dw[ck] += grad[l] * x[i];
    }
  }
}

static og_status backward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const float *w = og_f32(call->in[1]);
  const float *grad = og_f32(call->in[2]);
  float *dx = og_f32_mut(call->out[0]);
  float *dw = og_f32_mut(call->out[1]);
  float *db = og_f32_mut(call->out[2]);
  const geometry g = shape_of(call->in[0], call->in[1], call);
  const int64_t plane = g.channels * g.length, kernel = g.channels * g.taps;
  for (int64_t i = 0; i < g.batch * plane; ++i) dx[i] = 0;
  for (int64_t i = 0; i < g.features * kernel; ++i) dw[i] = 0;
  for (int64_t f = 0; f < g.features; ++f) db[f] = 0;
  for (int64_t map = 0; map < g.batch * g.features; ++map) {
    const int64_t b = map / g.features, f = map % g.features;
    add_map(&g, grad + map * g.result, x + b * plane, w + f * kernel,
            dx + b * plane, dw + f * kernel);
    for (int64_t l = 0; l < g.result; ++l) db[f] += grad[map * g.result + l];
  }
  return OG_OK;
}

MODULE(conv1d,
       {.schema = "conv1d(Tensor x, Tensor weight, Tensor? bias=None, int "
                  "stride=1, int padding=0) -> Tensor",
        .shape = "x[*N, C, L], weight[F, C, K], bias?[F] -> [*N, F, (L + 2 * "
                 "padding - K) // stride + 1]",
        .where = "stride > 0, padding >= 0, K > 0, L + 2 * padding >= K",
        .backward = "conv1d_backward(x, weight, grad, stride, padding) -> x, "
                    "weight, bias",
        RUN("f32", forward)},
       {.schema = "conv1d_backward(Tensor x, Tensor weight, Tensor grad, int "
                  "stride, int padding) -> (Tensor, Tensor, Tensor)",
        .shape = "x[*N, C, L], weight[F, C, K], grad[*N, F, (L + 2 * padding - "
                 "K) // stride + 1] -> [*N, C, L], [F, C, K], [F]",
        .where = "stride > 0, padding >= 0, K > 0, L + 2 * padding >= K",
        RUN("f32", backward)})
