// SPDX-License-Identifier: Apache-2.0
// Devices below the public API: arenas of a plan, leases, and the stream that
// a step hands to what it runs. Only the CPU runs.

#include <opgraft/graph_file.h>

#include "exec/replay/lease.h"
#include "exec/runners/framed.h"
#include "exec/runners/hosted.h"
#include "exec/step/device.h"
#include "exec/step/kernels.h"
#include "exec/step/reloc.h"
#include "machine.h"
#include "test.h"

static const og_device cuda_0 = {OG_CUDA, 0}, cuda_1 = {OG_CUDA, 1};

// --- Plans -------------------------------------------------------------------

// On each device several values that die in turn; %t, a pointwise result, takes
// a number from the CPU that dies there.
static const char three_devices[] =
    "graph f(%x: f32[64]) {\n"
    "  %a: f32[64] = neg(%x)\n"
    "  %s: f32[] = sum(%a; dims=[])\n"
    "  %b: f32[64] on cuda:0 = copy(%a)\n"
    "  %t: f32[] on cuda:0 = neg(%s)\n"
    "  %c: f32[64] on cuda:0 = mul(%b, %t)\n"
    "  %d: f32[64] on cuda:0 = cumsum(%c; dim=0)\n"
    "  %e: f32[64] on cuda:1 = copy(%d)\n"
    "  %g: f32[64] on cuda:1 = exp(%e)\n"
    "  %h: f32[64] = copy(%g)\n"
    "  %y: f32[64] = cumsum(%h; dim=0)\n"
    "  return %y\n"
    "}\n";

static bool plan_make(const char *text, uint32_t flags, opgraft_graph **graph,
                      og_plan **plan, opgraft_error *error) {
  *graph = NULL;
  *plan = NULL;
  return opgraft_graph_parse(text, strlen(text), graph, error) == OG_OK &&
         opgraft_graph_finish(*graph, NULL, error) == OG_OK &&
         og_plan_create(*graph, NULL, flags, NULL, plan, error) == OG_OK;
}

static const og_plan_arena *arena_find(const og_plan *plan, og_device device) {
  const og_plan_arena *found = NULL;
  for (int32_t a = 0; a < plan->arena_count; ++a) {
    if (!og_device_equal(plan->arenas[a].device, device)) continue;
    CHECK(found == NULL);  // one for each device
    found = &plan->arenas[a];
  }
  return found;
}

// Every value in an arena of its own device, and inside of it.
static void places_check(const og_plan *plan) {
  for (int32_t v = 0; v < plan->graph->value_count; ++v) {
    const og_place *place = &plan->places[v];
    if (place->kind != OG_PLACE_ARENA) continue;
    REQUIRE(place->index >= 0 && place->index < plan->arena_count);
    const og_plan_arena *arena = &plan->arenas[place->index];
    const int64_t bytes = og_numel(&plan->tensors[v]) * 4;
    CHECK(og_device_equal(arena->device, plan->graph->values[v].device));
    CHECK(place->offset_bytes >= 0);
    CHECK((size_t)(place->offset_bytes + bytes) <= arena->size_bytes);
  }
done:;
}

static void plan_case(uint32_t flags, int64_t cpu, int64_t first,
                      int64_t second) {
  opgraft_error error;
  opgraft_graph *graph;
  og_plan *plan;
  REQUIRE(plan_make(three_devices, flags, &graph, &plan, &error));
  CHECK_EQ(plan->arena_count, 3);
  places_check(plan);
  const og_plan_arena *arenas[3] = {arena_find(plan, og_cpu),
                                    arena_find(plan, cuda_0),
                                    arena_find(plan, cuda_1)};
  REQUIRE(arenas[0] && arenas[1] && arenas[2]);
  CHECK_EQ(arenas[0]->size_bytes, cpu);
  CHECK_EQ(arenas[1]->size_bytes, first);
  CHECK_EQ(arenas[2]->size_bytes, second);
  CHECK_EQ(og_plan_arena_bytes(plan), cpu + first + second);
  for (int i = 0; i < 3; ++i)
    CHECK(arenas[i]->lower_bound_bytes <= arenas[i]->size_bytes &&
          arenas[i]->size_bytes <= arenas[i]->unshared_bytes);
done:
  og_plan_destroy(plan);
  opgraft_graph_release(graph);
}

