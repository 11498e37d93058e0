// SPDX-License-Identifier: Apache-2.0
// Drivers that are broken, one a row, in one fixed scenario: load, memory,
// copies, streams, events, a launch, a capture, a graph. Each fault is an error
// that names the function and what was expected; nothing is left behind, no
// handle is used that the driver did not give, and the next driver works.

#define _POSIX_C_SOURCE 200809L

#include "device_base.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machine.h"

// --- The scenario ------------------------------------------------------------

enum { FLOATS = 64, BYTES = FLOATS * 4, TIMEOUT_NS = 2000000 };

typedef enum part {
  LOAD,
  PROPERTIES,
  ALLOCATE,
  COPIES,
  STREAMS,
  EVENTS,
  LAUNCH,
  CAPTURE,
  FIRST,   // a graph's first call, which captures it
  REPLAY,  // and two more, with other addresses and on another stream
  RELEASE,
  NOWHERE,
} part;

// A table with room for those that are too long.
typedef union table {
  og_device_driver driver;
  char bytes[4096];
} table;

typedef struct world {
  table table;
  opgraft_driver *driver;
  void *memory[4];  // of FLOATS each: x, y, x2, y2
  void *stream;     // beside the default one
  void *event[2];
  void *graph, *exec;
  machine m;
  opgraft_error error;
  double factor;                     // of the kernel
  float in[2][FLOATS], out[FLOATS];  // what x and x2 hold
  bool is_wrong;                     // a result was
  part failed_in;
  og_status status;
} world;

static const char chain[] =
    "graph chain(%x: f32[64] on ext:0) {\n"
    "  %a: f32[64] on ext:0 = neg(%x)\n"
    "  %b: f32[64] on ext:0 = mul(%a, %a)\n"
    "  %y: f32[64] on ext:0 = add(%b, %a)\n"
    "  return %y\n"
    "}\n";

static void *default_stream(const world *w) {
  return opgraft_driver_default_stream(w->driver, 0);
}

// No wait of the host's is longer than it asked for.
static og_status wait_for(world *w, void *stream) {
  return opgraft_driver_stream_synchronize(w->driver, stream, TIMEOUT_NS,
                                           &w->error);
}

static og_status copy(world *w, int32_t way, void *to, const void *from) {
  return opgraft_driver_copy(w->driver, default_stream(w), way, to, from, BYTES,
                             &w->error);
}

// A function that fails gives nothing.
static og_status made(world *w, og_status status, void **out) {
  if (status == OG_OK) return OG_OK;
  w->is_wrong |= *out != NULL;
  *out = NULL;
  return status;
}

static og_status do_load(world *w) {
  const og_status status =
      opgraft_driver_wrap(&w->table.driver, "seed=1", &w->driver, &w->error);
  w->is_wrong |= (status == OG_OK) != (w->driver != NULL);
  return status;
}

static og_status do_properties(world *w) {
  og_device_properties found = {.struct_size = sizeof found};
  return opgraft_driver_properties(w->driver, 1, &found, &w->error);
}

static og_status do_allocate(world *w) {
  for (int i = 0; i < 4; ++i) {
    const og_status status = opgraft_driver_allocate(
        w->driver, 0, BYTES, "scenario", &w->memory[i], &w->error);
    OG_TRY(made(w, status, &w->memory[i]));
  }
  return OG_OK;
}

static og_status do_copies(world *w) {
  for (int i = 0; i < FLOATS; ++i) {
    w->in[0][i] = 0.25F * (float)(i - 8);
    w->in[1][i] = 0.5F * (float)(i + 3);
  }
  OG_TRY(copy(w, OPGRAFT_COPY_TO_DEVICE, w->memory[0], w->in[0]));
  OG_TRY(copy(w, OPGRAFT_COPY_TO_DEVICE, w->memory[1], w->in[1]));
  OG_TRY(copy(w, OPGRAFT_COPY_ON_DEVICE, w->memory[2], w->memory[1]));
  OG_TRY(copy(w, OPGRAFT_COPY_TO_HOST, w->out, w->memory[2]));
  OG_TRY(opgraft_driver_set(w->driver, default_stream(w), w->memory[1], 0,
                            BYTES, &w->error));
  OG_TRY(wait_for(w, default_stream(w)));
  w->is_wrong |= memcmp(w->in[1], w->out, BYTES) != 0;
  return OG_OK;
}

static void count_up(void *user) { ++*(int *)user; }

static og_status do_streams(world *w) {
  int calls = 0;
  const og_status status =
      opgraft_driver_stream_create(w->driver, 0, &w->stream, &w->error);
  OG_TRY(made(w, status, &w->stream));
  OG_TRY(opgraft_driver_host_function(w->driver, w->stream, count_up, &calls,
                                      &w->error));
  OG_TRY(wait_for(w, w->stream));
  w->is_wrong |= calls != 1;
  return OG_OK;
}

