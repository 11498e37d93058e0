// SPDX-License-Identifier: Apache-2.0
// Who runs a node: every kernel of a contraction, of attention and of an
// embedding gives the same numbers, rules are read, obeyed and printed so that
// they can be read again.
//
// The numbers are such that no sum of a contraction rounds (eighths up to 2,
// few enough), so results are equal to the bit whatever the order of the sums.

#include <float.h>
#include <math.h>
#include <opgraft/executable.h>
#include <stdlib.h>

#include "base/text.h"
#include "machine.h"
#include "scalar/element.h"
#include "test.h"

enum { TRIALS = 400, PLACES = 1 << 16, RANK = 4 };

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
  int64_t shape[RANK], strides[RANK];
  char *bytes;
} operand;

// Rows or columns together, with a gap or without.
static void operand_make(operand *o, og_dtype dtype, int32_t ndim,
                         const int64_t *shape) {
  int64_t places = 1;
  const int32_t last = draw(2) == 0 || ndim < 2 ? ndim - 1 : ndim - 2;
  const int32_t order[RANK] = {last, ndim - 1 + ndim - 2 - last, ndim - 3, 0};
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
    if (dtype.code == OG_CODE_BOOL)
      og_element_set_int(dtype, o->bytes + i, draw(3) != 0);
    else if (dtype.code == OG_CODE_INT)
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
  operand operands[4];
  int32_t count;
  og_dtype dtype;
  int64_t elements;  // of result 0
  int64_t lse;       // of result 1, f32; 0: there is none
  bool is_exact;     // result 0, to the bit
  og_text text;
} trial;

static void trial_free(trial *t) {
  for (int32_t i = 0; i < t->count; ++i) free(t->operands[i].bytes);
  og_text_reset(&t->text);
}

static void operand_add(trial *t, const char *name, og_dtype dtype,
                        int32_t ndim, const int64_t *shape) {
  operand *o = &t->operands[t->count];
  operand_make(o, dtype, ndim, shape);
  og_text_add(&t->text, t->count++ == 0 ? "graph t(" : ", ");
  type_print(o, name, &t->text);
}

static void contraction_make(trial *t) {
  static const char *const scales[] = {"beta=1, alpha=1", "beta=0, alpha=1",
                                       "beta=2, alpha=0.5", "beta=1, alpha=-2"};
  const int64_t batch = 1 + draw(3), m = 1 + draw(draw(3) == 0 ? 400 : 20);
  const int64_t n = 1 + draw(draw(3) == 0 ? 150 : 40);
  const int64_t k = 1 + draw(draw(3) == 0 ? 200 : 30);
  const int32_t ndim = 2 + (int32_t)draw(2), skip = 3 - ndim;
  const int64_t a[3] = {batch, m, k}, b[3] = {batch, k, n};
  const int64_t c[3] = {batch, draw(2) == 0 ? 1 : m, draw(4) == 0 ? 1 : n};
  const bool has_c = draw(2) == 0;
  const int32_t c_skip = skip + (int32_t)draw(3 - skip);
  *t = (trial){.dtype = types[draw(sizeof types / sizeof *types)],
               .elements = (skip ? 1 : batch) * m * n,
               .is_exact = true};
  if (has_c) operand_add(t, "c", t->dtype, 3 - c_skip, c + c_skip);
  operand_add(t, "a", t->dtype, ndim, a + skip);
  operand_add(t, "b", t->dtype, ndim, b + skip);
  og_text_addf(&t->text, ") {\n  %%y: %s[", og_dtype_name(t->dtype));
  if (skip == 0) og_text_addf(&t->text, "%d, ", (int)batch);
  og_text_addf(&t->text, "%d, %d] = ", (int)m, (int)n);
  if (has_c)
    og_text_addf(&t->text, "addmm(%%c, %%a, %%b; %s)", scales[draw(4)]);
  else
    og_text_add(&t->text, "matmul(%a, %b)");
  og_text_add(&t->text, "\n  return %y\n}\n");
}

// [k, n] or the rows of [n, k], in f32, that are packed once.
static void weights_print(trial *t, int64_t k, int64_t n) {
  const bool has_rows = draw(2) == 0;
  const int dims[2] = {(int)(has_rows ? n : k), (int)(has_rows ? k : n)};
  og_text_addf(&t->text, ") {\n  constant %%w: f32[%d, %d] = [", dims[0],
               dims[1]);
  for (int64_t i = 0; i < k * n; ++i)
    og_text_addf(&t->text, i > 0 ? ", %g" : "%g", (double)(draw(33) - 16) / 8);
  og_text_addf(&t->text, "]\n  %%b: f32[%d, %d]{%d, %d} = view(%%w)\n", (int)k,
               (int)n, (int)(has_rows ? 1 : n), (int)(has_rows ? k : 1));
}

