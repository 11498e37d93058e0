// SPDX-License-Identifier: Apache-2.0
// Probes against a reference module: equal calls, equal results, and equal
// gradients where both have a backward operator.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/probe/steady.h"
#include "check/probe/table.h"
#include "check/run/array.h"
#include "check/run/axis.h"
#include "check/run/backward.h"
#include "check/run/compare.h"
#include "check/run/fill.h"
#include "check/run/guard.h"
#include "check/run/record.h"
#include "check/run/reference.h"
#include "check/run/shown.h"
#include "check/run/trial.h"
#include "check/sample/sample.h"
#include "check/sample/value.h"

static void report_reference(og_trial *trial, const char *name,
                             const char *format, const char *text) {
  og_tell_finding(trial->op, OPGRAFT_DIFFERS_FROM_REFERENCE, false, name,
                  format, text);
}

static void report_values(og_trial *trial, const og_verdict *verdict) {
  const bool is_theirs = isnan(verdict->wanted) && !isnan(verdict->found);
  report_reference(trial, verdict->name,
                   is_theirs ? "the reference gives NaN, which may be its own "
                               "fault: %s"
                             : "%s",
                   verdict->text);
}

static void report_counts(og_trial *trial, int32_t count) {
  char text[96];
  snprintf(text, sizeof text, "the reference gives %d result%s, the kernel %d",
           (int)count, og_plural(count), (int)trial->base.count);
  report_reference(trial, "", "%s", text);
}

// --- Gradients ---------------------------------------------------------------

// What an operator's backward map gives for one call.
typedef struct answer {
  bool has_run;
  const opgraft_op *op;  // the backward operator
  og_outputs out;
} answer;

static void answer_reset(answer *a) {
  if (a->has_run) og_outputs_reset(&a->out);
}

static void answer_fill(og_trial *trial, const og_saved *saved, answer *out) {
  const opgraft_op *op = saved->sample->op;
  og_inputs inputs;
  out->has_run = false;
  out->op = opgraft_module_find_op(op->module, op->decl->grad.op_name);
  og_sample *b = malloc(sizeof *b);
  if (b == NULL || out->op == NULL) goto done;
  if (!og_backward_fill(saved, out->op, b, &inputs)) goto done;
  out->has_run = og_run_quietly(trial, b, &inputs, &out->out);
  og_inputs_reset(&inputs);
done:
  free(b);
}

// The gradient that an answer has for a parameter of the forward operator.
static const og_array *gradient_for(const answer *a, const og_grad *grad,
                                    int32_t param) {
  for (int32_t r = 0; r < grad->target_count; ++r)
    for (int32_t i = 0; grad->targets[r] == param && i < a->out.count; ++i)
      if (a->out.role[i] == OG_ROLE_RESULT &&
          a->op->decl->fresh_results[a->out.index[i]] == r)
        return &a->out.array[i];
  return NULL;
}

static void compare_gradients(og_trial *trial, const char *name,
                              const og_array *found, const og_array *wanted) {
  og_verdict verdict = {.differs = false};
  if (found == NULL && wanted == NULL) return;
  if (found == NULL)
    report_reference(trial, name, "%s",
                     "it gets no gradient, but the reference gives it one");
  else if (wanted == NULL)
    report_reference(trial, name, "%s",
                     "it gets a gradient, but the reference gives it none");
  else if (og_arrays_differ(found, wanted, -1, &verdict))
    report_reference(trial, name, "its gradient differs: %s", verdict.text);
}

static void compare_answers(og_trial *trial, const answer *ours,
                            const answer *theirs, const og_grad *their_grad) {
  const og_decl *decl = trial->op->decl;
  if (!ours->has_run || !theirs->has_run) {
    if (ours->has_run != theirs->has_run)
      report_reference(trial, "", "%s",
                       ours->has_run
                           ? "the reference's backward operator refuses"
                           : "the backward operator refuses, but not the "
                             "reference's");
    return;
  }
  for (int32_t p = 0; p < decl->param_count; ++p)
    compare_gradients(trial, decl->params[p].name,
                      gradient_for(ours, &decl->grad, p),
                      gradient_for(theirs, their_grad, p));
}

