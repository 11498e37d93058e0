// SPDX-License-Identifier: Apache-2.0
// What a host of the graph engine may call, by the public headers alone: a
// graph is built, looked at, and run step by step.

#include <opgraft/executable.h>
#include <opgraft/graph_file.h>

#include "unit/test.h"

static const og_dtype f32 = {OG_CODE_FLOAT, 32, 1};

typedef struct setup {
  opgraft_graph *graph;
  opgraft_executable *executable;
  opgraft_error error;
} setup;

static void setup_free(setup *s) {
  opgraft_executable_release(s->executable);
  opgraft_graph_release(s->graph);
}

static og_tensor vector(float *data, int64_t *size) {
  static int64_t one = 1;
  return (og_tensor){.data = data,
                     .device = {OG_CPU, 0},
                     .ndim = 1,
                     .dtype = f32,
                     .shape = size,
                     .strides = &one};
}

// y = x + c for x[s0], c a constant, and n = s0 as an integer; returns y, s0.
static bool built(setup *s) {
  opgraft_size size, three;
  opgraft_value x, c, y;
  float ones[3] = {1, 2, 3};
  int64_t count = 3;
  const og_tensor constant = vector(ones, &count);
  if (opgraft_graph_create("built", &s->graph, &s->error) != OG_OK ||
      opgraft_graph_size_parse(s->graph, "s0", &size, &s->error) != OG_OK ||
      opgraft_graph_size(s->graph, 3, &three, &s->error) != OG_OK)
    return false;
  const opgraft_value_info info = {
      .struct_size = sizeof info, .dtype = f32, .ndim = 1, .shape = &three};
  if (opgraft_graph_add_input(s->graph, "x", &info, &x, &s->error) != OG_OK ||
      opgraft_graph_add_size_input(s->graph, "n", size, &s->error) != OG_OK ||
      opgraft_graph_add_constant(s->graph, "c", &constant, &c, &s->error))
    return false;
  const opgraft_arg args[2] = {{.kind = OPGRAFT_ARG_VALUE, .value = x},
                               {.kind = OPGRAFT_ARG_VALUE, .value = c}};
  const opgraft_record node = {.struct_size = sizeof node,
                               .name = "aten.add.Tensor",
                               .args = args,
                               .arg_count = 2,
                               .result_count = 1,
                               .results = &info,
                               .result_size = sizeof(opgraft_value_info),
                               .file = "m.py",
                               .line = 4};
  return opgraft_graph_add_node(s->graph, &node, &y, &s->error) == OG_OK &&
         opgraft_graph_add_output(s->graph, y, &s->error) == OG_OK &&
         opgraft_graph_add_size_output(s->graph, size, &s->error) == OG_OK &&
         opgraft_graph_name_output(s->graph, 0, "two words", &s->error) ==
             OG_OK &&  // text cannot hold it
         opgraft_graph_name_output(s->graph, 0, "sum", &s->error) == OG_OK &&
         opgraft_graph_name_output(s->graph, 0, "other", &s->error) == OG_OK &&
         opgraft_graph_name_output(s->graph, 1, "size", &s->error) == OG_OK;
}

static bool finished(setup *s) {
  return opgraft_graph_finish(s->graph, NULL, &s->error) == OG_OK &&
         opgraft_executable_create(s->graph, NULL, &s->executable, &s->error) ==
             OG_OK;
}

static void look(const opgraft_graph *graph) {
  opgraft_value_info info = {.struct_size = sizeof info};
  char text[64];
  uint8_t is_written[2] = {9, 9};
  opgraft_error error;
  CHECK_EQ(opgraft_graph_input_count(graph), 2);
  CHECK_EQ(opgraft_graph_output_count(graph), 2);
  CHECK(opgraft_graph_input(graph, 0, &info, &error) == OG_OK);
  CHECK(info.ndim == 1 && info.dtype.bits == 32);
  CHECK(opgraft_graph_input(graph, 1, &info, &error) == OG_OK);
  CHECK_EQ(info.ndim, -1);
  CHECK(opgraft_graph_input(graph, 2, &info, &error) == OG_INVALID);
  CHECK_STR(error.text, "graph built has 2 inputs; there is no input 2");
  CHECK(strcmp(opgraft_graph_input_name(graph, 0), "x") == 0);
  CHECK(strcmp(opgraft_graph_output_name(graph, 0), "sum") == 0);
  CHECK(opgraft_graph_output_name(graph, 1) == NULL);
  CHECK_EQ(opgraft_graph_print_input(graph, 0, text, sizeof text), 10);
  CHECK(strcmp(text, "%x: f32[3]") == 0);
  opgraft_graph_written(graph, is_written);
  CHECK(is_written[0] == 0 && is_written[1] == 0);
}

