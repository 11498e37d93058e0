// SPDX-License-Identifier: Apache-2.0
// Every operator with operands that are missing, as many nodes of each as the
// argument says: `exec_missing 10000 embedding` prints each before it runs.
//
// Each such graph runs or is refused with a message; no kernel, plain or fast,
// reads an operand that is not there. Most sizes are equal, so that shapes fit
// and kernels get beyond their first check.

#include <opgraft/executable.h>
#include <stdlib.h>

#include "base/text.h"
#include "graph/graph.h"
#include "unit/machine.h"
#include "unit/test.h"

enum { TRIALS = 500, TENSORS_MAX = 9, RANK_MAX = 5, BYTES = 1 << 14 };

static int64_t trial_count = TRIALS;
static const char *only;  // NULL: every operator

typedef struct trial {
  og_text text;
  int32_t in_count, missing;
  og_tensor in[TENSORS_MAX];
  int64_t shape[TENSORS_MAX][RANK_MAX], strides[TENSORS_MAX][RANK_MAX];
  int32_t size, rank;
  int32_t alike;  // one tensor of so many has another type than most
  uint64_t state;
} trial;

static _Alignas(64) char zeros[TENSORS_MAX][BYTES];
static _Alignas(64) char results[TENSORS_MAX][BYTES];

static int32_t draw(trial *t, int32_t below) {
  t->state = t->state * 6364136223846793005u + 1442695040888963407u;
  return (int32_t)((t->state >> 33) % (uint64_t)below);
}

// --- Graphs ------------------------------------------------------------------

static og_dtype dtype_draw(trial *t) {
  static const og_dtype types[] = {
      {OG_CODE_FLOAT, 32, 1}, {OG_CODE_INT, 64, 1}, {OG_CODE_BOOL, 8, 1}};
  return types[draw(t, t->alike) != 0 ? 0 : draw(t, 3)];
}

// A type: mostly that of the others.
static og_dtype type_add(trial *t, int64_t *shape, int32_t *out_ndim) {
  const og_dtype dtype = dtype_draw(t);
  const int32_t rank = draw(t, t->alike) != 0 ? t->rank : draw(t, RANK_MAX);
  *out_ndim = rank;
  og_text_addf(&t->text, "%s[", og_dtype_name(dtype));
  for (int32_t d = 0; d < rank; ++d) {
    shape[d] = draw(t, 4 * t->alike) == 0 ? 1 : t->size;
    og_text_addf(&t->text, d > 0 ? ", %d" : "%d", (int)shape[d]);
  }
  og_text_add(&t->text, "]");
  return dtype;
}

static void input_add(trial *t) {
  const int32_t k = t->in_count++;
  og_tensor *in = &t->in[k];
  *in = (og_tensor){.data = zeros[k],
                    .device = {OG_CPU, 0},
                    .shape = t->shape[k],
                    .strides = t->strides[k]};
  og_text_addf(&t->text, k > 0 ? ", %%x%d: " : "%%x%d: ", (int)k);
  in->dtype = type_add(t, in->shape, &in->ndim);
  for (int64_t d = in->ndim - 1, elements = 1; d >= 0; --d) {
    in->strides[d] = elements;
    elements *= in->shape[d];
  }
}

static void results_print(trial *t, const og_op_info *op) {
  const int32_t count = op->out_count < 0 ? 1 + draw(t, 2) : op->out_count;
  int64_t shape[RANK_MAX];
  int32_t ndim;
  for (int32_t r = 0; r < count; ++r) {
    og_text_add(&t->text, r > 0 ? ", " : "  ");
    if (count > 1 && draw(t, 6) == 0) {
      og_text_add(&t->text, "none");
      continue;
    }
    og_text_addf(&t->text, "%%y%d: ", (int)r);
    type_add(t, shape, &ndim);
  }
}

static const char *attribute_of(const char *name) {
  static const struct {
    const char *name, *text;
  } known[] = {{"dims", "[0]"},        {"dim", "0"},
               {"rank", "1"},          {"groups", "1"},
               {"eps", "0.5"},         {"kernel", "[1, 1]"},
               {"stride", "[1, 1]"},   {"padding", "[0, 0]"},
               {"dilation", "[1, 1]"}, {"axis", "0"},
               {"low", "0"},           {"high", "1"},
               {"start", "0"},         {"step", "1"},
               {"value", "2"},         {"least", "0"},
               {"most", "1"},          {"rows", "2"},
               {"columns", "2"},       {"diagonal", "0"},
               {"order", "2.0"},       {"correction", "1"},
               {"mode", "1"},          {"reduction", "1"},
               {"p", "0.5"},           {"strides", "[1]"},
               {"offset", "0"},        {"program", "\"y0 = x0\""}};
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
    if (strcmp(known[i].name, name) == 0) return known[i].text;
  return NULL;
}

