// SPDX-License-Identifier: Apache-2.0
// Operators of a module in a graph: called directly, in place, with arguments
// whose strides the kernel does not take, with a workspace, and as their
// embedder made them ready.

#include <opgraft/executable.h>
#include <stdlib.h>

#include "test.h"

enum { N, D };

// y = x * factor + the sum of the row, kept in the workspace on the way.
static og_status scale_run(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  float *sums = call->workspace;
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    sums[r] = 0;
    for (int64_t i = 0; i < width; ++i) sums[r] += x[r * width + i];
    for (int64_t i = 0; i < width; ++i)
      y[r * width + i] = x[r * width + i] * (float)call->attr[0].f + sums[r];
  }
  return OG_OK;
}

static og_status add_to_run(const og_call *call) {
  float *x = og_f32_mut(call->out[0]);
  const float *y = og_f32(call->in[1]);
  if (call->attr[0].i < 0) return og_fail(call, OG_KERNEL, "times is negative");
  for (int64_t i = 0; i < og_numel(call->out[0]); ++i)
    x[i] += y[i] * (float)call->attr[0].i;
  return OG_OK;
}

static const og_kernel scale_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = scale_run}};
static const og_kernel add_to_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = add_to_run}};

static const og_op ops[] = {
    {.schema = "scale(Tensor x, float factor=2.0) -> Tensor",
     .shape = "x[*N, D] -> [*N, D]",
     .dtype = "x: f32 -> x",
     .workspace = "prod(N) * 4",
     .kernels = OG_KERNELS(scale_kernels)},
    {.schema = "add_to(Tensor(a!) x, Tensor y, int times=1) -> ()",
     .shape = "x[*N], y[*N] ->",
     .dtype = "x: f32, y: x ->",
     .kernels = OG_KERNELS(add_to_kernels)},
};

static const og_module record = {.struct_size = sizeof record,
                                 .abi_version = OG_ABI_VERSION,
                                 .name = "demo",
                                 .ops = ops,
                                 .op_count = 2,
                                 .op_size = sizeof(og_op)};

typedef struct setup {
  opgraft_module *module;
  opgraft_graph *graph;
  opgraft_executable *executable;
  opgraft_error error;
  opgraft_size shape[2], strides[2];
  opgraft_value x, y;
} setup;

static bool setup_with(setup *s, bool transposed, opgraft_module *module) {
  s->module = module;
  if (opgraft_graph_create("g", &s->graph, &s->error) != OG_OK ||
      opgraft_graph_add_module(s->graph, s->module, &s->error) != OG_OK ||
      opgraft_graph_size_parse(s->graph, "s0", &s->shape[0], &s->error) ||
      opgraft_graph_size(s->graph, 2, &s->shape[1], &s->error) != OG_OK ||
      opgraft_graph_size(s->graph, 1, &s->strides[transposed ? 0 : 1],
                         &s->error) != OG_OK)
    return false;
  s->strides[transposed ? 1 : 0] = s->shape[transposed ? 0 : 1];
  const opgraft_value_info info = {.struct_size = sizeof info,
                                   .dtype = {OG_CODE_FLOAT, 32, 1},
                                   .ndim = 2,
                                   .shape = s->shape,
                                   .strides = s->strides};
  return opgraft_graph_add_input(s->graph, "x", &info, &s->x, &s->error) ==
             OG_OK &&
         opgraft_graph_add_input(s->graph, "y", &info, &s->y, &s->error) ==
             OG_OK;
}

static bool setup_make(setup *s, bool transposed) {
  opgraft_module *module;
  memset(s, 0, sizeof *s);
  return opgraft_module_wrap(&record, &module, &s->error) == OG_OK &&
         setup_with(s, transposed, module);
}

static void setup_free(setup *s) {
  opgraft_executable_release(s->executable);
  opgraft_graph_release(s->graph);
  if (s->module != NULL) opgraft_module_release(s->module);
}

static og_status add_node(setup *s, const char *name, const opgraft_arg *args,
                          int32_t count, opgraft_value *out) {
  const opgraft_value_info info = {.struct_size = sizeof info,
                                   .dtype = {OG_CODE_FLOAT, 32, 1},
                                   .ndim = 2,
                                   .shape = s->shape};
  const opgraft_record node = {.struct_size = sizeof node,
                               .name = name,
                               .args = args,
                               .arg_count = count,
                               .result_count = 1,
                               .results = &info,
                               .result_size = sizeof(opgraft_value_info),
                               .file = "m.py",
                               .line = 4};
  return opgraft_graph_add_node(s->graph, &node, out, &s->error);
}