// Of one row to several tasks of rows, and of a part of a panel to many panels.
static void packed_make(trial *t) {
  const int64_t m = 1 + draw(draw(3) == 0 ? 600 : 40);
  const int64_t n = 1 + draw(m > 40 ? 100 : 300), k = 1 + draw(40);
  const int64_t batch = m > 40 ? 1 : 1 + draw(3);
  const int64_t a[3] = {batch, m, k}, c[2] = {1, n};
  const bool has_c = draw(2) == 0;
  *t = (trial){.dtype = types[0], .elements = batch * m * n, .is_exact = true};
  if (has_c) operand_add(t, "c", t->dtype, 2, c);
  operand_add(t, "a", t->dtype, 3, a);
  weights_print(t, k, n);
  og_text_addf(&t->text, "  %%y: f32[%d, %d, %d] = %s\n  return %%y\n}\n",
               (int)batch, (int)m, (int)n,
               has_c ? "addmm(%c, %a, %b; beta=1, alpha=1)" : "matmul(%a, %b)");
}

// Rows of a mask that hide all keys or some: by -inf, and by the least number,
// which hides nothing where a whole row has it; or one key hides the others.
static void mask_change(operand *o) {
  static const double values[] = {-INFINITY, -FLT_MAX, 3e38};
  const double low = values[draw(3)];
  const int64_t rows = draw(3), each = 1 + draw(3);
  const int64_t *shape = o->shape, *strides = o->strides;
  for (int64_t i = 0; i < shape[0] * shape[1] * shape[2]; ++i)
    for (int64_t j = 0; i % 3 <= rows && j < shape[3]; j += each) {
      const int64_t at = i / shape[2] / shape[1] * strides[0] +
                         i / shape[2] % shape[1] * strides[1] +
                         i % shape[2] * strides[2] + j * strides[3];
      og_element_set_double(o->tensor.dtype, o->bytes + 4 * at, low);
    }
}

static void attention_make(trial *t) {
  static const og_dtype mask_types[] = {
      {OG_CODE_BOOL, 8, 1}, {OG_CODE_FLOAT, 32, 1}, {OG_CODE_BFLOAT, 16, 1}};
  const int64_t groups = 1 + draw(2), heads = groups * (1 + draw(2));
  const int64_t batch = 1 + draw(2), queries = 1 + draw(80);
  const int64_t keys = 1 + draw(80), width = 1 + draw(40);
  const int64_t value_width = draw(2) == 0 ? width : 1 + draw(40);
  const int64_t q[4] = {batch, heads, queries, width};
  const int64_t k[4] = {batch, groups, keys, width};
  const int64_t v[4] = {batch, groups, keys, value_width};
  const int64_t m[4] = {draw(2) == 0 ? 1 : batch, draw(2) == 0 ? 1 : heads,
                        draw(2) == 0 ? 1 : queries, draw(4) == 0 ? 1 : keys};
  const bool has_mask = draw(2) == 0, has_lse = draw(4) != 0;
  *t = (trial){.dtype = types[draw(3)],
               .elements = batch * heads * queries * value_width,
               .lse = has_lse ? batch * heads * queries : 0};
  operand_add(t, "q", t->dtype, 4, q);
  operand_add(t, "k", t->dtype, 4, k);
  operand_add(t, "v", t->dtype, 4, v);
  if (has_mask) operand_add(t, "m", mask_types[draw(3)], 4, m);
  if (has_mask && t->operands[3].tensor.dtype.bits == 32 && draw(2) == 0)
    mask_change(&t->operands[3]);
  og_text_addf(&t->text,
               ") {\n  %%y: %s[%d, %d, %d, %d], %%l: f32[%d, %d, %d] = "
               "attention(%%q, %%k, %%v, %s; causal=%s, scale=0.25)\n"
               "  return %%y%s\n}\n",
               og_dtype_name(t->dtype), (int)batch, (int)heads, (int)queries,
               (int)value_width, (int)batch, (int)heads, (int)queries,
               has_mask ? "%m" : "none", draw(3) == 0 ? "true" : "false",
               has_lse ? ", %l" : "");
}

