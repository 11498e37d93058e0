// SPDX-License-Identifier: Apache-2.0
// Calls of backward operators, made the way autograd makes them: the forward
// operator runs, and what it gave and was given becomes their arguments.
//
// Drawn freely, the arguments of a backward operator would contradict each
// other: its shape rule may lean on what the forward operator ensures, and a
// saved index on what it was taken from.

#include "check/run/backward.h"

#include <stdlib.h>
#include <string.h>

#include "check/run/array.h"
#include "check/run/fill.h"
#include "check/run/guard.h"
#include "check/run/trial.h"
#include "check/sample/bind.h"
#include "check/sample/sample.h"
#include "check/sample/value.h"

static bool is_backward_of(const opgraft_op *forward, const opgraft_op *op) {
  const og_grad *grad = &forward->decl->grad;
  return forward != op && grad->kind == OG_GRAD_OPERATOR &&
         strcmp(grad->op_name, op->decl->name) == 0;
}

bool og_is_backward(const opgraft_op *op) {
  for (int32_t i = 0; i < opgraft_module_op_count(op->module); ++i)
    if (is_backward_of(opgraft_module_op(op->module, i), op)) return true;
  return false;
}

const opgraft_op *og_forward_of(const opgraft_op *op, int32_t index) {
  const opgraft_op *found[8];
  int32_t count = 0;
  for (int32_t i = 0; i < opgraft_module_op_count(op->module); ++i) {
    const opgraft_op *other = opgraft_module_op(op->module, i);
    // Of two that are each other's, both stand for themselves.
    if (is_backward_of(other, op) && !is_backward_of(op, other) && count < 8)
      found[count++] = other;
  }
  return count > 0 ? found[index % count] : NULL;
}

// --- Arguments from a forward call -------------------------------------------

bool og_weights_draw(const og_outputs *value, uint64_t seed,
                     og_weights_for purpose, og_array *out) {
  og_random r = {og_seed_mix(seed, (uint64_t)purpose)};
  for (int32_t i = 0; i < value->count; ++i) {
    const og_array *a = &value->array[i];
    if (!og_is_floating(a->type) && !og_is_complex(a->type)) continue;
    if (!og_array_create(&out[i], a->type, &a->sizes)) return false;
    const size_t bytes = og_dtype_bytes(a->type);
    for (int64_t j = 0; j < a->count; ++j)
      for (int32_t p = 0; p < og_parts(a->type); ++p)
        og_value_set(a->type, out[i].data + (size_t)j * bytes, p,
                     og_random_normal(&r));
  }
  return true;
}

void og_weights_reset(og_array *weight) {
  for (int32_t i = 0; i < OG_ARRAYS_MAX; ++i) {
    free(weight[i].data);
    weight[i].data = NULL;
  }
}

typedef struct target {
  og_sample *sample;
  og_inputs *inputs;
} target;

static bool give_array(target *b, int32_t t, int32_t e, const og_array *a) {
  og_array *to = &b->inputs->tensor[t][e];
  if (a->data == NULL) return true;
  if (!og_array_create(to, a->type, &a->sizes)) return false;
  memcpy(to->data, a->data, (size_t)a->count * og_dtype_bytes(a->type));
  b->sample->is_given[t] = true;
  b->sample->type[t] = a->type;
  b->sample->shape[t][e] = a->sizes;
  if (b->sample->list_count[t] <= e) b->sample->list_count[t] = e + 1;
  return true;
}

bool og_is_result(const og_decl *decl, const og_outputs *out, int32_t i,
                  int32_t result) {
  return out->role[i] == OG_ROLE_RESULT
             ? decl->fresh_results[out->index[i]] == result
             : decl->tensor_params[out->index[i]] ==
                   decl->results[result].alias_param;
}

static bool give_results(const og_saved *s, target *b, int32_t t,
                         const opgraft_grad_arg *arg) {
  const og_decl *decl = s->sample->op->decl;
  const bool is_grad = arg->source == OPGRAFT_GRAD_OF_RESULT;
  int32_t entry = 0;
  for (int32_t i = 0; i < s->value->count; ++i) {
    if (!og_is_result(decl, s->value, i, arg->index)) continue;
    const og_array *a = is_grad ? &s->weight[i] : &s->value->array[i];
    if (a->data == NULL || entry == OG_SAMPLE_LIST ||
        !give_array(b, t, entry++, a))
      return false;
  }
  return true;
}

static bool give_tensor(const og_saved *s, target *b, int32_t t,
                        const opgraft_grad_arg *arg) {
  if (arg->source != OPGRAFT_GRAD_PARAM) return give_results(s, b, t, arg);
  const int32_t from = s->sample->op->decl->params[arg->index].index;
  b->sample->is_given[t] = s->sample->is_given[from];
  b->sample->list_count[t] = s->sample->list_count[from];
  b->sample->absent[t] = s->sample->absent[from];
  for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e)
    if (!give_array(b, t, e, &s->inputs->tensor[from][e])) return false;
  return true;
}

