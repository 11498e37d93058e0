// SPDX-License-Identifier: Apache-2.0
// The tuner: a node's candidates raced on its real shapes.
//
// A trial is an instance with this node alone. Its tensors lie in memory of the
// tuner's own, but for constants, so nothing of the plan's is touched and no
// input has to be there.

#define _DEFAULT_SOURCE
#include "exec/choose/tune.h"

#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/isa.h"
#include "base/machine.h"
#include "call/call.h"
#include "exec/choose/candidates.h"
#include "exec/choose/race.h"
#include "exec/choose/rules.h"
#include "exec/choose/tuned.h"
#include "exec/fast/packs.h"
#include "exec/runners/hosted.h"
#include "exec/step/operands.h"
#include "exec/step/reloc.h"
#include "graph/op.h"
#include "pass/pass.h"

static void say(const opgraft_executable *executable, const char *text,
                bool is_progress) {
  const opgraft_host *host = &executable->host;
  if (host->log != NULL) host->log(host->context, text, is_progress);
}

// --- Life --------------------------------------------------------------------

// Of the time of an executable, for one that is hard to decide.
enum { RACES_LEAST = 4 };

static char *copy_of(const char *text) {
  const size_t length = strlen(text);
  char *copy = og_alloc(length + 1);
  if (copy != NULL) memcpy(copy, text, length + 1);
  return copy;
}

og_status og_tuning_create(const opgraft_host *host, og_tuning **out_tuning,
                           opgraft_error *error) {
  *out_tuning = NULL;
  if (host->tune_ns <= 0) return OG_OK;
  og_tuning *tuning = og_alloc_zeroed(1, sizeof *tuning);
  if (tuning == NULL) return og_graph_no_memory(error);
  tuning->left_ns = host->tune_ns;
  tuning->most_ns = host->tune_ns / RACES_LEAST;
  if (host->tune_file != NULL) tuning->file = copy_of(host->tune_file);
  tuning->with = copy_of(host->tune_with != NULL ? host->tune_with : "no host");
  if (tuning->with == NULL ||
      (host->tune_file != NULL && tuning->file == NULL)) {
    og_tuning_destroy(tuning);
    return og_graph_no_memory(error);
  }
  *out_tuning = tuning;
  return OG_OK;
}

void og_tuning_destroy(og_tuning *tuning) {
  if (tuning == NULL) return;
  og_free(tuning->file);
  og_free(tuning->with);
  og_free(tuning->others);
  og_text_reset(&tuning->undecided);
  og_free(tuning);
}

// --- What a node's time depends on -------------------------------------------

static void strides_add(const og_tensor *tensor, og_text *out) {
  if (tensor == NULL || tensor->ndim == 0 || og_tensor_is_contiguous(tensor))
    return;
  for (int32_t d = 0; d < tensor->ndim; ++d)
    og_text_addf(out, "%c%" PRId64, d > 0 ? ',' : '{', tensor->strides[d]);
  og_text_add(out, "}");
}

static void attributes_add(const og_prep *prep, og_text *out) {
  size_t length;
  const char *name;
  for (int32_t i = 0;
       (name = og_op_attr_name(prep->node->op, i, &length)) != NULL; ++i) {
    const opgraft_arg *arg = og_node_attr(prep->node, i);
    if (arg->kind == OPGRAFT_ARG_LIST)
      for (int64_t at = 0; at < arg->count; ++at)
        og_text_addf(out, "%s%.*s=%" PRId64, at > 0 ? "," : " ", (int)length,
                     name, arg->list[at].i);
    else if (arg->kind == OPGRAFT_ARG_FLOAT)
      og_text_addf(out, " %.*s=%g", (int)length, name, arg->f);
    else if (arg->kind == OPGRAFT_ARG_INT || arg->kind == OPGRAFT_ARG_BOOL)
      og_text_addf(out, " %.*s=%" PRId64, (int)length, name, arg->i);
  }
}