// Runs on two rows; `x` and `y` hold four numbers each.
static og_status run(setup *s, float *x, float *y, float *out,
                     bool transposed) {
  int64_t shape[2] = {2, 2};
  int64_t strides[2] = {transposed ? 1 : 2, transposed ? 2 : 1};
  const og_tensor a = {.data = x,
                       .device = {OG_CPU, 0},
                       .ndim = 2,
                       .dtype = {OG_CODE_FLOAT, 32, 1},
                       .shape = shape,
                       .strides = strides};
  og_tensor b = a;
  b.data = y;
  const og_tensor *in[2] = {&a, &b};
  void *storages[1] = {out};
  opgraft_call call = {.struct_size = sizeof call};
  og_status status =
      opgraft_executable_begin(s->executable, in, NULL, 2, &call, &s->error);
  if (status != OG_OK) return status;
  status = opgraft_call_run(&call, storages, &s->error);
  opgraft_call_end(&call);
  return status;
}

static const opgraft_host host = {.struct_size = sizeof host, .threads = 1};

static og_status finish(setup *s) {
  const og_status status = opgraft_graph_finish(s->graph, NULL, &s->error);
  if (status != OG_OK) return status;
  return opgraft_executable_create(s->graph, &host, &s->executable, &s->error);
}

static opgraft_arg tensor(opgraft_value value, int16_t written) {
  return (opgraft_arg){
      .kind = OPGRAFT_ARG_VALUE, .written = written, .value = value};
}

static void scale_case(bool transposed) {
  setup s;
  opgraft_value out = -1;
  float x[4] = {1, 2, 3, 4}, y[4] = {0}, found[4];
  REQUIRE(setup_make(&s, transposed));
  const opgraft_arg args[2] = {
      tensor(s.x, 0), {.name = "factor", .kind = OPGRAFT_ARG_FLOAT, .f = 10}};
  REQUIRE(add_node(&s, "demo.scale.default", args, 2, &out) == OG_OK);
  REQUIRE(opgraft_graph_add_output(s.graph, out, &s.error) == OG_OK);
  REQUIRE(finish(&s) == OG_OK);
  for (int round = 0; round < 3; ++round) {
    REQUIRE(run(&s, x, y, found, transposed) == OG_OK);
    CHECK_EQ(found[0], transposed ? 10 + 4 : 10 + 3);
    CHECK_EQ(found[3], transposed ? 40 + 6 : 40 + 7);
    CHECK_EQ(found[1], transposed ? 30 + 4 : 20 + 3);
  }
done:
  setup_free(&s);
}

TEST(is_called_directly) { scale_case(false); }
TEST(arguments_are_fitted) { scale_case(true); }

TEST(mutates_in_place) {
  setup s;
  opgraft_value out = -1;
  float x[4] = {1, 2, 3, 4}, y[4] = {1, 1, 1, 1}, found[4] = {0};
  REQUIRE(setup_make(&s, false));
  const opgraft_arg args[4] = {{.kind = OPGRAFT_ARG_STR, .s = "demo.add_to"},
                               tensor(s.x, 1),
                               tensor(s.y, 0),
                               {.kind = OPGRAFT_ARG_INT, .i = 3}};
  REQUIRE(add_node(&s, "auto_functionalized", args, 4, &out) == OG_OK);
  const opgraft_arg back[2] = {tensor(s.x, 0), tensor(out, 0)};
  REQUIRE(add_node(&s, "aten.copy_.default", back, 2, &out) == OG_OK);
  REQUIRE(finish(&s) == OG_OK);
  REQUIRE(run(&s, x, y, found, false) == OG_OK);
  REQUIRE(run(&s, x, y, found, false) == OG_OK);
  CHECK_EQ(x[0], 7);
  CHECK_EQ(x[3], 10);
  opgraft_stats stats = {.struct_size = sizeof stats};
  opgraft_executable_stats(s.executable, &stats, NULL);
  CHECK_EQ(stats.clones, 0);
  CHECK_EQ(stats.fallbacks, 0);
done:
  setup_free(&s);
}

