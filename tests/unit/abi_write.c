// SPDX-License-Identifier: Apache-2.0
// Structs that the library writes: in memory of a caller of another age, and
// those that it hands to a callback. tools/abi.py fails where a public struct
// that begins with its size is in no such table of a unit test.

#include <opgraft/check.h>
#include <opgraft/graph_file.h>
#include <opgraft/sample.h>

#include "device_fake.h"
#include "test.h"

#define END(type, member) (offsetof(type, member) + sizeof((type){0}.member))

enum { MORE_BYTES = 16, ROOM_BYTES = 512, UNTOUCHED = 0x5a };

static const og_dtype f32 = {OG_CODE_FLOAT, 32, 1};
static int64_t one = 1, two = 2;

// --- What the library hands to a callback ------------------------------------

static uint32_t seen_og_call, seen_og_infer_call, seen_og_sample_call,
    seen_opgraft_prepare_call, seen_opgraft_node_call, seen_opgraft_finding,
    seen_opgraft_check_operator, seen_opgraft_reference_call;

static og_status copy_run(const og_call *call) {
  seen_og_call = call->struct_size;
  for (int64_t i = 0; i < og_numel(call->in[0]); ++i)
    og_f32_mut(call->out[0])[i] = og_f32(call->in[0])[i];
  return OG_OK;
}

static og_status copy_infer(const og_infer_call *call) {
  seen_og_infer_call = call->struct_size;
  call->ndim[0] = call->in[0]->ndim;
  for (int32_t d = 0; d < call->ndim[0]; ++d)
    call->shape[0][d] = call->in[0]->shape[d];
  return OG_OK;
}

static og_status copy_sample(const og_sample_call *call) {
  seen_og_sample_call = call->struct_size;
  return OG_OK;
}

static og_status copy_prepare(const opgraft_prepare_call *prepare) {
  seen_opgraft_prepare_call = prepare->struct_size;
  return OG_OK;
}

static og_status prepared_run(void *state, opgraft_error *error) {
  (void)state;
  (void)error;
  return OG_OK;
}

static og_status host_prepare(void *context, const opgraft_node_call *node,
                              void **out_state, uint32_t *out_flags,
                              opgraft_error *error) {
  (void)context;
  (void)out_flags;
  (void)error;
  seen_opgraft_node_call = node->struct_size;
  *out_state = NULL;
  return OG_OK;
}

static og_status host_run(void *context, void *state,
                          const opgraft_node_call *node, opgraft_error *error) {
  (void)context;
  (void)state;
  (void)node;
  (void)error;
  return OG_OK;
}

static og_status nothing_run(const og_call *call) {
  (void)call;
  return OG_OK;
}

static void on_finding(void *user, const opgraft_finding *finding) {
  (void)user;
  seen_opgraft_finding = finding->struct_size;
}

static void on_operator(void *user, const opgraft_check_operator *done) {
  (void)user;
  seen_opgraft_check_operator = done->struct_size;
}

static int32_t on_reference(void *state, const opgraft_reference_call *call) {
  (void)state;
  seen_opgraft_reference_call = call->struct_size;
  return 0;
}

static const og_kernel kernels[] = {{.device = OG_CPU, .run = copy_run}};
static const og_op ops[] = {{.schema = "copy(Tensor x) -> Tensor",
                             .dtype = "x: f32 -> x",
                             .infer = copy_infer,
                             .sample = copy_sample,
                             .kernels = OG_KERNELS(kernels)}};
static const og_module record = {.struct_size = sizeof record,
                                 .abi_version = OG_ABI_VERSION,
                                 .name = "sized",
                                 .ops = ops,
                                 .op_count = 1,
                                 .op_size = sizeof(og_op)};
static const opgraft_prepared ready = {
    .struct_size = sizeof ready, .prepare = copy_prepare, .run = prepared_run};
static const opgraft_prepared *const prepared[] = {&ready};
static const opgraft_made made = {.struct_size = sizeof made,
                                  .record = &record,
                                  .key = "sized",
                                  .prepared = prepared};

// A graph of one node that a host runs, and of one that the module runs.
typedef struct setup {
  opgraft_module *module;
  opgraft_graph *graph;
  opgraft_executable *executable;
} setup;

static void setup_free(setup *s) {
  opgraft_executable_release(s->executable);
  opgraft_graph_release(s->graph);
  if (s->module != NULL) opgraft_module_release(s->module);
}

static og_status setup_read(setup *s, opgraft_error *error) {
  static const char text[] =
      "graph sized(%x: f32[2]) {\n"
      "  %h: f32[2] = foreign \"there\"(%x)\n"
      "  %y: f32[2] = foreign \"sized.copy.default\"(%h)\n"
      "  return %y\n"
      "}\n";
  *s = (setup){0};
  og_status status = opgraft_module_make(&made, &s->module, error);
  if (status == OG_OK)
    status = opgraft_graph_parse(text, sizeof text - 1, &s->graph, error);
  if (status == OG_OK)
    status = opgraft_graph_add_module(s->graph, s->module, error);
  return status;
}

