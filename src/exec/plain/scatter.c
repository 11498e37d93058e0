// SPDX-License-Identifier: Apache-2.0
// scatter_reduce and index_reduce: elements are joined with those of the
// operand, or replace them (include_self is false), in the order of the source.
// Sums of floats are kept in double, and rounded once.

#include <string.h>

#include "exec/step/indexed.h"
#include "graph/op.h"

typedef enum joining {
  JOIN_SUM,
  JOIN_PROD,
  JOIN_MEAN,
  JOIN_AMAX,
  JOIN_AMIN,
  JOIN_COUNT
} joining;

static const char *const names[JOIN_COUNT] = {"sum", "prod", "mean", "amax",
                                              "amin"};

typedef union number {
  double real;
  int64_t whole;
} number;

typedef struct scatter_reduce {
  og_operands io;
  int32_t dim;
  joining how;
  bool is_real, is_vector;  // is_vector: one index for each slice
  int64_t includes_self;
  number *totals;   // by element of the result, row-major
  int64_t *counts;  // of what was joined
} scatter_reduce;

// --- Elements ----------------------------------------------------------------

static number number_get(const scatter_reduce *s, const og_tensor *tensor,
                         const char *at) {
  number got;
  if (s->is_real)
    got.real = og_element_double(tensor->dtype, at);
  else
    got.whole = og_element_int(tensor->dtype, at);
  return got;
}

static double join_reals(joining how, double a, double b) {
  switch (how) {
    case JOIN_PROD:
      return a * b;
    case JOIN_AMAX:
      return a != a || a > b ? a : b;
    case JOIN_AMIN:
      return a != a || a < b ? a : b;
    default:
      return a + b;
  }
}

static int64_t join_wholes(joining how, int64_t a, int64_t b) {
  switch (how) {
    case JOIN_PROD:
      return (int64_t)((uint64_t)a * (uint64_t)b);
    case JOIN_AMAX:
      return a > b ? a : b;
    case JOIN_AMIN:
      return a < b ? a : b;
    default:
      return (int64_t)((uint64_t)a + (uint64_t)b);
  }
}

static void join(const scatter_reduce *s, int64_t slot, number next) {
  number *total = &s->totals[slot];
  if (s->counts[slot]++ == 0)
    *total = next;
  else if (s->is_real)
    total->real = join_reals(s->how, total->real, next.real);
  else
    total->whole = join_wholes(s->how, total->whole, next.whole);
}

// --- Running -----------------------------------------------------------------

static void totals_begin(const scatter_reduce *s) {
  const og_tensor *in = s->io.in[0];
  int64_t at[OPGRAFT_RANK_MAX] = {0};
  for (int64_t i = 0; i < og_numel(in); ++i) {
    og_position_of(in, i, at);
    s->totals[i] = number_get(s, in, og_element_at(in, at));
    s->counts[i] = s->includes_self != 0;
  }
}

static og_status source_join(const scatter_reduce *s, const og_run *run) {
  const og_tensor *index = s->io.in[1], *source = s->io.in[2];
  const og_tensor *out = s->io.out[0];
  const og_tensor *walked = s->is_vector ? source : index;
  const int64_t size = out->ndim > 0 ? out->shape[s->dim] : 1;
  int64_t at[OPGRAFT_RANK_MAX] = {0}, to[OPGRAFT_RANK_MAX] = {0};
  for (int64_t i = 0; i < og_numel(walked); ++i) {
    og_position_of(walked, i, at);
    const char *asked = s->is_vector ? og_element_at(index, &at[s->dim])
                                     : og_element_at(index, at);
    const int64_t chosen = og_element_int(index->dtype, asked);
    OG_TRY(og_index_check(run, chosen, size));
    memcpy(to, at, sizeof to);
    to[s->dim] = chosen;
    int64_t slot = 0;
    for (int32_t d = 0; d < out->ndim; ++d) slot = slot * out->shape[d] + to[d];
    join(s, slot, number_get(s, source, og_element_at(source, at)));
  }
  return OG_OK;
}