TEST(a_kernels_reason_reaches_the_caller) {
  setup s;
  opgraft_value out = -1;
  float x[4] = {1, 2, 3, 4}, y[4] = {1, 1, 1, 1}, found[4] = {0};
  REQUIRE(setup_make(&s, false));
  const opgraft_arg args[4] = {{.kind = OPGRAFT_ARG_STR, .s = "demo.add_to"},
                               tensor(s.x, 1),
                               tensor(s.y, 0),
                               {.kind = OPGRAFT_ARG_INT, .i = -1}};
  REQUIRE(add_node(&s, "auto_functionalized", args, 4, &out) == OG_OK);
  REQUIRE(opgraft_graph_add_output(s.graph, out, &s.error) == OG_OK);
  REQUIRE(finish(&s) == OG_OK);
  CHECK_EQ(run(&s, x, y, found, false), OG_KERNEL);
  CHECK_STR(s.error.text, "demo.add_to (m.py:4): add_to: times is negative");
  CHECK_EQ(x[0], 1);  // not written back, so it was copied
done:
  setup_free(&s);
}

// --- What the embedder makes ready -------------------------------------------

static int prepared_count;

// Numbers once a plan, pointers as the plan has them.
typedef struct ready {
  void *y;
  void *x;
  int64_t rows, width;
  float factor;
} ready;

static og_status ready_prepare(const opgraft_prepare_call *prepare) {
  const og_call *call = prepare->call;
  ready *state = prepare->state;
  ++prepared_count;
  CHECK((uintptr_t)state % 16 == 0);
  CHECK(state->y == NULL && state->rows == 0);
  if (call->attr[0].f < 0)
    return og_fail(call, OG_INVALID, "factor is negative");
  state->rows = call->dim[N];
  state->width = call->dim[D];
  state->factor = (float)call->attr[0].f;
  const og_status status = prepare->follow(prepare, &state->x, call->in[0]);
  if (status != OG_OK) return status;
  return prepare->follow(prepare, &state->y, call->out[0]);
}

// As scale_run, and one more, to tell them apart.
static og_status ready_run(void *memory, opgraft_error *error) {
  const ready *state = memory;
  const float *x = state->x;
  float *y = state->y;
  for (int64_t r = 0; r < state->rows; ++r) {
    float sum = 1;
    for (int64_t i = 0; i < state->width; ++i) sum += x[r * state->width + i];
    if (sum > 1000) {
      if (error != NULL) {
        error->code = OG_KERNEL;
        snprintf(error->text, sizeof error->text, "scale: too large");
      }
      return OG_KERNEL;
    }
    for (int64_t i = 0; i < state->width; ++i)
      y[r * state->width + i] = x[r * state->width + i] * state->factor + sum;
  }
  return OG_OK;
}

// x += y * times, and one more.
static og_status ready_add_prepare(const opgraft_prepare_call *prepare) {
  const og_call *call = prepare->call;
  ready *state = prepare->state;
  state->width = og_numel(call->out[0]);
  state->factor = (float)call->attr[0].i;
  const og_status status = prepare->follow(prepare, &state->y, call->out[0]);
  if (status != OG_OK) return status;
  return prepare->follow(prepare, &state->x, call->in[1]);
}

static og_status ready_add_run(void *memory, opgraft_error *error) {
  const ready *state = memory;
  float *into = state->y;
  const float *y = state->x;
  (void)error;
  for (int64_t i = 0; i < state->width; ++i)
    into[i] += y[i] * state->factor + 1;
  return OG_OK;
}

static const opgraft_prepared ready_scale = {.struct_size = sizeof ready_scale,
                                             .state_bytes = sizeof(ready),
                                             .prepare = ready_prepare,
                                             .run = ready_run};
static const opgraft_prepared ready_add = {.struct_size = sizeof ready_add,
                                           .state_bytes = sizeof(ready),
                                           .prepare = ready_add_prepare,
                                           .run = ready_add_run};

static bool setup_ready(setup *s, bool transposed) {
  static const void *const derived[] = {NULL, NULL};
  static const opgraft_prepared *const prepared[] = {&ready_scale, &ready_add};
  const opgraft_made made = {.struct_size = sizeof made,
                             .record = &record,
                             .derived = derived,
                             .prepared = prepared,
                             .key = "ready"};
  opgraft_module *module;
  memset(s, 0, sizeof *s);
  prepared_count = 0;
  return opgraft_module_make(&made, &module, &s->error) == OG_OK &&
         setup_with(s, transposed, module);
}

