// SPDX-License-Identifier: Apache-2.0
// The probe of calls at once: on two threads, or on two streams of a device.

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "check/probe/state.h"
#include "check/probe/steady.h"
#include "check/probe/table.h"
#include "check/run/array.h"
#include "check/run/backward.h"
#include "check/run/compare.h"
#include "check/run/fill.h"
#include "check/run/limits.h"
#include "check/run/record.h"
#include "check/run/streams.h"
#include "check/run/trial.h"
#include "check/sample/sample.h"
#include "check/sample/sketch.h"

// A call that is shown again gets more rounds and more time, since a smaller
// call clashes less often.
enum { PLAIN_ROUNDS = 60, SUSPECT_ROUNDS = 4000, AGAIN_ROUNDS = 1 << 20 };
enum { CALL_MS = 250, CALL_MS_AGAIN = 5000 };

// --- On two threads ----------------------------------------------------------

typedef struct caller {
  const og_call_alone *call;
  atomic_int *waiting;
  int32_t rounds, limit_ms;
  og_verdict verdict;
} caller;

// Arguments in ordinary memory: the table of guarded buffers is for one
// thread. The call itself is a host's.
static og_sketch *plain_call_create(const og_sample *s,
                                    const og_inputs *inputs) {
  og_sketch *k = og_sketch_create(s);
  for (int32_t t = 0; k != NULL && t < s->op->decl->tensor_count; ++t)
    for (int32_t e = 0; s->is_given[t] && e < s->list_count[t]; ++e)
      if (og_sample_has(s, t, e))
        og_array_as_tensor(&inputs->tensor[t][e], k->strides[t][e],
                           &k->tensor[t][e]);
  return k;
}

// Gives the plain results memory, runs, and compares with the expected results.
static void plain_call_run(og_sketch *p, caller *c) {
  og_outputs out = {.count = 0};
  if (opgraft_frame_infer(&p->frame, NULL) != OG_OK) return;
  for (int32_t i = 0; i < p->frame.fresh_count; ++i) {
    if (!og_outputs_add_fresh(&out, &p->frame.fresh[i])) goto done;
    p->frame.fresh[i].data = out.array[i].data;
  }
  if (opgraft_frame_run(&p->frame, NULL) == OG_OK)
    c->verdict =
        og_outputs_compare(c->call->sample->op, &out, c->call->wanted, -1);
done:
  og_outputs_reset(&out);
}

static void *call_many(void *argument) {
  caller *c = argument;
  atomic_fetch_sub(c->waiting, 1);
  while (atomic_load(c->waiting) > 0) sched_yield();
  const clock_t end = clock() + c->limit_ms * CLOCKS_PER_SEC / 1000;
  for (int32_t i = 0; i < c->rounds && !c->verdict.differs; ++i) {
    if (clock() > end) break;
    og_sketch *p = plain_call_create(c->call->sample, c->call->inputs);
    if (p == NULL) break;
    plain_call_run(p, c);
    og_sketch_destroy(p);
  }
  return NULL;
}

static og_verdict run_on_threads(const og_call_alone calls[2], int32_t rounds,
                                 int32_t limit_ms) {
  atomic_int waiting = 2;
  pthread_t thread;
  caller c[2];
  for (int32_t i = 0; i < 2; ++i)
    c[i] = (caller){.call = &calls[i],
                    .waiting = &waiting,
                    .rounds = rounds,
                    .limit_ms = limit_ms};
  if (pthread_create(&thread, NULL, call_many, &c[1]) == 0) {
    call_many(&c[0]);
    pthread_join(thread, NULL);
  }
  return c[0].verdict.differs ? c[0].verdict : c[1].verdict;
}

// --- The probe ---------------------------------------------------------------

// Lists, mutated arguments, strided and data-dependent results would need more
// than plain memory; the races that this probe is for do not depend on them.
static bool is_plain(const og_decl *decl) {
  if (decl->has_lists || decl->mutated_count > 0 ||
      decl->has_data_dependent_result)
    return false;
  for (int32_t i = 0; i < decl->fresh_count; ++i)
    if (decl->shapes[i].kind == OG_SHAPE_LIKE) return false;
  return true;
}

// The trial's own call and another one; what differs from the expected results.
static og_verdict call_both(og_trial *trial, const og_call_alone *other,
                            int32_t rounds) {
  const int32_t limit_ms =
      trial->options->call != NULL ? CALL_MS_AGAIN : CALL_MS;
  const og_call_alone calls[2] = {
      {&trial->sample, &trial->inputs, &trial->base}, *other};
  // Each ends between two calls, of which the last may take what one may.
  og_limits_arm_for(trial->op, limit_ms + trial->options->run_limit_ms);
  if (trial->device != NULL)
    return og_run_on_streams(trial, calls, rounds, limit_ms);
  return run_on_threads(calls, rounds, limit_ms);
}

enum { FIRST_ROUNDS = 400, FIRST_MS = 60 };

// What the module sets up in its first call is set up by two at once, time
// after time. It may be a driver's, which would be lost.
static void see_first_calls(og_trial *trial, const og_call_alone *other) {
  const clock_t end = clock() + FIRST_MS * CLOCKS_PER_SEC / 1000;
  if (trial->device != NULL) return;
  for (int32_t i = 0; i < FIRST_ROUNDS && clock() < end; ++i) {
    if (!og_statics_rewind()) return;
    const og_verdict verdict = call_both(trial, other, 1);
    if (!verdict.differs) continue;
    if (og_trial_is_steady(trial))
      og_tell_finding(trial->op, OPGRAFT_THREAD_RACE, false, verdict.name,
                      "with two first calls at once, %s %s", verdict.name,
                      verdict.text);
    return;
  }
}

static void see_both(og_trial *trial, const og_call_alone *other,
                     bool is_suspect) {
  const bool is_again = trial->options->call != NULL;
  const int32_t suspect_rounds = is_again ? AGAIN_ROUNDS : SUSPECT_ROUNDS;
  const og_verdict verdict =
      call_both(trial, other, is_suspect ? suspect_rounds : PLAIN_ROUNDS);
  const bool is_race = verdict.differs && og_trial_is_steady(trial);
  if (is_race)
    og_tell_finding(trial->op, OPGRAFT_THREAD_RACE, false, verdict.name,
                    "with two calls at once%s, %s %s",
                    trial->device != NULL ? " on two streams" : "",
                    verdict.name, verdict.text);
  // Shown again, a call whose note this was may have had the time to clash.
  if (is_suspect && (!is_race || is_again))
    og_tell_finding(trial->op, OPGRAFT_STATIC_DATA, true, "",
                    "every call writes static data of the module");
  else if (!is_race)
    see_first_calls(trial, other);
}

static void call_at_once(og_trial *trial, bool is_suspect) {
  og_sample sample = trial->sample;
  og_inputs inputs;
  og_outputs wanted;
  sample.seed = og_seed_mix(sample.seed, 99);
  if (!og_trial_fill(trial, &sample, &inputs)) return;
  if (og_trial_run(trial, &sample, &inputs, &og_mode_plain, &wanted) ==
      OG_RAN) {
    see_both(trial, &(og_call_alone){&sample, &inputs, &wanted}, is_suspect);
    og_outputs_reset(&wanted);
  }
  og_inputs_reset(&inputs);
}

void og_probe_concurrent(og_trial *trial) {
  if (!og_is_comparable(trial) || !is_plain(trial->op->decl)) return;
  const bool is_suspect = og_writes_statics(trial);
  call_at_once(trial, is_suspect);
}