// 64 floats are 256 bytes, a number 64. %c takes over %b, %g takes over %e.
TEST(each_device_has_an_arena) { plan_case(0, 320, 512, 256); }
TEST(arenas_that_share_nothing) {
  plan_case(OPGRAFT_HOST_UNSHARED, 576, 832, 512);
}

TEST(a_graph_without_intermediates_has_no_arena) {
  opgraft_error error;
  opgraft_graph *graph;
  og_plan *plan;
  REQUIRE(
      plan_make("graph f(%x: f32[4]) {\n  %y: f32[4] = neg(%x)\n"
                "  return %y\n}\n",
                0, &graph, &plan, &error));
  CHECK_EQ(plan->arena_count, 0);
  CHECK_EQ(og_plan_arena_bytes(plan), 0);
done:
  og_plan_destroy(plan);
  opgraft_graph_release(graph);
}

TEST(a_node_runs_where_its_results_are) {
  opgraft_error error;
  opgraft_graph *graph;
  og_plan *plan;
  int32_t on_cuda = 0;
  REQUIRE(plan_make(three_devices, 0, &graph, &plan, &error));
  for (int32_t n = 0; n < graph->node_count; ++n)
    on_cuda += og_node_device(graph, &graph->nodes[n]).type == OG_CUDA;
  CHECK_EQ(on_cuda, 6);
  const og_node empty = {.in_count = 0};
  CHECK(og_device_equal(og_node_device(graph, &empty), og_cpu));
  const opgraft_value in[2] = {-1, graph->nodes[2].out[0]};
  const og_node read = {.in = (opgraft_value *)(uintptr_t)in, .in_count = 2};
  CHECK(og_device_equal(og_node_device(graph, &read), cuda_0));
done:
  og_plan_destroy(plan);
  opgraft_graph_release(graph);
}

// --- Leases ------------------------------------------------------------------

TEST(leases_are_of_a_device) {
  opgraft_error error;
  og_lease *one = NULL, *two = NULL, *none = NULL, *again = NULL;
  void *first, *second, *third;
  if (og_lease_want(og_cpu, 200, &error) != OG_OK) return;
  REQUIRE(og_lease_take(og_cpu, 100, NULL, NULL, &one, &first, &error) ==
          OG_OK);
  REQUIRE(og_lease_take(og_cpu, 100, NULL, NULL, &two, &second, &error) ==
          OG_OK);
  CHECK(first != second);
  CHECK_EQ((uintptr_t)first % OG_PLAN_ALIGNMENT, 0);
  CHECK_EQ(og_lease_take(cuda_1, 100, NULL, one, &none, &third, &error),
           OG_DEVICE);
  CHECK_STR(error.text,
            "an arena is on cuda:1, expected the CPU or a device whose driver "
            "is loaded");
  CHECK(none == NULL && third == NULL);
  const og_device unknown = {77, 2};
  CHECK_EQ(og_lease_take(unknown, 100, NULL, NULL, &none, &third, &error),
           OG_DEVICE);
  CHECK_STR(error.text,
            "an arena is on an unknown device:2, expected the CPU or a device "
            "whose driver is loaded");
  og_lease_give(one);
  REQUIRE(og_lease_take(og_cpu, 64, NULL, one, &again, &third, &error) ==
          OG_OK);
  CHECK(again == one && third == first);
done:
  og_lease_give(one);
  og_lease_give(two);
  og_lease_unwant(og_cpu, 200);
}

// A large plan's arena does not outlive it, though a small one used it too.
TEST(what_no_plan_wants_is_freed) {
  opgraft_error error;
  og_lease *large = NULL, *small = NULL;
  void *first, *second;
  size_t wanted = 0;  // beside 64 bytes
  if (og_lease_want(og_cpu, 64, &error) != OG_OK) return;
  REQUIRE(og_lease_want(og_cpu, 1 << 20, &error) == OG_OK);
  wanted = 1 << 20;
  REQUIRE(og_lease_take(og_cpu, 1 << 20, NULL, NULL, &large, &first, &error) ==
          OG_OK);
  og_lease_give(large);
  REQUIRE(og_lease_take(og_cpu, 64, NULL, NULL, &small, &second, &error) ==
          OG_OK);
  CHECK(second == first);
  CHECK_EQ(og_lease_shared_bytes(), 64);
  og_lease_give(small);
  og_lease_unwant(og_cpu, wanted);
  wanted = 0;
  CHECK_EQ(og_lease_shared_bytes(), 64);  // no arena is left
  REQUIRE(og_lease_take(og_cpu, 64, NULL, small, &small, &second, &error) ==
          OG_OK);
  CHECK_EQ(og_lease_shared_bytes(), 0);
  og_lease_give(small);
done:
  og_lease_unwant(og_cpu, wanted);
  og_lease_unwant(og_cpu, 64);
  CHECK_EQ(og_lease_shared_bytes(), 0);
}

