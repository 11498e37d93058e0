// SPDX-License-Identifier: Apache-2.0
// What a child does: draws calls, runs them, and tries the probes on each.

#include "check/probe/trials.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check/probe/state.h"
#include "check/probe/table.h"
#include "check/run/array.h"
#include "check/run/backward.h"
#include "check/run/device.h"
#include "check/run/limits.h"
#include "check/run/record.h"
#include "check/run/shown.h"
#include "check/run/trial.h"
#include "check/sample/draw.h"
#include "check/sample/randomize.h"
#include "check/sample/sample.h"
#include "check/sample/shrink.h"
#include "check/sample/types.h"
#include "check/sample/valid.h"
#include "check/sample/value.h"

static og_profile profile_of(int32_t index) {
  static const og_profile profiles[] = {
      OG_PROFILE_TINY,  OG_PROFILE_SMOOTH, OG_PROFILE_ZERO, OG_PROFILE_ONES,
      OG_PROFILE_MIXED, OG_PROFILE_SMOOTH, OG_PROFILE_EDGE, OG_PROFILE_MIXED,
      OG_PROFILE_EDGE,  OG_PROFILE_LARGE,
  };
  if (index > 0 && index % 10 == 0) return OG_PROFILE_ZERO;
  return profiles[index % 10];
}

static og_float_values floats_of(int32_t index) {
  if (index % 13 == 12) return OG_FLOAT_ZERO;
  if (index % 11 == 10) return OG_FLOAT_WIDE;
  return index % 9 == 8 ? OG_FLOAT_POSITIVE : OG_FLOAT_NORMAL;
}

static uint64_t name_seed(const char *name) {
  uint64_t seed = 14695981039346656037u;
  for (; *name != '\0'; ++name)
    seed = (seed ^ (unsigned char)*name) * 1099511628211u;
  return seed;
}

static bool call_draw(const opgraft_op *op, int32_t device,
                      const opgraft_check_options *options, int32_t index,
                      og_sample *out, opgraft_error *error) {
  enum { COMBINATIONS = 24 };
  int32_t types[COMBINATIONS][OG_VARIABLE_MAX];
  const int32_t count = og_sample_device_types(op, device, COMBINATIONS, types);
  if (count == 0) {
    og_error_set(error, OG_UNSUPPORTED, op->decl->name, NULL,
                 device == OG_CPU
                     ? "it has no kernel for this machine's processor"
                     : "it has no kernel for this device");
    return false;
  }
  const uint64_t seed =
      og_seed_mix(options->seed ^ name_seed(op->decl->name), (uint64_t)index);
  if (!og_sample_draw(op, profile_of(index),
                      types[(index + index / 10) % count], seed, out, error))
    return false;
  out->float_values = floats_of(index);
  out->int_values = index % 2 == 1 ? OG_INT_FULL : OG_INT_SMALL;
  if (index % 4 == 3) out->index_values = OG_INDEX_DISTINCT;
  return true;
}

// Where calls of the operator are drawn for: the device, where it has a kernel
// for it, as its backward operator may be all that has one.
static int32_t device_for(const og_trial *trial, const opgraft_op *op) {
  int32_t types[1][OG_VARIABLE_MAX];
  if (trial->device == NULL) return OG_CPU;
  const int32_t type = trial->device->type;
  return op == trial->op || og_sample_device_types(op, type, 1, types) > 0
             ? type
             : OG_CPU;
}

// Draws the call, or the forward call that it follows from.
static bool draw(og_trial *trial, const og_job *job, int32_t index,
                 opgraft_error *error) {
  trial->op = job->op;
  trial->options = job->options;
  trial->forward = og_forward_of(job->op, index);
  const opgraft_op *op = trial->forward != NULL ? trial->forward : job->op;
  return call_draw(
      op, device_for(trial, op), job->options, index,
      trial->forward != NULL ? &trial->forward_sample : &trial->sample, error);
}

// Once its values are there a derived call has shapes.
static bool settle_call(og_trial *trial, opgraft_error *error) {
  if (trial->forward == NULL || og_trial_derive(trial)) return true;
  og_error_set(error, OG_KERNEL, trial->op->decl->name, NULL,
               "%s gives it nothing to work on: %s", trial->forward->decl->name,
               trial->refusal);
  return false;
}