static void profile(setup *s) {
  float x[3] = {10, 20, 30}, y[3] = {0};
  int64_t count = 3, ints[2] = {0, 5}, ns[8] = {0};
  const og_tensor tensor = vector(x, &count);
  const og_tensor *in[2] = {&tensor, NULL};
  void *storages[1] = {y};
  opgraft_call call = {.struct_size = sizeof call};
  opgraft_step step = {.struct_size = sizeof step};
  if (opgraft_executable_begin(s->executable, in, ints, 2, &call, &s->error))
    return;
  const int32_t steps = opgraft_call_step_count(&call);
  CHECK_EQ(steps, 1);
  CHECK(opgraft_call_step(&call, 0, &step, &s->error) == OG_OK);
  CHECK(opgraft_call_step(&call, 1, &step, NULL) == OG_INVALID);
  CHECK(strcmp(step.name, "aten.add.Tensor") == 0 && step.line == 4);
  CHECK_EQ(step.bytes, 36);
  if (opgraft_call_profile(&call, storages, ns, &s->error) == OG_OK)
    CHECK(y[0] == 11 && y[2] == 33 && ns[0] >= 0);
  CHECK_EQ(call.outputs[1].size, 5);
  opgraft_call_end(&call);
}

TEST(a_graph_is_built_looked_at_and_profiled) {
  setup s = {0};
  char text[4096];
  REQUIRE(built(&s) && finished(&s));
  opgraft_graph_retain(s.graph);
  look(s.graph);
  opgraft_graph_release(s.graph);
  profile(&s);
  CHECK(opgraft_executable_describe(s.executable, text, sizeof text) > 0);
  CHECK(strstr(text, "\"native\"") != NULL);
done:
  setup_free(&s);
}

TEST(rows_have_names) {
  int32_t count = 0;
  while (opgraft_graph_row(count) != NULL) ++count;
  CHECK(count > 300);
  CHECK(strcmp(opgraft_graph_row(0), "add.Tensor") == 0);
}

TEST(strides_that_inputs_must_have) {
  static const char turned[] =
      "graph turned(%x: f32[s0, 4]{1, s0}) {\n"
      "  %y: f32[s0, 4] = neg(%x)\n"
      "  return %y\n"
      "}\n";
  setup s = {0};
  int64_t shape[2] = {3, 4}, found[2] = {0};
  int64_t *const strides[1] = {found};
  const og_tensor x = {
      .device = {OG_CPU, 0}, .ndim = 2, .dtype = f32, .shape = shape};
  const og_tensor *in[1] = {&x};
  REQUIRE(opgraft_graph_parse(turned, sizeof turned - 1, &s.graph, &s.error) ==
              OG_OK &&
          finished(&s));
  REQUIRE(opgraft_graph_input_strides(s.graph, in, NULL, 1, strides,
                                      &s.error) == OG_OK);
  CHECK(found[0] == 1 && found[1] == 3);
done:
  setup_free(&s);
}

// -x on a GPU: the graph is built and looked at, and no executable is made.
TEST(values_are_on_devices) {
  setup s = {0};
  opgraft_size three;
  opgraft_value x, c, y;
  float ones[3] = {1, 2, 3};
  int64_t count = 3;
  char text[64] = "";
  og_tensor constant = vector(ones, &count);
  constant.device = (og_device){OG_CUDA, 1};
  REQUIRE(opgraft_graph_create("built", &s.graph, &s.error) == OG_OK &&
          opgraft_graph_size(s.graph, 3, &three, &s.error) == OG_OK);
  opgraft_value_info info = {.struct_size = sizeof info,
                             .dtype = f32,
                             .ndim = 1,
                             .shape = &three,
                             .device = {99, 0}};
  CHECK_EQ(opgraft_graph_add_input(s.graph, "x", &info, &x, &s.error),
           OG_DEVICE);
  CHECK_EQ(opgraft_graph_add_constant(s.graph, "c", &constant, &c, &s.error),
           OG_DEVICE);
  info.device = constant.device;
  REQUIRE(opgraft_graph_add_input(s.graph, "x", &info, &x, &s.error) == OG_OK);
  const opgraft_arg arg = {.kind = OPGRAFT_ARG_VALUE, .value = x};
  const opgraft_record node = {.struct_size = sizeof node,
                               .name = "aten.neg.default",
                               .args = &arg,
                               .arg_count = 1,
                               .result_count = 1,
                               .results = &info,
                               .result_size = sizeof info};
  REQUIRE(opgraft_graph_add_node(s.graph, &node, &y, &s.error) == OG_OK &&
          opgraft_graph_add_output(s.graph, y, &s.error) == OG_OK);
  opgraft_value_info found = {.struct_size = sizeof found};
  REQUIRE(opgraft_graph_input(s.graph, 0, &found, &s.error) == OG_OK);
  CHECK(found.device.type == OG_CUDA && found.device.id == 1);
  opgraft_graph_print_input(s.graph, 0, text, sizeof text);
  CHECK(strcmp(text, "%x: f32[3] on cuda:1") == 0);
  REQUIRE(opgraft_graph_finish(s.graph, NULL, &s.error) == OG_OK);
  CHECK_EQ(opgraft_executable_create(s.graph, NULL, &s.executable, &s.error),
           OG_DEVICE);
done:
  setup_free(&s);
}

