// SPDX-License-Identifier: Apache-2.0
// Reference reductions over any dims: floats in double, integers in int64.

#include <math.h>
#include <string.h>

#include "base/grain.h"
#include "base/loops.h"
#include "exec/step/operands.h"

enum { BLOCK = 512 };

// What has been seen so far; `index` is of the value kept.
typedef struct total {
  double real;
  int64_t whole;
  int64_t index;
} total;

typedef struct reduce reduce;
typedef void (*reals_fn)(total *t, const double *x, int64_t n, int64_t at);
typedef void (*wholes_fn)(total *t, const int64_t *x, int64_t n, int64_t at);

struct reduce {
  og_operands io;
  int32_t op;
  bool is_real;
  og_nest kept;     // operand, then the results
  og_nest reduced;  // operand
  int64_t kept_count, rows, width, count;
  og_load_fn load;
  reals_fn reals;
  wholes_fn wholes;
  double correction;
};

// --- Operators ---------------------------------------------------------------

// Lanes: one chain of additions waits for each, and rounds more.
OG_LOOP_BODY void lanes_add_body(const double *x, int64_t n, double *out) {
  enum { LANES = 8 };
  double lane[LANES] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + 4 * LANES <= n; i += 4 * LANES)
    for (int k = 0; k < LANES; ++k)
      lane[k] += (x[i + k] + x[i + k + LANES]) +
                 (x[i + k + 2 * LANES] + x[i + k + 3 * LANES]);
  for (; i < n; ++i) sum += x[i];
  for (int k = 0; k < LANES; ++k) sum += lane[k];
  *out = sum;
}
OG_LOOP(lanes_add, (const double *x, int64_t n, double *out), (x, n, out))

static double lanes_sum(const double *x, int64_t n) {
  double sum;
  lanes_add(x, n, &sum);
  return sum;
}

static void sum_reals(total *t, const double *x, int64_t n, int64_t at) {
  (void)at;
  t->real += lanes_sum(x, n);
}

static void sum_wholes(total *t, const int64_t *x, int64_t n, int64_t at) {
  (void)at;
  for (int64_t i = 0; i < n; ++i)
    t->whole = (int64_t)((uint64_t)t->whole + (uint64_t)x[i]);
}

static void prod_reals(total *t, const double *x, int64_t n, int64_t at) {
  (void)at;
  for (int64_t i = 0; i < n; ++i) t->real *= x[i];
}

static void prod_wholes(total *t, const int64_t *x, int64_t n, int64_t at) {
  (void)at;
  for (int64_t i = 0; i < n; ++i)
    t->whole = (int64_t)((uint64_t)t->whole * (uint64_t)x[i]);
}

// The first of the largest; NaN counts as the largest.
static void max_reals(total *t, const double *x, int64_t n, int64_t at) {
  for (int64_t i = 0; i < n; ++i)
    if (x[i] > t->real || (x[i] != x[i] && t->real == t->real)) {
      t->real = x[i];
      t->index = at + i;
    }
}

static void max_wholes(total *t, const int64_t *x, int64_t n, int64_t at) {
  for (int64_t i = 0; i < n; ++i)
    if (x[i] > t->whole) {
      t->whole = x[i];
      t->index = at + i;
    }
}

static void min_reals(total *t, const double *x, int64_t n, int64_t at) {
  for (int64_t i = 0; i < n; ++i)
    if (x[i] < t->real || (x[i] != x[i] && t->real == t->real)) {
      t->real = x[i];
      t->index = at + i;
    }
}

static void min_wholes(total *t, const int64_t *x, int64_t n, int64_t at) {
  for (int64_t i = 0; i < n; ++i)
    if (x[i] < t->whole) {
      t->whole = x[i];
      t->index = at + i;
    }
}

static void any_reals(total *t, const double *x, int64_t n, int64_t at) {
  (void)at;
  for (int64_t i = 0; i < n; ++i) t->whole |= x[i] != 0;
  t->real = (double)t->whole;
}

static void any_wholes(total *t, const int64_t *x, int64_t n, int64_t at) {
  (void)at;
  for (int64_t i = 0; i < n; ++i) t->whole |= x[i] != 0;
}

static void all_reals(total *t, const double *x, int64_t n, int64_t at) {
  (void)at;
  for (int64_t i = 0; i < n; ++i) t->whole &= x[i] != 0;
  t->real = (double)t->whole;
}

static void all_wholes(total *t, const int64_t *x, int64_t n, int64_t at) {
  (void)at;
  for (int64_t i = 0; i < n; ++i) t->whole &= x[i] != 0;
}

typedef struct reduction {
  int32_t op;
  reals_fn reals;
  wholes_fn wholes;
  total begin;
  bool gives_index;    // result 0 is the index
  bool needs_element;  // nothing to reduce is an error
} reduction;