static og_status do_events(world *w) {
  int64_t elapsed_ns;
  for (int i = 0; i < 2; ++i) {
    const og_status status =
        opgraft_driver_event_create(w->driver, 0, &w->event[i], &w->error);
    OG_TRY(made(w, status, &w->event[i]));
    OG_TRY(opgraft_driver_event_record(w->driver, w->event[i],
                                       default_stream(w), &w->error));
  }
  OG_TRY(
      opgraft_driver_event_wait(w->driver, w->event[1], w->stream, &w->error));
  OG_TRY(opgraft_driver_event_synchronize(w->driver, w->event[1], TIMEOUT_NS,
                                          &w->error));
  OG_TRY(opgraft_driver_event_elapsed(w->driver, w->event[0], w->event[1],
                                      &elapsed_ns, &w->error));
  w->is_wrong |= elapsed_ns != 1;
  return OG_OK;
}

// y = a * x. Two factors are broken ones.
enum { FACTOR_FAILS = -1, FACTOR_WILD = -2 };

static og_status scale(const og_call *call) {
  const double a = call->attr[0].f;
  if (a == FACTOR_FAILS) return og_fail(call, OG_KERNEL, "expected a > 0");
  if (a == FACTOR_WILD) return 77;
  for (int64_t i = 0; i < og_numel(call->in[0]); ++i)
    og_f32_mut(call->out[0])[i] = (float)a * og_f32(call->in[0])[i];
  return OG_OK;
}

static og_tensor tensor_at(void *data, const int64_t *size_and_stride) {
  return (og_tensor){.data = data,
                     .device = {OG_EXT_DEV, 0},
                     .ndim = 1,
                     .dtype = {OG_CODE_FLOAT, 32, 1},
                     .shape = (int64_t *)(uintptr_t)&size_and_stride[0],
                     .strides = (int64_t *)(uintptr_t)&size_and_stride[1]};
}

// All of it is gone when this returns, as a driver has to expect.
static og_status scale_give(world *w, void *stream, int32_t index) {
  static const int64_t sizes[2] = {FLOATS, 1};
  og_tensor x = tensor_at(w->memory[0], sizes);
  og_tensor y = tensor_at(w->memory[1], sizes);
  const og_tensor *in[1] = {&x};
  og_tensor *out[1] = {&y};
  const og_tensor_list none[1] = {{0}};
  const og_attr attr = {.kind = OG_ATTR_FLOAT, .f = w->factor};
  const og_call call = {.struct_size = sizeof call,
                        .in = in,
                        .out = out,
                        .in_list = none,
                        .out_list = none,
                        .attr = &attr,
                        .stream = stream,
                        .threads = 1};
  const og_launch launch = {.struct_size = sizeof launch,
                            .name = "scale",
                            .run = scale,
                            .call = &call,
                            .in_count = 1,
                            .out_count = 1,
                            .attr_count = 1};
  return index < 0
             ? opgraft_driver_launch(w->driver, stream, &launch, &w->error)
             : opgraft_driver_exec_update(w->driver, w->exec, index, &launch,
                                          &w->error);
}

static og_status expect(world *w, const void *from, const float *in,
                        bool is_chain) {
  OG_TRY(wait_for(w, default_stream(w)));
  OG_TRY(copy(w, OPGRAFT_COPY_TO_HOST, w->out, from));
  OG_TRY(wait_for(w, default_stream(w)));
  for (int i = 0; i < FLOATS; ++i) {
    const float x = in[i], y = is_chain ? x * x - x : 2.0F * x;
    w->is_wrong |= fabsf(w->out[i] - y) > 1e-6F;
  }
  return OG_OK;
}

static og_status do_launch(world *w) {
  OG_TRY(scale_give(w, default_stream(w), -1));
  return expect(w, w->memory[1], w->in[0], false);
}

// By hand, without a graph of the library's.
static og_status do_capture(world *w) {
  void *stream = default_stream(w);
  OG_TRY(opgraft_driver_capture_begin(w->driver, stream, &w->error));
  const og_status given = scale_give(w, stream, -1);
  const og_status ended = opgraft_driver_capture_end(
      w->driver, stream, &w->graph, given == OG_OK ? &w->error : NULL);
  (void)made(w, ended, &w->graph);
  OG_TRY(given);
  OG_TRY(ended);
  OG_TRY(made(w,
              opgraft_driver_graph_instantiate(w->driver, w->graph, &w->exec,
                                               &w->error),
              &w->exec));
  OG_TRY(opgraft_driver_graph_destroy(w->driver, w->graph, &w->error));
  w->graph = NULL;
  OG_TRY(scale_give(w, stream, 0));
  OG_TRY(opgraft_driver_exec_launch(w->driver, w->exec, stream, &w->error));
  return expect(w, w->memory[1], w->in[0], false);
}