static void attributes_print(trial *t, const char *names) {
  char name[32];
  int length;
  const char *mark = "; ";
  for (; sscanf(names, "%31s%n", name, &length) == 1; names += length) {
    const char *text = attribute_of(name);
    if (text == NULL || draw(t, 4) == 0) continue;
    og_text_addf(&t->text, "%s%s=%s", mark, name, text);
    mark = ", ";
  }
}

static void trial_make(trial *t, const og_op_info *op, uint64_t seed) {
  *t = (trial){.state = seed * 2654435761u + 7};
  const int32_t most = op->in_max < 0 ? op->in_min + 2 : op->in_max;
  const int32_t count = op->in_min + draw(t, most - op->in_min + 1);
  t->size = 1 + draw(t, 3);
  t->rank = draw(t, RANK_MAX);
  t->alike = 1 + draw(t, 8);
  og_text operands = {0};
  og_text_add(&t->text, "graph t(");
  for (int32_t i = 0; i < count; ++i) {
    og_text_add(&operands, i > 0 ? ", " : "");
    const bool is_missing = i > 0 && draw(t, 4) == 0;
    t->missing += is_missing;
    if (is_missing)
      og_text_add(&operands, "none");
    else
      og_text_addf(&operands, "%%x%d", (int)t->in_count);
    if (!is_missing) input_add(t);
  }
  og_text_add(&t->text, ") {\n");
  results_print(t, op);
  og_text_addf(&t->text, " = %s(%s", op->name, operands.data);
  attributes_print(t, op->attrs);
  og_text_add(&t->text, strstr(t->text.data, "%y0") != NULL
                            ? ")\n  return %y0\n}\n"
                            : ")\n  return %y1\n}\n");
  og_text_reset(&operands);
}

// --- Running -----------------------------------------------------------------

typedef struct tally {
  int64_t taken, refused, fast;
} tally;

static void trial_run(trial *t, tally *count) {
  const opgraft_host host = {.struct_size = sizeof host, .threads = 1};
  const og_tensor *in[TENSORS_MAX];
  void *storages[TENSORS_MAX];
  opgraft_call call = {.struct_size = sizeof call};
  machine m;
  for (int32_t i = 0; i < TENSORS_MAX; ++i) {
    in[i] = &t->in[i];
    storages[i] = results[i];
  }
  memset(zeros, 0, sizeof zeros);
  bool runs = machine_make(&m, t->text.data, &host) &&
              opgraft_executable_begin(m.executable, in, NULL, t->in_count,
                                       &call, &m.error) == OG_OK;
  if (runs) {
    runs = opgraft_call_run(&call, storages, &m.error) == OG_OK;
    count->fast += stats_of(&m).fast_nodes;
    opgraft_call_end(&call);
  }
  count->taken += runs && t->missing > 0;
  count->refused += !runs && t->missing > 0;
  CHECK(runs || m.error.text[0] != 0);
  machine_free(&m);
}

TEST(are_refused_or_taken) {
  tally count = {0};
  for (int32_t op = 0; op < OG_IR_COUNT; ++op) {
    if ((og_ops[op].flags & (OG_OP_FOREIGN | OG_OP_POINTWISE)) != 0) continue;
    if (only != NULL && strcmp(og_ops[op].name, only) != 0) continue;
    for (int64_t i = 0; i < trial_count; ++i) {
      trial t;
      trial_make(&t, &og_ops[op], (uint64_t)i);
      if (only != NULL) printf("%s", t.text.data);
      fflush(stdout);
      trial_run(&t, &count);
      og_text_reset(&t.text);
    }
  }
  printf("%d taken, %d refused; %d fast nodes\n", (int)count.taken,
         (int)count.refused, (int)count.fast);
  CHECK(only != NULL ||
        (count.taken > 0 && count.fast > 0 && count.refused > trial_count));
}

static const test_case cases[] = {CASE_NO_FAULTS(are_refused_or_taken)};

int main(int argc, char **argv) {
  if (argc > 1) trial_count = strtoll(argv[1], NULL, 10);
  only = argc > 2 ? argv[2] : NULL;
  return test_run_all("exec_missing", cases, sizeof cases / sizeof *cases);
}
