// SPDX-License-Identifier: Apache-2.0
// The gradient's check: what the backward operator says against differences of
// the forward operator, along random directions.
//
// With L = sum(G * f(x)) for random G, the backward operator's answer g must
// give <g, v> = dL/dv for every direction v. dL/dv is a central difference
// with Richardson's extrapolation, in the widest type that there is, summed in
// double; its own error is measured by a coarser one. A direction that crosses
// a kink, or is lost in noise, is not counted.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check/probe/steady.h"
#include "check/probe/table.h"
#include "check/run/array.h"
#include "check/run/backward.h"
#include "check/run/guard.h"
#include "check/run/on_device.h"
#include "check/run/record.h"
#include "check/run/trial.h"
#include "check/sample/partner.h"
#include "check/sample/sample.h"
#include "check/sample/value.h"
#include "decl/parse/expect.h"

enum { DIRECTIONS = 5, ELEMENTS_MAX = 1500, STEPS = 3, POINTS = 2 };

// One point at which the gradient is looked at.
typedef struct point {
  og_trial *trial;
  const og_decl *decl;
  og_sample sample;
  og_inputs inputs;
  og_outputs value;
  og_array weight[OG_ARRAYS_MAX];  // G, one for each output
  double total;                    // sum of |G * f(x)|
  double given;                    // sum of |G|
  double step;
  double unit;  // the type's rounding
  double slack;
} point;

static bool is_differentiable(const og_array *a) {
  return a->data != NULL && og_is_floating(a->type);
}

static bool is_expected(const point *p, const char *name) {
  return og_decl_expects(p->decl, OG_EXPECT_NO_GRADIENT, name);
}

// A result whose gradient goes nowhere, as `expect` says, or a mutated argument
// that is not a result.
static bool is_left_out(const point *p, const og_outputs *out, int32_t i) {
  for (int32_t a = 0; a < p->decl->grad.arg_count; ++a)
    if (p->decl->grad.args[a].source == OPGRAFT_GRAD_OF_RESULT &&
        og_is_result(p->decl, out, i, p->decl->grad.args[a].index))
      return false;
  if (out->role[i] != OG_ROLE_RESULT) return true;
  char name[64];
  og_result_name(p->decl, p->decl->fresh_results[out->index[i]], name,
                 sizeof name);
  return is_expected(p, name);
}

static void leave_out(point *p) {
  for (int32_t i = 0; i < p->value.count; ++i)
    if (is_left_out(p, &p->value, i)) {
      free(p->weight[i].data);
      p->weight[i].data = NULL;
    }
}

// --- A point -----------------------------------------------------------------

static double weighted_sum(const point *p, const og_outputs *out,
                           double *out_total) {
  double sum = 0, total = 0;
  for (int32_t i = 0; i < out->count; ++i) {
    const og_array *a = &out->array[i], *g = &p->weight[i];
    if (g->data == NULL) continue;
    for (int64_t j = 0; j < a->count && j < g->count; ++j) {
      const double term = og_array_get(g, j) * og_array_get(a, j);
      sum += term;
      total += fabs(term);
    }
  }
  if (out_total != NULL) *out_total = total;
  return sum;
}

static double weights_total(const point *p) {
  double total = 0;
  for (int32_t i = 0; i < p->value.count; ++i) {
    const og_array *g = &p->weight[i];
    for (int64_t j = 0; g->data != NULL && j < g->count; ++j)
      total += fabs(og_array_get(g, j));
  }
  return total;
}

static bool is_finite(const point *p, const og_outputs *out) {
  for (int32_t i = 0; i < out->count; ++i) {
    const og_array *a = &out->array[i];
    if (is_left_out(p, out, i)) continue;
    for (int64_t j = 0; is_differentiable(a) && j < a->count; ++j)
      if (!isfinite(og_array_get(a, j))) return false;
  }
  return true;
}

static bool has_coarse_output(const og_outputs *out) {
  for (int32_t i = 0; i < out->count; ++i)
    if (is_differentiable(&out->array[i]) && out->array[i].type.bits < 32)
      return true;
  return false;
}

static void point_reset(point *p) {
  og_weights_reset(p->weight);
  og_outputs_reset(&p->value);
  og_inputs_reset(&p->inputs);
  free(p);
}

static bool evaluate(point *p, const og_inputs *inputs, og_outputs *out) {
  return og_run_quietly(p->trial, &p->sample, inputs, out);
}