#define OF_LARGEST \
  max_reals, max_wholes, { -INFINITY, INT64_MIN, 0 }
#define OF_LEAST \
  min_reals, min_wholes, { INFINITY, INT64_MAX, 0 }
static const reduction reductions[] = {
    {OG_IR_sum, sum_reals, sum_wholes, {0, 0, 0}, false, false},
    {OG_IR_mean, sum_reals, sum_wholes, {0, 0, 0}, false, false},
    {OG_IR_prod, prod_reals, prod_wholes, {1, 1, 0}, false, false},
    {OG_IR_any, any_reals, any_wholes, {0, 0, 0}, false, false},
    {OG_IR_all, all_reals, all_wholes, {1, 1, 0}, false, false},
    {OG_IR_amax, OF_LARGEST, false, true},
    {OG_IR_amin, OF_LEAST, false, true},
    {OG_IR_argmax, OF_LARGEST, true, true},
    {OG_IR_argmin, OF_LEAST, true, true},
    {OG_IR_max_index, OF_LARGEST, false, true},
    {OG_IR_min_index, OF_LEAST, false, true},
};

static const reduction *reduction_find(int32_t op) {
  const reduction *found = reductions;
  while (found->op != op) ++found;
  return found;
}

// --- Running -----------------------------------------------------------------

// A block of the elements that make one result. Wide enough for either class.
typedef union block {
  double reals[BLOCK];
  int64_t wholes[BLOCK];
} block;
typedef void (*block_fn)(void *state, const block *x, int64_t n,
                         int64_t position);

static void blocks_visit(const reduce *r, const char *from, block_fn visit,
                         void *state) {
  block x;
  const int64_t stride =
      r->reduced.ndim > 0 ? r->reduced.stride[0][r->reduced.ndim - 1] : 0;
  for (int64_t row = 0; row < r->rows; ++row) {
    int64_t offset[OG_NEST_OPERANDS];
    og_nest_offsets(&r->reduced, row, offset);
    for (int64_t at = 0; at < r->width; at += BLOCK) {
      const int64_t n = r->width - at < BLOCK ? r->width - at : BLOCK;
      r->load(n, &x, from + offset[0] + at * stride, stride);
      visit(state, &x, n, row * r->width + at);
    }
  }
}

typedef struct point {
  const reduce *r;
  total t;
} point;

static void point_visit(void *state, const block *x, int64_t n,
                        int64_t position) {
  point *p = state;
  if (p->r->is_real)
    p->r->reals(&p->t, x->reals, n, position);
  else
    p->r->wholes(&p->t, x->wholes, n, position);
}

static total reduce_point(const reduce *r, const char *from) {
  point p = {r, reduction_find(r->op)->begin};
  blocks_visit(r, from, point_visit, &p);
  return p.t;
}

static void total_put(const reduce *r, const total *t, int32_t result,
                      char *to) {
  const og_dtype dtype = r->io.out[result]->dtype;
  const bool is_index = reduction_find(r->op)->gives_index || result == 1;
  if (is_index)
    og_element_set_int(dtype, to, t->index);
  else if (r->is_real)
    og_element_set_double(
        dtype, to, r->op == OG_IR_mean ? t->real / (double)r->count : t->real);
  else
    og_element_set_int(dtype, to, t->whole);
}

static void share_reduce(void *state, int64_t begin, int64_t end,
                         int32_t worker) {
  const reduce *r = state;
  (void)worker;
  for (int64_t i = begin; i < end; ++i) {
    int64_t offset[OG_NEST_OPERANDS];
    og_nest_point(&r->kept, i, offset);
    const total t = reduce_point(r, og_bytes(r->io.in[0]) + offset[0]);
    for (int32_t k = 0; k < r->io.out_count; ++k)
      total_put(r, &t, k, og_bytes(r->io.out[k]) + offset[k + 1]);
  }
}

static og_status run_shared(const reduce *r, const og_run *run,
                            og_task_fn share) {
  return og_run_parallel(run, r->kept_count,
                         og_grain(OG_GRAIN_MEDIUM, r->count), share,
                         (void *)(uintptr_t)r);
}

static og_status run_reduce(void *state, const og_run *run) {
  return run_shared(state, run, share_reduce);
}

// --- Preparing ---------------------------------------------------------------

