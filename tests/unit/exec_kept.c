// SPDX-License-Identifier: Apache-2.0
// Weights that stay packed and change between calls, under as many random
// graphs as the argument says: `exec_kept 5000`.
//
// A graph is contractions whose results row programs read, beside other values
// of the same sizes that may still be needed or not: so results take over
// operands' memory, or the host's. Each call gives, bit for bit, what a fresh
// executable gives that keeps nothing.

#define _GNU_SOURCE
#include <opgraft/executable.h>

#include "base/watch.h"
#include "exec/fast/packs.h"
#include "exec/step/exec.h"
#include "unit/loop_make.h"
#include "unit/machine.h"

enum {
  TRIALS = 60,
  ROWS = 24,
  WIDE = 64,  // a weight of as many columns is worth keeping
  DEPTH_MAX = 4,
  POOL_MAX = 3 * DEPTH_MAX + 2,
  RETURNS = 3,
  CALLS = 6,
};

static int64_t trial_count = TRIALS;

typedef struct trial {
  og_text text;
  char pool[POOL_MAX][16];  // names of values [ROWS, WIDE]
  int32_t pool_count, depth;
  uint64_t state;
} trial;

// The inputs; the second is written by some graphs. A call's results are those
// of the graph, then that input.
static float x_data[ROWS * WIDE], written[ROWS * WIDE], first[ROWS * WIDE];
static float bias[WIDE], weights[DEPTH_MAX][WIDE * WIDE];
static float found[RETURNS + 1][ROWS * WIDE],
    expected[RETURNS + 1][ROWS * WIDE];

static int32_t draw(trial *t, int32_t below) {
  return (int32_t)(loop_draw(&t->state) % (uint64_t)below);
}

static void fill(trial *t, float *data, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    data[i] = (float)(draw(t, 2001) - 1000) / 4096;
}

// --- Graphs ------------------------------------------------------------------

static void result_add(trial *t, const char *kind, int32_t at) {
  char *name = t->pool[t->pool_count++];
  snprintf(name, sizeof *t->pool, "%s%d", kind, (int)at);
  og_text_addf(&t->text, "%%%s: f32[%d, %d]", name, ROWS, WIDE);
}

static const char *any_of(trial *t) { return t->pool[draw(t, t->pool_count)]; }

// Reads a contraction's result and up to two other values, in any order.
static void program_print(trial *t, int32_t at) {
  const int32_t others = draw(t, 3), place = draw(t, others + 1);
  const bool mutates = others > 0 && at == t->depth - 1 && draw(t, 3) == 0;
  const char *names[2] = {mutates ? "i" : any_of(t), any_of(t)};
  const bool has_two = draw(t, 3) == 0;
  og_text_add(&t->text, "  ");
  result_add(t, "z", at);
  if (mutates) og_text_add(&t->text, " in %i");
  if (has_two) {
    og_text_add(&t->text, ", ");
    result_add(t, "u", at);
  }
  og_text_add(&t->text, " = fused(");
  for (int32_t i = 0, other = 0; i <= others; ++i) {
    if (i > 0) og_text_add(&t->text, ", ");
    if (i == place)
      og_text_addf(&t->text, "%%y%d", (int)at);
    else
      og_text_addf(&t->text, "%%%s", names[other++]);
  }
  og_text_add(&t->text, "; program=\"s = x0");
  for (int32_t i = 1; i <= others; ++i)
    og_text_addf(&t->text, " + x%d", (int)i);
  og_text_add(&t->text, draw(t, 2) == 0 ? "; y0 = max(s, 0)" : "; y0 = s");
  if (has_two)
    og_text_add(&t->text, draw(t, 2) == 0 ? "; y1 = s * half" : "; y1 = x0");
  og_text_add(&t->text, "\")\n");
}

