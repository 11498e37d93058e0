// SPDX-License-Identifier: Apache-2.0
// Elements at the ends of an argument that nothing depends on, where others
// have an effect: a loop that begins or ends too late.

#include <string.h>

#include "check/derive.h"
#include "check/probe.h"
#include "check/value.h"

enum { COUNT_MIN = 3 };  // a first, a last, and one between

typedef struct place {
  int32_t tensor;
  int32_t entry;
  int64_t element;
} place;

static char *at(const og_array *a, int64_t element) {
  return a->data + (size_t)element * og_dtype_bytes(a->type);
}

// Another value, of the other sign and not small.
static double other_than(double value) {
  return value < 0 ? 1.5 - value : -1.5 - value;
}

// The argument's own result, where the kernel writes it.
static og_array *result_of(og_outputs *out, const place *p) {
  for (int32_t i = 0; i < out->count; ++i)
    if (out->role[i] == OG_BUFFER_MUTATED && out->index[i] == p->tensor &&
        out->entry[i] == p->entry)
      return &out->array[i];
  return NULL;
}

static bool is_written(og_trial *trial, const place *p) {
  const og_array *in = &trial->inputs.tensor[p->tensor][p->entry];
  const og_array *out = result_of(&trial->base, p);
  return out != NULL && out->count == in->count &&
         memcmp(at(in, p->element), at(out, p->element),
                og_dtype_bytes(in->type)) != 0;
}

// Whether another value there changes anything but the element itself.
static og_ran changes_results(og_trial *trial, const place *p, bool *out) {
  og_inputs inputs;
  og_outputs got;
  og_mode mode = og_mode_plain;
  mode.is_quiet = true;
  if (!og_inputs_copy(&inputs, &trial->inputs)) return OG_RAN_FAILED;
  const og_array *a = &inputs.tensor[p->tensor][p->entry];
  char *element = at(a, p->element);
  og_value_set(a->type, element, 0,
               other_than(og_value_get(a->type, element, 0)));
  const og_ran ran = og_trial_run(trial, &trial->sample, &inputs, &mode, &got);
  if (ran == OG_RAN) {
    const og_array *own = result_of(&got, p);
    const og_array *base = result_of(&trial->base, p);
    if (own != NULL && base != NULL && own->count == base->count &&
        memcmp(at(own, p->element), element, og_dtype_bytes(a->type)) == 0)
      memcpy(at(own, p->element), at(base, p->element),
             og_dtype_bytes(a->type));
    *out = og_outputs_compare(trial->op, &got, &trial->base, 0).differs;
    og_outputs_reset(&got);
  }
  og_inputs_reset(&inputs);
  return ran;
}

static void try_ends(og_trial *trial, int32_t tensor, int32_t entry) {
  const og_array *a = &trial->inputs.tensor[tensor][entry];
  og_random r = {og_seed_mix(trial->sample.seed, (uint64_t)tensor + 1)};
  const int64_t element[OG_END_COUNT] = {
      [OG_END_FIRST] = 0,
      [OG_END_NONE] = og_random_between(&r, 1, a->count - 2),
      [OG_END_LAST] = a->count - 1};
  uint32_t used = 0;
  for (int32_t e = 0; e < OG_END_COUNT; ++e) {
    const place p = {tensor, entry, element[e]};
    bool is_used = is_written(trial, &p);
    if (!is_used && changes_results(trial, &p, &is_used) != OG_RAN) return;
    used |= (uint32_t)is_used << e;
  }
  const og_decl *decl = trial->op->decl;
  og_trial_tell_ends(trial, decl->params[decl->tensor_params[tensor]].name,
                     used);
}

void og_probe_ends(og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  if (!og_is_comparable(trial) || trial->forward != NULL) return;
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      const og_array *a = &trial->inputs.tensor[t][e];
      if (a->data == NULL || a->count < COUNT_MIN || !og_is_floating(a->type))
        continue;
      try_ends(trial, t, e);
      break;  // the entries of a list are alike
    }
}