static const opgraft_host host = {.struct_size = sizeof host,
                                  .prepare = host_prepare,
                                  .run = host_run,
                                  .threads = 1};

static og_status setup_make(setup *s, opgraft_error *error) {
  og_status status = setup_read(s, error);
  if (status == OG_OK) status = opgraft_graph_finish(s->graph, NULL, error);
  return status != OG_OK ? status
                         : opgraft_executable_create(s->graph, &host,
                                                     &s->executable, error);
}

static og_status setup_begin(setup *s, opgraft_call *call,
                             opgraft_error *error) {
  static float x[2] = {1, 2};
  const og_tensor tensor = {.data = x,
                            .device = {OG_CPU, 0},
                            .ndim = 1,
                            .dtype = f32,
                            .shape = &two,
                            .strides = &one};
  const og_tensor *in[1] = {&tensor};
  return opgraft_executable_begin(s->executable, in, NULL, 1, call, error);
}

static void frame_call(const opgraft_op *op) {
  static opgraft_frame frame;
  opgraft_error error;
  float x[2] = {1, 2}, y[2] = {0};
  const og_tensor tensor = {.data = x,
                            .device = {OG_CPU, 0},
                            .ndim = 1,
                            .dtype = f32,
                            .shape = &two,
                            .strides = &one};
  opgraft_frame_init(&frame, op);
  frame.in[0] = &tensor;
  if (CHECK_EQ(opgraft_frame_infer(&frame, &error), OG_OK)) {
    frame.fresh[0].data = y;
    CHECK_EQ(opgraft_frame_run(&frame, &error), OG_OK);
  }
  opgraft_frame_reset(&frame);
}

static const opgraft_check_options check_options = {
    .struct_size = sizeof check_options, .calls = 1, .probe = "reference"};
// In this process, whose memory the callback writes.
static const opgraft_check_options check_inline = {
    .struct_size = sizeof check_inline,
    .probe = "reference",
    .call = "1",
    .is_inline = 1,
    .compute = on_reference};
static const opgraft_check_sink check_sink = {.struct_size = sizeof check_sink,
                                              .finding = on_finding,
                                              .operator_done = on_operator};