static void send_undrawn(const og_job *job, int32_t index,
                         const opgraft_error *error) {
  og_record record = {
      .kind = OG_RECORD_UNDRAWN, .op = job->op, .undrawn = {.index = index}};
  snprintf(record.undrawn.why, sizeof record.undrawn.why, "%.400s",
           error->text);
  og_record_send(&record);
}

// The only argument that is absent, an empty list, or one with holes.
static void name_missing(const og_sample *s, char *out, size_t size) {
  const og_decl *decl = s->op->decl;
  int32_t found = 0;
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    if (s->is_given[t] && s->list_count[t] > 0 && s->absent[t] == 0) continue;
    snprintf(out, size, "%.63s", decl->params[decl->tensor_params[t]].name);
    ++found;
  }
  if (found != 1) out[0] = '\0';
}

static void send_call(const og_trial *trial, og_record_kind kind, int32_t index,
                      int32_t step) {
  og_record record = {.kind = kind, .op = trial->op};
  og_record_call *call = &record.call;
  og_text text = {0};
  call->index = index;
  call->step = step;
  call->numel = og_sample_numel(&trial->sample);
  call->has_index_hazard =
      trial->forward == NULL && og_sample_has_index_hazard(&trial->sample);
  og_shown_write(&trial->sample, NULL, &text);
  snprintf(call->text, sizeof call->text, "%s",
           text.data != NULL ? text.data : "");
  if (trial->op->decl->tensor_count > 0)
    snprintf(call->type, sizeof call->type, "%s",
             og_dtype_name(trial->sample.type[0]));
  og_text_reset(&text);
  name_missing(&trial->sample, call->missing, sizeof call->missing);
  og_record_send(&record);
}

// A kernel that refuses a word often says which ones it takes, in quotes.
static void learn_words(og_trial *trial) {
  const char *at = trial->refusal;
  while (trial->word_count < OG_WORDS_MAX && (at = strchr(at, '"')) != NULL) {
    const char *end = strchr(++at, '"');
    if (end == NULL) return;
    char *word = trial->word[trial->word_count];
    const size_t length = (size_t)(end - at);
    bool is_known = length >= sizeof trial->word[0];
    for (int32_t i = 0; i < trial->word_count && !is_known; ++i)
      is_known = strncmp(trial->word[i], at, length) == 0 &&
                 trial->word[i][length] == '\0';
    if (!is_known) {
      memcpy(word, at, length);
      word[length] = '\0';
      ++trial->word_count;
    }
    at = end + 1;
  }
}

// The default, or a number of which no kernel is afraid, where `.where` says
// nothing of it.
static void change_float(og_attr *a, const og_param *param, uint64_t salt) {
  if (a->kind != OG_ATTR_FLOAT) return;
  a->f = param->has_default && salt % 2 == 1 &&
                 param->default_value.kind == OG_ATTR_FLOAT
             ? param->default_value.f
             : 1 / (double)salt;
}

// Words for string arguments: the default, or one that was learnt. Numbers for
// floats.
static void change_attrs(og_trial *trial, uint64_t salt) {
  og_random r = {og_seed_mix(trial->sample.seed, salt)};
  const og_decl *decl = trial->op->decl;
  for (int32_t p = 0; p < decl->param_count; ++p) {
    const og_param *param = &decl->params[p];
    if (param->type == OG_TYPE_TENSOR || param->is_list) continue;
    og_attr *a = &trial->sample.attr[param->index];
    change_float(a, param, salt);
    if (param->type != OG_TYPE_STR) continue;
    if (param->has_default && (salt % 2 == 1 || trial->word_count == 0)) {
      *a = param->default_value;
    } else if (trial->word_count > 0) {
      a->kind = OG_ATTR_STR;
      a->s = trial->word[og_random_below(&r, trial->word_count)];
      a->count = (int64_t)strlen(a->s);
    }
  }
}

