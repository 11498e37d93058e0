// SPDX-License-Identifier: Apache-2.0
// Row programs as epilogues of the contraction that they read, as many as the
// argument says: `exec_epilogue 20000`.
//
// What a program gives on finished tiles equals what it gives apart, after the
// contraction, bit for bit but for which NaN it is: of random contractions and
// programs, with tails of rows and columns, batches, several results, operands
// of any type that repeat, results in place and a result that others read too.

#define _GNU_SOURCE
#include <math.h>
#include <opgraft/executable.h>

#include "unit/loop_grow.h"
#include "unit/machine.h"

enum { TRIALS = 200, TENSORS_MAX = 8, RANK = 3, ROWS_MAX = 70 };

static int64_t trial_count = TRIALS;

typedef struct operand {
  og_tensor tensor;
  int64_t shape[RANK], strides[RANK];
  size_t bytes;
  char *data, *kept;  // for the next run
} operand;

typedef struct trial {
  grown program;
  operand in[TENSORS_MAX];
  int32_t in_count;
  operand out[TENSORS_MAX];  // in storages of the graph
  int32_t out_count;
  og_text text;
  uint64_t state;
} trial;

static int64_t draw(trial *t, int64_t below) {
  return (int64_t)(loop_draw(&t->state) % (uint64_t)below);
}

// --- Tensors -----------------------------------------------------------------

static float number(trial *t) {
  static const float special[] = {0,    -0.0f,     INFINITY, -INFINITY,
                                  NAN,  0x1p-149f, 0x1p127f, -1,
                                  1e6f, -88.5f};
  return draw(t, 40) == 0 ? special[draw(t, 10)]
                          : (float)(draw(t, 4001) - 2000) / 1024;
}

static void operand_make(operand *o, og_dtype dtype, int32_t ndim,
                         const int64_t *shape) {
  int64_t elements = 1;
  *o = (operand){.tensor = {.device = {OG_CPU, 0},
                            .ndim = ndim,
                            .dtype = dtype,
                            .shape = o->shape,
                            .strides = o->strides}};
  for (int32_t d = ndim - 1; d >= 0; --d) {
    o->shape[d] = shape[d];
    o->strides[d] = elements;
    elements *= shape[d];
  }
  o->bytes = (size_t)elements * og_dtype_bytes(dtype);
  o->data = malloc(o->bytes + 1);
  o->kept = malloc(o->bytes + 1);
  o->tensor.data = o->data;
}

static bool operand_fill(trial *t, operand *o) {
  if (o->data == NULL || o->kept == NULL) return false;
  const og_dtype dtype = o->tensor.dtype;
  const int64_t count = (int64_t)(o->bytes / og_dtype_bytes(dtype));
  const bool is_float =
      dtype.code == OG_CODE_FLOAT || dtype.code == OG_CODE_BFLOAT;
  for (int64_t i = 0; i < count; ++i) {
    const float x = number(t);
    loop_set(dtype, o->kept, i, is_float || fabsf(x) < 100 ? x : 1);
  }
  return true;
}

static void type_print(const operand *o, og_text *out) {
  og_text_addf(out, "%s[", og_dtype_name(o->tensor.dtype));
  for (int32_t d = 0; d < o->tensor.ndim; ++d)
    og_text_addf(out, d > 0 ? ", %d" : "%d", (int)o->shape[d]);
  og_text_add(out, "]");
}

// An input of the graph.
static operand *input_add(trial *t, const char *name, og_dtype dtype,
                          int32_t ndim, const int64_t *shape) {
  operand *o = &t->in[t->in_count];
  operand_make(o, dtype, ndim, shape);
  og_text_addf(&t->text,
               t->in_count++ == 0 ? "graph t(%%%s: " : ", %%%s: ", name);
  type_print(o, &t->text);
  return o;
}

static operand *result_add(trial *t, og_dtype dtype, int32_t ndim,
                           const int64_t *shape) {
  operand *o = &t->out[t->out_count++];
  operand_make(o, dtype, ndim, shape);
  return o;
}

static void trial_free(trial *t) {
  for (int32_t i = 0; i < t->in_count; ++i) {
    free(t->in[i].data);
    free(t->in[i].kept);
  }
  for (int32_t i = 0; i < t->out_count; ++i) {
    free(t->out[i].data);
    free(t->out[i].kept);
  }
  og_text_reset(&t->text);
}

