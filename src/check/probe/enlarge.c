// SPDX-License-Identifier: Apache-2.0
// Probes of larger calls than the sampled ones: a long dim, and loops that are
// cut into shares only when they are long.

#include "check/probe/enlarge.h"

#include <stdlib.h>

#include "check/probe/steady.h"
#include "check/probe/table.h"
#include "check/run/array.h"
#include "check/run/fill.h"
#include "check/run/shown.h"
#include "check/run/trial.h"
#include "check/sample/sample.h"
#include "check/sample/valid.h"

bool og_trial_take(og_trial *trial, const og_sample *sample,
                   og_held *out_held) {
  og_inputs inputs;
  og_outputs base;
  if (!og_inputs_fill(&inputs, sample)) return false;
  og_tell_shown(sample, NULL);  // of a crash
  if (og_trial_run(trial, sample, &inputs, &og_mode_plain, &base) != OG_RAN) {
    og_inputs_reset(&inputs);
    return false;
  }
  out_held->sample = trial->sample;
  out_held->inputs = trial->inputs;
  out_held->base = trial->base;
  trial->sample = *sample;
  trial->inputs = inputs;
  trial->base = base;
  return true;
}

void og_trial_restore(og_trial *trial, og_held *held) {
  og_inputs_reset(&trial->inputs);
  og_outputs_reset(&trial->base);
  trial->sample = held->sample;
  trial->inputs = held->inputs;
  trial->base = held->base;
}

enum { LARGER_MAX = 1 << 17, ELEMENT_LIMIT = 1 << 16 };

// The call with dim or pack d `factor` times as large; false where it cannot
// be, or d has more places than the loop: it is not what the loop counts, and
// what is quadratic in it would take long.
static bool grown(const og_sample *s, int32_t d, int64_t factor, int64_t total,
                  og_sample *out) {
  opgraft_error error;
  const bool is_pack = s->op->decl->dims[d].kind == OG_DIM_PACK;
  *out = *s;
  if (is_pack && s->pack[d].rank == 0) return false;
  int64_t *size = is_pack ? &out->pack[d].size[0] : &out->dim[d];
  const int64_t now = *size, wanted = now * factor;
  if (now <= 0 || now > total || wanted > LARGER_MAX) return false;
  *size = wanted;
  return og_sample_is_valid(out, ELEMENT_LIMIT, &error) &&
         (is_pack ? out->pack[d].size[0] : out->dim[d]) == wanted;
}

bool og_trial_enlarge(og_trial *trial, int64_t factor, og_held *out_held) {
  const og_decl *decl = trial->op->decl;
  const int64_t total = trial->share_total;
  for (int32_t d = 0; d < decl->dim_count; ++d) {
    og_sample larger;
    if ((decl->dims[d].kind != OG_DIM_SIZE &&
         decl->dims[d].kind != OG_DIM_PACK) ||
        !grown(&trial->sample, d, factor, total, &larger) ||
        !og_trial_take(trial, &larger, out_held))
      continue;
    if (trial->share_total > total) return true;
    og_trial_restore(trial, out_held);
  }
  return false;
}

// --- A long dim --------------------------------------------------------------

static const int32_t long_sizes[] = {1100, 2100, 4200};

// Where local arrays of a fixed size end. What is compared is whether all of
// the result is written; other probes look at sums of long rows.
void og_probe_long(og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  if (!og_is_comparable(trial) || trial->forward != NULL ||
      decl->record->sample != NULL)
    return;
  for (int32_t d = 0; d < decl->dim_count; ++d)
    for (size_t i = 0; i < sizeof long_sizes / sizeof *long_sizes; ++i) {
      og_sample s = trial->sample;
      opgraft_error error;
      og_held held;
      s.dim[d] = long_sizes[i];
      if (decl->dims[d].kind != OG_DIM_SIZE ||
          !og_sample_is_valid(&s, ELEMENT_LIMIT, &error) ||
          s.dim[d] != long_sizes[i] || !og_trial_take(trial, &s, &held))
        continue;
      og_tell_shown(&trial->sample, &trial->inputs);
      og_probe_poison(trial);
      og_trial_restore(trial, &held);
    }
  og_tell_shown(&trial->sample, &trial->inputs);
}
