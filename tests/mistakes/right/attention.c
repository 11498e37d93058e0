// SPDX-License-Identifier: Apache-2.0
// Attention with an optional mask and causal order; a row that sees nothing is
// zero. Scores are kept per worker.

#include "../../modules/operators.h"

enum { G, L, D, S, V };

static int sees(const og_call *call, int64_t row, int64_t s) {
  const int64_t queries = call->dim[L], keys = call->dim[S];
  if (call->attr[0].i && s > row % queries + keys - queries) return 0;
  return !call->in[3] || og_bool(call->in[3])[row * keys + s] != 0;
}

static double score_row(const og_call *call, int64_t row, double *score) {
  const int64_t width = call->dim[D], keys = call->dim[S];
  const float *q = og_f32(call->in[0]) + row * width;
  const float *k = og_f32(call->in[1]) + row / call->dim[L] * keys * width;
  double best = -INFINITY, sum = 0;
  for (int64_t s = 0; s < keys; ++s) {
    score[s] = 0;
    for (int64_t i = 0; i < width; ++i)
      score[s] += (double)q[i] * (double)k[s * width + i];
    score[s] /= sqrt((double)width);
    if (!sees(call, row, s)) score[s] = -INFINITY;
    best = fmax(best, score[s]);
  }
  for (int64_t s = 0; s < keys; ++s) {
    score[s] = sees(call, row, s) ? exp(score[s] - best) : 0;
    sum += score[s];
  }
  return sum;
}

static void attend(void *state, int64_t begin, int64_t end, int32_t worker) {
  const og_call *call = *(const og_call *const *)state;
  const int64_t keys = call->dim[S], result = call->dim[V];
  double *score = (double *)call->workspace + worker * keys;
  for (int64_t row = begin; row < end; ++row) {
    const float *v = og_f32(call->in[2]) + row / call->dim[L] * keys * result;
    const double sum = score_row(call, row, score);
    for (int64_t c = 0; c < result; ++c) {
      double value = 0;
      for (int64_t s = 0; s < keys; ++s)
        value += score[s] * (double)v[s * result + c];
      og_f32_mut(call->out[0])[row * result + c] =
          sum > 0 ? (float)(value / sum) : 0;
    }
  }
}

static og_status attention(const og_call *call) {
  return og_parallel_tasks(call, call->dim[G] * call->dim[L], 1, attend, &call);
}

MODULE(attention,
       {.schema = "attention(Tensor q, Tensor k, Tensor v, Tensor? mask=None, "
                  "bool causal=False) -> Tensor",
        .shape = "q[*G, L, D], k[*G, S, D], v[*G, S, V], mask?[*G, L, S] -> "
                 "[*G, L, V]",
        .where = "D > 0",
        .dtype = "q: f32, k: q, v: q, mask: bool -> q",
        .workspace = "threads * S * 8",
        RUN(NULL, attention)})