// --- A module's operator in a graph that was read ----------------------------

static og_status twice(const og_call *call) {
  const float *x = call->in[0]->data;
  float *y = call->out[0]->data;
  for (int64_t i = 0; i < call->dim[0]; ++i) y[i] = 2 * x[i];
  return OG_OK;
}

static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = twice}};
static const og_op ops[] = {{.schema = "twice(Tensor x) -> Tensor",
                             .shape = "x[*N] -> [*N]",
                             .dtype = "x: f32 -> x",
                             .kernels = OG_KERNELS(kernels)}};
static const og_module record = {.struct_size = sizeof record,
                                 .abi_version = OG_ABI_VERSION,
                                 .name = "linked",
                                 .ops = ops,
                                 .op_count = 1,
                                 .op_size = sizeof(og_op)};

TEST(a_module_is_added_to_a_graph_that_was_read) {
  static const char reads[] =
      "graph reads(%x: f32[2]) {\n"
      "  %y: f32[2] = foreign \"linked.twice.default\"(%x)\n"
      "  return %y\n"
      "}\n";
  setup s = {0};
  opgraft_module *module = NULL;
  float x[2] = {3, 4}, y[2] = {0};
  int64_t count = 2;
  const og_tensor tensor = vector(x, &count);
  const og_tensor *in[1] = {&tensor};
  void *storages[1] = {y};
  opgraft_call call = {.struct_size = sizeof call};
  REQUIRE(opgraft_module_wrap(&record, &module, &s.error) == OG_OK);
  REQUIRE(opgraft_graph_parse(reads, sizeof reads - 1, &s.graph, &s.error) ==
          OG_OK);
  REQUIRE(opgraft_graph_add_module(s.graph, module, &s.error) == OG_OK);
  REQUIRE(finished(&s));
  CHECK(opgraft_graph_add_module(s.graph, module, &s.error) == OG_INVALID);
  CHECK(strstr(s.error.text, "is finished; nothing can be added") != NULL);
  REQUIRE(opgraft_executable_begin(s.executable, in, NULL, 1, &call,
                                   &s.error) == OG_OK);
  if (CHECK(opgraft_call_run(&call, storages, &s.error) == OG_OK))
    CHECK(y[0] == 6 && y[1] == 8);
  opgraft_call_end(&call);
done:
  setup_free(&s);
  if (module != NULL) opgraft_module_release(module);
}

TEST(precisions_that_exclude_each_other) {
  enum {
    MAX = OPGRAFT_OPTION_MAX_AUTOTUNE,
    INT8 = OPGRAFT_OPTION_PRECISION_INT8,
    SHORT = OPGRAFT_OPTION_ACTIVATIONS_INT8,
  };
  static const struct {
    uint32_t flags;
    const char *text;  // NULL: it is taken
  } cases[] = {
      {MAX | INT8, NULL},
      {MAX | INT8 | SHORT, NULL},
      {MAX | OPGRAFT_OPTION_PRECISION_INT4_64 | SHORT, NULL},
      {INT8 | SHORT, "precision int8-dynamic without"},
      {MAX | INT8 | OPGRAFT_OPTION_PRECISION_INT4, "precision int8 and int4,"},
      {MAX | OPGRAFT_OPTION_PRECISION_BF16 | SHORT,
       "precision bf16 and activations of int8,"},
      {MAX | SHORT, "precision f32 and activations of int8,"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    setup s = {.graph = NULL};
    const opgraft_options options = {.struct_size = sizeof options,
                                     .flags = cases[i].flags};
    REQUIRE(opgraft_graph_create("g", &s.graph, &s.error) == OG_OK);
    const og_status status = opgraft_graph_finish(s.graph, &options, &s.error);
    CHECK_EQ(status == OG_OK, cases[i].text == NULL);
    if (cases[i].text != NULL)
      CHECK(strstr(s.error.text, cases[i].text) != NULL);
  done:
    setup_free(&s);
  }
}

TEST_MAIN("public_graph", CASE(a_graph_is_built_looked_at_and_profiled),
          CASE(rows_have_names), CASE(strides_that_inputs_must_have),
          CASE(values_are_on_devices),
          CASE(a_module_is_added_to_a_graph_that_was_read),
          CASE(precisions_that_exclude_each_other))