static void block_print(trial *t, int32_t at) {
  const char *of = any_of(t);
  og_text_addf(&t->text, "  %%y%d: f32[%d, %d] = ", (int)at, ROWS, WIDE);
  og_text_addf(
      &t->text,
      draw(t, 2) == 0 ? "addmm(%%c, %%%s, %%w%d)\n" : "matmul(%%%s, %%w%d)\n",
      of, (int)at);
  program_print(t, at);
  if (draw(t, 8) == 0)
    snprintf(t->pool[t->pool_count++], sizeof *t->pool, "y%d", (int)at);
  if (draw(t, 4) != 0) return;
  og_text_add(&t->text, "  ");
  const char *from = any_of(t);
  result_add(t, "n", at);
  og_text_addf(&t->text, " = neg(%%%s)\n", from);
}

static void trial_make(trial *t, uint64_t seed) {
  *t = (trial){.state = seed * 2654435761u + 7};
  t->depth = 1 + draw(t, DEPTH_MAX);
  og_text_addf(&t->text,
               "graph t(%%x: f32[%d, %d], %%i: f32[%d, %d], %%c: f32[%d]", ROWS,
               WIDE, ROWS, WIDE, WIDE);
  for (int32_t w = 0; w < t->depth; ++w)
    og_text_addf(&t->text, ", %%w%d: f32[%d, %d] static", (int)w, WIDE, WIDE);
  og_text_add(&t->text, ") {\n  ");
  result_add(t, "h", 0);
  og_text_add(&t->text, " = neg(%x)\n");
  for (int32_t k = 0; k < t->depth; ++k) block_print(t, k);
  og_text_addf(&t->text, "  return %%z%d", (int)t->depth - 1);
  for (int32_t r = 1; r < RETURNS; ++r)
    og_text_addf(&t->text, ", %%%s", any_of(t));
  og_text_add(&t->text, "\n}\n");
  fill(t, x_data, ROWS * WIDE);
  fill(t, first, ROWS * WIDE);
  fill(t, bias, WIDE);
  for (int32_t w = 0; w < t->depth; ++w) fill(t, weights[w], WIDE * WIDE);
}

// --- Running -----------------------------------------------------------------

static bool call_run(machine *m, const trial *t,
                     float results[RETURNS + 1][ROWS * WIDE]) {
  float *const data[3] = {x_data, written, bias};
  int64_t shape[2] = {ROWS, WIDE}, square[2] = {WIDE, WIDE};
  int64_t strides[2] = {WIDE, 1}, one = 1;
  og_tensor tensors[3 + DEPTH_MAX];
  const og_tensor *in[3 + DEPTH_MAX];
  for (int32_t i = 0; i < 3 + t->depth; ++i) {
    tensors[i] = (og_tensor){.data = i < 3 ? data[i] : weights[i - 3],
                             .device = {OG_CPU, 0},
                             .ndim = i == 2 ? 1 : 2,
                             .dtype = loop_f32,
                             .shape = i < 2    ? shape
                                      : i == 2 ? &shape[1]
                                               : square,
                             .strides = i == 2 ? &one : strides};
    in[i] = &tensors[i];
  }
  opgraft_call call = {.struct_size = sizeof call};
  memcpy(written, first, sizeof first);
  if (opgraft_executable_begin(m->executable, in, NULL, 3 + t->depth, &call,
                               &m->error) != OG_OK)
    return false;
  void *storages[RETURNS];
  for (int32_t i = 0; i < call.storage_count; ++i) storages[i] = results[i];
  const og_status status = opgraft_call_run(&call, storages, &m->error);
  opgraft_call_end(&call);
  memcpy(results[RETURNS], written, sizeof written);
  return status == OG_OK;
}

static bool fresh_run(const trial *t, uint32_t flags) {
  const opgraft_host host = {
      .struct_size = sizeof host, .threads = 1, .flags = flags};
  machine m;
  const bool is_right =
      machine_make(&m, t->text.data, &host) && call_run(&m, t, expected);
  if (!is_right) printf("%s\n", m.error.text);
  machine_free(&m);
  return is_right;
}