#define HANDED(type) \
  { #type, sizeof(type), &seen_##type }
static const struct handed {
  const char *name;
  size_t size_bytes;
  uint32_t *seen;
} handed[] = {
    HANDED(og_call),
    HANDED(og_infer_call),
    HANDED(og_sample_call),
    HANDED(opgraft_prepare_call),
    HANDED(opgraft_node_call),
    HANDED(opgraft_finding),
    HANDED(opgraft_check_operator),
    HANDED(opgraft_reference_call),
    HANDED(og_device_host),
    HANDED(og_device_properties),
    HANDED(og_launch),
};

static void device_call(void) {
  opgraft_driver *driver;
  opgraft_error error;
  const og_call call = {.struct_size = sizeof call};
  const og_launch launch = {.struct_size = sizeof launch,
                            .name = "nothing",
                            .run = nothing_run,
                            .call = &call};
  if (!CHECK_EQ(opgraft_driver_wrap(&fake_driver, NULL, &driver, &error),
                OG_OK))
    return;
  void *stream = opgraft_driver_default_stream(driver, 0);
  CHECK_EQ(opgraft_driver_launch(driver, stream, &launch, &error), OG_OK);
  opgraft_driver_destroy(driver);
}

TEST(what_is_handed_over_has_our_size) {
  setup s;
  opgraft_sample *sample = NULL;
  opgraft_error error;
  opgraft_call call = {.struct_size = sizeof call};
  REQUIRE(setup_make(&s, &error) == OG_OK);
  const opgraft_op *op = opgraft_module_op(s.module, 0);
  REQUIRE(setup_begin(&s, &call, &error) == OG_OK);
  opgraft_call_end(&call);
  frame_call(op);
  device_call();
  CHECK_EQ(opgraft_sample_create(op, NULL, &sample, &error), OG_OK);
  CHECK_EQ(opgraft_check(s.module, &check_options, &check_sink, NULL, &error),
           OG_OK);
  CHECK_EQ(opgraft_check(s.module, &check_inline, &check_sink, NULL, &error),
           OG_OK);
  for (size_t i = 0; i < sizeof handed / sizeof *handed; ++i)
    if (!CHECK_EQ(*handed[i].seen, handed[i].size_bytes))
      printf("%s\n", handed[i].name);
done:
  opgraft_sample_destroy(sample);
  setup_free(&s);
}

// --- What the library fills in the caller's memory ---------------------------

static og_status fill_info(setup *s, void *to, opgraft_error *error) {
  return opgraft_graph_input(s->graph, 0, to, error);
}

static og_status fill_stats(setup *s, void *to, opgraft_error *error) {
  return opgraft_executable_stats(s->executable, to, error);
}

// What is read of a call that is at an end: all but `instance`.
static og_status fill_call(setup *s, void *to, opgraft_error *error) {
  const og_status status = setup_begin(s, to, error);
  if (status == OG_OK) opgraft_call_end(to);
  return status;
}

static og_status fill_step(setup *s, void *to, opgraft_error *error) {
  opgraft_call call = {.struct_size = sizeof call};
  og_status status = setup_begin(s, &call, error);
  if (status == OG_OK) status = opgraft_call_step(&call, 1, to, error);
  opgraft_call_end(&call);
  return status;
}

typedef struct writer {
  const char *name;
  size_t size_bytes;
  size_t old_bytes;
  og_status (*fill)(setup *s, void *to, opgraft_error *error);
} writer;

#define FILLED(type, last, function) \
  { #type, sizeof(type), END(type, last), function }
static const writer writers[] = {
    FILLED(opgraft_value_info, ndim, fill_info),
    FILLED(opgraft_stats, nodes, fill_stats),
    FILLED(opgraft_call, context, fill_call),
    FILLED(opgraft_call, outputs, fill_call),
    FILLED(opgraft_step, name, fill_step),
};

// The row's struct with this size, in memory that was never touched.
static og_status fill_sized(const writer *row, setup *s, size_t size_bytes,
                            char *room, opgraft_error *error) {
  const uint32_t size = (uint32_t)size_bytes;
  memset(room, UNTOUCHED, ROOM_BYTES);
  memcpy(room, &size, sizeof size);
  return row->fill(s, room, error);
}

static bool are_all(const char *from, const char *end, char wanted) {
  for (; from < end; ++from)
    if (*from != wanted) return false;
  return true;
}

// From `from` on nothing was written.
static bool is_untouched(const char *room, size_t from) {
  return are_all(room + from, room + ROOM_BYTES, UNTOUCHED);
}

static void writer_try(const writer *row, setup *s) {
  _Alignas(16) char right[ROOM_BYTES], room[ROOM_BYTES];
  const size_t ours = row->size_bytes, head = sizeof(uint32_t);
  const uint32_t no_size[] = {0, 3, 1u << 31};
  opgraft_error error = {0};
  const int missed = test_now.missed;
  CHECK_EQ(fill_sized(row, s, ours, right, &error), OG_OK);
  CHECK(is_untouched(right, ours));
  CHECK_EQ(fill_sized(row, s, row->old_bytes, room, &error), OG_OK);
  CHECK(memcmp(room + head, right + head, row->old_bytes - head) == 0);
  CHECK(is_untouched(room, row->old_bytes));
  CHECK_EQ(fill_sized(row, s, ours + MORE_BYTES, room, &error), OG_OK);
  CHECK(memcmp(room + head, right + head, ours - head) == 0);
  CHECK(are_all(room + ours, room + ours + MORE_BYTES, 0));
  CHECK(is_untouched(room, ours + MORE_BYTES));
  for (size_t i = 0; i < sizeof no_size / sizeof *no_size; ++i) {
    char wanted[64];
    CHECK_EQ(fill_sized(row, s, no_size[i], room, &error), OG_INVALID);
    CHECK(is_untouched(room, head));
    snprintf(wanted, sizeof wanted, "%s.struct_size is %u, expected", row->name,
             (unsigned)no_size[i]);
    CHECK(strstr(error.text, wanted) != NULL);
    snprintf(wanted, sizeof wanted, ": %zu here", ours);
    CHECK(strstr(error.text, wanted) != NULL);
  }
  if (test_now.missed != missed && test_now.fault < 0)
    printf("%s: %s\n", row->name, error.text);
}

TEST(memory_of_callers_of_another_age) {
  setup s;
  opgraft_error error;
  REQUIRE(setup_make(&s, &error) == OG_OK);
  for (size_t i = 0; i < sizeof writers / sizeof *writers; ++i)
    writer_try(&writers[i], &s);
done:
  setup_free(&s);
}

// opgraft_call_run reads `context` without looking at the size again.
TEST(a_call_without_its_context) {
  setup s;
  opgraft_error error;
  opgraft_call call = {.struct_size = END(opgraft_call, instance)};
  REQUIRE(setup_make(&s, &error) == OG_OK);
  CHECK_EQ(setup_begin(&s, &call, &error), OG_INVALID);
  CHECK(call.instance == NULL);
done:
  setup_free(&s);
}

TEST_MAIN("abi_write", CASE_NO_FAULTS(what_is_handed_over_has_our_size),
          CASE(memory_of_callers_of_another_age),
          CASE(a_call_without_its_context))