static void give_attr(const og_saved *s, og_sample *b, int32_t k,
                      int32_t from) {
  b->attr[k] = s->sample->attr[from];
  memcpy(b->ints[k], s->sample->ints[from], sizeof b->ints[k]);
  memcpy(b->floats[k], s->sample->floats[from], sizeof b->floats[k]);
}

bool og_backward_fill(const og_saved *s, const opgraft_op *op,
                      og_sample *out_sample, og_inputs *out_inputs) {
  const og_decl *forward = s->sample->op->decl;
  const og_grad *grad = &forward->grad;
  target b = {out_sample, out_inputs};
  memset(out_sample, 0, sizeof *out_sample);
  memset(out_inputs, 0, sizeof *out_inputs);
  out_sample->op = op;
  for (int32_t i = 0; i < op->decl->param_count; ++i) {
    const og_param *param = &op->decl->params[i];
    const opgraft_grad_arg *arg = i < grad->arg_count ? &grad->args[i] : NULL;
    bool ok = true;
    if (arg == NULL && param->type != OG_TYPE_TENSOR)
      out_sample->attr[param->index] = param->default_value;
    else if (arg != NULL && param->type == OG_TYPE_TENSOR)
      ok = give_tensor(s, &b, param->index, arg);
    else if (arg != NULL && arg->source == OPGRAFT_GRAD_NEEDS)
      out_sample->attr[param->index] = (og_attr){.kind = OG_ATTR_BOOL, .i = 1};
    else if (arg != NULL)
      give_attr(s, out_sample, param->index, forward->params[arg->index].index);
    if (!ok) {
      og_inputs_reset(out_inputs);
      return false;
    }
  }
  return true;
}

// --- Values of a trial -------------------------------------------------------

static bool derive(og_trial *trial, const og_sample *wanted, og_sample *sample,
                   og_inputs *inputs) {
  og_sample *f = malloc(sizeof *f);
  og_inputs given;
  og_outputs value;
  og_array weight[OG_ARRAYS_MAX] = {{.data = NULL}};
  bool ok = false;
  if (f == NULL) return false;
  *f = trial->forward_sample;
  f->seed = wanted->seed;
  f->index_values = wanted->index_values;
  f->float_values = wanted->float_values;
  if (og_inputs_fill(&given, f)) {
    og_mode mode = og_mode_plain;
    mode.is_quiet = true;
    if (og_trial_run(trial, f, &given, &mode, &value) == OG_RAN) {
      const og_saved saved = {f, &given, &value, weight};
      ok = og_weights_draw(&value, f->seed, OG_WEIGHTS_ARGUMENT, weight) &&
           og_backward_fill(&saved, trial->op, sample, inputs);
      og_outputs_reset(&value);
    }
    og_inputs_reset(&given);
  }
  og_weights_reset(weight);
  free(f);
  return ok;
}

bool og_trial_fill(og_trial *trial, const og_sample *sample,
                   og_inputs *inputs) {
  if (trial->forward == NULL) return og_inputs_fill(inputs, sample);
  og_sample *derived = malloc(sizeof *derived);
  bool ok = derived != NULL && derive(trial, sample, derived, inputs);
  // A saved result whose size depends on the values may have another size.
  for (int32_t t = 0; ok && t < sample->op->decl->tensor_count; ++t)
    for (int32_t e = 0; ok && e < OG_SAMPLE_LIST; ++e)
      if (!og_dims_equal(&derived->shape[t][e], &sample->shape[t][e])) {
        og_inputs_reset(inputs);
        ok = false;
      }
  free(derived);
  return ok && og_inputs_convert(inputs, sample);
}

bool og_trial_derive(og_trial *trial) {
  static const og_float_values floats[] = {OG_FLOAT_NORMAL, OG_FLOAT_UNIT};
  og_sample wanted = trial->forward_sample;
  for (int32_t i = 0; i < 2 * OG_INDEX_COUNT; ++i) {
    if (i > 0) {
      wanted.index_values = (og_index_values)(i % OG_INDEX_COUNT);
      wanted.float_values = floats[i / OG_INDEX_COUNT];
    }
    og_inputs_reset(&trial->inputs);
    if (!derive(trial, &wanted, &trial->sample, &trial->inputs)) continue;
    trial->sample.seed = wanted.seed;
    trial->sample.index_values = wanted.index_values;
    trial->sample.float_values = wanted.float_values;
    return og_sample_bind(&trial->sample);
  }
  return false;
}
