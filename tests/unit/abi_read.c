// SPDX-License-Identifier: Apache-2.0
// Structs that the caller fills, who may be older or newer than the library:
// each that begins with its size, shorter and longer than ours. tools/abi.py
// fails where one is in no table of abi_read.c and abi_write.c.

#include <opgraft/check.h>
#include <opgraft/executable.h>
#include <opgraft/plain.h>
#include <opgraft/report.h>
#include <opgraft/sample.h>
#include <stdlib.h>

#include "device_fake.h"
#include "plan/plan.h"
#include "test.h"

#define END(type, member) (offsetof(type, member) + sizeof((type){0}.member))

enum { MORE_BYTES = 16, SIZES_MAX_BYTES = 512 };

static og_status copy_run(const og_call *call) {
  for (int64_t i = 0; i < og_numel(call->in[0]); ++i)
    og_f32_mut(call->out[0])[i] = og_f32(call->in[0])[i];
  return OG_OK;
}

static og_status nothing_prepare(const opgraft_prepare_call *prepare) {
  (void)prepare;
  return OG_OK;
}

static og_status nothing_run(void *state, opgraft_error *error) {
  (void)state;
  (void)error;
  return OG_OK;
}

static const og_kernel kernels[] = {{.device = OG_CPU, .run = copy_run}};
static const og_op ops[] = {{.schema = "copy(Tensor x) -> Tensor",
                             .shape = "x[*N] -> [*N]",
                             .dtype = "x: f32 -> x",
                             .kernels = OG_KERNELS(kernels)}};
static const og_module right_module = {.struct_size = sizeof right_module,
                                       .abi_version = OG_ABI_VERSION,
                                       .name = "sized",
                                       .ops = ops,
                                       .op_count = 1,
                                       .op_size = sizeof(og_op)};
static const opgraft_prepared right_prepared = {
    .struct_size = sizeof right_prepared,
    .prepare = nothing_prepare,
    .run = nothing_run};
static const opgraft_made right_made = {
    .struct_size = sizeof right_made, .record = &right_module, .key = "sized"};

static void write_nothing(void *user, const char *text, size_t length) {
  (void)user;
  (void)text;
  (void)length;
}

static const opgraft_check_options right_check_options = {
    .struct_size = sizeof right_check_options,
    .calls = 1,
    .probe = "reference"};
static const opgraft_check_sink right_check_sink = {
    .struct_size = sizeof right_check_sink, .write = write_nothing};
static const opgraft_host right_host = {.struct_size = sizeof right_host,
                                        .threads = 1};
static const opgraft_options right_options = {
    .struct_size = sizeof right_options, .disable = "cse"};
static const opgraft_sample_options right_sample_options = {
    .struct_size = sizeof right_sample_options};
static const opgraft_report_options right_report_options = {
    .struct_size = sizeof right_report_options, .width = 80};
static const opgraft_gate right_gate = {.struct_size = sizeof right_gate};

// --- A way to each -----------------------------------------------------------

static og_status read_module(const void *given, opgraft_error *error) {
  opgraft_module *module;
  const og_status status = opgraft_module_wrap(given, &module, error);
  if (status == OG_OK) opgraft_module_release(module);
  return status;
}

static og_status read_made(const void *given, opgraft_error *error) {
  opgraft_module *module;
  const og_status status = opgraft_module_make(given, &module, error);
  if (status == OG_OK) opgraft_module_release(module);
  return status;
}

static og_status read_prepared(const void *given, opgraft_error *error) {
  const opgraft_prepared *by_op[1] = {given};
  opgraft_made made = right_made;
  made.prepared = by_op;
  return read_made(&made, error);
}

// A graph with the sizes 0, 1 and 2, whose ids are those numbers.
static og_status graph_begin(opgraft_graph **out, opgraft_error *error) {
  opgraft_size size = -1;
  og_status status = opgraft_graph_create("sized", out, error);
  for (int64_t n = 0; status == OG_OK && n < 3; ++n)
    status = opgraft_graph_size(*out, n, &size, error);
  return status;
}

static const opgraft_size sizes[] = {2, 1};
static const opgraft_value_info right_info = {.struct_size = sizeof right_info,
                                              .dtype = {OG_CODE_FLOAT, 32, 1},
                                              .ndim = 1,
                                              .shape = sizes};

static og_status read_info(const void *given, opgraft_error *error) {
  opgraft_graph *graph = NULL;
  opgraft_value x = -1;
  og_status status = graph_begin(&graph, error);
  if (status == OG_OK)
    status = opgraft_graph_add_input(graph, "x", given, &x, error);
  opgraft_graph_release(graph);
  return status;
}

