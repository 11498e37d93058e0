// SPDX-License-Identifier: Apache-2.0
// Graphs on the CUDA driver and the fake libcuda: a chain of an operator whose
// kernel launches its own, captured, replayed, told of addresses that moved,
// and captured again where an update cannot be.

#define _GNU_SOURCE
#include <opgraft/executable.h>

#include "base/status.h"
#include "device_cuda.h"

enum { CHAIN = 4 };

static const og_kernel kernels[] = {
    {.device = OG_CUDA, .dtypes = "f32", .run = axpy_run}};
static const og_op ops[] = {
    {.schema = "axpy(Tensor x, Tensor(a!) y, float a) -> ()",
     .shape = "x[*N], y[*N] ->",
     .dtype = "x: f32, y: x ->",
     .kernels = OG_KERNELS(kernels)}};
static const og_module record = {.struct_size = sizeof record,
                                 .abi_version = OG_ABI_VERSION,
                                 .name = "chain",
                                 .ops = ops,
                                 .op_count = 1,
                                 .op_size = sizeof(og_op)};
static const opgraft_host host = {.struct_size = sizeof host, .threads = 1};

typedef struct chain {
  gpu g;
  opgraft_module *module;
  opgraft_graph *graph;
  opgraft_executable *executable;
  void *x, *y, *z;
  float values[GPU_FLOATS];
} chain;

// y += a * x, CHAIN times; both are inputs.
static og_status graph_make(chain *c, double a) {
  opgraft_error *error = &c->g.error;
  opgraft_size size, stride;
  opgraft_value x, y;
  OG_TRY(opgraft_graph_create("g", &c->graph, error));
  OG_TRY(opgraft_graph_add_module(c->graph, c->module, error));
  OG_TRY(opgraft_graph_size(c->graph, GPU_FLOATS, &size, error));
  OG_TRY(opgraft_graph_size(c->graph, 1, &stride, error));
  const opgraft_value_info info = {.struct_size = sizeof info,
                                   .dtype = {OG_CODE_FLOAT, 32, 1},
                                   .ndim = 1,
                                   .shape = &size,
                                   .strides = &stride,
                                   .device = {OG_CUDA, 0}};
  OG_TRY(opgraft_graph_add_input(c->graph, "x", &info, &x, error));
  OG_TRY(opgraft_graph_add_input(c->graph, "y", &info, &y, error));
  opgraft_record node = {.struct_size = sizeof node,
                         .result_count = 1,
                         .results = &info,
                         .result_size = sizeof info};
  opgraft_value at = y;
  for (int i = 0; i < CHAIN; ++i) {
    const opgraft_arg args[4] = {
        {.kind = OPGRAFT_ARG_STR, .s = "chain.axpy"},
        {.kind = OPGRAFT_ARG_VALUE, .value = x},
        {.kind = OPGRAFT_ARG_VALUE, .value = at, .written = 1},
        {.kind = OPGRAFT_ARG_FLOAT, .f = a}};
    node.name = "auto_functionalized";
    node.args = args;
    node.arg_count = 4;
    OG_TRY(opgraft_graph_add_node(c->graph, &node, &at, error));
  }
  const opgraft_arg back[2] = {{.kind = OPGRAFT_ARG_VALUE, .value = y},
                               {.kind = OPGRAFT_ARG_VALUE, .value = at}};
  node.name = "aten.copy_.default";
  node.args = back;
  node.arg_count = 2;
  OG_TRY(opgraft_graph_add_node(c->graph, &node, &at, error));
  OG_TRY(opgraft_graph_finish(c->graph, NULL, error));
  return opgraft_executable_create(c->graph, &host, &c->executable, error);
}

static bool begin(chain *c, unsigned seed, double a) {
  *c = (chain){0};
  if (!gpu_open(&c->g, seed) ||
      !GPU_OK(&c->g, opgraft_module_wrap(&record, &c->module, &c->g.error)))
    return false;
  void *stream = c->g.stream[0];
  c->x = gpu_floats(&c->g, "x");
  c->y = gpu_floats(&c->g, "y");
  c->z = gpu_floats(&c->g, "z");
  gpu_fill(c->values, 1);
  GPU_OK(&c->g,
         gpu_copy(&c->g, stream, OPGRAFT_COPY_TO_DEVICE, c->x, c->values));
  for (int i = 0; i < 2; ++i)
    GPU_OK(&c->g, opgraft_driver_set(c->g.driver, stream, i ? c->y : c->z, 0,
                                     GPU_BYTES, &c->g.error));
  return GPU_OK(&c->g, gpu_wait(&c->g, stream)) &&
         GPU_OK(&c->g, graph_make(c, a));
}

