// SPDX-License-Identifier: Apache-2.0
// A float argument that has an effect at some sizes of a dim only.
//
// A kernel with two paths may forget an argument in one of them. Where other
// values of it change nothing at any size up to some border, with small and
// large tensors, and change something at every size above it (or the reverse),
// one of the paths does not use it.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/probe/steady.h"
#include "check/probe/sweep.h"
#include "check/probe/table.h"
#include "check/run/array.h"
#include "check/run/compare.h"
#include "check/run/fill.h"
#include "check/run/record.h"
#include "check/run/shown.h"
#include "check/run/trial.h"
#include "check/sample/sample.h"
#include "check/sample/valid.h"
#include "check/sample/value.h"

static const int32_t sizes[] = {3,  4,   5,   7,   8,   9,  12, 16,
                                17, 24,  31,  32,  33,  48, 64, 65,
                                96, 128, 129, 160, 256, 257};
enum {
  SIZE_COUNT = sizeof sizes / sizeof *sizes,
  ELEMENT_LIMIT = 1 << 14,
  SIDE_MIN = 4,   // sizes on each side of the border
  LARGE_MIN = 8,  // sizes from it on are large
  LARGE_SIDE = 3,
  TRIES_AGAIN = 4,
};

typedef struct effect {
  og_trial *trial;
  int32_t dim;
  int32_t attr;
  bool has_effect[SIZE_COUNT];
  bool is_known[SIZE_COUNT];
  og_sample sample;   // of the size that is tried
  og_sample without;  // the last one without an effect
} effect;

// Other values: near the first, and far from it on both sides.
static double other_value(double value, int32_t which) {
  if (which == 0) return 2 * value + 0.5;
  return which == 1 ? value / 4 + 0.0625 : 8 * value + 3;
}
enum { OTHERS = 3 };

static void scale_floats(og_inputs *inputs, double scale) {
  for (int32_t t = 0; t < OPGRAFT_ARG_MAX; ++t) {
    og_array *a = &inputs->tensor[t][0];
    for (int64_t i = 0;
         a->data != NULL && og_is_floating(a->type) && i < a->count; ++i)
      og_array_set(a, i, scale * og_array_get(a, i));
  }
}

// Whether another value changes the result; *out_ran: whether one was taken.
static bool changes(const effect *e, const og_inputs *inputs, bool *out_ran) {
  og_outputs base, other;
  bool differs = false;
  if (!og_run_quietly(e->trial, &e->sample, inputs, &base)) return false;
  for (int32_t i = 0; i < OTHERS && !differs; ++i) {
    og_sample s = e->sample;
    opgraft_error error;
    s.attr[e->attr].f = other_value(s.attr[e->attr].f, i);
    if (!og_sample_is_valid(&s, ELEMENT_LIMIT, &error) ||
        !og_run_quietly(e->trial, &s, inputs, &other))
      continue;
    *out_ran = true;
    differs = og_outputs_compare(e->trial->op, &other, &base, 0).differs;
    og_outputs_reset(&other);
  }
  og_outputs_reset(&base);
  return differs;
}

// With numbers of about 1, small ones, and large ones.
static bool has_effect(effect *e, bool *out_ran) {
  static const double scales[] = {1, 0.01, 1e4};
  og_inputs inputs;
  bool differs = false;
  *out_ran = false;
  if (!og_inputs_fill(&inputs, &e->sample)) return false;
  og_tell_shown(&e->sample, NULL);  // of a crash
  for (size_t i = 0; i < sizeof scales / sizeof *scales && !differs; ++i) {
    scale_floats(&inputs, scales[i]);
    differs = changes(e, &inputs, out_ran);
  }
  og_inputs_reset(&inputs);
  return differs;
}

static bool set_size(effect *e, int32_t size, uint64_t salt) {
  opgraft_error error;
  e->sample = e->trial->sample;
  e->sample.dim[e->dim] = size;
  e->sample.float_values = OG_FLOAT_NORMAL;
  e->sample.seed = og_seed_mix(e->trial->sample.seed, salt);
  return og_sample_is_valid(&e->sample, ELEMENT_LIMIT, &error) &&
         e->sample.dim[e->dim] == size;
}