static og_status replay(world *w, void *x, void *y) {
  static const int64_t sizes[2] = {FLOATS, 1};
  const og_tensor tensor = tensor_at(x, sizes);
  const og_tensor *in[1] = {&tensor};
  opgraft_call call = {.struct_size = sizeof call};
  OG_TRY(
      opgraft_executable_begin(w->m.executable, in, NULL, 1, &call, &w->error));
  const og_status status = opgraft_call_run(&call, &y, &w->error);
  opgraft_call_end(&call);
  return status;
}

static og_status do_first(world *w) {
  static const opgraft_host one_thread = {.struct_size = sizeof one_thread,
                                          .threads = 1};
  if (w->m.executable == NULL && !machine_make(&w->m, chain, &one_thread)) {
    w->error = w->m.error;
    return w->error.code;
  }
  OG_TRY(replay(w, w->memory[0], w->memory[1]));
  return expect(w, w->memory[1], w->in[0], true);
}

static void *stream_of_world(void *user, int32_t device) {
  return device == 0 ? ((world *)user)->stream : NULL;
}

static og_status do_replay(world *w) {
  OG_TRY(replay(w, w->memory[2], w->memory[1]));
  OG_TRY(expect(w, w->memory[1], w->in[1], true));
  opgraft_driver_on_stream(w->driver, stream_of_world, w);
  const og_status status = replay(w, w->memory[0], w->memory[3]);
  opgraft_driver_on_stream(w->driver, NULL, NULL);
  OG_TRY(status);
  OG_TRY(wait_for(w, w->stream));
  return expect(w, w->memory[3], w->in[0], true);
}

static void keep_first(og_status *first, og_status status) {
  if (*first == OG_OK) *first = status;
}

// All that is there, whatever failed; the first error stays.
static og_status do_release(world *w) {
  og_status first = OG_OK;
#define ERROR (first == OG_OK ? &w->error : NULL)
  if (w->driver == NULL) return OG_OK;
  base.is_quiet = true;
  machine_free(&w->m);
  base.is_quiet = false;
  if (w->exec != NULL)
    keep_first(&first, opgraft_driver_exec_destroy(w->driver, w->exec, ERROR));
  if (w->graph != NULL)
    keep_first(&first,
               opgraft_driver_graph_destroy(w->driver, w->graph, ERROR));
  for (int i = 0; i < 2; ++i)
    if (w->event[i] != NULL)
      keep_first(&first,
                 opgraft_driver_event_destroy(w->driver, w->event[i], ERROR));
  if (w->stream != NULL)
    keep_first(&first,
               opgraft_driver_stream_destroy(w->driver, w->stream, ERROR));
  for (int i = 0; i < 4; ++i)
    keep_first(&first, opgraft_driver_free(w->driver, 0, w->memory[i], ERROR));
#undef ERROR
  base.is_quiet = true;
  opgraft_driver_destroy(w->driver);
  base.is_quiet = false;
  w->driver = NULL;
  return first;
}

static og_status (*const steps[])(world *w) = {
    [LOAD] = do_load,         [PROPERTIES] = do_properties,
    [ALLOCATE] = do_allocate, [COPIES] = do_copies,
    [STREAMS] = do_streams,   [EVENTS] = do_events,
    [LAUNCH] = do_launch,     [CAPTURE] = do_capture,
    [FIRST] = do_first,       [REPLAY] = do_replay,
    [RELEASE] = do_release,
};

// Until a part fails.
static void world_run(world *w) {
  for (part p = LOAD; p < RELEASE && w->status == OG_OK; ++p) {
    w->status = steps[p](w);
    if (w->status != OG_OK) w->failed_in = p;
  }
}

// Releases what is there, and says so where only that fails.
static void world_end(world *w) {
  const opgraft_error first = w->error;
  const og_status status = do_release(w);
  if (w->status != OG_OK) {
    w->error = first;
  } else if (status != OG_OK) {
    w->status = status;
    w->failed_in = RELEASE;
  }
}

static void world_begin(world *w, const fault *f) {
  memset(w, 0, sizeof *w);
  memset(&base, 0, sizeof base);
  base.fault = f;
  w->table.driver = base_driver;
  w->factor = 2;
  w->failed_in = NOWHERE;
}