// --- Inputs and steps --------------------------------------------------------

static const opgraft_host one_thread = {.struct_size = sizeof one_thread,
                                        .threads = 1};

TEST(inputs_are_on_the_graphs_device) {
  machine m;
  float x[4] = {1, 2, 3, 4}, y[4];
  int64_t four = 4, one = 1;
  og_tensor tensor = {.data = x,
                      .device = {OG_CUDA, 1},
                      .ndim = 1,
                      .dtype = {OG_CODE_FLOAT, 32, 1},
                      .shape = &four,
                      .strides = &one};
  const og_tensor *in[1] = {&tensor};
  opgraft_call call = {.struct_size = sizeof call};
  opgraft_step step = {.struct_size = sizeof step};
  void *storage[1] = {y};
  REQUIRE(machine_make(&m,
                       "graph f(%x: f32[4]) {\n  %y: f32[4] = neg(%x)\n"
                       "  return %y\n}\n",
                       &one_thread));
  const og_status status =
      opgraft_executable_begin(m.executable, in, NULL, 1, &call, &m.error);
  CHECK_EQ(status, OG_DEVICE);
  CHECK_STR(m.error.text, "graph f: input 0 (x) is on cuda:1, expected cpu:0");
  tensor.device = (og_device){OG_CPU, 3};  // the CPU is one device
  REQUIRE(opgraft_executable_begin(m.executable, in, NULL, 1, &call,
                                   &m.error) == OG_OK);
  if (opgraft_call_step(&call, 0, &step, &m.error) == OG_OK)
    CHECK(step.device.type == OG_CPU && step.device.id == 0);
  CHECK_EQ(opgraft_call_run(&call, storage, &m.error), OG_OK);
  CHECK_EQ(y[3], -4);
  opgraft_call_end(&call);
done:
  machine_free(&m);
}

// --- Streams -----------------------------------------------------------------

static char token;
static void *seen_by_kernel, *seen_by_host;

static og_status kernel_run(const og_call *call) {
  seen_by_kernel = call->stream;
  memset(call->out[0]->data, 0, 4 * sizeof(float));
  return OG_OK;
}

static og_status host_prepare(void *context, const opgraft_node_call *node,
                              void **out_state, uint32_t *out_flags,
                              opgraft_error *error) {
  (void)context, (void)out_state, (void)out_flags, (void)error;
  seen_by_host = node->stream;
  return OG_OK;
}

static og_status host_run(void *context, void *state,
                          const opgraft_node_call *node, opgraft_error *error) {
  (void)context, (void)state, (void)error;
  seen_by_host = node->stream;
  memset(node->out[0]->data, 0, 4 * sizeof(float));
  return OG_OK;
}

static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = kernel_run}};
static const og_op ops[] = {{.schema = "zero(Tensor x) -> Tensor",
                             .shape = "x[*N] -> [*N]",
                             .dtype = "x: f32 -> x",
                             .kernels = OG_KERNELS(kernels)}};
static const og_module record = {.struct_size = sizeof record,
                                 .abi_version = OG_ABI_VERSION,
                                 .name = "streams",
                                 .ops = ops,
                                 .op_count = 1,
                                 .op_size = sizeof(og_op)};

static og_status node_add(opgraft_graph *graph, const char *name,
                          opgraft_value *value, opgraft_error *error) {
  opgraft_size four;
  const og_status status = opgraft_graph_size(graph, 4, &four, error);
  const opgraft_value_info info = {.struct_size = sizeof info,
                                   .dtype = {OG_CODE_FLOAT, 32, 1},
                                   .ndim = 1,
                                   .shape = &four};
  if (status != OG_OK) return status;
  if (name == NULL)
    return opgraft_graph_add_input(graph, "x", &info, value, error);
  const opgraft_arg arg = {.kind = OPGRAFT_ARG_VALUE, .value = *value};
  const opgraft_record node = {.struct_size = sizeof node,
                               .name = name,
                               .args = &arg,
                               .arg_count = 1,
                               .result_count = 1,
                               .results = &info,
                               .result_size = sizeof info};
  return opgraft_graph_add_node(graph, &node, value, error);
}