// --- A trial -----------------------------------------------------------------

// Elementwise statements; some ask for the row's width, which tiles do not
// have.
static void program_make(trial *t) {
  grown *g = &t->program;
  char name[16];
  *g = (grown){.state = t->state};
  g->in_count = 1 + grow_draw(g, GROW_INPUTS_MAX);
  g->out_count = 1 + grow_draw(g, GROW_OUTPUTS_MAX);
  const int32_t values = grow_draw(g, 6);
  for (int32_t k = 0; k < values; ++k) {
    snprintf(name, sizeof name, "s%d", (int)k);
    grow_statement(g, name, false);
    g->names = k + 1;
  }
  for (int32_t k = 0; k < g->out_count; ++k) {
    snprintf(name, sizeof name, "y%d", (int)k);
    grow_statement(g, name, false);
  }
  t->state = g->state;
}

typedef struct drawn {
  int64_t batch, m, n, k;
  og_dtype dtype;
  int32_t skip;     // 1: no batch
  int32_t viewed;   // the program's rows are of a view without batch
  int32_t tile_at;  // its operand that is the contraction's result
} drawn;

static drawn sizes_draw(trial *t) {
  static const og_dtype types[] = {{OG_CODE_FLOAT, 32, 1},
                                   {OG_CODE_FLOAT, 32, 1},
                                   {OG_CODE_BFLOAT, 16, 1},
                                   {OG_CODE_FLOAT, 16, 1}};
  drawn s = {.batch = 1 + draw(t, 3),
             .m = 1 + draw(t, draw(t, 8) == 0 ? 300 : ROWS_MAX),
             .n = 1 + draw(t, draw(t, 2) == 0 ? 200 : 40),
             .k = 1 + draw(t, draw(t, 3) == 0 ? 300 : 30),
             .dtype = types[draw(t, 4)],
             .skip = (int32_t)draw(t, 2)};
  s.viewed = !s.skip && draw(t, 2) == 0;
  s.tile_at = (int32_t)draw(t, t->program.in_count);
  return s;
}

static void contraction_print(trial *t, const drawn *s, bool has_c) {
  static const char *const scales[] = {"beta=1, alpha=1", "beta=1, alpha=1",
                                       "beta=0, alpha=1", "beta=2, alpha=0.5"};
  og_text_add(&t->text, ") {\n  %y: ");
  og_text_addf(&t->text, "%s[", og_dtype_name(s->dtype));
  if (!s->skip) og_text_addf(&t->text, "%d, ", (int)s->batch);
  og_text_addf(&t->text, "%d, %d] = ", (int)s->m, (int)s->n);
  if (has_c)
    og_text_addf(&t->text, "addmm(%%c, %%a, %%b; %s)\n", scales[draw(t, 4)]);
  else
    og_text_add(&t->text, "matmul(%a, %b)\n");
  if (s->viewed)
    og_text_addf(&t->text, "  %%v: %s[%d, %d] = view(%%y)\n",
                 og_dtype_name(s->dtype), (int)(s->batch * s->m), (int)s->n);
}

// The program's other operands: whole, one row, one element a row, one.
static void others_add(trial *t, const drawn *s, int32_t ndim,
                       const int64_t *whole) {
  char name[16];
  for (int32_t i = 0; i < t->program.in_count; ++i) {
    int64_t own[RANK];
    if (i == s->tile_at) continue;
    memcpy(own, whole, (size_t)ndim * sizeof *own);
    if (draw(t, 3) == 0) own[ndim - 1] = 1;
    if (draw(t, 3) == 0) own[ndim - 2] = 1;
    if (ndim == 3 && draw(t, 3) == 0) own[0] = 1;
    const int32_t fewer = (int32_t)draw(t, 4) == 0 ? ndim - 1 : 0;
    snprintf(name, sizeof name, "x%d", (int)i);
    input_add(t, name, grow_dtype(&t->program), ndim - fewer, own + fewer);
  }
}