static og_status dims_read(og_prep *prep, int32_t rank, bool *out_reduced) {
  int64_t dims[OPGRAFT_RANK_MAX];
  int32_t count;
  OG_TRY(og_prep_ints(prep, 0, dims, OPGRAFT_RANK_MAX, &count));
  memset(out_reduced, count == 0, OPGRAFT_RANK_MAX * sizeof *out_reduced);
  for (int32_t i = 0; i < count; ++i) {
    const int64_t dim = dims[i] < 0 ? dims[i] + rank : dims[i];
    if (rank == 0 && (dims[i] == 0 || dims[i] == -1)) continue;
    if (dim < 0 || dim >= rank)
      return og_prep_wrong(prep, "a dim is out of range");
    out_reduced[dim] = true;
  }
  return OG_OK;
}

// A tensor's view without the dims that are reduced, or with only those.
static void part_of(const og_tensor *tensor, const bool *reduced, bool which,
                    og_tensor *out, int64_t *sizes, int64_t *strides) {
  *out = *tensor;
  out->ndim = 0;
  out->shape = sizes;
  out->strides = strides;
  for (int32_t d = 0; d < tensor->ndim; ++d) {
    if (reduced[d] != which) continue;
    sizes[out->ndim] = tensor->shape[d];
    strides[out->ndim++] = tensor->strides[d];
  }
}

// A result keeps the reduced dims as 1, or leaves them out.
static bool result_part(const og_tensor *result, const og_tensor *kept,
                        int32_t rank, const bool *reduced, og_tensor *out,
                        int64_t *sizes, int64_t *strides) {
  static const bool none[OPGRAFT_RANK_MAX];
  const bool keeps = result->ndim == rank && rank != kept->ndim;
  part_of(result, keeps ? reduced : none, false, out, sizes, strides);
  for (int32_t d = 0; keeps && d < rank; ++d)
    if (reduced[d] && result->shape[d] != 1) return false;
  return og_same_shape(out, kept);
}

static og_status nests_make(og_prep *prep, reduce *r) {
  bool reduced[OPGRAFT_RANK_MAX];
  int64_t sizes[4][OPGRAFT_RANK_MAX], strides[4][OPGRAFT_RANK_MAX];
  og_tensor parts[4];
  const og_tensor *in = prep->in[0];
  const og_tensor *kept[3] = {&parts[0], &parts[1], &parts[2]};
  const og_tensor *rest[1] = {&parts[3]};
  OG_TRY(dims_read(prep, in->ndim, reduced));
  part_of(in, reduced, false, &parts[0], sizes[0], strides[0]);
  part_of(in, reduced, true, &parts[3], sizes[3], strides[3]);
  bool fits = true;
  for (int32_t k = 0; k < prep->node->out_count; ++k)
    fits = fits && prep->out[k] != NULL &&
           result_part(prep->out[k], &parts[0], in->ndim, reduced,
                       &parts[k + 1], sizes[k + 1], strides[k + 1]);
  if (!fits ||
      !og_nest_init(&r->kept, parts[0].ndim, sizes[0], kept,
                    1 + prep->node->out_count) ||
      !og_nest_init(&r->reduced, parts[3].ndim, sizes[3], rest, 1))
    return og_prep_wrong(prep,
                         "the result's shape is not what the reduction "
                         "leaves");
  r->kept_count = og_nest_points(&r->kept);
  r->rows = og_nest_rows(&r->reduced);
  r->width = og_nest_width(&r->reduced);
  r->count = r->rows * r->width;
  return OG_OK;
}

static og_status types_check(og_prep *prep, reduce *r) {
  r->is_real = og_is_float(prep->in[0]);
  for (int32_t k = 0; k < prep->node->out_count; ++k) {
    if (og_dtype_class(prep->out[k]->dtype) == OG_CLASS_NONE)
      return og_prep_wrong(prep, "it cannot compute with this type");
    r->is_real |= k == 0 && og_is_float(prep->out[0]);
  }
  r->load = og_load_find(prep->in[0]->dtype,
                         r->is_real ? OG_CLASS_F64 : OG_CLASS_I64);
  return r->load != NULL
             ? OG_OK
             : og_prep_wrong(prep, "it cannot compute with this type");
}

og_status og_prepare_reduce(og_prep *prep) {
  reduce *r = og_state_begin(prep, sizeof *r, run_reduce);
  if (r == NULL) return OG_MEMORY;
  const reduction *found = reduction_find(prep->node->op);
  r->op = prep->node->op;
  r->reals = found->reals;
  r->wholes = found->wholes;
  OG_TRY(nests_make(prep, r));
  OG_TRY(types_check(prep, r));
  // Positions are counted in the walk's order, which is the dims' order only
  // for one dim or a dense operand.
  if (found->gives_index && r->reduced.ndim > 1)
    return og_prep_wrong(prep,
                         "an index over several dims needs a dense "
                         "operand");
  if (found->needs_element && r->count == 0)
    return og_prep_refuse(prep, "there is nothing to reduce");
  return OG_OK;
}

