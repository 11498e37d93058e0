// SPDX-License-Identifier: Apache-2.0
// variance_chunks: variance of each row from chunks that are joined.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule
enum { CHUNK = 128 };

typedef struct moments {
  double count, mean, square;  // square: the sum of (x - mean)^2
} moments;

static moments chunk_of(const double *x, int64_t count) {
  moments m = {.count = (double)count};
  for (int64_t i = 0; i < count; ++i) m.mean += x[i];
  m.mean /= m.count;
  for (int64_t i = 0; i < count; ++i)
    m.square += (x[i] - m.mean) * (x[i] - m.mean);
  return m;
}

static moments join(moments a, moments b) {
  const double count = a.count + b.count;
  return (moments){
      .count = count,
      .mean = a.mean + (b.mean - a.mean) * b.count / count,
      .square = a.square + b.square,
  };
}

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t width = call->dim[D];
  for (int64_t r = begin; r < end; ++r) {
    const double *x = og_f64(call->in[0]) + r * width;
    moments all = {0};
    for (int64_t i = 0; i < width; i += CHUNK)
      all = join(all, chunk_of(x + i, width - i < CHUNK ? width - i : CHUNK));
    og_f64_mut(call->out[0])[r] = all.square / all.count;
  }
}

static og_status variance_chunks(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 4, rows);
}

MODULE(variance_chunks, {.schema = "variance_chunks(Tensor x) -> Tensor",
                         .shape = "x[*N, D] -> [*N]",
                         .where = "D > 0",
                         .doc = "The biased variance of the last axis.",
                         RUN("f64", variance_chunks)})