static void end(chain *c) {
  opgraft_executable_release(c->executable);
  opgraft_graph_release(c->graph);
  if (c->module != NULL) opgraft_module_release(c->module);
  if (c->g.driver != NULL) {
    gpu_free(&c->g, c->x);
    gpu_free(&c->g, c->y);
    gpu_free(&c->g, c->z);
  }
  gpu_close(&c->g);
}

static og_status replay(chain *c, void *x, void *y) {
  int64_t size = GPU_FLOATS, stride = 1;
  const og_tensor a = {.data = x,
                       .device = {OG_CUDA, 0},
                       .ndim = 1,
                       .dtype = {OG_CODE_FLOAT, 32, 1},
                       .shape = &size,
                       .strides = &stride};
  og_tensor b = a;
  b.data = y;
  const og_tensor *in[2] = {&a, &b};
  opgraft_call call = {.struct_size = sizeof call};
  OG_TRY(
      opgraft_executable_begin(c->executable, in, NULL, 2, &call, &c->g.error));
  const og_status status = opgraft_call_run(&call, NULL, &c->g.error);
  opgraft_call_end(&call);
  return status;
}

static void expect(chain *c, const void *from, float wanted) {
  void *stream = c->g.stream[0];
  GPU_OK(&c->g, gpu_copy(&c->g, stream, OPGRAFT_COPY_TO_HOST, c->values, from));
  GPU_OK(&c->g, gpu_wait(&c->g, stream));
  CHECK_EQ((int)c->values[0], (int)wanted);
  CHECK(gpu_all(c->values, wanted));
}

static opgraft_stats stats(const chain *c) {
  opgraft_stats found = {.struct_size = sizeof found};
  opgraft_executable_stats(c->executable, &found, NULL);
  return found;
}

static void replay_case(unsigned seed) {
  chain c;
  REQUIRE(begin(&c, seed, 2));
  for (int i = 0; i < 3; ++i) REQUIRE(GPU_OK(&c.g, replay(&c, c.x, c.y)));
  REQUIRE(GPU_OK(&c.g, replay(&c, c.x, c.z)));
  REQUIRE(GPU_OK(&c.g, replay(&c, c.x, c.y)));
  expect(&c, c.y, 4 * 2 * CHAIN);
  expect(&c, c.z, 2 * CHAIN);
  CHECK_EQ(stats(&c).captures, 1);
  CHECK_EQ(stats(&c).recaptures, 0);
  CHECK_EQ(stats(&c).launches, 5);
  CHECK_EQ(fake.misuses(), 0);
done:
  end(&c);
}

TEST(a_chain_is_one_launch) { replay_case(0); }
TEST(under_any_delay) {
  for (unsigned seed = 1; seed < 10; ++seed) replay_case(seed);
}

// With a == 7 the kernel sets memory first: its work is not a chain of kernels.
TEST(what_cannot_be_updated_is_captured_again) {
  chain c;
  REQUIRE(begin(&c, 0, 7));
  for (int i = 0; i < 2; ++i) REQUIRE(GPU_OK(&c.g, replay(&c, c.x, c.y)));
  REQUIRE(GPU_OK(&c.g, replay(&c, c.x, c.z)));
  GPU_OK(&c.g,
         gpu_copy(&c.g, c.g.stream[0], OPGRAFT_COPY_TO_HOST, c.values, c.z));
  GPU_OK(&c.g, gpu_wait(&c.g, c.g.stream[0]));
  CHECK_EQ((int)c.values[0], 7);  // the last one's, behind its set
  CHECK_EQ((int)c.values[1], 7 * CHAIN);
  CHECK_EQ(stats(&c).captures, 2);
  CHECK_EQ(stats(&c).recaptures, 1);
  CHECK_EQ(fake.misuses(), 0);
done:
  end(&c);
}

TEST(a_lost_gpu_is_an_error_of_the_run) {
  chain c;
  REQUIRE(begin(&c, 0, 2));
  REQUIRE(GPU_OK(&c.g, replay(&c, c.x, c.y)));
  fake.fail("cuGraphLaunch", 1, 719);
  CHECK_EQ(replay(&c, c.x, c.y), OG_DEVICE);
  CHECK(strstr(c.g.error.text, "CUDA_ERROR_LAUNCH_FAILED") != NULL);
  CHECK_EQ(replay(&c, c.x, c.z), OG_DEVICE);
  fake.fail("*", 0, 0);
  fake.reset(0);  // which CUDA cannot do
done:
  end(&c);
}

TEST_MAIN("exec_cuda", CASE_NO_FAULTS(a_chain_is_one_launch),
          CASE_NO_FAULTS(under_any_delay),
          CASE_NO_FAULTS(what_cannot_be_updated_is_captured_again),
          CASE_NO_FAULTS(a_lost_gpu_is_an_error_of_the_run))
