// SPDX-License-Identifier: Apache-2.0
// Who runs a node: every kernel of a contraction gives the same numbers, rules
// are read, obeyed and printed so that they can be read again.
//
// The numbers are such that no sum rounds (eighths up to 2, few enough), so
// results are equal to the bit whatever the order of the sums.

#include <opgraft/executable.h>
#include <stdlib.h>

#include "base/text.h"
#include "graph/element.h"
#include "machine.h"
#include "test.h"

enum { TRIALS = 400, PLACES = 1 << 16 };

static uint64_t state;

static int64_t draw(int64_t below) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((state >> 33) % (uint64_t)below);
}

static const og_dtype types[] = {{OG_CODE_FLOAT, 32, 1},
                                 {OG_CODE_BFLOAT, 16, 1},
                                 {OG_CODE_FLOAT, 16, 1},
                                 {OG_CODE_FLOAT, 64, 1},
                                 {OG_CODE_INT, 64, 1}};

typedef struct operand {
  og_tensor tensor;
  int64_t shape[3], strides[3];
  char *bytes;
} operand;

// Rows or columns together, with a gap or without.
static void operand_make(operand *o, og_dtype dtype, int32_t ndim,
                         const int64_t *shape) {
  int64_t places = 1;
  const int32_t last = draw(2) == 0 || ndim < 2 ? ndim - 1 : ndim - 2;
  const int32_t order[3] = {last, ndim - 1 + ndim - 2 - last, 0};
  *o = (operand){.tensor = {.device = {OG_CPU, 0},
                            .ndim = ndim,
                            .dtype = dtype,
                            .shape = o->shape,
                            .strides = o->strides}};
  for (int32_t i = 0; i < ndim; ++i) {
    const int32_t d = order[i];
    o->shape[d] = shape[d];
    o->strides[d] = places;
    places *= shape[d] + (draw(4) == 0 ? draw(3) : 0);
  }
  const size_t bytes = og_dtype_bytes(dtype);
  o->bytes = malloc((size_t)(places + 1) * bytes);
  o->tensor.data = o->bytes;
  for (int64_t i = 0; o->bytes != NULL && i <= places; ++i)
    if (dtype.code == OG_CODE_INT)
      og_element_set_int(dtype, o->bytes + (size_t)i * bytes, draw(33) - 16);
    else
      og_element_set_double(dtype, o->bytes + (size_t)i * bytes,
                            (double)(draw(33) - 16) / 8);
}

static void type_print(const operand *o, const char *name, og_text *out) {
  og_text_addf(out, "%%%s: %s[", name, og_dtype_name(o->tensor.dtype));
  for (int32_t d = 0; d < o->tensor.ndim; ++d)
    og_text_addf(out, d > 0 ? ", %d" : "%d", (int)o->shape[d]);
  og_text_add(out, "]{");
  for (int32_t d = 0; d < o->tensor.ndim; ++d)
    og_text_addf(out, d > 0 ? ", %d" : "%d", (int)o->strides[d]);
  og_text_add(out, "}");
}

typedef struct trial {
  operand c, a, b;
  og_dtype dtype;
  int64_t batch, m, n, k;
  int32_t ndim;  // of the result
  bool has_c;
  og_text text;
} trial;

static void trial_free(trial *t) {
  free(t->a.bytes);
  free(t->b.bytes);
  free(t->c.bytes);
  og_text_reset(&t->text);
}

static void trial_make(trial *t) {
  static const char *const scales[] = {"beta=1, alpha=1", "beta=0, alpha=1",
                                       "beta=2, alpha=0.5", "beta=1, alpha=-2"};
  *t = (trial){.dtype = types[draw(sizeof types / sizeof *types)],
               .batch = 1 + draw(3),
               .m = 1 + draw(draw(3) == 0 ? 150 : 20),
               .n = 1 + draw(draw(3) == 0 ? 150 : 40),
               .k = 1 + draw(draw(3) == 0 ? 200 : 30),
               .ndim = 2 + (int32_t)draw(2),
               .has_c = draw(2) == 0};
  const int32_t skip = 3 - t->ndim;
  const int64_t a[3] = {t->batch, t->m, t->k}, b[3] = {t->batch, t->k, t->n};
  const int64_t c[3] = {t->batch, draw(2) == 0 ? 1 : t->m,
                        draw(4) == 0 ? 1 : t->n};
  const int32_t c_skip = skip + (int32_t)draw(4 - skip);
  operand_make(&t->a, t->dtype, t->ndim, a + skip);
  operand_make(&t->b, t->dtype, t->ndim, b + skip);
  operand_make(&t->c, t->dtype, 3 - c_skip > 0 ? 3 - c_skip : 1,
               c_skip < 3 ? c + c_skip : c + 2);
  og_text_add(&t->text, "graph t(");
  if (t->has_c) {
    type_print(&t->c, "c", &t->text);
    og_text_add(&t->text, ", ");
  }
  type_print(&t->a, "a", &t->text);
  og_text_add(&t->text, ", ");
  type_print(&t->b, "b", &t->text);
  og_text_addf(&t->text, ") {\n  %%y: %s[", og_dtype_name(t->dtype));
  if (t->ndim == 3) og_text_addf(&t->text, "%d, ", (int)t->batch);
  og_text_addf(&t->text, "%d, %d] = ", (int)t->m, (int)t->n);
  if (t->has_c)
    og_text_addf(&t->text, "addmm(%%c, %%a, %%b; %s)", scales[draw(4)]);
  else
    og_text_add(&t->text, "matmul(%a, %b)");
  og_text_add(&t->text, "\n  return %y\n}\n");
}