static void see_gradients(og_trial *trial, const opgraft_op *other) {
  const og_grad *grad = &trial->op->decl->grad;
  const og_grad *their_grad = &other->decl->grad;
  if (grad->kind != OG_GRAD_OPERATOR || their_grad->kind != OG_GRAD_OPERATOR)
    return;
  og_array weight[OG_ARRAYS_MAX] = {{.data = NULL}};
  og_sample theirs_sample = trial->sample;
  theirs_sample.op = other;
  answer ours = {false, NULL, {0}}, theirs = {false, NULL, {0}};
  if (og_weights_draw(&trial->base, trial->sample.seed, OG_WEIGHTS_REFERENCE,
                      weight)) {
    og_saved saved = {&trial->sample, &trial->inputs, &trial->base, weight};
    answer_fill(trial, &saved, &ours);
    saved.sample = &theirs_sample;
    answer_fill(trial, &saved, &theirs);
    compare_answers(trial, &ours, &theirs, their_grad);
  }
  answer_reset(&ours);
  answer_reset(&theirs);
  og_weights_reset(weight);
}

// --- Results -----------------------------------------------------------------

static void compare_results(og_trial *trial, const opgraft_op *other,
                            const og_outputs *out) {
  if (out->count != trial->base.count) {
    report_counts(trial, out->count);
    return;
  }
  const og_verdict verdict =
      og_outputs_compare(trial->op, &trial->base, out, -1);
  ++trial->reference_count;
  if (verdict.differs)
    report_values(trial, &verdict);
  else
    see_gradients(trial, other);
}

// --- The declaration's own expression ----------------------------------------

// What a type cannot hold is not the kernel's fault. Integers stay as they are.
static void array_round(og_array *a, og_dtype type) {
  for (int64_t j = 0; og_is_real(type) && j < a->count; ++j) {
    double *value = (double *)(void *)a->data + j;
    double held = 0;
    og_value_set(type, &held, 0, *value);
    *value = og_value_get(type, &held, 0);
  }
}

static bool wanted_add(const og_trial *trial, int32_t i, og_outputs *wanted) {
  const og_array *found = &trial->base.array[i];
  og_array *to = &wanted->array[i];
  if (!og_reference_eval(&trial->sample, &trial->inputs, trial->base.index[i],
                         &found->sizes, to))
    return false;
  wanted->role[i] = trial->base.role[i];
  wanted->index[i] = trial->base.index[i];
  wanted->count = i + 1;
  return true;
}

// The largest number of a type that rounding goes beyond; 0 of the others.
static double most_of(og_dtype type) {
  return type.code == OG_CODE_F8E4M3                     ? 448
         : type.code == OG_CODE_F8E5M2                   ? 57344
         : type.code == OG_CODE_FLOAT && type.bits == 16 ? OG_HALF_MAX
                                                         : 0;
}

// Whether the type holds the number that is expected, or nearly. A kernel whose
// type saturates, at what is found, is as right as one that overflows.
static bool is_held(og_dtype type, double value, double found) {
  if (og_is_integral(type)) return og_integer_holds(type, value);
  const double most = most_of(type);
  if (most == 0 || !(fabs(value) >= most)) return true;
  return isinf(value) && type.code != OG_CODE_F8E4M3 &&
         !(found * value > 0 && fabs(found) >= most);
}

static bool has_floats(const og_sample *s) {
  for (int32_t t = 0; t < s->op->decl->tensor_count; ++t)
    if (s->is_given[t] && og_is_floating(s->type[t])) return true;
  return false;
}