// Bytes of all second operands of contractions: beyond the caches they are read
// from memory at each call.
static int64_t weight_bytes(const og_plan *plan) {
  int64_t bytes = 0;
  for (int32_t n = 0; n < plan->graph->node_count; ++n) {
    const og_node *node = &plan->graph->nodes[n];
    if (node->is_removed || !og_is_contraction(node)) continue;
    const opgraft_value id = node->in[node->in_count - 1];
    const int32_t place = plan->places[id].kind;
    if (place == OG_PLACE_INPUT || place == OG_PLACE_CONSTANT)
      bytes += og_numel(&plan->tensors[id]) *
               (int64_t)og_dtype_bytes(plan->tensors[id].dtype);
  }
  return bytes;
}

static bool is_cold(const og_prep *prep) {
  return weight_bytes(prep->plan) > og_machine_cache_bytes();
}

static void key_print(const og_prep *prep, const og_order *order,
                      og_text *out) {
  const opgraft_executable *executable = prep->executable;
  og_rule_node_print(prep->plan, prep->node, out);
  og_text_add(out, ";");
  for (int32_t i = 0; i < prep->node->in_count; ++i) {
    og_text_add(out, i > 0 ? "," : " ");
    strides_add(prep->in[i], out);
  }
  attributes_add(prep, out);
  og_text_add(out, "; ");
  for (int32_t i = 0; i < order->count; ++i)
    og_text_addf(out, i > 0 ? "/%s" : "%s", og_candidate_name(order->by[i]));
  const char *precision =
      og_precision_name(og_precision_of(prep->plan->graph, prep->node));
  og_text_addf(out, "%s; %d thread%s, %s%s%s, %s, kernels %s",
               is_cold(prep) ? " from memory" : "", (int)executable->threads,
               executable->threads > 1 ? "s" : "", og_isa_name(og_isa_used()),
               precision != NULL ? ", " : "",
               precision != NULL ? precision : "", executable->tuning->with,
               og_kernels_key);
}

// --- Trials ------------------------------------------------------------------

typedef struct trial {
  og_instance instance;
  og_prep prep;
  og_run run;
  og_kept *kept;
  opgraft_error error;
} trial;

// Small positive floats in every type, true for bool.
static char *memory_make(const og_tensor *tensor) {
  const size_t bytes = og_span_bytes(tensor) + 1;
  char *memory = og_alloc_aligned(64, bytes);
  if (memory != NULL)
    memset(memory, tensor->dtype.code == OG_CODE_BOOL ? 1 : 0x3c, bytes);
  return memory;
}

typedef struct scene {
  const og_prep *prep;
  int32_t count;  // operands and results
  char **memory;  // of each; NULL for none, a constant, or one that is there
  char *others;   // read between runs, so that operands leave the caches
  int64_t others_bytes;
} scene;

static opgraft_value scene_id(const scene *s, int32_t i) {
  return og_node_value(s->prep->node, i);
}

// One race leaves it to the next: its pages cost more than most races do.
static char *others_take(og_tuning *tuning, size_t bytes) {
  char *others = __atomic_exchange_n(&tuning->others, NULL, __ATOMIC_ACQ_REL);
  if (others != NULL || (others = og_alloc(bytes)) == NULL) return others;
  memset(others, 1, bytes);
  return others;
}

static void others_leave(og_tuning *tuning, char *others) {
  og_free(__atomic_exchange_n(&tuning->others, others, __ATOMIC_ACQ_REL));
}

static void scene_end(scene *s) {
  for (int32_t i = 0; s->memory != NULL && i < s->count; ++i)
    og_free(s->memory[i]);
  og_free(s->memory);
  if (s->others != NULL) others_leave(s->prep->executable->tuning, s->others);
}

static bool scene_begin(scene *s, const og_prep *prep) {
  const og_plan *plan = prep->plan;
  *s = (scene){.prep = prep,
               .count = prep->node->in_count + prep->node->out_count};
  s->memory = og_alloc_zeroed((size_t)s->count + 1, sizeof *s->memory);
  if (s->memory == NULL) return false;
  for (int32_t i = 0; i < s->count; ++i) {
    const opgraft_value id = scene_id(s, i);
    if (id < 0 || plan->places[id].kind == OG_PLACE_CONSTANT) continue;
    s->memory[i] = memory_make(&plan->tensors[id]);
    if (s->memory[i] == NULL) return false;
  }
  if (!is_cold(prep)) return true;
  s->others_bytes = og_machine_cache_bytes();
  s->others = others_take(prep->executable->tuning, (size_t)s->others_bytes);
  return s->others != NULL;
}