static bool machine_begin(machine *m, const char *text, const char *rules,
                          int32_t threads) {
  const opgraft_host host = {
      .struct_size = sizeof host, .threads = threads, .rules = rules};
  return machine_make(m, text, &host);
}

// The result's bytes, and which kernels there were.
static bool trial_run(const trial *t, const char *rules, int32_t threads,
                      char *y, og_text *out_rules) {
  machine m = {0};
  opgraft_call call;
  void *storages[1] = {y};
  char text[512] = "";
  const og_tensor *in[3] = {&t->c.tensor, &t->a.tensor, &t->b.tensor};
  bool is_right = machine_begin(&m, t->text.data, rules, threads) &&
                  opgraft_executable_begin(m.executable, in + !t->has_c, NULL,
                                           2 + t->has_c, &call,
                                           &m.error) == OG_OK;
  if (is_right) {
    is_right = opgraft_call_run(&call, storages, &m.error) == OG_OK;
    opgraft_executable_rules(m.executable, text, sizeof text);
    og_text_add(out_rules, text);
    opgraft_call_end(&call);
  }
  if (!is_right) printf("%s\n%s", m.error.text, t->text.data);
  machine_free(&m);
  return is_right;
}

// Whether every kernel gives the same; counts the fast ones.
static bool trial_agrees(const trial *t, int *fast) {
  static char plain[PLACES * 8], other[PLACES * 8];
  og_text chosen = {0}, again = {0};
  const size_t bytes = (size_t)((t->ndim == 3 ? t->batch : 1) * t->m * t->n) *
                       og_dtype_bytes(t->dtype);
  bool is_right = trial_run(t, "*: plain", 1, plain, &chosen) &&
                  strstr(chosen.data, ": plain") != NULL;
  og_text_reset(&chosen);
  is_right = is_right && trial_run(t, NULL, 1 + (int32_t)draw(3), other,
                                   &chosen);
  if (is_right && memcmp(plain, other, bytes) != 0) {
    printf("%s differs:\n%s", chosen.data, t->text.data);
    is_right = false;
  }
  *fast += is_right && strstr(chosen.data, ": fast") != NULL;
  // What was chosen, given as rules, is chosen again.
  is_right = is_right && trial_run(t, chosen.data, 2, other, &again) &&
             memcmp(plain, other, bytes) == 0 &&
             (strstr(chosen.data, ": fast") != NULL) ==
                 (strstr(again.data, ": fast  # a rule says so") != NULL);
  og_text_reset(&chosen);
  og_text_reset(&again);
  return is_right;
}

TEST(contractions_agree) {
  int fast = 0;
  for (int i = 0; i < TRIALS; ++i) {
    trial t;
    state = (uint64_t)i;
    trial_make(&t);
    const bool is_right = trial_agrees(&t, &fast);
    trial_free(&t);
    if (!CHECK(is_right)) {
      printf("trial %d\n", i);
      return;
    }
  }
  CHECK(fast > TRIALS / 3 && fast < TRIALS);
}

// A constant is packed once, and is right after the plan changes.
TEST(constants_are_packed_once) {
  static const char text[] =
      "graph t(%x: f32[s0, 3]) {\n"
      "  constant %w: f32[3, 2] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]\n"
      "  %y: f32[s0, 2] = matmul(%x, %w)\n"
      "  return %y\n"
      "}\n";
  machine m = {0};
  float x[9] = {1, 0, 0, 0, 1, 0, 1, 1, 1}, y[6];
  REQUIRE(machine_begin(&m, text, NULL, 1));
  for (int64_t rows = 1; rows <= 3; ++rows) {
    int64_t shape[2] = {rows, 3}, strides[2] = {3, 1};
    const og_tensor tensor = {.data = x,
                              .device = {OG_CPU, 0},
                              .ndim = 2,
                              .dtype = types[0],
                              .shape = shape,
                              .strides = strides};
    const og_tensor *in[1] = {&tensor};
    opgraft_call call;
    void *storages[1] = {y};
    REQUIRE(opgraft_executable_begin(m.executable, in, NULL, 1, &call,
                                     &m.error) == OG_OK);
    const og_status status = opgraft_call_run(&call, storages, &m.error);
    opgraft_call_end(&call);
    REQUIRE(status == OG_OK);
    CHECK(y[0] == 1 && y[1] == 2);
  }
  CHECK(y[2] == 3 && y[3] == 4 && y[4] == 9 && y[5] == 12);
  CHECK_EQ(stats_of(&m).fast_nodes, 1);
done:
  machine_free(&m);
}

static void refused(const char *rules, const char *wanted) {
  static const char text[] =
      "graph t(%x: f32[2]) {\n  %y: f32[2] = neg(%x)\n  return %y\n}\n";
  machine m = {0};
  if (!machine_begin(&m, text, rules, 1) && m.graph != NULL)
    CHECK(m.error.code != OG_INVALID || strstr(m.error.text, wanted) != NULL);
  else
    CHECK(m.graph == NULL);
  machine_free(&m);
}

TEST(rules_that_are_wrong) {
  refused("\n# fine\nneg: fats", "line 3: found \"fats\" behind \":\"");
  refused("negg: fast", "line 1: found \"negg\", which is no operator");
  refused("neg f32[2]\n", "line 1: found \"neg f32[2]\", wanted");
  refused(": fast", "line 1: found \"\"");
  refused("*:", "found \"\" behind");
}

TEST_MAIN("exec_choose", CASE_NO_FAULTS(contractions_agree),
          CASE(constants_are_packed_once), CASE(rules_that_are_wrong))