// The input whose memory a result may take: of its shape; NULL: none.
static const operand *place_of(trial *t, const operand *result, int32_t first) {
  for (int32_t i = first; i < t->in_count; ++i) {
    const operand *o = &t->in[i];
    bool same = o->tensor.ndim == result->tensor.ndim &&
                og_dtype_equal(o->tensor.dtype, result->tensor.dtype);
    for (int32_t d = 0; same && d < o->tensor.ndim; ++d)
      same = o->shape[d] == result->shape[d];
    if (same) return o;
  }
  return NULL;
}

static void program_print(trial *t, const drawn *s, int32_t ndim,
                          const int64_t *whole, int32_t others) {
  // Where rows count, a program overwrites nothing.
  const char *text = t->program.text;
  const bool in_place = draw(t, 3) == 0 && strstr(text, "width") == NULL &&
                        strstr(text, "row_") == NULL;
  for (int32_t r = 0; r < t->program.out_count; ++r) {
    operand *o = result_add(t, grow_dtype(&t->program), ndim, whole);
    og_text_addf(&t->text, r == 0 ? "  %%z%d: " : ", %%z%d: ", (int)r);
    type_print(o, &t->text);
    const operand *place = r == 0 && in_place ? place_of(t, o, others) : NULL;
    if (place == NULL) continue;
    int32_t x = (int32_t)(place - &t->in[others]);
    if (x >= s->tile_at) ++x;
    og_text_addf(&t->text, " in %%x%d", (int)x);
    free(o->data);
    free(o->kept);
    --t->out_count;
  }
  og_text_add(&t->text, " = fused(");
  for (int32_t i = 0; i < t->program.in_count; ++i) {
    if (i > 0) og_text_add(&t->text, ", ");
    if (i == s->tile_at)
      og_text_add(&t->text, s->viewed ? "%v" : "%y");
    else
      og_text_addf(&t->text, "%%x%d", (int)i);
  }
  og_text_addf(&t->text, "; program=\"%s\")\n", t->program.text);
}

static void returns_print(trial *t, const drawn *s) {
  og_text_add(&t->text, "  return ");
  for (int32_t r = 0; r < t->program.out_count; ++r)
    og_text_addf(&t->text, r == 0 ? "%%z%d" : ", %%z%d", (int)r);
  if (draw(t, 3) == 0) {
    const int64_t result[3] = {s->batch, s->m, s->n};
    result_add(t, s->dtype, 3 - s->skip, result + s->skip);
    og_text_add(&t->text, ", %y");
  }
  og_text_add(&t->text, "\n}\n");
}

static bool trial_make(trial *t, uint64_t seed) {
  *t = (trial){.state = seed * 2654435761u + 7};
  program_make(t);
  const drawn s = sizes_draw(t);
  const int64_t a[3] = {s.batch, s.m, s.k}, b[3] = {s.batch, s.k, s.n};
  const int64_t c[3] = {s.batch, draw(t, 2) == 0 ? 1 : s.m,
                        draw(t, 4) == 0 ? 1 : s.n};
  const int64_t result[3] = {s.batch, s.m, s.n};
  const int64_t rows[3] = {s.batch * s.m, s.n, 0};
  const bool has_c = draw(t, 2) == 0;
  const int32_t c_skip = draw(t, 2) == 0 ? 1 : s.skip;
  const int32_t ndim = s.viewed ? 2 : 3 - s.skip;
  const int64_t *whole = s.viewed ? rows : result + s.skip;
  if (has_c) input_add(t, "c", s.dtype, 3 - c_skip, c + c_skip);
  input_add(t, "a", s.dtype, 3 - s.skip, a + s.skip);
  input_add(t, "b", s.dtype, 3 - s.skip, b + s.skip);
  const int32_t others = t->in_count;
  others_add(t, &s, ndim, whole);
  contraction_print(t, &s, has_c);
  program_print(t, &s, ndim, whole, others);
  returns_print(t, &s);
  bool is_made = true;
  for (int32_t i = 0; i < t->in_count; ++i)
    is_made &= operand_fill(t, &t->in[i]);
  return is_made;
}

// --- Running and comparing ---------------------------------------------------