static void caches_leave(void *context) {
  const scene *s = context;
  for (int64_t i = 0; i < s->others_bytes; i += 64)
    (void)*(const volatile char *)(s->others + i);
}

// Times that the system took a processor from a thread of the process.
static int64_t switches(void *context) {
  struct rusage used;
  (void)context;
  return getrusage(RUSAGE_SELF, &used) == 0 ? used.ru_nivcsw : 0;
}

static bool trial_tensors(trial *t, const scene *s) {
  const og_plan *plan = s->prep->plan;
  og_instance *instance = &t->instance;
  og_tensor **operands =
      og_arena_array(&instance->memory, (size_t)s->count + 1, sizeof *operands);
  instance->entry = s->prep->instance->entry;
  if (operands == NULL || og_relocs_make(instance, plan) != OG_OK) return false;
  for (int32_t i = 0; i < s->count; ++i) {
    const opgraft_value id = scene_id(s, i);
    if (id < 0) continue;
    operands[i] = &instance->tensors[id];
    *operands[i] = plan->tensors[id];
    if (og_reloc_add(instance, plan, id, &operands[i]->data) != OG_OK)
      return false;
    if (s->memory[i] != NULL) operands[i]->data = s->memory[i];
  }
  t->prep = *s->prep;
  t->prep.in = operands;
  t->prep.out = operands + s->prep->node->in_count;
  return true;
}

static bool trial_begin(trial *t, const scene *s, og_candidate by) {
  *t = (trial){.run = {.executable = s->prep->executable, .error = &t->error}};
  if (!trial_tensors(t, s)) return false;
  t->prep.instance = &t->instance;
  t->prep.error = &t->error;
  t->prep.kept = &t->kept;
  return og_candidate_ask(&t->prep, by, false) == OG_OK &&
         t->prep.step.run != NULL;
}

static void trial_end(trial *t) {
  og_hosted_release(&t->instance);
  og_arena_destroy(&t->instance.memory);
  og_kept_destroy(t->kept);
}

static og_status trial_run(void *state) {
  trial *t = state;
  return t->prep.step.run(t->prep.step.state, &t->run);
}

// --- Races -------------------------------------------------------------------

typedef struct contest {
  trial trials[OG_BY_COUNT];
  og_racer racers[OG_BY_COUNT];
  og_candidate by[OG_BY_COUNT];
  int32_t count;
} contest;

static void contest_begin(contest *c, const scene *s, const og_order *order) {
  c->count = 0;
  for (int32_t i = 0; i < order->count; ++i) {
    trial *t = &c->trials[c->count];
    if (order->by[i] == OG_BY_PLAIN) continue;
    if (!trial_begin(t, s, order->by[i])) {
      trial_end(t);
      continue;
    }
    c->by[c->count] = order->by[i];
    c->racers[c->count++] = (og_racer){.run = trial_run, .state = t};
  }
}

static void contest_end(contest *c) {
  for (int32_t i = 0; i < c->count; ++i) trial_end(&c->trials[i]);
}

// "packed  # packed 12.1 us, host 40.2 us"
static void found_print(const contest *c, og_candidate winner, og_text *out) {
  og_text_addf(out, "%s  #", og_candidate_name(winner));
  for (int32_t i = 0; i < c->count; ++i)
    if (c->racers[i].best_ns > 0)
      og_text_addf(out, "%s %s %.1f us", i > 0 ? "," : "",
                   og_candidate_name(c->by[i]),
                   (double)c->racers[i].best_ns / 1000);
}

static int64_t time_left(const og_tuning *tuning) {
  const int64_t left = __atomic_load_n(&tuning->left_ns, __ATOMIC_RELAXED);
  return left < tuning->most_ns ? left : tuning->most_ns;
}

// A host's kernel brings the host's threads, on which all of the plan runs
// then; so it has to lead by a quarter.
static og_candidate winner_of(const contest *c, int32_t winner) {
  const int64_t host = c->racers[winner].best_ns;
  int32_t own = -1;
  if (c->by[winner] != OG_BY_HOST) return c->by[winner];
  for (int32_t i = 0; i < c->count; ++i)
    if (i != winner && c->racers[i].best_ns > 0 &&
        (own < 0 || c->racers[i].best_ns < c->racers[own].best_ns))
      own = i;
  return own >= 0 && c->racers[own].best_ns <= host + host / 4 ? c->by[own]
                                                               : OG_BY_HOST;
}