// The smallest rounding among the arguments decides the step.
static void set_precision(point *p) {
  int bits = 64;
  for (int32_t t = 0; t < p->decl->tensor_count; ++t)
    if (is_differentiable(&p->inputs.tensor[t][0]) &&
        p->inputs.tensor[t][0].type.bits < bits)
      bits = p->inputs.tensor[t][0].type.bits;
  for (int32_t i = 0; i < p->value.count; ++i)
    if (is_differentiable(&p->value.array[i]) &&
        p->value.array[i].type.bits < bits)
      bits = p->value.array[i].type.bits;
  p->unit = bits == 64 ? 0x1p-52 : 0x1p-23;
  p->step = bits == 64 ? 2e-4 : 6e-3;
  p->slack = bits == 64 ? 1e-4 : 6e-3;
}

// The call in the widest types. A device runs the call's own where it has no
// kernel for those: differences are to be of its kernels.
static void widen(const og_trial *trial, og_sample *out) {
  if (!og_sample_convert(&trial->sample, OG_PARTNER_WIDER, out) ||
      (trial->device != NULL && !og_is_on_device(trial, out, &og_mode_plain)))
    *out = trial->sample;
}

// Draws values until the results are finite; NULL if they never are.
static point *point_create(og_trial *trial, uint64_t salt) {
  static const og_float_values kinds[] = {OG_FLOAT_NORMAL, OG_FLOAT_POSITIVE,
                                          OG_FLOAT_UNIT};
  point *p = calloc(1, sizeof *p);
  if (p == NULL) return NULL;
  p->trial = trial;
  p->decl = trial->op->decl;
  widen(trial, &p->sample);
  p->sample.seed = og_seed_mix(trial->sample.seed, salt);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
    p->sample.float_values = kinds[i];
    og_inputs_reset(&p->inputs);
    og_outputs_reset(&p->value);
    if (!og_trial_fill(trial, &p->sample, &p->inputs)) continue;
    if (!evaluate(p, &p->inputs, &p->value) || !is_finite(p, &p->value))
      continue;
    if (has_coarse_output(&p->value)) break;
    set_precision(p);
    if (!og_weights_draw(&p->value, p->sample.seed, OG_WEIGHTS_DIFFERENCE,
                         p->weight))
      break;
    leave_out(p);
    weighted_sum(p, &p->value, &p->total);
    p->given = weights_total(p);
    return p;
  }
  point_reset(p);
  return NULL;
}

// --- Differences -------------------------------------------------------------

// What a step along a direction showed.
typedef struct slope {
  double value;     // dL/dv
  double error;     // of that, measured
  double answered;  // <g, v>, where a gradient was given
  double size;      // root of the sum of squares of its terms
} slope;

// Moves argument t by `step` along the direction of `seed`.
static void move(og_inputs *inputs, int32_t t, uint64_t seed, double step) {
  og_random r = {seed};
  for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
    og_array *a = &inputs->tensor[t][e];
    for (int64_t i = 0; a->data != NULL && i < a->count; ++i) {
      char *at = a->data + (size_t)i * og_dtype_bytes(a->type);
      const double x = og_value_get(a->type, at, 0);
      og_value_set(a->type, at, 0, x + step * og_random_normal(&r));
    }
  }
}

// (L(x + h v) - L(x - h v)) / 2h; and, where `grads` is given, <g, v> for the
// step as the type could represent it.
static bool difference(point *p, int32_t t, uint64_t seed, double h,
                       const og_array *grads, slope *out) {
  og_inputs plus, minus;
  og_outputs a = {.count = 0}, b = {.count = 0};
  if (!og_inputs_copy(&plus, &p->inputs)) return false;
  if (!og_inputs_copy(&minus, &p->inputs)) {
    og_inputs_reset(&plus);
    return false;
  }
  move(&plus, t, seed, h);
  move(&minus, t, seed, -h);
  const bool ok = evaluate(p, &plus, &a) && evaluate(p, &minus, &b);
  if (ok)
    out->value =
        (weighted_sum(p, &a, NULL) - weighted_sum(p, &b, NULL)) / (2 * h);
  double sum = 0, squares = 0;
  for (int32_t e = 0; ok && grads != NULL && e < OG_SAMPLE_LIST; ++e) {
    const og_array *x = &plus.tensor[t][e], *y = &minus.tensor[t][e];
    for (int64_t i = 0; x->data != NULL && grads[e].data != NULL &&
                        i < x->count && i < grads[e].count;
         ++i) {
      const size_t at = (size_t)i * og_dtype_bytes(x->type);
      const double v = (og_value_get(x->type, x->data + at, 0) -
                        og_value_get(y->type, y->data + at, 0)) /
                       (2 * h);
      const double g = og_value_get(
          grads[e].type,
          grads[e].data + (size_t)i * og_dtype_bytes(grads[e].type), 0);
      sum += g * v;
      squares += g * v * g * v;
    }
  }
  out->answered = sum;
  out->size = sqrt(squares);
  og_outputs_reset(&a);
  og_outputs_reset(&b);
  og_inputs_reset(&plus);
  og_inputs_reset(&minus);
  return ok && isfinite(out->value);
}