// The results are in the operands' data, and the inputs as they are then.
static bool trial_run(trial *t, const opgraft_host *host, og_text *out_rules) {
  machine m = {0};
  opgraft_call call = {.struct_size = sizeof call};
  void *storages[TENSORS_MAX];
  const og_tensor *in[TENSORS_MAX];
  char rules[1024];
  for (int32_t i = 0; i < t->in_count; ++i) {
    in[i] = &t->in[i].tensor;
    memcpy(t->in[i].data, t->in[i].kept, t->in[i].bytes);
  }
  for (int32_t i = 0; i < t->out_count; ++i) {
    storages[i] = t->out[i].data;
    memset(t->out[i].data, 0x5a, t->out[i].bytes);
  }
  bool is_right = machine_make(&m, t->text.data, host) &&
                  opgraft_executable_begin(m.executable, in, NULL, t->in_count,
                                           &call, &m.error) == OG_OK;
  if (is_right) {
    is_right = opgraft_call_run(&call, storages, &m.error) == OG_OK;
    opgraft_executable_rules(m.executable, rules, sizeof rules);
    og_text_reset(out_rules);
    og_text_add(out_rules, rules);
    opgraft_call_end(&call);
  }
  if (!is_right) printf("%s\n%s", m.error.text, t->text.data);
  machine_free(&m);
  return is_right;
}

static bool same_numbers(og_dtype dtype, const char *a, const char *b,
                         size_t bytes) {
  const size_t item = og_dtype_bytes(dtype);
  const bool is_float =
      dtype.code == OG_CODE_FLOAT || dtype.code == OG_CODE_BFLOAT;
  for (size_t i = 0; i < bytes / item; ++i) {
    if (memcmp(a + i * item, b + i * item, item) == 0) continue;
    const float x = loop_get(dtype, a, (int64_t)i);
    const float y = loop_get(dtype, b, (int64_t)i);
    if (is_float && isnan(x) && isnan(y)) continue;
    printf("element %d is %a, apart %a\n", (int)i, (double)x, (double)y);
    return false;
  }
  return true;
}

// What a run gave: results, then inputs.
static char *outcome_copy(const trial *t) {
  size_t bytes = 1, at = 0;
  for (int32_t i = 0; i < t->out_count; ++i) bytes += t->out[i].bytes;
  for (int32_t i = 0; i < t->in_count; ++i) bytes += t->in[i].bytes;
  char *copy = malloc(bytes);
  if (copy == NULL) return NULL;
  for (int32_t i = 0; i < t->out_count; at += t->out[i++].bytes)
    memcpy(copy + at, t->out[i].data, t->out[i].bytes);
  for (int32_t i = 0; i < t->in_count; at += t->in[i++].bytes)
    memcpy(copy + at, t->in[i].data, t->in[i].bytes);
  return copy;
}

static bool is_outcome(const trial *t, const char *expected) {
  bool same = true;
  for (int32_t i = 0; i < t->out_count; expected += t->out[i++].bytes)
    same &= same_numbers(t->out[i].tensor.dtype, t->out[i].data, expected,
                         t->out[i].bytes);
  for (int32_t i = 0; i < t->in_count; expected += t->in[i++].bytes)
    same &= same_numbers(t->in[i].tensor.dtype, t->in[i].data, expected,
                         t->in[i].bytes);
  return same;
}

typedef struct tally {
  int64_t epilogues, needing_rows, others;
} tally;

static void rules_count(const char *rules, tally *count) {
  if (strstr(rules, ": epilogue  #") != NULL)
    ++count->epilogues;
  else if (strstr(rules, "it needs whole rows") != NULL)
    ++count->needing_rows;
  else
    ++count->others;
}

static bool trial_agrees(trial *t, tally *count) {
  static const int32_t threads[] = {1, 2, 4};
  opgraft_host host = {
      .struct_size = sizeof host, .threads = 1, .rules = "fused: fast"};
  og_text rules = {0};
  bool is_right = trial_run(t, &host, &rules) &&
                  strstr(rules.data, ": epilogue  #") == NULL;
  char *expected = is_right ? outcome_copy(t) : NULL;
  is_right &= expected != NULL;
  host.rules = NULL;
  for (int32_t k = 0; is_right && k < 3; ++k) {
    host.threads = threads[k];
    host.flags = draw(t, 4) == 0 ? OPGRAFT_HOST_UNSHARED : 0;
    if (k == 2 && draw(t, 4) == 0) host.flags |= OPGRAFT_HOST_LANES_NOW;
    is_right = trial_run(t, &host, &rules) && is_outcome(t, expected);
    if (!is_right)
      printf("%d threads, flags %u:\n%s%s", (int)threads[k],
             (unsigned)host.flags, rules.data, t->text.data);
  }
  if (is_right) rules_count(rules.data, count);
  free(expected);
  og_text_reset(&rules);
  return is_right;
}