// What a reference does not judge, besides.
typedef struct leave {
  bool has_ties;  // integers, which may be the places of equal numbers
  // Elements that are equal in both, whatever stood where -inf, inf or NaN is
  // now: a reference that multiplies those by 0 has NaN. NULL: none are.
  const og_outputs *one, *other;
} leave;

static bool is_apart(const leave *l, int32_t i, int64_t j) {
  if (l->one == NULL) return false;
  const og_array *a = &l->one->array[i], *b = &l->other->array[i];
  const size_t bytes = og_dtype_bytes(a->type), at = (size_t)j * bytes;
  return j < a->count && j < b->count &&
         memcmp(a->data + at, b->data + at, bytes) == 0;
}

// What the type of a result cannot hold, a kernel may wrap, cut or overflow.
static void leave_out(const og_outputs *found, og_outputs *wanted,
                      bool has_ties, const leave *l) {
  for (int32_t i = 0; i < wanted->count && i < found->count; ++i) {
    const og_array *a = &found->array[i];
    og_array *b = &wanted->array[i];
    if (og_is_complex(a->type) || !og_dims_equal(&a->sizes, &b->sizes))
      continue;
    for (int64_t j = 0; j < b->count; ++j) {
      double *value = (double *)(void *)b->data + j;
      const double got = og_array_get(a, j);
      if ((has_ties && og_is_integral(a->type)) ||
          !is_held(a->type, *value, got) || is_apart(l, i, j))
        *value = got;
    }
  }
}

static void see_wanted(og_trial *trial, og_outputs *wanted, const leave *l) {
  leave_out(&trial->base, wanted, l->has_ties && has_floats(&trial->sample), l);
  for (int32_t i = 0; i < wanted->count; ++i)
    array_round(&wanted->array[i], trial->base.array[i].type);
  const og_verdict verdict =
      og_outputs_compare(trial->op, &trial->base, wanted, -1);
  ++trial->reference_count;
  if (verdict.differs && !og_is_border(&verdict) && og_trial_is_steady(trial))
    report_values(trial, &verdict);
}

static void see_expression(og_trial *trial, const leave *l) {
  og_outputs *wanted = calloc(1, sizeof *wanted);
  if (wanted == NULL) return;
  bool ok = true;
  for (int32_t i = 0; ok && i < trial->base.count; ++i)
    ok = wanted_add(trial, i, wanted);
  if (ok) see_wanted(trial, wanted, l);
  og_outputs_reset(wanted);
  free(wanted);
}

// --- A function of the host --------------------------------------------------

// The arguments as dense tensors, and what the answer is written to.
typedef struct question {
  og_tensor tensor[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST];
  int64_t strides[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST][OG_SAMPLE_RANK];
  og_tensor *entry[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST];
  const og_tensor *in[OPGRAFT_ARG_MAX];
  og_tensor_list in_list[OPGRAFT_ARG_MAX];
  og_attr attr[OPGRAFT_ATTR_MAX];
  opgraft_reference_array out[OG_ARRAYS_MAX];
} question;

static void question_set(question *q, const og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  const og_sample *s = &trial->sample;
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      if (!og_sample_has(s, t, e)) continue;
      og_array_as_tensor(&trial->inputs.tensor[t][e], q->strides[t][e],
                         &q->tensor[t][e]);
      q->entry[t][e] = &q->tensor[t][e];
    }
    if (!s->is_given[t]) continue;
    if (decl->params[decl->tensor_params[t]].is_list)
      q->in_list[t] = (og_tensor_list){s->list_count[t], q->entry[t]};
    else
      q->in[t] = q->entry[t][0];
  }
  og_sample_attrs(s, q->attr);
}