// False where nothing was decided.
static bool contest_run(contest *c, scene *s, og_candidate *out_winner) {
  og_tuning *tuning = s->prep->executable->tuning;
  og_race race = {.racers = c->racers,
                  .count = c->count,
                  .most_ns = time_left(tuning),
                  .before = s->others != NULL ? caches_leave : NULL,
                  .disturbances = switches,
                  .context = s};
  if (c->count < 2) return false;
  const int32_t winner = og_race_run(&race);
  __atomic_sub_fetch(&tuning->left_ns, race.spent_ns, __ATOMIC_RELAXED);
  if (winner >= 0) *out_winner = winner_of(c, winner);
  return winner >= 0;
}

static bool winner_find(const og_prep *prep, const og_order *order,
                        const char *key, og_candidate *out) {
  bool is_found = false;
  scene s;
  og_text found = {0};
  contest *c = og_alloc_zeroed(1, sizeof *c);
  if (c != NULL && scene_begin(&s, prep)) {
    say(prep->executable, key, true);
    contest_begin(c, &s, order);
    is_found = contest_run(c, &s, out);
    if (is_found) {
      found_print(c, *out, &found);
      if (!found.failed) og_tuned_add(key, found.data, out);
    }
    contest_end(c);
  }
  if (c != NULL) scene_end(&s);
  og_text_reset(&found);
  og_free(c);
  return is_found;
}

// A model has many nodes of one kind: what one race left open stays so.
static bool is_open(opgraft_executable *executable, const char *key) {
  og_tuning *tuning = executable->tuning;
  pthread_mutex_lock(&executable->mutex);
  const bool is_tried = tuning->undecided.data != NULL &&
                        strstr(tuning->undecided.data, key) != NULL;
  pthread_mutex_unlock(&executable->mutex);
  return !is_tried && time_left(tuning) > 0;
}

static void undecided_add(opgraft_executable *executable, const char *key) {
  og_text *undecided = &executable->tuning->undecided;
  pthread_mutex_lock(&executable->mutex);
  og_text_add(undecided, key);
  og_text_add(undecided, "\n");
  pthread_mutex_unlock(&executable->mutex);
}

static bool winner_get(const og_prep *prep, const og_order *order,
                       const char *key, og_candidate *out) {
  if (og_tuned_find(key, out)) return true;
  if (!is_open(prep->executable, key)) return false;
  if (winner_find(prep, order, key, out)) return true;
  undecided_add(prep->executable, key);
  return false;
}

// `first` is one of the order's.
static void order_lead(og_order *order, og_candidate first) {
  int32_t at = 0;
  while (at < order->count && order->by[at] != first) ++at;
  if (at == order->count) return;
  for (; at > 0; --at) order->by[at] = order->by[at - 1];
  order->by[0] = first;
  order->reason = "it was the fastest when timed";
}

static void file_load(const opgraft_executable *executable) {
  opgraft_error error;
  char text[sizeof error.text + 64];
  if (og_tuned_load(executable->tuning->file, &error)) return;
  snprintf(text, sizeof text, "tuned kernels are ignored: %s", error.text);
  say(executable, text, false);
}

void og_tune(const og_prep *prep, og_order *order) {
  const int64_t begun_ns = og_now_ns();
  og_candidate winner;
  og_text key = {0};
  file_load(prep->executable);
  key_print(prep, order, &key);
  if (!key.failed && winner_get(prep, order, key.data, &winner))
    order_lead(order, winner);
  og_text_reset(&key);
  prep->instance->tune_ns += og_now_ns() - begun_ns;
}

void og_tune_save(const opgraft_executable *executable) {
  opgraft_error error;
  char text[sizeof error.text + 64];
  others_leave(executable->tuning, NULL);
  say(executable, NULL, true);
  if (og_tuned_write(executable->tuning->file, &error) == OG_OK) return;
  snprintf(text, sizeof text, "tuned kernels are not kept: %s", error.text);
  say(executable, text, false);
}