TEST(programs_agree) {
  tally count = {0};
  for (int64_t i = 0; i < trial_count; ++i) {
    trial t;
    const bool is_right =
        trial_make(&t, (uint64_t)i) && trial_agrees(&t, &count);
    trial_free(&t);
    if (!CHECK(is_right)) {
      printf("trial %d\n", (int)i);
      return;
    }
  }
  printf("%d epilogues, %d that need rows, %d others\n", (int)count.epilogues,
         (int)count.needing_rows, (int)count.others);
  CHECK(count.epilogues * 2 > trial_count);
}

// --- Sizes that vary ---------------------------------------------------------

enum { WIDE = 37, DEEP = 5 };

static void rows_fill(float *x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) x[i] = (float)(i * 7 % 23 - 11) / 8;
}

static bool rows_run(machine *m, int64_t rows, float *y) {
  float x[ROWS_MAX * DEEP], r[ROWS_MAX * WIDE];
  int64_t shape[2][2] = {{rows, DEEP}, {rows, WIDE}};
  int64_t strides[2][2] = {{DEEP, 1}, {WIDE, 1}};
  og_tensor tensors[2];
  const og_tensor *in[2] = {&tensors[0], &tensors[1]};
  opgraft_call call = {.struct_size = sizeof call};
  void *storages[1] = {y};
  rows_fill(x, rows * DEEP);
  rows_fill(r, rows * WIDE);
  for (int32_t i = 0; i < 2; ++i)
    tensors[i] = (og_tensor){.data = i == 0 ? x : r,
                             .device = {OG_CPU, 0},
                             .ndim = 2,
                             .dtype = loop_f32,
                             .shape = shape[i],
                             .strides = strides[i]};
  if (opgraft_executable_begin(m->executable, in, NULL, 2, &call, &m->error) !=
      OG_OK)
    return false;
  const og_status status = opgraft_call_run(&call, storages, &m->error);
  opgraft_call_end(&call);
  return status == OG_OK;
}

static void constant_print(og_text *out) {
  float w[DEEP * WIDE];
  rows_fill(w, DEEP * WIDE);
  og_text_addf(out, "  constant %%w: f32[%d, %d] = [", DEEP, WIDE);
  for (int32_t i = 0; i < DEEP * WIDE; ++i)
    og_text_addf(out, i > 0 ? ", %g" : "%g", (double)w[i]);
  og_text_add(out, "]\n");
}

// One graph, a constant that is packed once, and each number of rows.
TEST(sizes_that_vary) {
  machine joined = {0}, apart = {0};
  og_text text = {0};
  opgraft_host host = {.struct_size = sizeof host, .threads = 2};
  static float y[ROWS_MAX * WIDE], expected[ROWS_MAX * WIDE];
  og_text_addf(&text, "graph t(%%x: f32[s0, %d], %%r: f32[s0, %d]) {\n", DEEP,
               WIDE);
  constant_print(&text);
  og_text_addf(&text,
               "  %%y: f32[s0, %d] = matmul(%%x, %%w)\n"
               "  %%z: f32[s0, %d] = fused(%%y, %%r; program=\"y0 = half * x0 "
               "* (1 + erf(x0 * sqrt_half)) + x1\")\n  return %%z\n}\n",
               WIDE, WIDE);
  REQUIRE(!text.failed && machine_make(&joined, text.data, &host));
  host.rules = "fused: fast";
  REQUIRE(machine_make(&apart, text.data, &host));
  for (int64_t rows = 1; rows <= ROWS_MAX; ++rows) {
    REQUIRE(rows_run(&joined, rows, y) && rows_run(&apart, rows, expected));
    REQUIRE(memcmp(y, expected, (size_t)(rows * WIDE) * sizeof *y) == 0);
  }
  CHECK_EQ(stats_of(&joined).fast_nodes, 2);
done:
  machine_free(&joined);
  machine_free(&apart);
  og_text_reset(&text);
}