// The answer in the order of check's own results: fresh ones come first there.
static bool answer_take(const og_trial *trial, const question *q, int32_t count,
                        og_outputs *wanted) {
  const int32_t mutated = trial->op->decl->mutated_count;
  const og_dtype f64 = {OG_CODE_FLOAT, 64, 1};
  int32_t fresh = 0;
  if (count != trial->base.count) return false;
  while (fresh < count && trial->base.role[fresh] == OG_ROLE_RESULT) ++fresh;
  if (count - fresh != mutated) return false;  // lists of mutated ones
  for (int32_t i = 0; i < count; ++i) {
    const opgraft_reference_array *from =
        &q->out[i < fresh ? i + mutated : i - fresh];
    og_array *to = &wanted->array[i];
    og_dims sizes = {.rank = from->rank};
    if (from->rank > OG_SAMPLE_RANK) return false;
    for (int32_t d = 0; d < from->rank; ++d) sizes.size[d] = from->size[d];
    if (!og_array_create(to, f64, &sizes)) return false;
    memcpy(to->data, from->data, (size_t)to->count * sizeof(double));
    wanted->role[i] = trial->base.role[i];
    wanted->index[i] = trial->base.index[i];
    wanted->count = i + 1;
  }
  return true;
}

static void see_answer(og_trial *trial, const question *q, int32_t count,
                       const leave *l) {
  og_outputs *wanted = calloc(1, sizeof *wanted);
  if (wanted == NULL) return;
  if (answer_take(trial, q, count, wanted))
    see_wanted(trial, wanted, l);
  else if (count != trial->base.count)
    report_counts(trial, count);
  og_outputs_reset(wanted);
  free(wanted);
}

static void see_function(og_trial *trial, const leave *l) {
  const opgraft_check_options *options = trial->options;
  question *q = calloc(1, sizeof *q);
  if (q == NULL) return;
  question_set(q, trial);
  const opgraft_reference_call call = {.struct_size = sizeof call,
                                       .out_max = OG_ARRAYS_MAX,
                                       .op = trial->op,
                                       .in = q->in,
                                       .in_list = q->in_list,
                                       .attr = q->attr,
                                       .out = q->out};
  const int32_t count = options->compute(options->compute_state, &call);
  if (count > 0) see_answer(trial, q, count, l);
  for (int32_t i = 0; i < count; ++i) free(q->out[i].data);
  free(q);
}

// --- The probe ---------------------------------------------------------------

static void see_values(og_trial *trial, const leave *l) {
  if (trial->op->decl->reference != NULL && og_is_comparable(trial))
    see_expression(trial, l);
  if (trial->options->compute != NULL && og_is_comparable(trial))
    see_function(trial, l);
}

// What a reference can judge beside the call's own values.
typedef struct other_values {
  og_float_values floats;
  og_int_values ints;
  bool is_long;   // one dim is
  bool has_ties;  // rows are long, or rounded much: numbers in them are equal
} other_values;

// The results with other finite numbers in place of what is special in
// `inputs`.
static bool run_finite(og_trial *trial, const og_sample *s,
                       const og_inputs *inputs, double value, og_outputs *out) {
  og_inputs finite;
  if (!og_inputs_copy(&finite, inputs)) return false;
  for (int32_t t = 0; t < s->op->decl->tensor_count; ++t) {
    og_array *a = &finite.tensor[t][0];
    for (int64_t i = 0;
         a->data != NULL && og_is_floating(a->type) && i < a->count; ++i)
      if (!isfinite(og_array_get(a, i))) og_array_set(a, i, value);
  }
  const bool ran = og_run_quietly(trial, s, &finite, out);
  og_inputs_reset(&finite);
  return ran;
}