// A mean of integers is rounded down.
static int64_t mean_whole(int64_t total, int64_t count) {
  const int64_t mean = total / count;
  return mean - (total % count != 0 && total < 0);
}

static void totals_end(const scatter_reduce *s) {
  const og_tensor *out = s->io.out[0];
  int64_t at[OPGRAFT_RANK_MAX] = {0};
  for (int64_t i = 0; i < og_numel(out); ++i) {
    const int64_t count =
        s->how == JOIN_MEAN && s->counts[i] > 1 ? s->counts[i] : 1;
    og_position_of(out, i, at);
    if (s->is_real)
      og_element_set_double(out->dtype, og_element_at(out, at),
                            s->totals[i].real / (double)count);
    else
      og_element_set_int(out->dtype, og_element_at(out, at),
                         mean_whole(s->totals[i].whole, count));
  }
}

static og_status run_scatter_reduce(void *state, const og_run *run) {
  const scatter_reduce *s = state;
  totals_begin(s);
  OG_TRY(source_join(s, run));
  totals_end(s);
  return OG_OK;
}

// --- Preparing ---------------------------------------------------------------

static og_status how_read(og_prep *prep, scatter_reduce *s) {
  const opgraft_arg *name = og_node_attr(prep->node, 1);
  if (name->kind == OPGRAFT_ARG_STR)
    for (int32_t k = 0; k < JOIN_COUNT; ++k)
      if (strcmp(name->s, names[k]) == 0) {
        s->how = (joining)k;
        return og_prep_int(prep, 2, 1, &s->includes_self);
      }
  return og_prep_wrong(prep, "reduce is one of sum, prod, mean, amax, amin");
}

// The index has the source's shape or less, or is one vector along the dim.
static bool index_fits(const scatter_reduce *s, const og_tensor *index,
                       const og_tensor *source, const og_tensor *out) {
  if (!s->is_vector)
    return og_index_fits(index, source, -1) &&
           og_index_fits(index, out, s->dim);
  bool fits = index->ndim <= 1 && source->ndim == out->ndim &&
              (out->ndim > 0 || og_numel(index) == 1);
  for (int32_t d = 0; fits && d < out->ndim; ++d)
    fits = source->shape[d] == (d == s->dim ? og_numel(index) : out->shape[d]);
  return fits;
}

static og_status reduce_prepare(og_prep *prep, bool is_vector) {
  const og_tensor *out = prep->out[0];
  scatter_reduce *s = og_state_begin(prep, sizeof *s, run_scatter_reduce);
  if (s == NULL) return OG_MEMORY;
  s->is_vector = is_vector;
  s->is_real = og_is_float(out);
  OG_TRY(og_prep_dim(prep, 0, out->ndim, &s->dim));
  OG_TRY(how_read(prep, s));
  OG_TRY(og_need_int(prep, prep->in[1]));
  if (og_dtype_class(out->dtype) == OG_CLASS_NONE || prep->in[0] == NULL ||
      prep->in[2] == NULL || !og_dtype_equal(prep->in[0]->dtype, out->dtype) ||
      !og_dtype_equal(prep->in[2]->dtype, out->dtype))
    return og_prep_wrong(prep, "its operands and result differ in type");
  if (!og_same_shape(prep->in[0], out) ||
      !index_fits(s, prep->in[1], prep->in[2], out))
    return og_prep_misfit(prep);
  size_t bytes;
  if (!og_size_mul((size_t)og_numel(out), sizeof *s->totals + sizeof *s->counts,
                   &bytes))
    return og_prep_memory(prep);
  s->totals = og_prep_scratch(prep, bytes);
  if (s->totals == NULL) return og_prep_memory(prep);
  s->counts = (int64_t *)(void *)(s->totals + og_numel(out));
  return OG_OK;
}

og_status og_prepare_scatter_reduce(og_prep *prep) {
  return reduce_prepare(prep, false);
}

og_status og_prepare_index_reduce(og_prep *prep) {
  return reduce_prepare(prep, true);
}