static void try_sizes(effect *e, int64_t beyond) {
  for (int32_t i = 0; i < SIZE_COUNT; ++i) {
    e->is_known[i] = false;
    if (sizes[i] <= beyond || !set_size(e, sizes[i], (uint64_t)sizes[i]))
      continue;
    e->has_effect[i] = has_effect(e, &e->is_known[i]);
    if (e->is_known[i] && !e->has_effect[i]) e->without = e->sample;
  }
}

// How many sizes from `begin` to before `end` are known; -1 if one of them is
// not as `wanted`.
static int32_t count_side(const effect *e, int32_t begin, int32_t end,
                          bool wanted) {
  int32_t count = 0, large = 0;
  for (int32_t i = begin; i < end; ++i) {
    if (!e->is_known[i]) continue;
    if (e->has_effect[i] != wanted) return -1;
    ++count;
    large += sizes[i] >= LARGE_MIN;
  }
  return large >= LARGE_SIDE ? count : 0;
}

// The first size of the other side; -1: there are no two sides.
static int32_t find_border(const effect *e) {
  for (int32_t i = 1; i < SIZE_COUNT; ++i)
    for (int32_t above = 0; above < 2; ++above)
      if (count_side(e, 0, i, above == 0) >= SIDE_MIN &&
          count_side(e, i, SIZE_COUNT, above != 0) >= SIDE_MIN)
        return i;
  return -1;
}

// Whether each size without an effect has none with other values either.
static bool is_again_without(effect *e) {
  for (int32_t i = 0; i < SIZE_COUNT; ++i)
    for (uint64_t k = 0; k < TRIES_AGAIN; ++k) {
      bool ran;
      if (!e->is_known[i] || e->has_effect[i]) continue;
      if (!set_size(e, sizes[i], 0x4000 + (uint64_t)sizes[i] * 16 + k) ||
          has_effect(e, &ran))
        return false;
    }
  return true;
}

static void write_side(const effect *e, bool wanted, char *out, size_t size) {
  enum { SHOWN = 4 };
  size_t used = 0;
  int32_t count = 0;
  for (int32_t i = 0; i < SIZE_COUNT && count < SHOWN && used < size; ++i) {
    if (!e->is_known[i] || e->has_effect[i] != wanted) continue;
    used += (size_t)snprintf(out + used, size - used, "%s%d",
                             count > 0 ? ", " : "", (int)sizes[i]);
    ++count;
  }
}

static void report(const effect *e) {
  const og_decl *decl = e->trial->op->decl;
  const char *name = "", *dim = decl->dims[e->dim].name;
  char with[64] = "", without[64] = "";
  for (int32_t p = 0; p < decl->param_count; ++p)
    if (decl->params[p].type == OG_TYPE_FLOAT &&
        decl->params[p].index == e->attr)
      name = decl->params[p].name;
  write_side(e, true, with, sizeof with);
  write_side(e, false, without, sizeof without);
  og_tell_shown(&e->without, NULL);
  og_tell_finding(e->trial->op, OPGRAFT_SIZE_DEPENDENT, false, name,
                  "another value of it changes the result for %s = %s ..., but "
                  "nothing for %s = %s ...",
                  dim, with, dim, without);
}

// A float argument, in the next call another one; -1: there is none.
static int32_t choose_attr(const og_trial *trial) {
  int32_t found[OPGRAFT_ATTR_MAX], count = 0;
  for (int32_t k = 0; k < trial->op->decl->attr_count; ++k)
    if (trial->sample.attr[k].kind == OG_ATTR_FLOAT) found[count++] = k;
  return count > 0 ? found[trial->sample.seed / 5 % (uint64_t)count] : -1;
}

void og_probe_effect(og_trial *trial) {
  const int32_t d = og_may_sweep(trial) ? og_sweep_dim(trial) : -1;
  const int32_t k = choose_attr(trial);
  if (d < 0 || k < 0) return;
  effect *e = calloc(1, sizeof *e);
  if (e == NULL) return;
  e->trial = trial;
  e->dim = d;
  e->attr = k;
  try_sizes(e, og_largest_int(&trial->sample));
  if (find_border(e) >= 0 && is_again_without(e) && og_trial_is_steady(trial))
    report(e);
  og_tell_shown(&trial->sample, &trial->inputs);
  free(e);
}