// What holds after every row. `may_stray`: the driver gave a handle that is
// not there, and only the driver knows.
static void world_check(const world *w, bool may_stray) {
  CHECK(!w->is_wrong);
  CHECK_EQ(base.opened, 0);
  CHECK_EQ(base.unasked, 0);
  if (!may_stray) CHECK_EQ(base.strays, 0);
  CHECK(opgraft_driver_find(OG_EXT_DEV) == NULL);
}

TEST(a_driver_that_is_right) {
  world w;
  world_begin(&w, NULL);
  world_run(&w);
  if (w.status == OG_OK) {
    CHECK_EQ(stats_of(&w.m).captures, 1);
    CHECK_EQ(stats_of(&w.m).launches, 3);
    CHECK_EQ(stats_of(&w.m).recaptures, 0);
  }
  world_end(&w);
  if (w.status != OG_OK && test_now.fault < 0) printf("%s\n", w.error.text);
  CHECK_EQ(w.status, OG_OK);
  CHECK_EQ(w.failed_in, NOWHERE);
  world_check(&w, false);
}

// --- Tables ------------------------------------------------------------------

#define BREAK(name, statement)         \
  static void break_##name(table *t) { \
    og_device_driver *d = &t->driver;  \
    (void)d, statement;                \
  }
#define SIZE_TO(member) \
  (d->struct_size = (uint32_t)offsetof(og_device_driver, member))
BREAK(no_size, d->struct_size = 0)
BREAK(short_size, SIZE_TO(stream_synchronize))
BREAK(cut_size, SIZE_TO(memory_label); d->struct_size += 4)
BREAK(cut_events, SIZE_TO(event_wait))
BREAK(long_size, d->struct_size = 1 << 30)
BREAK(longer, d->struct_size = sizeof *d + 64)
BREAK(longer_set, (d->struct_size = sizeof *d + 64, t->bytes[sizeof *d] = 1))
BREAK(no_version, d->abi_version = 0)
BREAK(next_version, d->abi_version = OG_DEVICE_ABI_VERSION + 1)
BREAK(last_version, d->abi_version = UINT32_MAX)
BREAK(no_events, d->event_create = NULL; d->event_destroy = NULL;
      d->event_record = NULL; d->event_wait = NULL; d->event_synchronize = NULL)
BREAK(no_captures, d->capture_begin = NULL; d->capture_end = NULL;
      d->graph_destroy = NULL; d->graph_instantiate = NULL;
      d->exec_destroy = NULL; d->exec_update = NULL; d->exec_launch = NULL)
BREAK(no_launch, d->launch = NULL; break_no_captures(t))
BREAK(no_elapsed, d->event_elapsed = NULL)
BREAK(no_extras, d->memory_label = NULL; d->host_function = NULL)

#define COUNT(name, count)                                       \
  static og_status count_##name(void *state, int32_t *out_count, \
                                og_device_error *error) {        \
    (void)state, (void)error;                                    \
    *out_count = count;                                          \
    return OG_OK;                                                \
  }                                                              \
  BREAK(count_##name, d->device_count = count_##name)
COUNT(below, -1)
COUNT(many, 65)
COUNT(huge, INT32_MAX)

#define ALIGN(name, bytes)                                            \
  static og_status align_##name(void *state, int32_t device,          \
                                og_device_properties *out_properties, \
                                og_device_error *error) {             \
    (void)state, (void)device, (void)error;                           \
    out_properties->alignment = bytes;                                \
    return OG_OK;                                                     \
  }
ALIGN(odd, 3)
ALIGN(small, 8)
ALIGN(huge, 1u << 31)
ALIGN(less, 16)
BREAK(align_odd, d->properties = align_odd)
BREAK(align_small, d->properties = align_small)
BREAK(align_huge, d->properties = align_huge)

// As much as it promises, which is less than graphs take.
static og_status allocate_less(void *state, int32_t device, size_t size_bytes,
                               void **out_address, og_device_error *error) {
  (void)state, (void)device, (void)error;
  return memory_make(size_bytes, 16, out_address);
}
BREAK(align_less, d->properties = align_less;
      d->memory_allocate = allocate_less)

// --- Rows --------------------------------------------------------------------

typedef struct row {
  const char *name;
  void (*table)(table *t);
  int32_t missing;  // FN_*, that the table lacks
  fault fault;
  double factor;  // of the kernel
  part part;      // that fails
  og_status status;
  const char *names, *says;  // both in the error
  bool may_stray;
} row;

#define TABLE(of, code, names, says)                                       \
  {                                                                        \
    .name = #of, .table = break_##of, .part = LOAD, .status = code, names, \
    says                                                                   \
  }
