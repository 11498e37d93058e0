// SPDX-License-Identifier: Apache-2.0
// Scans and states along a sequence, of the kinds that Mamba and RWKV have.

#include "kinds.h"

static float softplus(float x) { return fmaxf(x, 0) + log1pf(expf(-fabsf(x))); }

KERNEL(selective_scan) {  // u[*N, L], delta[*N, L], decay[*N]
  for (int64_t n = 0; n < DIM(0); ++n) {
    float state = 0;
    for (int64_t i = n * DIM(1); i < (n + 1) * DIM(1); ++i) {
      const float step = softplus(IN(1)[i]);
      state = expf(-step * softplus(IN(2)[n])) * state + step * IN(0)[i];
      OUT(0)[i] = state;
    }
  }
  return OG_OK;
}

KERNEL(causal_conv) {  // x[N, C, L], weight[C, K], bias?[C]
  for (int64_t i = 0; i < DIM(0) * DIM(1) * DIM(2); ++i) {
    const int64_t c = i / DIM(2) % DIM(1), at = i % DIM(2);
    float sum = call->in[2] != NULL ? IN(2)[c] : 0;
    for (int64_t k = 0; k < DIM(3); ++k)
      if (at - k >= 0) sum += IN(1)[c * DIM(3) + DIM(3) - 1 - k] * IN(0)[i - k];
    OUT(0)[i] = sum * sigmoid(sum);
  }
  return OG_OK;
}

KERNEL(chunk_sums) {  // x[*N, L]; chunk: sums that begin anew
  for (int64_t i = 0; i < DIM(0) * DIM(1); ++i)
    OUT(0)[i] = (i % DIM(1) % INT(0) == 0 ? 0 : OUT(0)[i - 1]) + IN(0)[i];
  return OG_OK;
}

KERNEL(wkv) {  // k[*N, L], v[*N, L], decay[*N], first[*N]
  for (int64_t n = 0; n < DIM(0); ++n) {
    float a = 0, b = 0, most = -1e30f;
    const float decay = softplus(IN(2)[n]), first = IN(3)[n];
    for (int64_t i = n * DIM(1); i < (n + 1) * DIM(1); ++i) {
      const float k = IN(0)[i], v = IN(1)[i];
      const float now = fmaxf(most, first + k);
      const float old = expf(most - now), own = expf(first + k - now);
      OUT(0)[i] = (old * a + own * v) / (old * b + own);
      const float next = fmaxf(most - decay, k);
      const float kept = expf(most - decay - next), added = expf(k - next);
      a = kept * a + added * v;
      b = kept * b + added;
      most = next;
    }
  }
  return OG_OK;
}

KERNEL(linear_decode) {  // state[B, D, E]: written; q[B, D], k[B, D], v[B, E]
  for (int64_t b = 0; b < DIM(0); ++b)
    for (int64_t e = 0; e < DIM(2); ++e) {
      float sum = 0;
      for (int64_t d = 0; d < DIM(1); ++d) {
        float *state = OUT(0) + (b * DIM(1) + d) * DIM(2) + e;
        *state =
            NUMBER(0) * *state + IN(2)[b * DIM(1) + d] * IN(3)[b * DIM(2) + e];
        sum += IN(1)[b * DIM(1) + d] * *state;
      }
      OUT(1)[b * DIM(2) + e] = sum;
    }
  return OG_OK;
}

KERNEL(min_gru) {  // gate[*N, L], x[*N, L], begin?[*N]
  for (int64_t n = 0; n < DIM(0); ++n) {
    float state = call->in[2] != NULL ? IN(2)[n] : 0;
    for (int64_t i = n * DIM(1); i < (n + 1) * DIM(1); ++i) {
      const float gate = sigmoid(IN(0)[i]);
      OUT(0)[i] = state = (1 - gate) * state + gate * IN(1)[i];
    }
  }
  return OG_OK;
}

MODULE(
    kinds_scan,
    {.schema = "selective_scan(Tensor u, Tensor delta, Tensor decay) -> Tensor",
     .shape = "u[*N, L], delta[*N, L], decay[*N] -> [*N, L]",
     ONE("u: f32, delta: u, decay: u -> u", selective_scan)},
    {.schema = "causal_conv(Tensor x, Tensor weight, Tensor? bias) -> Tensor",
     .shape = "x[N, C, L], weight[C, K], bias?[C] -> [N, C, L]",
     ONE("x: f32, weight: x, bias: x -> x", causal_conv)},
    {.schema = "chunk_sums(Tensor x, int chunk) -> Tensor",
     .shape = "x[*N, L] -> [*N, L]",
     .where = "chunk > 0",
     ONE("x: f32 -> x", chunk_sums)},
    {.schema = "wkv(Tensor k, Tensor v, Tensor decay, Tensor first) -> Tensor",
     .shape = "k[*N, L], v[*N, L], decay[*N], first[*N] -> [*N, L]",
     ONE("k: f32, v: k, decay: k, first: k -> k", wkv)},
    {.schema = "linear_decode(Tensor(a!) state, Tensor q, Tensor k, Tensor v, "
               "float decay) -> Tensor",
     .shape = "state[B, D, E], q[B, D], k[B, D], v[B, E] -> [B, E]",
     .where = "decay >= 0 and decay <= 1",
     ONE("state: f32, q: state, k: state, v: state -> state", linear_decode)},
    {.schema = "min_gru(Tensor gate, Tensor x, Tensor? begin) -> Tensor",
     .shape = "gate[*N, L], x[*N, L], begin?[*N] -> [*N, L]",
     ONE("gate: f32, x: gate, begin: gate -> gate", min_gru)})