// --- Variance ----------------------------------------------------------------

typedef struct deviations {
  double mean, squares;
} deviations;

static void deviations_visit(void *state, const block *x, int64_t n,
                             int64_t position) {
  deviations *d = state;
  double squares[BLOCK];
  (void)position;
  for (int64_t j = 0; j < n; ++j)
    squares[j] = (x->reals[j] - d->mean) * (x->reals[j] - d->mean);
  d->squares += lanes_sum(squares, n);
}

static void share_variance(void *state, int64_t begin, int64_t end,
                           int32_t worker) {
  const reduce *r = state;
  const double divisor = (double)r->count - r->correction;
  (void)worker;
  for (int64_t i = begin; i < end; ++i) {
    int64_t offset[OG_NEST_OPERANDS];
    og_nest_point(&r->kept, i, offset);
    const char *from = og_bytes(r->io.in[0]) + offset[0];
    deviations d = {reduce_point(r, from).real / (double)r->count, 0};
    blocks_visit(r, from, deviations_visit, &d);
    const double results[2] = {d.squares / (divisor > 0 ? divisor : 0), d.mean};
    for (int32_t k = 0; k < r->io.out_count; ++k)
      og_element_set_double(r->io.out[k]->dtype,
                            og_bytes(r->io.out[k]) + offset[k + 1], results[k]);
  }
}

static og_status run_variance(void *state, const og_run *run) {
  return run_shared(state, run, share_variance);
}

og_status og_prepare_variance(og_prep *prep) {
  reduce *r = og_state_begin(prep, sizeof *r, run_variance);
  if (r == NULL) return OG_MEMORY;
  r->op = OG_IR_sum;
  r->reals = sum_reals;
  OG_TRY(nests_make(prep, r));
  OG_TRY(og_need_float(prep, prep->in[0]));
  for (int32_t k = 0; k < prep->node->out_count; ++k)
    OG_TRY(og_need_float(prep, prep->out[k]));
  OG_TRY(types_check(prep, r));
  return og_prep_float(prep, 1, 1, &r->correction);
}

// --- Vector norm -------------------------------------------------------------

typedef struct vector_norm {
  reduce base;
  double order;
} vector_norm;

static double norm_join(double order, double seen, double x) {
  x = fabs(x);
  if (order == (double)INFINITY) return seen != seen || seen > x ? seen : x;
  if (order == -(double)INFINITY) return seen != seen || seen < x ? seen : x;
  if (order == 0) return seen + (x != 0);
  if (order == 1) return seen + x;
  return seen + (order == 2 ? x * x : pow(x, order));
}

static double norm_end(double order, double seen) {
  if (order == 2) return sqrt(seen);
  return isinf(order) || order == 0 || order == 1 ? seen : pow(seen, 1 / order);
}

typedef struct seen_norm {
  double order, seen;
} seen_norm;

static void norm_visit(void *state, const block *x, int64_t n,
                       int64_t position) {
  seen_norm *s = state;
  (void)position;
  for (int64_t i = 0; i < n; ++i)
    s->seen = norm_join(s->order, s->seen, x->reals[i]);
}

static double norm_of(const vector_norm *v, const char *from) {
  const bool is_least = v->order == -(double)INFINITY;
  seen_norm s = {v->order, is_least ? (double)INFINITY : 0};
  blocks_visit(&v->base, from, norm_visit, &s);
  return norm_end(v->order, s.seen);
}

static void share_norm(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  const vector_norm *v = state;
  const reduce *r = &v->base;
  (void)worker;
  for (int64_t i = begin; i < end; ++i) {
    int64_t offset[OG_NEST_OPERANDS];
    og_nest_point(&r->kept, i, offset);
    og_element_set_double(r->io.out[0]->dtype,
                          og_bytes(r->io.out[0]) + offset[1],
                          norm_of(v, og_bytes(r->io.in[0]) + offset[0]));
  }
}

static og_status run_norm(void *state, const og_run *run) {
  return run_shared(state, run, share_norm);
}

og_status og_prepare_vector_norm(og_prep *prep) {
  vector_norm *v = og_state_begin(prep, sizeof *v, run_norm);
  if (v == NULL) return OG_MEMORY;
  OG_TRY(nests_make(prep, &v->base));
  OG_TRY(og_need_float(prep, prep->in[0]));
  OG_TRY(og_need_float(prep, prep->out[0]));
  OG_TRY(types_check(prep, &v->base));
  OG_TRY(og_prep_float(prep, 1, 2, &v->order));
  if (v->base.count == 0 && (v->order < 0 || isinf(v->order)))
    return og_prep_refuse(prep, "there is nothing to reduce");
  return OG_OK;
}
