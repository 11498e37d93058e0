// SPDX-License-Identifier: Apache-2.0
// Runs an instance's steps; those of a section on several threads.
//
// Invariants: lane 0 runs on the thread that calls, the others on any, each
// once; a section ends when all its lanes have. What fails is reported as the
// step that stands first in the order.

#include "exec/replay/sections.h"

#include "base/clock.h"
#include "exec/step/run.h"

static bool is_left_out(const og_instance *instance, int32_t step,
                        const og_run *run) {
  return OG_UNLIKELY(run->leaves_steady) &&
         instance->step_infos[step].is_steady;
}

static og_status steps_run(const og_instance *instance, int32_t first,
                           int32_t end, const og_run *run, int32_t *out_step) {
  const og_step *steps = instance->steps;
  for (int32_t i = first; i < end; ++i) {
    if (is_left_out(instance, i, run)) continue;
    const og_status status = steps[i].run(steps[i].state, run);
    if (OG_LIKELY(status == OG_OK)) continue;
    *out_step = i;
    return status;
  }
  return OG_OK;
}

// --- Sections ----------------------------------------------------------------

typedef struct section_job {
  const og_instance *instance;
  const og_section *section;
  const og_run *run;
  pthread_t caller;
  bool has_first;        // lane 0 ran; the caller's alone
  int32_t next;          // atomic: the next of the other lanes
  int32_t has_failed;    // atomic: no need to begin another step
  pthread_mutex_t lock;  // guards what follows
  og_status status;
  int32_t step;
} section_job;

static void job_fail(section_job *job, int32_t step, og_status status,
                     const opgraft_error *error) {
  pthread_mutex_lock(&job->lock);
  if (job->status == OG_OK || step < job->step) {
    job->status = status;
    job->step = step;
    if (job->run->error != NULL) *job->run->error = *error;
  }
  pthread_mutex_unlock(&job->lock);
  __atomic_store_n(&job->has_failed, 1, __ATOMIC_RELAXED);
}

static void lane_run(section_job *job, int32_t lane) {
  const og_section *section = job->section;
  opgraft_error error = {.code = OG_OK};
  const og_run run = {.executable = job->run->executable,
                      .error = &error,
                      .team = job->run->team,
                      .loops_time = job->run->loops_time,
                      .leaves_steady = job->run->leaves_steady};
  int32_t step = 0;
  const int32_t first = lane > 0 ? section->end[lane - 1] : section->first;
  for (int32_t i = first; i < section->end[lane]; ++i) {
    if (__atomic_load_n(&job->has_failed, __ATOMIC_RELAXED)) return;
    const og_status status = steps_run(job->instance, i, i + 1, &run, &step);
    if (OG_UNLIKELY(status != OG_OK)) {
      job_fail(job, step, status, &error);
      return;
    }
  }
}

// However many threads come, and whichever shares they get.
static void lanes_take(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  section_job *job = state;
  (void)begin, (void)end, (void)worker;
  if (pthread_equal(pthread_self(), job->caller) && !job->has_first) {
    job->has_first = true;
    lane_run(job, 0);
  }
  for (;;) {
    const int32_t lane = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED);
    if (lane >= job->section->lane_count) return;
    lane_run(job, lane);
  }
}

static og_status section_run(const og_instance *instance,
                             const og_section *section, const og_run *run,
                             int32_t *out_step) {
  section_job job = {.instance = instance,
                     .section = section,
                     .run = run,
                     .caller = pthread_self(),
                     .next = 1};
  pthread_mutex_init(&job.lock, NULL);
  const og_status status =
      og_run_parallel(run, section->lane_count, 1, lanes_take, &job);
  // Other threads may have taken every share.
  if (status == OG_OK && !job.has_first) lanes_take(&job, 0, 0, 0);
  pthread_mutex_destroy(&job.lock);
  if (status != OG_OK) job.step = section->first;
  *out_step = job.step;
  return status != OG_OK ? status : job.status;
}

// --- A whole call ------------------------------------------------------------

static og_status sections_run(const og_instance *instance, const og_run *run,
                              int64_t *section_ns, int32_t *out_step) {
  int32_t at = 0;
  for (int32_t s = 0; s < instance->section_count; ++s) {
    const og_section *section = &instance->sections[s];
    OG_TRY(steps_run(instance, at, section->first, run, out_step));
    const int64_t begun = section_ns != NULL ? og_now_ns() : 0;
    OG_TRY(section_run(instance, section, run, out_step));
    if (section_ns != NULL) section_ns[s] = og_now_ns() - begun;
    at = og_section_end(section);
  }
  return steps_run(instance, at, instance->step_count, run, out_step);
}

og_status og_steps_run(const og_instance *instance, const og_run *run,
                       int64_t *section_ns) {
  int32_t step = 0;
  const og_status status =
      instance->section_count == 0
          ? steps_run(instance, 0, instance->step_count, run, &step)
          : sections_run(instance, run, section_ns, &step);
  return OG_LIKELY(status == OG_OK)
             ? OG_OK
             : og_step_failed(instance, step, status, run->error);
}

og_status og_steps_run_timed(const og_instance *instance, const og_run *run,
                             int64_t *step_ns) {
  int64_t before = og_now_ns();
  for (int32_t i = 0; i < instance->step_count; ++i) {
    int32_t step;
    if (is_left_out(instance, i, run)) continue;
    const og_status status = steps_run(instance, i, i + 1, run, &step);
    if (OG_UNLIKELY(status != OG_OK))
      return og_step_failed(instance, i, status, run->error);
    const int64_t after = og_now_ns();
    step_ns[i] = after - before;
    before = after;
  }
  return OG_OK;
}