static const opgraft_arg args[] = {{.kind = OPGRAFT_ARG_VALUE, .value = 0}};
static const opgraft_record right_record = {.struct_size = sizeof right_record,
                                            .name = "aten.neg.default",
                                            .args = args,
                                            .arg_count = 1,
                                            .result_count = 1,
                                            .results = &right_info,
                                            .result_size = sizeof right_info,
                                            .line = 3,
                                            .file = "m.py"};

// *out_graph, which may be NULL, takes the graph.
static og_status record_add(const opgraft_record *given,
                            opgraft_graph **out_graph, opgraft_error *error) {
  opgraft_graph *graph = NULL;
  opgraft_value x = -1, y[2];
  og_status status = graph_begin(&graph, error);
  if (status == OG_OK)
    status = opgraft_graph_add_input(graph, "x", &right_info, &x, error);
  if (status == OG_OK) status = opgraft_graph_add_node(graph, given, y, error);
  if (status == OG_OK && out_graph != NULL)
    *out_graph = graph;
  else
    opgraft_graph_release(graph);
  return status;
}

static og_status read_record(const void *given, opgraft_error *error) {
  return record_add(given, NULL, error);
}

static og_status read_options(const void *given, opgraft_error *error) {
  opgraft_graph *graph = NULL;
  og_status status = record_add(&right_record, &graph, error);
  if (status == OG_OK) status = opgraft_graph_finish(graph, given, error);
  opgraft_graph_release(graph);
  return status;
}

static og_status read_host(const void *given, opgraft_error *error) {
  opgraft_graph *graph = NULL;
  opgraft_executable *executable = NULL;
  og_status status = record_add(&right_record, &graph, error);
  if (status == OG_OK) status = opgraft_graph_finish(graph, NULL, error);
  if (status == OG_OK)
    status = opgraft_executable_create(graph, given, &executable, error);
  opgraft_executable_release(executable);
  opgraft_graph_release(graph);
  return status;
}

static og_status read_plain_host(const void *given, opgraft_error *error) {
  opgraft_graph *graph = NULL;
  opgraft_plain *plain = NULL;
  og_status status = opgraft_graph_create("none", &graph, error);
  if (status == OG_OK)
    status = opgraft_plain_run(graph, given, NULL, NULL, 0, &plain, error);
  opgraft_plain_destroy(plain);
  opgraft_graph_release(graph);
  return status;
}

static og_status check_with(const opgraft_check_options *options,
                            const opgraft_check_sink *sink,
                            opgraft_error *error) {
  opgraft_module *module;
  og_status status = opgraft_module_wrap(&right_module, &module, error);
  if (status != OG_OK) return status;
  status = opgraft_check(module, options, sink, NULL, error);
  opgraft_module_release(module);
  return status;
}

static og_status read_check_options(const void *given, opgraft_error *error) {
  return check_with(given, &right_check_sink, error);
}

static og_status read_check_sink(const void *given, opgraft_error *error) {
  return check_with(&right_check_options, given, error);
}

static og_status read_sample_options(const void *given, opgraft_error *error) {
  opgraft_module *module;
  opgraft_sample *sample = NULL;
  og_status status = opgraft_module_wrap(&right_module, &module, error);
  if (status != OG_OK) return status;
  status = opgraft_sample_create(opgraft_module_op(module, 0), given, &sample,
                                 error);
  opgraft_sample_destroy(sample);
  opgraft_module_release(module);
  return status;
}

static og_status report_with(const void *options, const void *gate,
                             opgraft_error *error) {
  static const char events[] = "opgraft-events 1\n";
  opgraft_report *report = NULL;
  int32_t findings;
  og_status status =
      opgraft_report_read(events, sizeof events - 1, &report, error);
  if (status == OG_OK && options != NULL)
    status = opgraft_report_write(report, options, write_nothing, NULL, error);
  if (status == OG_OK && gate != NULL)
    status = opgraft_report_gate(report, gate, write_nothing, NULL, &findings,
                                 error);
  opgraft_report_release(report);
  return status;
}

static og_status read_report_options(const void *given, opgraft_error *error) {
  return report_with(given, NULL, error);
}

static og_status read_gate(const void *given, opgraft_error *error) {
  return report_with(NULL, given, error);
}