static double larger(double a, double b) { return a > b ? a : b; }

static bool slope_along(point *p, int32_t t, uint64_t seed,
                        const og_array *grads, slope *out) {
  slope d[STEPS];
  for (int32_t i = 0; i < STEPS; ++i)
    if (!difference(p, t, seed, p->step * (double)(1 << i),
                    i == 0 ? grads : NULL, &d[i]))
      return false;
  const double fine = (4 * d[0].value - d[1].value) / 3;
  const double coarse = (4 * d[1].value - d[2].value) / 3;
  // Extrapolations may agree by chance where a step crosses kinks, so the
  // differences themselves must agree as well.
  const double spread = larger(
      fabs(fine - coarse),
      larger(fabs(d[0].value - d[1].value), fabs(d[1].value - d[2].value)));
  *out = d[0];
  out->value = fine;
  out->error = 2 * spread + 16 * p->unit * p->total / p->step;
  return true;
}

// --- Verdicts ----------------------------------------------------------------

typedef struct gradient {
  int32_t param;  // of the forward operator
  int32_t tensor;
  og_array array[OG_SAMPLE_LIST];  // borrowed from the backward run
} gradient;

static int32_t gradients_of(const point *p, const opgraft_op *op,
                            const og_outputs *out, gradient *grads) {
  int32_t count = 0;
  memset(grads, 0, OPGRAFT_ARG_MAX * sizeof *grads);
  for (int32_t r = 0; r < p->decl->grad.target_count; ++r) {
    gradient *g = &grads[count];
    g->param = p->decl->grad.targets[r];
    g->tensor = p->decl->params[g->param].index;
    if (!p->sample.is_given[g->tensor]) continue;
    int32_t entry = 0;
    for (int32_t i = 0; i < out->count; ++i)
      if (out->role[i] == OG_ROLE_RESULT &&
          op->decl->fresh_results[out->index[i]] == r && entry < OG_SAMPLE_LIST)
        g->array[entry++] = out->array[i];
    if (entry > 0) ++count;
  }
  return count;
}

static bool shape_is_right(const point *p, const gradient *g) {
  for (int32_t e = 0; e < p->sample.list_count[g->tensor]; ++e) {
    const og_array *x = &p->inputs.tensor[g->tensor][e];
    if (!og_sample_has(&p->sample, g->tensor, e)) continue;
    if (g->array[e].data != NULL &&
        og_dims_equal(&x->sizes, &g->array[e].sizes) &&
        g->array[e].type.code == x->type.code)
      continue;
    og_text found = {0};
    for (int32_t d = 0; d < g->array[e].sizes.rank; ++d)
      og_text_addf(&found, "%s%lld", d > 0 ? ", " : "",
                   (long long)g->array[e].sizes.size[d]);
    og_tell_finding(p->trial->op, OPGRAFT_GRADIENT_SHAPE, false,
                    p->decl->params[g->param].name,
                    "%s gives it a gradient %s[%s]", p->decl->grad.op_name,
                    g->array[e].data ? og_dtype_name(g->array[e].type) : "",
                    found.data ? found.data : "");
    og_text_reset(&found);
    return false;
  }
  return true;
}

typedef struct tally {
  int32_t wrong;
  int32_t right;
  slope worst;
} tally;

