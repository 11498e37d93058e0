// SPDX-License-Identifier: Apache-2.0
// Probes against a reference module: equal calls, equal results, and equal
// gradients where both have a backward operator.

#include <stdlib.h>

#include "check/probe/table.h"
#include "check/run/array.h"
#include "check/run/backward.h"
#include "check/run/compare.h"
#include "check/run/guard.h"
#include "check/run/record.h"
#include "check/run/trial.h"
#include "check/sample/sample.h"
#include "check/sample/value.h"

static void report_reference(og_trial *trial, const char *name,
                             const char *format, const char *text) {
  og_tell_finding(trial->op, OPGRAFT_DIFFERS_FROM_REFERENCE, false, name,
                  format, text);
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
  og_mode mode = og_mode_plain;
  mode.is_quiet = true;
  out->has_run = false;
  out->op = opgraft_module_find_op(op->module, op->decl->grad.op_name);
  og_sample *b = malloc(sizeof *b);
  if (b == NULL || out->op == NULL) goto done;
  if (!og_backward_fill(saved, out->op, b, &inputs)) goto done;
  out->has_run = og_trial_run(trial, b, &inputs, &mode, &out->out) == OG_RAN;
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

static bool gradients_differ(const og_array *x, const og_array *y) {
  if (x == NULL || y == NULL) return x != y;
  if (!og_dims_equal(&x->sizes, &y->sizes)) return true;
  const double a = og_value_slack(x->type), b = og_value_slack(y->type);
  return og_compare_near(x->type, x->data, y->type, y->data, x->count,
                         a > b ? a : b)
             .count > 0;
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
    if (gradients_differ(gradient_for(ours, &decl->grad, p),
                         gradient_for(theirs, their_grad, p)))
      report_reference(trial, decl->params[p].name, "%s",
                       "the reference gives it another gradient");
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
    report_reference(trial, "", "%s", "the reference has other results");
    return;
  }
  const og_verdict verdict =
      og_outputs_compare(trial->op, &trial->base, out, -1);
  if (verdict.differs)
    report_reference(trial, verdict.name, "%s", verdict.text);
  else
    see_gradients(trial, other);
}

void og_probe_reference(og_trial *trial) {
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