// Values that the kernel takes: other kinds of indices and numbers are tried
// before it is said to refuse the call.
static og_ran run_base(og_trial *trial) {
  og_ran ran = OG_RAN_FAILED;
  for (int32_t i = 0; i < 2 * OG_INDEX_COUNT; ++i) {
    if (i > 0) {
      learn_words(trial);
      change_attrs(trial, (uint64_t)i);
      trial->sample.index_values =
          (og_index_values)((trial->sample.index_values + 1) % OG_INDEX_COUNT);
    }
    if (i == OG_INDEX_COUNT) trial->sample.float_values = OG_FLOAT_UNIT;
    if (i > 0 || trial->forward == NULL) {
      og_inputs_reset(&trial->inputs);
      if (!og_trial_fill(trial, &trial->sample, &trial->inputs)) continue;
    }
    og_tell_shown(&trial->sample, &trial->inputs);
    ran = og_trial_run(trial, &trial->sample, &trial->inputs, &og_mode_plain,
                       &trial->base);
    if (ran != OG_RAN_REFUSED) return ran;
  }
  return ran;
}

enum { SLOW_MS = 4 };

static bool is_slow_since(clock_t begin) {
  return (clock() - begin) * 1000 / CLOCKS_PER_SEC >= SLOW_MS;
}

// Whether the base run takes long, not its first touch of memory or its search
// for values. What is run again for that is not counted.
static bool is_slow_again(og_trial *trial) {
  const int32_t runs = trial->run_count;
  int32_t layouts[sizeof trial->layout_count / sizeof(int32_t)];
  memcpy(layouts, trial->layout_count, sizeof layouts);
  const clock_t begin = clock();
  run_base(trial);
  memcpy(trial->layout_count, layouts, sizeof layouts);
  trial->run_count = runs;
  return is_slow_since(begin);
}

static og_ran begin_trial(og_trial *trial, const og_job *job) {
  const clock_t begin = clock();
  const og_ran ran = run_base(trial);
  trial->has_base = ran == OG_RAN;
  trial->is_slow =
      trial->has_base && is_slow_since(begin) && is_slow_again(trial);
  if (ran != OG_RAN_REFUSED) return ran;
  og_record record = {.kind = OG_RECORD_REFUSED,
                      .op = job->op,
                      .refusal = {.status = trial->refusal_status}};
  snprintf(record.refusal.text, sizeof record.refusal.text, "%s",
           trial->refusal);
  og_record_send(&record);
  return ran;
}

static void end_trial(og_trial *trial) {
  og_inputs_reset(&trial->inputs);
  og_outputs_reset(&trial->base);
  trial->has_base = false;
}

static bool is_wanted(const og_job *job, const og_trial *trial, int32_t probe,
                      int32_t index) {
  if (job->is_shrinking)
    return probe == job->probe ||
           (probe == OG_PROBE_poison_ && job->probe != OG_PROBE_repeat_);
  if (job->disabled >> probe & 1) return false;
  if (trial->device != NULL && (og_probes[probe].flags & OG_PROBE_HOST))
    return false;
  if (job->options->probe != NULL)
    return strcmp(job->options->probe, og_probes[probe].name) == 0;
  if (og_probes[probe].flags & OG_PROBE_ASKED) return false;
  if (trial->is_slow && !(og_probes[probe].flags & OG_PROBE_SLOW)) return false;
  return (index * 7 + probe) % 10 < og_probes[probe].calls_of_ten;
}

static void send_probe(int32_t probe) {
  og_record record = {.kind = OG_RECORD_PROBE, .probe = probe};
  og_record_send(&record);
}

static void run_probes(og_trial *trial, const og_job *job, int32_t index,
                       int32_t begin) {
  for (int32_t p = begin; p < OG_PROBE_COUNT; ++p) {
    if (!is_wanted(job, trial, p, index)) continue;
    send_probe(p);
    og_limits_arm(job->op);
    og_probes[p].run(trial);
  }
}

// What else takes the call: a reference, and the CPU where a device refuses.
static void see_refused(og_trial *trial) {
  if (trial->device != NULL) og_probe_kernels(trial);
  og_probe_reference(trial);
}

static void run_trial(og_trial *trial, const og_job *job, int32_t index,
                      int32_t begin) {
  const int32_t runs = trial->run_count;
  send_probe(OG_PROBE_base_);
  const og_ran ran = begin_trial(trial, job);
  if (ran == OG_RAN || ran == OG_RAN_WRONG)
    run_probes(trial, job, index, begin > 1 ? begin : 1);
  else if (ran == OG_RAN_REFUSED)
    see_refused(trial);
  og_record end = {.kind = OG_RECORD_END,
                   .op = job->op,
                   .counts = {.runs = trial->run_count - runs,
                              .is_compared = trial->reference_count > 0,
                              .offsets = trial->offset_count}};
  memcpy(end.counts.layouts, trial->layout_count, sizeof end.counts.layouts);
  memset(trial->layout_count, 0, sizeof trial->layout_count);
  trial->offset_count = 0;
  trial->reference_count = 0;
  og_record_send(&end);
  end_trial(trial);
}