// Indices that are in range, dense or not.
static void embedding_make(trial *t) {
  const int64_t table[2] = {1 + draw(50), 1 + draw(40)};
  const int64_t index[2] = {1 + draw(6), 1 + draw(9)};
  const int32_t ndim = 1 + (int32_t)draw(2);
  const int64_t places = ndim == 1 ? index[0] : index[0] * index[1];
  *t = (trial){.dtype = types[draw(sizeof types / sizeof *types)],
               .elements = places * table[1],
               .is_exact = true};
  operand_add(t, "w", t->dtype, 2, table);
  operand_add(t, "i", types[4], ndim, index);
  operand *o = &t->operands[1];
  for (int64_t i = 0; o->bytes != NULL && i < places; ++i) {
    const int64_t at =
        ndim == 1 ? i * o->strides[0]
                  : i / index[1] * o->strides[0] + i % index[1] * o->strides[1];
    og_element_set_int(types[4], o->bytes + 8 * at, draw(table[0]));
  }
  og_text_addf(&t->text, ") {\n  %%y: %s[%d", og_dtype_name(t->dtype),
               (int)index[0]);
  if (ndim == 2) og_text_addf(&t->text, ", %d", (int)index[1]);
  og_text_addf(&t->text, ", %d] = embedding(%%w, %%i)\n  return %%y\n}\n",
               (int)table[1]);
}

static bool machine_begin(machine *m, const char *text, const char *rules,
                          int32_t threads) {
  const opgraft_host host = {
      .struct_size = sizeof host, .threads = threads, .rules = rules};
  return machine_make(m, text, &host);
}

typedef struct outcome {
  char y[PLACES * 8], l[PLACES * 4];
} outcome;