static og_status read_driver(const void *given, opgraft_error *error) {
  opgraft_driver *driver;
  const og_status status = opgraft_driver_wrap(given, NULL, &driver, error);
  opgraft_driver_destroy(driver);
  return status;
}

typedef struct reader {
  const char *name;
  const void *right;
  size_t size_bytes;
  size_t old_bytes;  // up to the last member that a call cannot do without
  og_status (*read)(const void *given, opgraft_error *error);
} reader;

#define READ(type, last, value, function) \
  { #type, &(value), sizeof(type), END(type, last), function }
static const reader readers[] = {
    READ(og_module, op_size, right_module, read_module),
    READ(opgraft_made, key, right_made, read_made),
    READ(opgraft_prepared, run, right_prepared, read_prepared),
    READ(opgraft_value_info, shape, right_info, read_info),
    READ(opgraft_record, result_size, right_record, read_record),
    READ(opgraft_options, flags, right_options, read_options),
    READ(opgraft_host, context, right_host, read_host),
    READ(opgraft_host, context, right_host, read_plain_host),
    READ(opgraft_sample_options, type_choice, right_sample_options,
         read_sample_options),
    READ(opgraft_report_options, form, right_report_options,
         read_report_options),
    READ(opgraft_gate, struct_size, right_gate, read_gate),
    READ(og_device_driver, stream_synchronize, fake_driver, read_driver),
};
static const reader check_readers[] = {
    READ(opgraft_check_options, calls, right_check_options, read_check_options),
    READ(opgraft_check_sink, user, right_check_sink, read_check_sink),
};

// The row's struct with another size, in memory of just that size. `last` is
// its last byte, where it is longer.
static og_status read_sized(const reader *row, size_t size_bytes, char last,
                            opgraft_error *error) {
  char *memory = calloc(1, size_bytes);
  const uint32_t size = (uint32_t)size_bytes;
  if (memory == NULL) abort();
  memcpy(memory, row->right,
         size_bytes < row->size_bytes ? size_bytes : row->size_bytes);
  memcpy(memory, &size, sizeof size);
  if (size_bytes > row->size_bytes) memory[size_bytes - 1] = last;
  const og_status status = row->read(memory, error);
  free(memory);
  return status;
}

// The error is about this struct, and says both sizes.
static void check_text(const char *name, const opgraft_error *error, size_t a,
                       size_t b) {
  char number[2][24];
  snprintf(number[0], sizeof number[0], " %zu", a);
  snprintf(number[1], sizeof number[1], " %zu", b);
  const bool is_told = strstr(error->text, name) != NULL &&
                       strstr(error->text, number[0]) != NULL &&
                       strstr(error->text, number[1]) != NULL;
  if (!CHECK(is_told) && test_now.fault < 0)
    printf("%s: %s\n", name, error->text);
}

static void reader_try(const reader *row) {
  static const uint32_t zero[SIZES_MAX_BYTES / 4] = {0};
  const size_t ours = row->size_bytes;
  opgraft_error error = {0};
  int missed = test_now.missed;
  CHECK_EQ(read_sized(row, ours, 0, &error), OG_OK);
  CHECK_EQ(read_sized(row, row->old_bytes, 0, &error), OG_OK);
  CHECK_EQ(read_sized(row, ours + MORE_BYTES, 0, &error), OG_OK);
  CHECK_EQ(read_sized(row, ours + MORE_BYTES, 1, &error), OG_VERSION);
  check_text(row->name, &error, ours + MORE_BYTES, ours);
  CHECK_EQ(row->read(zero, &error), OG_INVALID);
  check_text(row->name, &error, 0, ours);
  if (test_now.missed != missed && test_now.fault < 0)
    printf("%s: %s\n", row->name, error.text);
}

TEST(callers_of_another_age) {
  for (size_t i = 0; i < sizeof readers / sizeof *readers; ++i)
    reader_try(&readers[i]);
}

TEST(callers_of_check_of_another_age) {
  for (size_t i = 0; i < sizeof check_readers / sizeof *check_readers; ++i)
    reader_try(&check_readers[i]);
}

// --- Arrays and flags --------------------------------------------------------

static bool prints_as(const opgraft_graph *graph, const char *wanted) {
  char text[256];
  return opgraft_graph_print(graph, text, sizeof text) < sizeof text &&
         CHECK_STR(text, wanted);
}

// Two results, [2] and [1], of a host that says this many bytes of each.
static og_status results_read(uint32_t info_bytes, uint32_t apart, char last,
                              opgraft_graph **out, opgraft_error *error) {
  _Alignas(16) char memory[2 * SIZES_MAX_BYTES] = {0};
  opgraft_record node = right_record;
  for (int r = 0; r < 2; ++r) {
    opgraft_value_info info = right_info;
    info.struct_size = info_bytes;
    info.shape = &sizes[r];
    memcpy(memory + (size_t)r * apart, &info,
           info_bytes < sizeof info ? info_bytes : sizeof info);
  }
  memory[2 * apart - 1] = last;
  node.name = "there";
  node.results = (const opgraft_value_info *)(const void *)memory;
  node.result_count = 2;
  node.result_size = apart;
  node.file = NULL;
  *out = NULL;
  return record_add(&node, out, error);
}

TEST(results_of_hosts_of_another_age) {
  static const char text[] =
      "graph sized(%x: f32[2]) {\n"
      "  %0: f32[2], %1: f32[1] = foreign \"there\"(%x) "
      "{node 0, why \"there is no row for it\"}\n"
      "  return\n"
      "}\n";
  enum {
    OURS = sizeof(opgraft_value_info),
    OLDER = END(opgraft_value_info, shape)
  };
  static const uint32_t cases[][2] = {
      {OURS, OURS}, {OLDER, OLDER}, {OLDER, OURS}, {OURS + 8, OURS + 8}};
  opgraft_graph *graph;
  opgraft_error error;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    if (CHECK_EQ(results_read(cases[i][0], cases[i][1], 0, &graph, &error),
                 OG_OK))
      CHECK(prints_as(graph, text));
    opgraft_graph_release(graph);
  }
  CHECK_EQ(results_read(OURS + 8, OURS + 8, 1, &graph, &error), OG_VERSION);
  check_text("opgraft_value_info", &error, OURS + 8, OURS);
  CHECK_EQ(results_read(OURS + 8, OURS, 0, &graph, &error), OG_INVALID);
  check_text("opgraft_record.result_size", &error, OURS + 8, OURS);
  CHECK_EQ(results_read(0, OURS, 0, &graph, &error), OG_INVALID);
  check_text("opgraft_value_info", &error, 0, OURS);
}