#define LATER(of, in, code, names, says) \
  { .name = #of, .table = break_##of, .part = in, .status = code, names, says }
#define ROW(fn, at, times, how, in, code, reason, says)                        \
  {                                                                            \
    .name = #fn " " #how " from call " #at,                                    \
    .fault = {FN_##fn, at, times, code, reason, how}, .part = in,              \
    .status = (how) == SILENT || (how) == CROOKED ? OG_INTERNAL : (code), #fn, \
    says                                                                       \
  }
#define FAILS(fn, at, in, code, reason) \
  ROW(fn, at, 0, SAYS, in, code, reason, #fn ": " reason)
#define NO_REASON(fn, at, in, code) \
  ROW(fn, at, 0, SAYS, in, code, NULL, "without a reason")
#define NO_OUTPUT(fn, at, in) \
  ROW(fn, at, 0, SILENT, in, OG_OK, NULL, "expected a value that is not NULL")
#define OUTPUT_TOO(fn, at, in) \
  ROW(fn, at, 1, WRITES, in, OG_MEMORY, "no room", #fn ": no room")
#define WILD(fn, at, in, code)                               \
  {                                                          \
    .name = #fn " returns " #code,                           \
    .fault = {FN_##fn, at, 0, code, NULL, SAYS}, .part = in, \
    .status = OG_INTERNAL, #fn " returned " #code,           \
    "expected a code of og_status"                           \
  }

#define ENTRY(name, group, lost) ENTRY_##group(name)
#define ENTRY_ALONE(name)
#define ENTRY_REQUIRED(of)           \
  {.name = "no " #of,                \
   .missing = FN_##of,               \
   .part = LOAD,                     \
   .status = OG_INVALID,             \
   .names = "og_device_driver." #of, \
   .says = "is NULL, expected a function"},
#define ENTRY_EVENTS(name) ENTRY_REQUIRED(name)
#define ENTRY_CAPTURE(name) ENTRY_REQUIRED(name)

static const row rows[] = {
#include "device/entries.def"
    // Sizes and versions.
    TABLE(no_size, OG_INVALID, "og_device_driver.struct_size is 0", "expected"),
    TABLE(short_size, OG_INVALID, "og_device_driver.struct_size", "expected"),
    TABLE(cut_size, OG_INVALID, "og_device_driver.struct_size", "expected"),
    TABLE(cut_events, OG_INVALID, "event_wait", "expected a function"),
    TABLE(long_size, OG_INVALID, "og_device_driver.struct_size", "expected"),
    TABLE(longer_set, OG_VERSION, "og_device_driver", "or a newer one"),
    LATER(longer, NOWHERE, OG_OK, "", ""),
    TABLE(no_version, OG_VERSION, "abi_version is 0", "expected 1 to 1"),
    TABLE(next_version, OG_VERSION, "abi_version is 2", "expected 1 to 1"),
    TABLE(last_version, OG_VERSION, "abi_version", "expected 1 to 1"),
    // What is lost without an optional function.
    LATER(no_events, EVENTS, OG_UNSUPPORTED, "event_create", "one stream"),
    LATER(no_captures, CAPTURE, OG_UNSUPPORTED, "capture_begin",
          "a graph is launched node by node"),
    LATER(no_elapsed, EVENTS, OG_UNSUPPORTED, "event_elapsed",
          "no times are measured"),
    LATER(no_extras, NOWHERE, OG_OK, "", ""),
    // Counts and properties.
    {.name = "device_count SILENT",
     .fault = {FN_device_count, 1, 0, OG_OK, NULL, SILENT},
     .part = LOAD,
     .status = OG_DEVICE,
     .names = "device_count gives 0",
     .says = "expected 1 to 64"},
    TABLE(count_below, OG_DEVICE, "device_count gives -1", "expected 1 to 64"),
    TABLE(count_many, OG_DEVICE, "device_count gives 65", "expected 1 to 64"),
    TABLE(count_huge, OG_DEVICE, "device_count gives 2147483647", "expected 1"),
    ROW(properties, 1, 0, SILENT, LOAD, OG_OK, NULL, "expected a power of two"),
    TABLE(align_odd, OG_INTERNAL, "properties", "expected a power of two"),
    TABLE(align_small, OG_INTERNAL, "properties", "expected a power of two"),
    LATER(align_huge, ALLOCATE, OG_INTERNAL, "memory_allocate",
          "a multiple of 2147483648, the alignment of its properties"),
    LATER(align_less, FIRST, OG_DEVICE, "memory_allocate", "expect"),
    // Codes that og_status lacks.
    WILD(open, 1, LOAD, -1),
    WILD(properties, 3, PROPERTIES, 4096),
    WILD(memory_allocate, 1, ALLOCATE, 12),
    WILD(copy_to_device, 1, COPIES, -2147483647),
    WILD(event_record, 1, EVENTS, 255),
    WILD(launch, 1, LAUNCH, 1000),
    WILD(capture_end, 1, CAPTURE, -3),
    WILD(exec_launch, 2, FIRST, 12),
    WILD(stream_synchronize, 3, LAUNCH, 99),
    // Reasons.
    FAILS(open, 1, LOAD, OG_IO, "expected the bus to answer"),
    FAILS(device_count, 1, LOAD, OG_IO, "expected a bus"),
    FAILS(properties, 2, LOAD, OG_DEVICE, "device 1 does not answer"),
    FAILS(memory_set, 1, COPIES, OG_INVALID, "expected a byte"),
    FAILS(copy_to_device, 1, COPIES, OG_IO, "the link is down"),
    FAILS(copy_on_device, 1, COPIES, OG_BUSY, "100% of %s, %n, %5000d"),
    NO_REASON(copy_to_host, 1, COPIES, OG_IO),
    NO_REASON(stream_create, 2, LOAD, OG_MEMORY),
    NO_REASON(event_wait, 1, EVENTS, OG_INTERNAL),
    NO_REASON(exec_update, 2, REPLAY, OG_BUSY),
    ROW(open, 1, 0, UNENDED, LOAD, OG_BUSY, NULL, "base: open: xxxx"),
    ROW(memory_allocate, 2, 0, UNENDED, ALLOCATE, OG_MEMORY, NULL, "xxxx"),
    ROW(exec_launch, 2, 0, UNENDED, FIRST, OG_DEVICE, NULL, "xxxx"),
    // Outputs that are not written, that are written all the same, or twice.
    NO_OUTPUT(stream_create, 1, LOAD),
    NO_OUTPUT(stream_create, 2, LOAD),
    NO_OUTPUT(memory_allocate, 1, ALLOCATE),
    NO_OUTPUT(stream_create, 3, STREAMS),
    NO_OUTPUT(event_create, 1, EVENTS),
    NO_OUTPUT(capture_end, 1, CAPTURE),
    NO_OUTPUT(graph_instantiate, 1, CAPTURE),
    NO_OUTPUT(capture_end, 2, FIRST),
    NO_OUTPUT(graph_instantiate, 2, FIRST),
    NO_OUTPUT(memory_allocate, 5, FIRST),
    NO_OUTPUT(event_create, 3, REPLAY),
    OUTPUT_TOO(stream_create, 1, LOAD),
    OUTPUT_TOO(memory_allocate, 1, ALLOCATE),
    OUTPUT_TOO(stream_create, 3, STREAMS),
    OUTPUT_TOO(event_create, 1, EVENTS),
    OUTPUT_TOO(capture_end, 1, CAPTURE),
    OUTPUT_TOO(graph_instantiate, 1, CAPTURE),
    OUTPUT_TOO(capture_end, 2, FIRST),
    OUTPUT_TOO(graph_instantiate, 2, FIRST),
    OUTPUT_TOO(memory_allocate, 5, FIRST),
    ROW(memory_allocate, 3, 0, CROOKED, ALLOCATE, OG_OK, NULL,
        "4 bytes behind a multiple of 64"),
    {.name = "the default stream once more",
     .fault = {FN_stream_create, 3, 0, OG_OK, NULL, AGAIN},
     .part = STREAMS,
     .status = OG_INTERNAL,
     .names = "stream_create",
     .says = "expected"},
    {.name = "memory twice",
     .fault = {FN_memory_allocate, 4, 1, OG_OK, NULL, AGAIN},
     .part = RELEASE,
     .status = OG_INVALID,
     .names = "memory_free",
     .says = "expected memory that is there",
     .may_stray = true},
    {.name = "a graph twice",
     .fault = {FN_capture_end, 2, 0, OG_OK, NULL, AGAIN},
     .part = FIRST,
     .status = OG_INVALID,
     .names = "graph_instantiate",
     .says = "expected a graph that is there",
     .may_stray = true},
    // No room.
    FAILS(memory_allocate, 3, ALLOCATE, OG_MEMORY, "no room"),
    FAILS(memory_allocate, 5, FIRST, OG_MEMORY, "no room"),
    FAILS(event_create, 2, EVENTS, OG_MEMORY, "no event is left"),
    // Events and streams that are lost or hang.
    ROW(event_synchronize, 1, 0, NOT_DONE, EVENTS, OG_BUSY, "it never came",
        "event_synchronize: it never came"),
    ROW(stream_synchronize, 1, 0, NOT_DONE, COPIES, OG_BUSY, "2 works are left",
        "stream_synchronize: 2 works are left"),
    ROW(stream_synchronize, 7, 0, NOT_DONE, FIRST, OG_BUSY, "it hangs",
        "stream_synchronize: it hangs"),
    FAILS(event_record, 2, EVENTS, OG_DEVICE, "the event is lost"),
    FAILS(event_elapsed, 1, EVENTS, OG_DEVICE, "the clock is gone"),
    FAILS(host_function, 1, STREAMS, OG_DEVICE, "no thread is left"),
    FAILS(event_create, 3, REPLAY, OG_MEMORY, "no event is left"),
    FAILS(event_record, 3, REPLAY, OG_DEVICE, "the event is lost"),
    FAILS(event_wait, 2, REPLAY, OG_DEVICE, "the event is lost"),
    // Kernels that fail later, and on the host's thread.
    {.name = "a kernel fails later",
     .factor = FACTOR_FAILS,
     .part = LAUNCH,
     .status = OG_KERNEL,
     .names = "stream_synchronize",
     .says = "expected a > 0"},
    {.name = "a kernel's code is none",
     .factor = FACTOR_WILD,
     .part = LAUNCH,
     .status = OG_INTERNAL,
     .names = "stream_synchronize returned 77",
     .says = "expected a code of og_status"},
    {.name = "a kernel fails on the host",
     .table = break_no_launch,
     .factor = FACTOR_FAILS,
     .part = LAUNCH,
     .status = OG_KERNEL,
     .names = "scale: ",
     .says = "expected a > 0"},
    {.name = "a kernel's code is none on the host",
     .table = break_no_launch,
     .factor = FACTOR_WILD,
     .part = LAUNCH,
     .status = OG_INTERNAL,
     .names = "the kernel of scale returned 77",
     .says = "expected a code of og_status"},
    // Captures.
    FAILS(launch, 1, LAUNCH, OG_KERNEL, "the queue is full"),
    FAILS(launch, 2, CAPTURE, OG_KERNEL, "the queue is full"),
    FAILS(launch, 4, FIRST, OG_KERNEL, "the queue is full"),
    FAILS(capture_begin, 1, CAPTURE, OG_UNSUPPORTED, "not now"),
    FAILS(capture_begin, 2, FIRST, OG_UNSUPPORTED, "not now"),
    FAILS(capture_end, 2, FIRST, OG_INVALID, "the capture is void"),
    FAILS(graph_instantiate, 2, FIRST, OG_MEMORY, "no slot is left"),
    FAILS(graph_destroy, 1, CAPTURE, OG_BUSY, "it is in use"),
    FAILS(graph_destroy, 2, FIRST, OG_BUSY, "it is in use"),
    FAILS(exec_update, 1, CAPTURE, OG_INVALID, "no such launch"),
    FAILS(exec_update, 3, REPLAY, OG_INVALID, "no such launch"),
    FAILS(exec_launch, 1, CAPTURE, OG_DEVICE, "no doorbell"),
    FAILS(exec_launch, 2, FIRST, OG_DEVICE, "no doorbell"),
    FAILS(exec_launch, 3, REPLAY, OG_DEVICE, "no doorbell"),
    // Nothing goes back.
    FAILS(memory_free, 1, RELEASE, OG_BUSY, "it is in use"),
    FAILS(stream_destroy, 1, RELEASE, OG_BUSY, "it is in use"),
    FAILS(event_destroy, 3, RELEASE, OG_BUSY, "it is in use"),
    FAILS(event_destroy, 1, REPLAY, OG_BUSY, "it is in use"),
    FAILS(exec_destroy, 1, RELEASE, OG_BUSY, "it is in use"),
};
#undef ENTRY

enum { ROWS = sizeof rows / sizeof *rows };
_Static_assert(ROWS >= 40, "expected 40 broken drivers");

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool has_text(const world *w, const char *text) {
  return CHECK(strstr(w->error.text, text) != NULL);
}

static void table_break(table *t, const row *r) {
  if (r->table != NULL) r->table(t);
  if (r->missing != FN_NONE)
    memset(t->bytes + functions[r->missing].offset, 0, sizeof(void *));
}

static void row_run(const void *argument) {
  const row *r = argument;
  world w;
  const int missed = test_now.missed;
  const int64_t begin_ms = now_ms();
  world_begin(&w, &r->fault);
  table_break(&w.table, r);
  if (r->factor != 0) w.factor = r->factor;
  world_run(&w);
  world_end(&w);
  CHECK_EQ(w.failed_in, r->part);
  CHECK_EQ(w.status, r->status);
  CHECK_EQ(w.error.code, r->status);
  has_text(&w, r->names);
  has_text(&w, r->says);
  CHECK(now_ms() - begin_ms < 5000);
  world_check(&w, r->may_stray);
  if (test_now.missed != missed)
    printf("  in row '%s': %s\n", r->name, w.error.text);
}

// --- One that crashes is one that fails --------------------------------------

// Runs it in a child first, so that the rows behind one that crashes or hangs
// are tried too; then here, for the process has to live. False: not here.
static bool try_run(const char *name, void (*run)(const void *argument),
                    const void *argument) {
#if TEST_FORK_WITH_THREADS
  int ended = 0;
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    signal(SIGABRT, SIG_DFL);
    alarm(10);
    if (freopen("/dev/null", "w", stdout) == NULL) _exit(1);
    run(argument);
    _exit(0);
  }
  if (child > 0) waitpid(child, &ended, 0);
  if (!CHECK(child > 0 && ended == 0)) {
    printf("  in row '%s': signal %d\n", name, WTERMSIG(ended));
    return false;
  }
#endif
  (void)name;
  run(argument);
  return true;
}

TEST(rows_that_are_broken) {
  for (int i = 0; i < ROWS; ++i) {
    try_run(rows[i].name, row_run, &rows[i]);
    test_a_driver_that_is_right();
  }
}

// --- Any call ----------------------------------------------------------------

// What a call that fails once leaves works when it is tried again.
static void heal(world *w) {
  if (w->failed_in != FIRST && w->failed_in != REPLAY) return;
  opgraft_driver_on_stream(w->driver, NULL, NULL);
  for (part p = w->failed_in; p < RELEASE; ++p)
    if (!CHECK_EQ(steps[p](w), OG_OK)) printf("  %s\n", w->error.text);
}

// A device that is lost stays lost.
static void stay_lost(world *w) {
  og_device_properties found = {.struct_size = sizeof found};
  const opgraft_error first = w->error;
  if (w->driver == NULL) return;
  CHECK_EQ(opgraft_driver_properties(w->driver, 0, &found, &w->error),
           OG_DEVICE);
  has_text(w, "base: properties: the device is lost");
  if (w->m.executable != NULL) {
    CHECK_EQ(replay(w, w->memory[0], w->memory[1]), OG_DEVICE);
    has_text(w, "the device is lost");
  }
  w->error = first;
}

static void call_run(const void *argument) {
  const fault *f = argument;
  world w;
  const int missed = test_now.missed;
  world_begin(&w, f);
  world_run(&w);
  const char *hit = base.hit;
  if (w.status != OG_OK && f->count == 1) heal(&w);
  if (w.status != OG_OK && f->status == OG_DEVICE) stay_lost(&w);
  world_end(&w);
  if (hit == NULL) hit = base.hit;
  if (w.status != OG_OK) {
    CHECK_EQ(w.status, f->status);
    has_text(&w, hit);
    has_text(&w, f->reason);
  } else {
    CHECK(hit == NULL);
  }
  world_check(&w, false);
  if (test_now.missed != missed)
    printf("  in call %d, %s: %s\n", (int)f->first, hit != NULL ? hit : "none",
           w.error.text);
}

// Each call of the scenario, the first one first, until none is met.
static void calls_try(const fault *like) {
  fault f = *like;
  bool is_met = true;
  while (is_met && f.first < 1000) {
    ++f.first;
    is_met = !try_run("a call", call_run, &f) || base.hit != NULL ||
             base.has_quiet_hit;
  }
  CHECK(f.first > 3 && f.first < 1000);
  test_a_driver_that_is_right();
}

TEST(allocations_fail_once) {
  calls_try(&(fault){FN_memory_allocate, 0, 1, OG_MEMORY, "no room", SAYS});
}

TEST(allocations_fail_from_then_on) {
  calls_try(&(fault){FN_memory_allocate, 0, 0, OG_MEMORY, "no room", SAYS});
}

TEST(calls_fail_once) {
  calls_try(&(fault){FN_ANY, 0, 1, OG_IO, "a glitch", SAYS});
}

TEST(calls_fail_once_and_write) {
  calls_try(&(fault){FN_ANY, 0, 1, OG_IO, "a glitch", WRITES});
}

TEST(devices_are_lost) {
  calls_try(&(fault){FN_ANY, 0, 0, OG_DEVICE, "the device is lost", SAYS});
}

TEST_MAIN("device_broken", CASE(a_driver_that_is_right),
          CASE_NO_FAULTS(rows_that_are_broken),
          CASE_NO_FAULTS(allocations_fail_once),
          CASE_NO_FAULTS(allocations_fail_from_then_on),
          CASE_NO_FAULTS(calls_fail_once),
          CASE_NO_FAULTS(calls_fail_once_and_write),
          CASE_NO_FAULTS(devices_are_lost))
