// SPDX-License-Identifier: Apache-2.0
// sampling: one index from each row of probabilities, after top-k, top-p and
// min-p.
// Source: Fan et al. 2018 (top-k), Holtzman et al. 2020 (top-p), Nguyen et al.
// 2024 (min-p); the names and the order of FlashInfer's sampling.

#include <opgraft/op.h>

#include "kernel/kernel.h"

enum { B, V };                              // dims of the shape rule
enum { PROBS, SEED, TOP_K, TOP_P, MIN_P };  // tensor arguments

// A number in [0, 1) from a seed and a row, by splitmix64 (Steele et al.).
static double uniform_of(uint64_t seed, uint64_t row) {
  uint64_t z = seed + (row + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return (double)(z >> 11) * 0x1p-53;
}

// Moves entries > pivot to the front, then those equal to it; returns how many
// of the first, and their sum.
static int64_t partition(float *p, int64_t count, float pivot,
                         int64_t *out_equal, double *out_sum) {
  int64_t above = 0, middle = 0;
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float x = p[i];
    if (x < pivot) continue;
    p[i] = p[above + middle];
    p[above + middle] = x;
    if (x == pivot) {
      ++middle;
      continue;
    }
    p[above + middle] = p[above];
    p[above] = x;
    sum += (double)x;
    ++above;
  }
  *out_equal = middle;
  *out_sum = sum;
  return above;
}

// The largest t such that entries >= t are at least `wanted` in number, or sum
// to at least `mass`. Quickselect; p is reordered.
static float threshold_of(float *p, int64_t count, int64_t wanted,
                          double mass) {
  while (count > 1) {
    const float pivot = p[count / 2];
    int64_t equal;
    double sum;
    const int64_t above = partition(p, count, pivot, &equal, &sum);
    if (above > 0 && (above >= wanted || sum >= mass)) {
      count = above;
      continue;
    }
    const double with_equal = sum + (double)pivot * (double)equal;
    if (above + equal >= wanted || with_equal >= mass || above + equal == count)
      return pivot;
    wanted -= above + equal;
    mass -= with_equal;
    p += above + equal;
    count -= above + equal;
  }
  return p[0];
}

typedef struct limits {
  float least;  // entries below it are not drawn
  double mass;  // what the others sum to
} limits;

static double mass_from(const float *p, int64_t count, float least) {
  double mass = 0;
  for (int64_t i = 0; i < count; ++i)
    if (p[i] >= least) mass += (double)p[i];
  return mass;
}

static limits limits_of(const og_call *call, int64_t row, const float *p,
                        float *spare) {
  const int64_t count = call->dim[V];
  limits l = {.least = 0};
  for (int64_t i = 0; i < count; ++i) spare[i] = p[i] > 0 ? p[i] : 0;
  if (call->in[TOP_K] != NULL) {
    const int32_t k = og_i32(call->in[TOP_K])[row];
    if (k > 0 && k < count) l.least = threshold_of(spare, count, k, 1e300);
  }
  l.mass = mass_from(p, count, l.least);
  if (call->in[TOP_P] != NULL) {
    const float top_p = og_f32(call->in[TOP_P])[row];
    if (top_p < 1) {
      const float t =
          threshold_of(spare, count, count + 1, (double)top_p * l.mass);
      if (t > l.least) l.least = t;
    }
  }
  if (call->in[MIN_P] != NULL) {
    float top = 0;
    for (int64_t i = 0; i < count; ++i)
      if (p[i] > top) top = p[i];
    const float t = og_f32(call->in[MIN_P])[row] * top;
    if (t > l.least) l.least = t;
  }
  l.mass = mass_from(p, count, l.least);
  return l;
}

static int32_t draw(const float *p, int64_t count, limits l, double u) {
  const double target = u * l.mass;
  double sum = 0;
  int64_t last = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!(p[i] >= l.least) || p[i] == 0) continue;
    last = i;
    sum += (double)p[i];
    if (sum > target) break;
  }
  return (int32_t)last;
}

static void rows_draw(void *state, int64_t begin, int64_t end, int32_t worker) {
  const og_call *call = state;
  const int element = og_element_of(call->in[PROBS]);
  const int64_t count = call->dim[V];
  float *p = (float *)call->workspace + worker * 2 * count;
  const int64_t seeds = call->in[SEED]->shape[0];
  for (int64_t row = begin; row < end; ++row) {
    og_rows()->to_f32(og_at(og_data(call->in[PROBS]), row * count, element), p,
                      count, element);
    const limits l = limits_of(call, row, p, p + count);
    const int64_t seed = og_i64(call->in[SEED])[seeds == 1 ? 0 : row];
    // With a seed of its own a row's draw does not depend on its place.
    const uint64_t stream = seeds == 1 ? (uint64_t)row : 0;
    og_i32_mut(call->out[0])[row] =
        draw(p, count, l, uniform_of((uint64_t)seed, stream));
  }
}

static og_status sampling(const og_call *call) {
  return og_parallel_tasks(call, call->dim[B], 1, rows_draw,
                           (void *)(uintptr_t)call);
}

OG_KERNELS_BY_ISA(kernels, "f32|bf16|f16", sampling);

static const og_op ops[] = {
    {
        .schema = "sampling(Tensor probs, Tensor seed, Tensor? top_k=None, "
                  "Tensor? top_p=None, Tensor? min_p=None) -> Tensor",
        .shape = "probs[B, V], seed[S], top_k?[B], top_p?[B], min_p?[B] "
                 "-> [B]",
        .where = "V > 0, S == 1 or S == B",
        .dtype = "probs: f32|bf16|f16, seed: i64, top_k: i32, top_p: f32, "
                 "min_p: f32 -> i32",
        .backward = "none",
        .workspace = "threads * V * 8",
        .flags = OG_DETERMINISTIC,
        .reduce = "B + S",
        .doc = "Draws an index from each row of probabilities (which need not "
               "sum to 1). top_k keeps the k largest, top_p the largest that "
               "sum to that part of what top_k left, min_p those of at least "
               "that part of the largest; entries equal to the last one kept "
               "are kept too. One seed serves all rows, or each has its own; "
               "equal seeds give equal draws.",
        .kernels = OG_KERNELS(kernels),
    },
};
OG_MODULE(sampling, ops)