// One direction: wrong where answer and difference lie further apart than
// both errors explain; not counted where the errors explain anything. Results
// of 0 measure an error of 0, and the gradient's own terms round still.
static void judge(const point *p, const slope *s, tally *out) {
  const double size =
      larger(larger(fabs(s->value), fabs(s->answered)), s->size);
  const double floor = 64 * p->unit * (s->error > 0 ? p->total : p->given);
  const double allowed = s->error + p->slack * size + floor;
  const bool is_noise = size > floor && s->error > 0.3 * size;
  if (is_noise) return;
  if (!(fabs(s->value - s->answered) > allowed)) {
    ++out->right;
    return;
  }
  ++out->wrong;
  out->worst = *s;
}

static tally look(point *p, int32_t t, const og_array *grads) {
  tally all = {0, 0, {0, 0, 0, 0}};
  for (uint64_t i = 0; i < DIRECTIONS; ++i) {
    slope s;
    const uint64_t seed =
        og_seed_mix(p->sample.seed, 1000 + i * OPGRAFT_ARG_MAX + (uint64_t)t);
    if (slope_along(p, t, seed, grads, &s)) judge(p, &s, &all);
  }
  return all;
}

static bool is_wrong(const tally *t) {
  return t->wrong >= 2 && t->wrong > t->right;
}

// --- The point's findings ----------------------------------------------------

typedef struct verdicts {
  bool is_wrong[OPGRAFT_ARG_MAX];  // by tensor argument
  bool is_target[OPGRAFT_ARG_MAX];
  tally tally[OPGRAFT_ARG_MAX];
  bool has_failed;  // shapes, a refusal: reported already
  int32_t counted;  // directions that told anything
} verdicts;

static bool may_have_gradient(const point *p, int32_t t) {
  return p->sample.is_given[t] && is_differentiable(&p->inputs.tensor[t][0]);
}

static void see_targets(point *p, const opgraft_op *op, const og_outputs *out,
                        verdicts *v) {
  gradient grads[OPGRAFT_ARG_MAX];
  const int32_t count = gradients_of(p, op, out, grads);
  for (int32_t i = 0; i < count; ++i) {
    const int32_t t = grads[i].tensor;
    if (!shape_is_right(p, &grads[i])) {
      v->has_failed = true;
      continue;
    }
    if (!may_have_gradient(p, t)) continue;
    v->tally[t] = look(p, t, grads[i].array);
    v->is_wrong[t] = is_wrong(&v->tally[t]);
    v->counted += v->tally[t].wrong + v->tally[t].right;
  }
}

// Arguments that get no gradient: wrong where the result changes with them.
static void see_others(point *p, verdicts *v) {
  for (int32_t t = 0; t < p->decl->tensor_count; ++t) {
    if (v->is_target[t] || !may_have_gradient(p, t) ||
        p->decl->params[p->decl->tensor_params[t]].is_mutated)
      continue;
    v->tally[t] = look(p, t, NULL);
    v->is_wrong[t] = is_wrong(&v->tally[t]);
  }
}

static void see_backward(point *p, const opgraft_op *op, verdicts *v) {
  og_sample *b = malloc(sizeof *b);
  og_inputs inputs;
  og_outputs out;
  const og_saved saved = {&p->sample, &p->inputs, &p->value, p->weight};
  v->has_failed = true;
  if (b == NULL) return;
  if (og_backward_fill(&saved, op, b, &inputs)) {
    const og_ran ran = og_trial_run(p->trial, b, &inputs, &og_mode_plain, &out);
    if (ran == OG_RAN_REFUSED &&
        (p->trial->device == NULL || og_is_of_call(p->trial->refusal_status)))
      og_tell_finding(p->trial->op, OPGRAFT_GRADIENT_SHAPE, false, "",
                      "%s refuses what the operator gives it: %s",
                      p->decl->grad.op_name, p->trial->refusal);
    if (ran == OG_RAN) {
      v->has_failed = false;
      see_targets(p, op, &out, v);
      og_outputs_reset(&out);
    }
    og_inputs_reset(&inputs);
  }
  free(b);
}

static void see_point(point *p, const opgraft_op *op, verdicts *v) {
  memset(v, 0, sizeof *v);
  for (int32_t r = 0; r < p->decl->grad.target_count; ++r)
    v->is_target[p->decl->params[p->decl->grad.targets[r]].index] = true;
  if (op != NULL) see_backward(p, op, v);
  if (!v->has_failed) see_others(p, v);
}