// A module's operator, then one of the host's.
static og_status streams_build(machine *m, opgraft_module *module) {
  static const opgraft_host host = {.struct_size = sizeof host,
                                    .threads = 1,
                                    .prepare = host_prepare,
                                    .run = host_run};
  opgraft_value value;
  OG_TRY(opgraft_graph_create("g", &m->graph, &m->error));
  OG_TRY(opgraft_graph_add_module(m->graph, module, &m->error));
  OG_TRY(node_add(m->graph, NULL, &value, &m->error));
  OG_TRY(node_add(m->graph, "streams.zero.default", &value, &m->error));
  OG_TRY(node_add(m->graph, "other.op.default", &value, &m->error));
  OG_TRY(opgraft_graph_add_output(m->graph, value, &m->error));
  OG_TRY(opgraft_graph_finish(m->graph, NULL, &m->error));
  return opgraft_executable_create(m->graph, &host, &m->executable, &m->error);
}

// Prepares node `index` as if its device had `stream`, and runs it.
static og_status run_on(machine *m, og_instance *instance, int32_t index,
                        void *stream) {
  const og_plan *plan = instance->entry->plan;
  const og_node *node = &m->graph->nodes[index];
  og_tensor *in = &instance->tensors[node->in[0]];
  og_tensor *out = &instance->tensors[node->out[0]];
  og_tensor **tensors = og_arena_array(&instance->memory, 2, sizeof *tensors);
  if (tensors == NULL) return OG_MEMORY;
  tensors[0] = in;
  tensors[1] = out;
  og_prep prep = {.executable = m->executable,
                  .plan = plan,
                  .instance = instance,
                  .node = node,
                  .device = og_cpu,
                  .stream = stream,
                  .in = tensors,
                  .out = tensors + 1,
                  .error = &m->error};
  const og_run run = {.executable = m->executable, .error = &m->error};
  OG_TRY(og_prepare_foreign(&prep));
  for (int32_t a = 0; a < plan->arena_count; ++a)
    og_relocs_set(&instance->arenas[a], instance->arenas[a].bound);
  return prep.step.run(prep.step.state, &run);
}

TEST(a_step_hands_on_its_stream) {
  machine m = {0};
  opgraft_module *module = NULL;
  float x[4] = {1, 2, 3, 4}, y[4];
  int64_t four = 4, one = 1;
  const og_tensor tensor = {.data = x,
                            .device = og_cpu,
                            .ndim = 1,
                            .dtype = {OG_CODE_FLOAT, 32, 1},
                            .shape = &four,
                            .strides = &one};
  const og_tensor *in[1] = {&tensor};
  opgraft_call call = {.struct_size = sizeof call};
  void *storage[1] = {y};
  REQUIRE(opgraft_module_wrap(&record, &module, &m.error) == OG_OK);
  REQUIRE(streams_build(&m, module) == OG_OK);
  REQUIRE(opgraft_executable_begin(m.executable, in, NULL, 1, &call,
                                   &m.error) == OG_OK);
  seen_by_kernel = seen_by_host = &token;
  CHECK_EQ(opgraft_call_run(&call, storage, &m.error), OG_OK);
  CHECK(seen_by_kernel == NULL && seen_by_host == NULL);  // the CPU's
  CHECK_EQ(stats_of(&m).arena_bytes, 64);
  CHECK_EQ(stats_of(&m).lower_bound_bytes, 64);
  if (run_on(&m, call.instance, 0, &token) == OG_OK)
    CHECK(seen_by_kernel == &token);
  if (run_on(&m, call.instance, 1, &token) == OG_OK)
    CHECK(seen_by_host == &token);
done:
  if (call.instance != NULL) opgraft_call_end(&call);
  machine_free(&m);
  if (module != NULL) opgraft_module_release(module);
}

TEST_MAIN("exec_devices", CASE(each_device_has_an_arena),
          CASE(arenas_that_share_nothing),
          CASE(a_graph_without_intermediates_has_no_arena),
          CASE(a_node_runs_where_its_results_are), CASE(leases_are_of_a_device),
          CASE(what_no_plan_wants_is_freed),
          CASE(inputs_are_on_the_graphs_device),
          CASE(a_step_hands_on_its_stream))