// Two nodes in turn: x -> an arena's value -> the output.
static void ready_case(bool transposed, double factor, og_status wanted,
                       const char *text) {
  setup s;
  opgraft_value between = -1, out = -1;
  float one[4] = {1, 2, 3, 4}, two[4] = {5, 6, 7, 8}, y[4] = {0}, found[4];
  REQUIRE(setup_ready(&s, transposed));
  opgraft_arg args[2] = {
      tensor(s.x, 0),
      {.name = "factor", .kind = OPGRAFT_ARG_FLOAT, .f = factor}};
  REQUIRE(add_node(&s, "demo.scale.default", args, 2, &between) == OG_OK);
  args[0] = tensor(between, 0);
  REQUIRE(add_node(&s, "demo.scale.default", args, 2, &out) == OG_OK);
  REQUIRE(opgraft_graph_add_output(s.graph, out, &s.error) == OG_OK);
  REQUIRE(finish(&s) == OG_OK);
  // Once through the frame, whose strides the kernel does not take.
  const float more = transposed ? 0 : 1;
  for (int round = 0; round < 4; ++round) {
    const float *x = round % 2 == 0 ? one : two;
    const og_status status =
        run(&s, (float *)(uintptr_t)x, y, found, transposed);
    REQUIRE(status != OG_MEMORY);
    CHECK_EQ(status, wanted);
    if (wanted != OG_OK) {
      CHECK_STR(s.error.text, text);
      continue;
    }
    const float a = x[0], b = transposed ? x[2] : x[1];
    const float sum = a + b + more;
    const float left = a * 10 + sum, right = b * 10 + sum;
    CHECK_EQ(found[0], left * 10 + left + right + 1);
    CHECK_EQ(found[1], right * 10 + left + right + 1);
  }
  if (wanted == OG_OK) CHECK_EQ(prepared_count, transposed ? 1 : 2);
done:
  setup_free(&s);
}

TEST(a_ready_node_follows_its_tensors) { ready_case(false, 10, OG_OK, ""); }
TEST(what_must_be_fitted_goes_through_the_kernel) {
  ready_case(true, 10, OG_OK, "");
}
TEST(preparing_says_why_it_fails) {
  ready_case(false, -1, OG_INVALID, "scale: factor is negative");
}
TEST(a_ready_node_says_why_it_fails) {
  ready_case(false, 1000, OG_KERNEL,
             "demo.scale.default (m.py:4): scale: too large");
}

TEST(a_ready_node_writes_its_argument) {
  setup s;
  opgraft_value out = -1;
  float x[4] = {1, 2, 3, 4}, y[4] = {1, 1, 1, 1}, found[4] = {0};
  REQUIRE(setup_ready(&s, false));
  const opgraft_arg args[4] = {{.kind = OPGRAFT_ARG_STR, .s = "demo.add_to"},
                               tensor(s.x, 1),
                               tensor(s.y, 0),
                               {.kind = OPGRAFT_ARG_INT, .i = 3}};
  REQUIRE(add_node(&s, "auto_functionalized", args, 4, &out) == OG_OK);
  REQUIRE(opgraft_graph_add_output(s.graph, out, &s.error) == OG_OK);
  REQUIRE(finish(&s) == OG_OK);
  for (int round = 0; round < 2; ++round) {
    REQUIRE(run(&s, x, y, found, false) == OG_OK);
    CHECK_EQ(x[0], 1);  // a copy is written: x is not a result
    CHECK_EQ(found[0], 5);
    CHECK_EQ(found[3], 8);
  }
done:
  setup_free(&s);
}

TEST_MAIN("exec_module", CASE(is_called_directly), CASE(arguments_are_fitted),
          CASE(mutates_in_place), CASE(a_kernels_reason_reaches_the_caller),
          CASE(a_ready_node_follows_its_tensors),
          CASE(what_must_be_fitted_goes_through_the_kernel),
          CASE(preparing_says_why_it_fails),
          CASE(a_ready_node_says_why_it_fails),
          CASE(a_ready_node_writes_its_argument))