// Two index arguments of one shape may have to fit each other (a permutation
// and its inverse), which drawn ones do not.
static bool may_contradict(const point *p) {
  for (int32_t t = 0; t < p->decl->tensor_count; ++t)
    for (int32_t u = 0; u < t; ++u)
      if (p->sample.is_given[t] && p->sample.is_given[u] &&
          og_is_integral(p->sample.type[t]) &&
          og_is_integral(p->sample.type[u]) &&
          og_dims_equal(&p->sample.shape[t][0], &p->sample.shape[u][0]))
        return p->trial->forward == NULL;
  return false;
}

static void report(const point *p, const verdicts *v, int32_t t) {
  const char *name = p->decl->params[p->decl->tensor_params[t]].name;
  const slope *s = &v->tally[t].worst;
  og_trial *trial = p->trial;
  if (p->decl->grad.kind == OG_GRAD_OPERATOR && v->is_target[t])
    og_tell_finding(trial->op, OPGRAFT_WRONG_GRADIENT,
                    is_expected(p, name) || may_contradict(p), name,
                    "along a random direction %s says %.6g, differences say "
                    "%.6g +- %.1g",
                    p->decl->grad.op_name, s->answered, s->value, s->error);
  else if (p->decl->grad.kind == OG_GRAD_OPERATOR)
    og_tell_finding(trial->op, OPGRAFT_MISSING_GRADIENT, is_expected(p, name),
                    name,
                    "it gets no gradient, but the result changes with it "
                    "(%.6g along a random direction)",
                    s->value);
  else if (p->decl->grad.kind == OG_GRAD_NONE)
    og_tell_finding(trial->op, OPGRAFT_MISSING_GRADIENT, is_expected(p, name),
                    name,
                    "its gradient is declared as zero, but the result changes "
                    "with it (%.6g along a random direction)",
                    s->value);
  else
    og_tell_finding(trial->op, OPGRAFT_NO_GRADIENT, true, name,
                    "no gradient is declared, but the result changes with it "
                    "(%.6g along a random direction)",
                    s->value);
}

// Differences need real numbers of more than 16 bits.
static bool is_too_coarse(const og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  og_sample *wide = malloc(sizeof *wide);
  bool coarse = wide == NULL;
  if (wide != NULL) widen(trial, wide);
  for (int32_t t = 0; !coarse && t < decl->tensor_count; ++t)
    coarse = wide->is_given[t] &&
             (og_is_complex(wide->type[t]) ||
              (og_is_floating(wide->type[t]) && wide->type[t].bits < 32));
  free(wide);
  return coarse;
}

void og_probe_gradient(og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  const opgraft_op *op = NULL;
  // A write to what needs a gradient is an error in every host, so that only a
  // declared gradient of it means anything.
  const bool is_silent =
      decl->mutated_count > 0 && decl->grad.kind != OG_GRAD_OPERATOR;
  if (!og_is_comparable(trial) || is_silent ||
      og_sample_numel(&trial->sample) > ELEMENTS_MAX || is_too_coarse(trial))
    return;
  if (decl->grad.kind == OG_GRAD_OPERATOR)
    op = opgraft_module_find_op(trial->op->module, decl->grad.op_name);
  else if (decl->grad.kind == OG_GRAD_MISSING && og_is_backward(trial->op))
    return;
  // Found wrong at each of two points, or not at all.
  verdicts v[POINTS];
  point *p[POINTS] = {NULL};
  int32_t seen = 0;
  for (; seen < POINTS; ++seen) {
    p[seen] = point_create(trial, 500 + (uint64_t)seen);
    if (p[seen] == NULL) break;
    see_point(p[seen], op, &v[seen]);
    if (v[seen].has_failed) break;
  }
  for (int32_t t = 0; seen == POINTS && t < decl->tensor_count; ++t) {
    const bool is_wrong = v[0].is_wrong[t] && v[1].is_wrong[t];
    if (v[0].tally[t].wrong + v[0].tally[t].right > 0)
      og_tell_expect(trial->op, OG_EXPECT_NO_GRADIENT,
                     decl->params[decl->tensor_params[t]].name, is_wrong);
    if (is_wrong) report(p[1], &v[1], t);
  }
  if (op != NULL && seen == 0 && p[0] == NULL &&
      og_sample_numel(&trial->sample) > 0 && !has_coarse_output(&trial->base))
    og_tell_finding(trial->op, OPGRAFT_GRADIENT_UNSURE, true, "",
                    "no values were found at which the result is finite and "
                    "fine enough for differences");
  for (int32_t i = 0; i < POINTS; ++i)
    if (p[i] != NULL) point_reset(p[i]);
}