// The call that is being drawn, which may crash as well.
static void send_begin(int32_t index) {
  og_record record = {.kind = OG_RECORD_BEGIN, .call = {.index = index}};
  og_record_send(&record);
}

// What shrinking works on: the sample itself, or the forward operator's.
static og_sample *shrinkable(og_trial *trial) {
  return trial->forward != NULL ? &trial->forward_sample : &trial->sample;
}

// Draws the call and takes the job's steps from it.
static bool follow_path(og_trial *trial, const og_job *job, int32_t index,
                        opgraft_error *error) {
  if (!draw(trial, job, index, error)) return false;
  og_sample *now = shrinkable(trial);
  for (int32_t i = 0; i < job->path_count; ++i) {
    og_sample next;
    if (!og_sample_shrink(now, job->path[i], &next)) {
      og_error_set(error, OG_INVALID, job->op->decl->name, NULL,
                   "the call cannot be made smaller by step %d",
                   (int)job->path[i]);
      return false;
    }
    if (!og_sample_is_valid(&next, INT64_MAX, error)) return false;
    *now = next;
  }
  return true;
}

static void check_calls(og_trial *trial, const og_job *job) {
  for (int32_t i = job->call_begin; i < job->call_end; ++i) {
    opgraft_error error = {.code = OG_OK};
    og_limits_arm(job->op);
    send_begin(i);
    if (!follow_path(trial, job, i, &error) || !settle_call(trial, &error)) {
      send_undrawn(job, i, &error);
      end_trial(trial);
      continue;
    }
    send_call(trial, OG_RECORD_CALL, i, 0);
    run_trial(trial, job, i, i == job->call_begin ? job->probe_begin : 0);
    trial->is_settled = false;
  }
}

static void check_smaller(og_trial *trial, const og_job *job) {
  og_sample from;
  opgraft_error error;
  if (!follow_path(trial, job, job->call_begin, &error)) return;
  og_sample *now = shrinkable(trial);
  from = *now;
  for (int32_t step = job->step; og_sample_shrink(&from, step, now); ++step) {
    if (!og_sample_is_valid(now, INT64_MAX, &error) ||
        memcmp(&from, now, sizeof from) == 0 ||
        og_sample_numel(now) > og_sample_numel(&from))
      continue;
    trial->is_settled = trial->is_erratic = false;
    og_limits_arm(job->op);
    if (settle_call(trial, &error)) {
      send_call(trial, OG_RECORD_SHRUNK, job->call_begin, step);
      run_trial(trial, job, job->call_begin, 0);
    }
    end_trial(trial);
  }
}

// It could be opened before: that it cannot now is the driver's fault.
static void open_device(og_trial *trial, const og_job *job) {
  opgraft_error error;
  char text[400];
  if (job->options->device == NULL) return;
  if (!job->options->is_inline) og_limits_bound();
  if (og_check_device_open(job->options, &trial->device, &error) == OG_OK)
    return;
  snprintf(text, sizeof text,
           "the driver could be loaded once, and not again: %.300s",
           error.text);
  og_tell_end(job->op, OPGRAFT_CRASH, false, text);
  _exit(4);
}

void og_trials_run(const void *given) {
  const og_job *job = given;
#ifdef __GLIBC__
  mallopt(M_TRIM_THRESHOLD, 64 << 20);  // runs ask for the same memory again
#endif
  og_trial *trial = calloc(1, sizeof *trial);
  if (trial == NULL) _exit(4);
  // Before the limits: what the driver allocates does not count.
  open_device(trial, job);
  if (job->options->is_inline)
    og_limits_watch();
  else
    og_limits_set(job->options);
  memcpy(trial->exchanged, job->exchanged, sizeof trial->exchanged);
  og_statics_begin(job->op);
  if (job->is_shrinking)
    check_smaller(trial, job);
  else
    check_calls(trial, job);
  const og_record done = {.kind = OG_RECORD_DONE};
  og_record_send(&done);
  if (!job->options->is_inline) return;
  og_check_device_close(trial->device);
  free(trial);
}