// Holds the kernel to the reference on other values, as if they were the
// trial's own.
static void see_others(og_trial *trial, const other_values *values) {
  og_sample s = trial->sample;
  og_inputs inputs;
  og_outputs out;
  if (values->is_long && !og_sample_lengthen(&trial->sample, &trial->base, &s))
    return;
  s.float_values = values->floats;
  s.int_values = values->ints;
  s.seed = og_seed_mix(s.seed, 501);
  if (!og_inputs_fill(&inputs, &s)) return;
  og_tell_shown(&s, &inputs);
  if (!og_run_quietly(trial, &s, &inputs, &out)) {
    og_inputs_reset(&inputs);
    og_tell_shown(&trial->sample, &trial->inputs);
    return;
  }
  og_outputs one = {.count = 0}, other = {.count = 0};
  leave l = {.has_ties = values->has_ties};
  if (values->floats == OG_FLOAT_SPECIAL &&
      run_finite(trial, &s, &inputs, 1.5, &one) &&
      run_finite(trial, &s, &inputs, -2.75, &other) && one.count == other.count)
    l = (leave){l.has_ties, &one, &other};
  const og_sample own_sample = trial->sample;
  const og_inputs own_inputs = trial->inputs;
  const og_outputs own_base = trial->base;
  trial->sample = s;
  trial->inputs = inputs;
  trial->base = out;
  see_values(trial, &l);
  og_outputs_reset(&one);
  og_outputs_reset(&other);
  og_outputs_reset(&trial->base);
  og_inputs_reset(&trial->inputs);
  trial->sample = own_sample;
  trial->inputs = own_inputs;
  trial->base = own_base;
  og_tell_shown(&trial->sample, &trial->inputs);
}

static bool has_float_attr(const og_sample *s) {
  for (int32_t k = 0; k < s->op->decl->attr_count; ++k)
    if (s->attr[k].kind == OG_ATTR_FLOAT || s->attr[k].kind == OG_ATTR_FLOATS)
      return true;
  return false;
}

static bool has_bytes(const og_outputs *out) {
  for (int32_t i = 0; i < out->count; ++i)
    if (og_is_integral(out->array[i].type) && out->array[i].type.bits == 8)
      return true;
  return false;
}

static void see_other_values(og_trial *trial) {
  other_values kinds[5] = {
      {OG_FLOAT_FILLED, OG_INT_FULL, true, true},
      {OG_FLOAT_HALF, OG_INT_SMALL, false, true},
      {OG_FLOAT_SPECIAL, OG_INT_SMALL, false, true},
  };
  uint64_t count = 3;
  if (has_float_attr(&trial->sample))
    kinds[count++] = (other_values){OG_FLOAT_EDGES, OG_INT_SMALL, false, false};
  if (has_floats(&trial->sample) && has_bytes(&trial->base))
    kinds[count++] = (other_values){OG_FLOAT_TIES, OG_INT_SMALL, false, false};
  const uint64_t kind = trial->sample.seed % count;
  const bool has_function = trial->options->compute != NULL;
  if ((!has_function && trial->op->decl->reference == NULL) ||
      !og_is_comparable(trial) || trial->forward != NULL || trial->is_slow)
    return;
  see_others(trial, &kinds[kind]);
}

static void see_module(og_trial *trial) {
  if (trial->options->reference == NULL) return;
  const opgraft_op *other = opgraft_module_find_op(trial->options->reference,
                                                   opgraft_op_name(trial->op));
  if (other == NULL || other->decl->param_count != trial->op->decl->param_count)
    return;
  og_sample s = trial->sample;
  og_outputs out;
  s.op = other;
  const og_ran ran =
      og_trial_run(trial, &s, &trial->inputs, &og_mode_plain, &out);
  if (ran == OG_RAN_REFUSED && trial->has_base)
    report_reference(trial, "", "the reference refuses the call: %s",
                     trial->refusal);
  if (ran != OG_RAN) return;
  if (!trial->has_base)
    report_reference(trial, "", "%s", "the reference takes the call");
  else if (!trial->is_settled && !trial->is_erratic)
    compare_results(trial, other, &out);
  og_outputs_reset(&out);
}

void og_probe_reference(og_trial *trial) {
  see_values(trial, &(leave){.has_ties = false});
  see_other_values(trial);
  see_module(trial);
}