// --- Why not -----------------------------------------------------------------

// Plans a graph and says who runs its last fused node.
static bool is_said(const char *text, const char *rules, const char *wanted) {
  const opgraft_host host = {
      .struct_size = sizeof host, .threads = 1, .rules = rules};
  machine m = {0};
  char said[2048] = "", described[8192] = "";
  bool found =
      machine_make(&m, text, &host) &&
      opgraft_executable_plan(m.executable, NULL, NULL, 0, &m.error) == OG_OK;
  if (found) {
    opgraft_executable_rules(m.executable, said, sizeof said);
    opgraft_executable_describe(m.executable, described, sizeof described);
    const char *reason = strstr(wanted, "# ");
    found = strstr(said, wanted) != NULL;
    if (strstr(wanted, ": epilogue") != NULL)
      found &= strstr(described, "\"epilogues\": 1") != NULL;
    else if (strstr(text, "matmul") != NULL)
      found &= strstr(described, reason + 2) != NULL;
  }
  if (!found && test_now.fault < 0)
    printf("%s\nwanted: %s\nsaid: %s%s\n", m.error.text, wanted, said,
           described);
  machine_free(&m);
  return found;
}

#define GRAPH(body)                                               \
  "graph t(%x: f32[4, 3], %w: f32[3, 3], %r: f32[4, 3]) {\n" body \
  "  return %z\n}\n"
#define PRODUCT "  %y: f32[4, 3] = matmul(%x, %w)\n"

TEST(refusals) {
  static const struct {
    const char *text, *rules, *wanted;
  } cases[] = {
      {GRAPH(PRODUCT "  %z: f32[4, 3] = fused(%y, %r; program=\"y0 = x0 + "
                     "x1\")\n"),
       NULL, ": epilogue  # it runs on each tile"},
      {GRAPH(PRODUCT "  %z: f32[4, 3] = fused(%y, %r; program=\"m = "
                     "row_sum(x0); y0 = x1 - m\")\n"),
       NULL, ": fast  # it needs whole rows"},
      {GRAPH(PRODUCT "  %s: f32[4, 3] = neg(%r)\n"
                     "  %z: f32[4, 3] = fused(%y, %s; program=\"y0 = x0 + "
                     "x1\")\n"),
       NULL, ": fast  # another node or a lane's end stands"},
      {GRAPH(PRODUCT "  %z: f32[4, 3] = fused(%y, %r; program=\"y0 = x0 + "
                     "x1\")\n"),
       "matmul: plain", ": fast  # another kernel runs the contraction"},
      {GRAPH(PRODUCT "  %z: f32[4, 3] in %x = fused(%y, %x; program=\"y0 = x0 "
                     "+ x1\")\n"),
       NULL, ": fast  # it overwrites what the contraction reads"},
      {GRAPH(PRODUCT "  %v: f32[2, 6] = view(%y)\n  %z: f32[2, 6] = fused(%v; "
                     "program=\"y0 = exp(x0)\")\n"),
       NULL, ": fast  # its rows are not those of the contraction"},
      {GRAPH(PRODUCT "  %v: f32[3, 4]{1, 3} = view(%y)\n  %z: f32[3, 4] = "
                     "fused(%v; program=\"y0 = exp(x0)\")\n"),
       NULL, ": fast  # its rows are not those of the contraction"},
      {GRAPH(PRODUCT "  %v: f32[4, 3]{1, 4} = view(%r)\n  %z: f32[4, 3] = "
                     "fused(%y, %v; program=\"y0 = x0 * x1\")\n"),
       NULL, ": epilogue  # it runs on each tile"},
      {GRAPH("  %z: f32[4, 3] = fused(%x; program=\"y0 = exp(x0)\")\n"),
       "fused: epilogue", ": fast  # it reads no contraction's result"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
    CHECK(is_said(cases[i].text, cases[i].rules, cases[i].wanted));
}

static const test_case cases[] = {CASE_NO_FAULTS(programs_agree),
                                  CASE(sizes_that_vary), CASE(refusals)};

int main(int argc, char **argv) {
  if (argc > 1) trial_count = strtoll(argv[1], NULL, 10);
  return test_run_all("exec_epilogue", cases, sizeof cases / sizeof *cases);
}