// The results, and which kernels there were.
static bool trial_run(const trial *t, const char *rules, int32_t threads,
                      outcome *out, og_text *out_rules) {
  machine m = {0};
  opgraft_call call = {.struct_size = sizeof call};
  void *storages[2] = {out->y, out->l};
  char text[512] = "";
  const og_tensor *in[4];
  for (int32_t i = 0; i < t->count; ++i) in[i] = &t->operands[i].tensor;
  bool is_right = machine_begin(&m, t->text.data, rules, threads) &&
                  opgraft_executable_begin(m.executable, in, NULL, t->count,
                                           &call, &m.error) == OG_OK;
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

// Contractions are equal to the bit. Attention's softmax rounds: by its type's
// last place, and by what single precision loses in a few steps.
static bool is_near(og_dtype dtype, const char *a, const char *b, int64_t count,
                    bool is_exact) {
  const size_t item = og_dtype_bytes(dtype);
  const double last = dtype.bits == 32              ? 0x1p-23
                      : dtype.code == OG_CODE_FLOAT ? 0x1p-10
                                                    : 0x1p-7;
  if (is_exact) return memcmp(a, b, (size_t)count * item) == 0;
  for (int64_t i = 0; i < count; ++i) {
    const double x = og_element_double(dtype, a + (size_t)i * item);
    const double y = og_element_double(dtype, b + (size_t)i * item);
    const double size = y < 0 ? -y : y, apart = x < y ? y - x : x - y;
    if (x != y && !(apart <= last * size + 4e-6)) return false;
  }
  return true;
}

static bool is_same(const trial *t, const outcome *a, const outcome *b) {
  return is_near(t->dtype, a->y, b->y, t->elements, t->is_exact) &&
         is_near(types[0], a->l, b->l, t->lse, false);
}

// Whether every kernel gives the same; counts the fast ones.
static bool trial_agrees(const trial *t, int *fast) {
  static outcome plain, other;
  og_text chosen = {0}, again = {0};
  bool is_right = trial_run(t, "*: plain", 1, &plain, &chosen) &&
                  strstr(chosen.data, ": plain") != NULL;
  og_text_reset(&chosen);
  is_right =
      is_right && trial_run(t, NULL, 1 + (int32_t)draw(3), &other, &chosen);
  if (is_right && !is_same(t, &other, &plain)) {
    printf("%s differs:\n%s", chosen.data, t->text.data);
    is_right = false;
  }
  *fast += is_right && strstr(chosen.data, ": fast") != NULL;
  // What was chosen, given as rules, is chosen again.
  is_right = is_right && trial_run(t, chosen.data, 2, &other, &again) &&
             is_same(t, &other, &plain) &&
             (strstr(chosen.data, ": fast") != NULL) ==
                 (strstr(again.data, ": fast  # a rule says so") != NULL);
  og_text_reset(&chosen);
  og_text_reset(&again);
  return is_right;
}

static void all_agree(void (*make)(trial *t), int least_fast) {
  int fast = 0;
  for (int i = 0; i < TRIALS; ++i) {
    trial t;
    state = (uint64_t)i;
    make(&t);
    const bool is_right = trial_agrees(&t, &fast);
    trial_free(&t);
    if (!CHECK(is_right)) {
      printf("trial %d\n", i);
      return;
    }
  }
  CHECK(fast > least_fast);
}

TEST(contractions_agree) { all_agree(contraction_make, TRIALS / 3); }
TEST(packed_contractions_agree) { all_agree(packed_make, TRIALS - 1); }
TEST(attention_agrees) { all_agree(attention_make, TRIALS - 1); }

TEST(embeddings_agree) { all_agree(embedding_make, TRIALS / 20); }

// One key of a query is so far above the others that base 2 cannot hold their
// distance: its value is the result.
TEST(one_key_of_many_counts) {
  enum { QUERIES = 64, KEYS = 96, WIDTH = 8 };
  static const char text[] =
      "graph t(%q: f32[1, 1, 64, 8], %k: f32[1, 1, 96, 8], %v: f32[1, 1, 96, "
      "8], %m: f32[1, 1, 64, 96]) {\n"
      "  %y: f32[1, 1, 64, 8], %l: f32[1, 1, 64] = attention(%q, %k, %v, %m)\n"
      "  return %y\n}\n";
  static float q[QUERIES * WIDTH], k[KEYS * WIDTH], v[KEYS * WIDTH],
      mask[QUERIES * KEYS], y[QUERIES * WIDTH];
  float *const data[4] = {q, k, v, mask};
  int64_t shapes[4][4] = {{1, 1, QUERIES, WIDTH},
                          {1, 1, KEYS, WIDTH},
                          {1, 1, KEYS, WIDTH},
                          {1, 1, QUERIES, KEYS}};
  int64_t strides[4][4];
  og_tensor tensors[4];
  const og_tensor *in[4];
  machine m = {0};
  opgraft_call call = {.struct_size = sizeof call};
  void *storages[1] = {y};
  for (int32_t i = 0; i < 4; ++i) {
    const int64_t count = og_row_major(shapes[i], 4, strides[i]);
    for (int64_t j = 0; j < count && i < 3; ++j)
      data[i][j] = (float)(draw(33) - 16) / 8;
    tensors[i] = (og_tensor){.data = data[i],
                             .device = {OG_CPU, 0},
                             .ndim = 4,
                             .dtype = types[0],
                             .shape = shapes[i],
                             .strides = strides[i]};
    in[i] = &tensors[i];
  }
  for (int64_t r = 0; r < QUERIES; ++r) mask[r * KEYS + r * 7 % KEYS] = 3e38f;
  REQUIRE(machine_begin(&m, text, "attention: fast", 2));
  REQUIRE(opgraft_executable_begin(m.executable, in, NULL, 4, &call,
                                   &m.error) == OG_OK);
  const og_status status = opgraft_call_run(&call, storages, &m.error);
  opgraft_call_end(&call);
  REQUIRE(status == OG_OK);
  CHECK_EQ(stats_of(&m).fast_nodes, 1);
  for (int64_t r = 0; r < QUERIES; ++r)
    CHECK(memcmp(y + r * WIDTH, v + r * 7 % KEYS * WIDTH, WIDTH * sizeof *y) ==
          0);
done:
  machine_free(&m);
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
    opgraft_call call = {.struct_size = sizeof call};
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
  refused("negg: fast", "line 1: found \"negg\", which is not an operator");
  refused("neg f32[2]\n", "line 1: found \"neg f32[2]\", expected");
  refused(": fast", "line 1: found \"\"");
  refused("*:", "found \"\" behind");
}

TEST_MAIN("exec_choose", CASE_NO_FAULTS(contractions_agree),
          CASE_NO_FAULTS(packed_contractions_agree),
          CASE_NO_FAULTS(attention_agrees), CASE_NO_FAULTS(embeddings_agree),
          CASE_NO_FAULTS(one_key_of_many_counts),
          CASE(constants_are_packed_once), CASE(rules_that_are_wrong))
