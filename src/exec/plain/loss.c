// SPDX-License-Identifier: Apache-2.0
// Reference negative log likelihood: x [N, C] or [C], target [N] or one, an
// optional weight [C] -> the loss and the total weight; and its gradient.

#include <inttypes.h>

#include "exec/step/operands.h"

enum { REDUCE_NONE = 0, REDUCE_MEAN = 1, REDUCE_SUM = 2 };

typedef struct nll {
  og_operands io;
  int64_t rows, classes, reduction, ignored;
  double *x, *weight, *loss, *target;
} nll;

// Beyond what a double holds exactly it is out of range all the same.
static int64_t target_of(const nll *s, int64_t row) {
  return og_double_to_int(s->target[row]);
}

// The weight of a row's target, 0 where it is ignored; false if out of range.
static bool row_weight(const nll *s, int64_t row, double *out_weight) {
  const int64_t target = target_of(s, row);
  *out_weight = 0;
  if (target == s->ignored) return true;
  if (target < 0 || target >= s->classes) return false;
  *out_weight = s->weight[target];
  return true;
}

static og_status bad_target(const nll *s, const og_run *run, int64_t row) {
  return og_run_fail(run, OG_INVALID,
                     "target %" PRId64 " is out of range for %" PRId64
                     " classes",
                     target_of(s, row), s->classes);
}

static void inputs_get(const nll *s, int32_t target, int32_t weight) {
  og_get_all(s->io.in[target], s->target);
  for (int64_t c = 0; c < s->classes; ++c) s->weight[c] = 1;
  if (s->io.in[weight] != NULL) og_get_all(s->io.in[weight], s->weight);
}

static og_status run_nll(void *state, const og_run *run) {
  const nll *s = state;
  double total = 0, sum = 0, weight;
  og_get_all(s->io.in[0], s->x);
  inputs_get(s, 1, 2);
  for (int64_t r = 0; r < s->rows; ++r) {
    if (!row_weight(s, r, &weight)) return bad_target(s, run, r);
    const int64_t target = target_of(s, r);
    s->loss[r] =
        target == s->ignored ? 0 : -weight * s->x[r * s->classes + target];
    sum += s->loss[r];
    total += weight;
  }
  if (s->reduction != REDUCE_NONE)
    s->loss[0] = s->reduction == REDUCE_MEAN ? sum / total : sum;
  else if (s->io.in[0]->ndim == 2)
    total = 0;  // as PyTorch gives it for rows
  og_put_all(s->io.out[0], s->loss);
  if (s->io.out[1] != NULL) og_put_all(s->io.out[1], &total);
  return OG_OK;
}

// Operands: gradient, x, target, weight, total weight.
static og_status run_nll_backward(void *state, const og_run *run) {
  const nll *s = state;
  double total, weight;
  og_get_all(s->io.in[0], s->loss);
  og_get_all(s->io.in[4], &total);
  inputs_get(s, 2, 3);
  for (int64_t i = 0; i < s->rows * s->classes; ++i) s->x[i] = 0;
  for (int64_t r = 0; r < s->rows; ++r) {
    if (!row_weight(s, r, &weight)) return bad_target(s, run, r);
    if (target_of(s, r) == s->ignored) continue;
    const double grad = s->loss[s->reduction == REDUCE_NONE ? r : 0];
    const double scale = s->reduction == REDUCE_MEAN ? total : 1;
    s->x[r * s->classes + target_of(s, r)] = -weight * grad / scale;
  }
  og_put_all(s->io.out[0], s->x);
  return OG_OK;
}

static og_status nll_prepare(og_prep *prep, nll *s, const og_tensor *x,
                             const og_tensor *target, const og_tensor *weight,
                             const og_tensor *loss) {
  OG_TRY(og_prep_int(prep, 0, REDUCE_MEAN, &s->reduction));
  OG_TRY(og_prep_int(prep, 1, -100, &s->ignored));
  OG_TRY(og_need_float(prep, x));
  OG_TRY(og_need_int(prep, target));
  OG_TRY(og_need_float(prep, loss));
  if (x->ndim < 1 || x->ndim > 2)
    return og_prep_wrong(prep, "it takes one or two dims");
  s->rows = x->ndim == 2 ? x->shape[0] : 1;
  s->classes = x->shape[x->ndim - 1];
  const int64_t losses = s->reduction == REDUCE_NONE ? s->rows : 1;
  const bool fits = og_numel(target) == s->rows && og_numel(loss) == losses &&
                    (weight == NULL ||
                     (og_is_float(weight) && og_numel(weight) == s->classes));
  if (!fits) return og_prep_misfit(prep);
  s->x = og_prep_doubles(prep,
                         s->rows * s->classes + s->classes + 2 * s->rows + 1);
  if (s->x == NULL) return og_prep_memory(prep);
  s->weight = s->x + s->rows * s->classes;
  s->target = s->weight + s->classes;
  s->loss = s->target + s->rows;
  return OG_OK;
}

og_status og_prepare_nll_loss(og_prep *prep) {
  nll *s = og_state_begin(prep, sizeof *s, run_nll);
  if (s == NULL) return OG_MEMORY;
  if (prep->out[1] != NULL &&
      (!og_is_float(prep->out[1]) || og_numel(prep->out[1]) != 1))
    return og_prep_wrong(prep, "its second result is one number");
  return nll_prepare(prep, s, prep->in[0], prep->in[1], prep->in[2],
                     prep->out[0]);
}

og_status og_prepare_nll_loss_backward(og_prep *prep) {
  nll *s = og_state_begin(prep, sizeof *s, run_nll_backward);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(
      nll_prepare(prep, s, prep->in[1], prep->in[2], prep->in[3], prep->in[0]));
  if (prep->in[4] == NULL || og_numel(prep->in[4]) != 1 ||
      !og_is_float(prep->out[0]) || !og_same_shape(prep->out[0], prep->in[1]))
    return og_prep_misfit(prep);
  return OG_OK;
}
