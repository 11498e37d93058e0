// SPDX-License-Identifier: Apache-2.0
// Which calls leave out steady steps.
//
// Invariant: watches began before the steps ran whose results are kept, so
// while they hold, the results are those of what the parameters have now.

#include "exec/replay/steady.h"

#include "base/clock.h"
#include "base/watch.h"
#include "exec/replay/sections.h"
#include "exec/step/operands.h"
#include "plan/layout.h"

enum {
  WARM = 2,      // calls before anything is kept: packing, first touches
  JUDGED = 4,    // checks, the least of which has to pay
  LOST_MAX = 8,  // times in a row, after which parameters change too often
  SETTLED = 64,  // calls after which they do not
};

typedef struct watched {
  int32_t input;
  int64_t low, high;  // bytes that steady steps read
  const char *data;   // where the input began
  og_watch *watch;
} watched;

typedef struct og_steady {
  watched *inputs;
  int32_t input_count;
  int32_t calls, lost, wait;
  int64_t steps_ns, check_ns;
  bool is_kept, is_over;
} og_steady;

// --- Which parameters --------------------------------------------------------

static void input_note(og_instance *instance, og_steady *s, opgraft_value v) {
  const og_plan *plan = instance->entry->plan;
  const og_place *place = &plan->places[v];
  const int64_t item = og_item_bytes(&plan->tensors[v]);
  int64_t low, high;
  int32_t i = 0;
  if (place->kind != OG_PLACE_INPUT) return;
  if (!og_layout_extent(&plan->tensors[v], 0, &low, &high)) {
    s->is_over = true;
    return;
  }
  low = low * item + place->offset_bytes;
  high = high * item + place->offset_bytes;
  while (i < s->input_count && s->inputs[i].input != place->index) ++i;
  watched *w = &s->inputs[i];
  const bool is_new = i == s->input_count;
  if (is_new) *w = (watched){place->index, low, high, NULL, NULL};
  s->input_count += is_new;
  if (low < w->low) w->low = low;
  if (high > w->high) w->high = high;
}

og_status og_steady_make(og_instance *instance) {
  const og_plan *plan = instance->entry->plan;
  const opgraft_host *host = &instance->entry->executable->host;
  og_steady *s = NULL;
  for (int32_t i = 0; plan->keeps && i < instance->step_count; ++i) {
    const og_node *node = &plan->graph->nodes[instance->step_infos[i].node];
    instance->step_infos[i].is_steady =
        node->is_steady && instance->hold_count == 0;
    if (!instance->step_infos[i].is_steady) continue;
    if (s == NULL) {
      const size_t count = (size_t)plan->graph->input_count + 1;
      s = og_arena_array(&instance->memory, 1, sizeof *s);
      if (s == NULL) return OG_MEMORY;
      s->inputs = og_arena_array(&instance->memory, count, sizeof *s->inputs);
      if (s->inputs == NULL) return OG_MEMORY;
    }
    for (int32_t k = 0; k < node->in_count; ++k)
      if (node->in[k] >= 0) input_note(instance, s, node->in[k]);
  }
  if (s == NULL) return OG_OK;
  const bool is_seen =
      (host->flags & OPGRAFT_HOST_WEIGHTS_STAY) != 0 && og_watch_is_supported();
  s->is_over |= host->max_bytes != 0 || (s->input_count > 0 && !is_seen);
  instance->steady = s;
  return OG_OK;
}

// --- Watches -----------------------------------------------------------------

static void watches_end(og_steady *s) {
  for (int32_t i = 0; i < s->input_count; ++i) {
    og_watch_destroy(s->inputs[i].watch);
    s->inputs[i].watch = NULL;
  }
  s->is_kept = false;
}

void og_steady_release(og_instance *instance) {
  if (instance->steady != NULL) watches_end(instance->steady);
}

static bool watches_begin(const og_instance *instance, og_steady *s) {
  for (int32_t i = 0; i < s->input_count; ++i) {
    watched *w = &s->inputs[i];
    w->data = instance->inputs[w->input].bound;
    if (w->high <= w->low) continue;
    w->watch = og_watch_create(w->data + w->low, (size_t)(w->high - w->low));
    if (w->watch == NULL) return false;
  }
  return true;
}

static bool watches_hold(const og_instance *instance, const og_steady *s) {
  for (int32_t i = 0; i < s->input_count; ++i) {
    const watched *w = &s->inputs[i];
    if (w->data != (const char *)instance->inputs[w->input].bound ||
        (w->watch != NULL && !og_watch_holds(w->watch)))
      return false;
  }
  return true;
}

// --- A call ------------------------------------------------------------------

// Whether what is kept holds. Parameters that are written again and again are
// left for twice as many calls each time, then for good.
static bool is_current(const og_instance *instance, og_steady *s) {
  const int64_t begun_ns = og_now_ns();
  if (watches_hold(instance, s)) {
    const int64_t took_ns = og_now_ns() - begun_ns;
    if (s->calls == 0 || took_ns < s->check_ns) s->check_ns = took_ns;
    s->calls += s->calls < SETTLED;
    return true;
  }
  s->lost = s->calls >= SETTLED ? 1 : s->lost + 1;
  s->wait = s->lost > 1 ? 1 << s->lost : 0;
  s->is_over = s->lost > LOST_MAX;
  s->calls = WARM;
  watches_end(s);
  return false;
}

bool og_steady_is_kept(og_instance *instance) {
  og_steady *s = instance->steady;
  return s != NULL && !s->is_over && s->is_kept && is_current(instance, s);
}

// All steps one by one; what the steady ones take can be saved.
static og_status all_run(const og_instance *instance, og_steady *s,
                         const og_run *run) {
  int64_t *times =
      og_alloc_zeroed((size_t)instance->step_count + 1, sizeof *times);
  if (times == NULL || !watches_begin(instance, s)) {
    watches_end(s);
    s->is_over = true;
    og_free(times);
    return og_steps_run(instance, run, NULL);
  }
  const og_status status = og_steps_run_timed(instance, run, times);
  s->steps_ns = 0;
  for (int32_t i = 0; i < instance->step_count; ++i)
    if (instance->step_infos[i].is_steady) s->steps_ns += times[i];
  og_free(times);
  s->is_kept = status == OG_OK;
  if (s->is_kept)
    s->calls = 0;
  else
    watches_end(s);
  return status;
}

og_status og_steady_run(og_instance *instance, og_run *run) {
  og_steady *s = instance->steady;
  if (s == NULL || s->is_over) return og_steps_run(instance, run, NULL);
  if (s->is_kept && s->calls == JUDGED && s->check_ns >= s->steps_ns) {
    watches_end(s);
    s->is_over = true;
    return og_steps_run(instance, run, NULL);
  }
  if (og_steady_is_kept(instance)) {
    run->leaves_steady = true;
    return og_steps_run(instance, run, NULL);
  }
  if (s->calls < WARM) {
    ++s->calls;
    return og_steps_run(instance, run, NULL);
  }
  if (s->wait > 0) --s->wait;
  return s->wait > 0 || s->is_over ? og_steps_run(instance, run, NULL)
                                   : all_run(instance, s, run);
}