// Between calls one weight changes, or none.
static bool trial_agrees(trial *t, int64_t *epilogues) {
  static const uint32_t flags[] = {0, 0, 0, OPGRAFT_HOST_UNSHARED,
                                   OPGRAFT_HOST_LANES_NOW};
  const opgraft_host host = {
      .struct_size = sizeof host,
      .threads = 1 << draw(t, 3),
      .flags = OPGRAFT_HOST_WEIGHTS_STAY | flags[draw(t, 5)],
      .rules = "matmul: packed\naddmm: packed"};
  char rules[4096] = "";
  machine m;
  bool is_right = machine_make(&m, t->text.data, &host);
  if (is_right && draw(t, 2) == 0) m.executable->host.flags |= OG_HOST_ANY_SIZE;
  for (int32_t k = 0; is_right && k < CALLS; ++k) {
    if (k > 1 && draw(t, 3) != 0) fill(t, weights[draw(t, t->depth)], WIDE);
    memset(found, 0, sizeof found);
    memset(expected, 0, sizeof expected);
    is_right = fresh_run(t, 0) && call_run(&m, t, found) &&
               memcmp(found, expected, sizeof found) == 0;
    if (!is_right)
      printf("call %d, %d threads, flags %x: %s\n", (int)k, (int)host.threads,
             (unsigned)m.executable->host.flags, m.error.text);
  }
  // Each call replays one plan: panels are kept from call to call.
  is_right = is_right && stats_of(&m).replans_shape == 1;
  opgraft_executable_rules(m.executable, rules, sizeof rules);
  for (const char *at = rules; (at = strstr(at, ": epilogue  #")); ++at)
    ++*epilogues;
  if (!is_right) printf("%s%s", rules, t->text.data);
  machine_free(&m);
  return is_right;
}

TEST(changes_are_followed) {
  int64_t epilogues = 0;
  if (!og_watch_is_supported()) {
    printf("skipped %s: this system does not track writes\n", test_now.name);
    return;
  }
  for (int64_t i = 0; i < trial_count; ++i) {
    trial t;
    trial_make(&t, (uint64_t)i);
    const bool is_right = !t.text.failed && trial_agrees(&t, &epilogues);
    og_text_reset(&t.text);
    if (!CHECK(is_right)) {
      printf("trial %d\n", (int)i);
      return;
    }
  }
  printf("%d epilogues\n", (int)epilogues);
  CHECK(epilogues > trial_count);
}

// Panels that were found to be old are not used again: a user of them would
// keep others from packing.
TEST(old_panels_have_no_new_users) {
  static const char text[] =
      "graph t(%x: f32[24, 64], %i: f32[24, 64], %c: f32[64], %w: f32[64, 64] "
      "static) {\n  %y: f32[24, 64] = matmul(%x, %w)\n  return %y\n}\n";
  const opgraft_host host = {.struct_size = sizeof host,
                             .threads = 1,
                             .flags = OPGRAFT_HOST_WEIGHTS_STAY,
                             .rules = "matmul: packed"};
  const trial t = {.depth = 1};
  machine m = {0};
  if (!og_watch_is_supported()) return;
  REQUIRE(machine_make(&m, text, &host) && call_run(&m, &t, found));
  og_kept *kept = m.executable->kept;
  REQUIRE(kept != NULL && og_kept_try(kept, weights[0]) != NULL);
  CHECK(og_kept_holds(kept));
  weights[0][WIDE] += 1;
  CHECK(!og_kept_holds(kept));
  CHECK(og_kept_try(kept, weights[0]) == NULL);
  og_kept_leave(kept);
done:
  machine_free(&m);
}

static const test_case cases[] = {CASE_NO_FAULTS(changes_are_followed),
                                  CASE_NO_FAULTS(old_panels_have_no_new_users)};

int main(int argc, char **argv) {
  if (argc > 1) trial_count = strtoll(argv[1], NULL, 10);
  return test_run_all("exec_kept", cases, sizeof cases / sizeof *cases);
}