// A record whose results are there, and nobody says how far apart.
TEST(results_without_their_size) {
  opgraft_record node = right_record;
  opgraft_error error;
  node.result_size = 0;
  CHECK_EQ(read_record(&node, &error), OG_INVALID);
  check_text("opgraft_record.result_size", &error, 0, sizeof right_info);
}

TEST(what_no_call_can_do_without) {
  opgraft_record node = right_record;
  opgraft_value_info info = right_info;
  opgraft_prepared ready = right_prepared;
  opgraft_error error;
  node.name = NULL;
  CHECK_EQ(read_record(&node, &error), OG_INVALID);
  node = right_record;
  node.args = NULL;
  CHECK_EQ(read_record(&node, &error), OG_INVALID);
  node = right_record;
  node.results = NULL;
  CHECK_EQ(read_record(&node, &error), OG_INVALID);
  info.shape = NULL;
  CHECK_EQ(read_info(&info, &error), OG_INVALID);
  ready.run = NULL;
  CHECK_EQ(read_prepared(&ready, &error), OG_INVALID);
}

TEST(unknown_flags) {
  opgraft_host host = right_host;
  opgraft_options options = right_options;
  opgraft_record node = right_record;
  opgraft_value_info info = right_info;
  opgraft_error error;
  host.flags = 1u << 20;
  CHECK_EQ(read_host(&host, &error), OG_VERSION);
  CHECK_EQ(read_plain_host(&host, &error), OG_VERSION);
  host.flags = OG_HOST_ANY_SIZE;  // a test's, set inside only
  CHECK_EQ(read_host(&host, &error), OG_VERSION);
  options.flags = 1u << 20;
  CHECK_EQ(read_options(&options, &error), OG_VERSION);
  node.flags = 1u << 20;
  CHECK_EQ(read_record(&node, &error), OG_VERSION);
  info.flags = 1u << 20;
  CHECK_EQ(read_info(&info, &error), OG_VERSION);
  CHECK(strstr(error.text, "opgraft_value_info.flags has 0x100000") != NULL);
}

TEST_MAIN("abi_read", CASE(callers_of_another_age),
          CASE_NO_FAULTS(callers_of_check_of_another_age),
          CASE(results_of_hosts_of_another_age),
          CASE(results_without_their_size), CASE(what_no_call_can_do_without),
          CASE(unknown_flags))
