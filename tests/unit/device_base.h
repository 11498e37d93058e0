// SPDX-License-Identifier: Apache-2.0
// A driver that is right, and of which any function may be told to fail: memory
// of the host, work that is done at once or kept by a capture. It never gives a
// handle twice while it is open, so that one that was destroyed is known for
// what it is.

#ifndef OG_TEST_DEVICE_BASE_H
#define OG_TEST_DEVICE_BASE_H

#include <opgraft/driver.h>
#include <stdlib.h>
#include <time.h>

#include "base/status.h"
#include "test.h"

// --- Faults ------------------------------------------------------------------

#define ENTRY(name, group, lost) FN_##name,
enum {
  FN_NONE,
#include "device/entries.def"
  FN_COUNT,
  FN_ANY,
};
#undef ENTRY

#define ENTRY(name, group, lost) {#name, offsetof(og_device_driver, name)},
static const struct {
  const char *name;
  size_t offset;
} functions[FN_COUNT] = {
    {NULL, 0},
#include "device/entries.def"
};
#undef ENTRY

typedef enum how {
  SAYS,      // returns the status and the reason
  UNENDED,   // the reason has no NUL
  WRITES,    // it leaves an output all the same
  SILENT,    // returns OG_OK and writes no output
  AGAIN,     // returns OG_OK and what it gave last
  CROOKED,   // memory that is not aligned
  NOT_DONE,  // waits for as long as it may, and is busy
} how;

typedef struct fault {
  int32_t function;  // FN_*
  int32_t first;     // its call that fails first, from 1 on
  int32_t count;     // so many fail; 0: all from then on
  og_status status;
  const char *reason;  // NULL: none
  how how;
} fault;

// --- The base driver's state -------------------------------------------------

typedef enum kind { MEMORY, STREAM, EVENT, GRAPH, EXEC } kind;

enum { OPERANDS = 4, DIMS = 4, ALIGNMENT = 64 };

// A launch with all that its caller need not keep.
typedef struct kept {
  og_launch launch;
  og_call call;
  og_tensor tensors[2 * OPERANDS];
  int64_t sizes[2 * OPERANDS][2][DIMS];
  const og_tensor *in[OPERANDS];
  og_tensor *out[OPERANDS];
  og_tensor_list lists[2 * OPERANDS];
  og_attr attr[OPERANDS];
} kept;

typedef struct work {
  struct work *next;
  bool is_launch;
  kept kept;
  void *to;
  const void *from;  // NULL: each byte is set
  int32_t byte;
  size_t size_bytes;
} work;

typedef struct thing {
  struct thing *next;
  kind kind;
  bool is_asked;  // to go; it stays where that fails
  bool is_gone;
  void *address;  // of memory, and what was allocated for it
  void *block;
  struct thing *capture;  // of a stream: the graph that its work goes to
  og_status failed;       // of a stream: what its work failed with
  char reason[64];
  int64_t time_ns;  // of an event
  work *works;      // of a graph or an executable
} thing;

static struct {
  const fault *fault;
  int32_t calls[FN_ANY + 1];
  const char *hit;     // the function that failed first, as far as
  bool is_quiet;       // the library has somebody to tell
  bool has_quiet_hit;  // one failed when it had not
  thing *things;
  void *last[FN_COUNT];  // what each function gave
  char wild[ALIGNMENT];  // a handle that nobody made
  int opened;
  int strays;   // calls with a handle that is not there
  int unasked;  // things that were not released when it was closed
  char reason[64];
  int64_t clock_ns;
} base;

// NULL: this call is done as it should be.
static const fault *fault_hit(int32_t function) {
  const fault *f = base.fault;
  const int32_t one = ++base.calls[function], all = ++base.calls[FN_ANY];
  if (f == NULL || (f->function != FN_ANY && f->function != function))
    return NULL;
  const int32_t at = f->function == FN_ANY ? all : one;
  const int32_t first = f->first > 0 ? f->first : 1;
  if (at < first || (f->count > 0 && at >= first + f->count)) return NULL;
  base.has_quiet_hit |= base.is_quiet;
  if (base.hit == NULL && !base.is_quiet) base.hit = functions[function].name;
  return f;
}

static og_status fault_say(const fault *f, og_device_error *error) {
  if (f->how == UNENDED)
    memset(error->text, 'x', sizeof error->text);
  else if (f->reason != NULL)
    snprintf(error->text, sizeof error->text, "%s", f->reason);
  return f->how == SILENT || f->how == AGAIN ? OG_OK : f->status;
}

static og_status fault_make(const fault *f, int32_t function, void **out,
                            og_device_error *error) {
  if (f->how == WRITES) *out = base.wild;
  if (f->how == AGAIN) *out = base.last[function];
  return fault_say(f, error);
}

static og_status fault_wait(const fault *f, int64_t timeout_ns,
                            og_device_error *error) {
  const struct timespec rest = {.tv_nsec = (long)(timeout_ns % 1000000000)};
  if (f->how == NOT_DONE && timeout_ns > 0) nanosleep(&rest, NULL);
  return fault_say(f, error);
}

#define MAY_FAIL(function)                               \
  do {                                                   \
    const fault *broken = fault_hit(FN_##function);      \
    if (broken != NULL) return fault_say(broken, error); \
  } while (0)

#define MAY_FAIL_TO_MAKE(function, out)                                       \
  do {                                                                        \
    const fault *broken = fault_hit(FN_##function);                           \
    if (broken != NULL) return fault_make(broken, FN_##function, out, error); \
  } while (0)

#define MAY_FAIL_TO_WAIT(function)                                    \
  do {                                                                \
    const fault *broken = fault_hit(FN_##function);                   \
    if (broken != NULL) return fault_wait(broken, timeout_ns, error); \
  } while (0)

// --- Its things --------------------------------------------------------------

static thing *thing_make(kind of, int32_t function, void **out) {
  thing *t = calloc(1, sizeof *t);
  if (t == NULL) return NULL;
  t->kind = of;
  t->next = base.things;
  base.things = t;
  *out = base.last[function] = t;
  return t;
}

// NULL, and counted, where the handle stands for nothing that is there.
static thing *thing_find(kind of, const void *handle) {
  for (thing *t = base.things; t != NULL; t = t->next) {
    const void *own = of == MEMORY ? t->address : (const void *)t;
    if (t->kind == of && !t->is_gone && own == handle) return t;
  }
  ++base.strays;
  return NULL;
}

// Noted before the fault has its say: who asks in vain has not leaked it.
static void thing_ask(kind of, const void *handle) {
  thing *t = thing_find(of, handle);
  if (t != NULL)
    t->is_asked = true;
  else
    --base.strays;
}

static og_status stray(const char *expected, og_device_error *error) {
  snprintf(error->text, sizeof error->text, "expected %s that is there",
           expected);
  return OG_INVALID;
}

static void works_free(thing *t) {
  while (t->works != NULL) {
    work *w = t->works;
    t->works = w->next;
    free(w);
  }
}

static og_status thing_end(kind of, void *handle, const char *expected,
                           og_device_error *error) {
  thing *t = thing_find(of, handle);
  if (t == NULL) return stray(expected, error);
  t->is_gone = true;
  free(t->block);
  t->block = NULL;
  works_free(t);
  return OG_OK;
}

// --- Its work ----------------------------------------------------------------

static og_status kernel_fail(const og_call *call, og_status code,
                             const char *text) {
  (void)call;
  snprintf(base.reason, sizeof base.reason, "%s", text);
  return code;
}

static void tensor_keep(kept *k, int32_t at, const og_tensor *from) {
  og_tensor *to = &k->tensors[at];
  const size_t bytes = (size_t)from->ndim * sizeof(int64_t);
  *to = *from;
  to->shape = k->sizes[at][0];
  to->strides = k->sizes[at][1];
  memcpy(to->shape, from->shape, bytes);
  memcpy(to->strides, from->strides, bytes);
}

// False where it has more than this driver takes.
static bool launch_keep(kept *k, const og_launch *launch) {
  const og_call *call = launch->call;
  memset(k, 0, sizeof *k);
  if (launch->in_count > OPERANDS || launch->out_count > OPERANDS ||
      launch->attr_count > OPERANDS || launch->dim_count > 0)
    return false;
  k->launch = *launch;
  k->call = *call;
  for (int32_t i = 0; i < launch->in_count; ++i) {
    if (call->in[i] == NULL) continue;
    if (call->in[i]->ndim > DIMS) return false;
    tensor_keep(k, i, call->in[i]);
    k->in[i] = &k->tensors[i];
  }
  for (int32_t i = 0; i < launch->out_count; ++i) {
    if (call->out[i] == NULL) continue;
    if (call->out[i]->ndim > DIMS) return false;
    tensor_keep(k, OPERANDS + i, call->out[i]);
    k->out[i] = &k->tensors[OPERANDS + i];
  }
  for (int32_t i = 0; i < launch->attr_count; ++i) k->attr[i] = call->attr[i];
  k->call.in = k->in;
  k->call.out = k->out;
  k->call.in_list = k->lists;
  k->call.out_list = k->lists + OPERANDS;
  k->call.attr = k->attr;
  k->call.fail = kernel_fail;
  k->launch.call = &k->call;
  return true;
}

// What a kernel fails with is the next wait's.
static void work_do(thing *stream, work *w) {
  if (!w->is_launch) {
    if (w->from != NULL)
      memcpy(w->to, w->from, w->size_bytes);
    else
      memset(w->to, w->byte, w->size_bytes);
    return;
  }
  base.reason[0] = '\0';
  w->kept.call.stream = stream;
  const og_status status = w->kept.launch.run(&w->kept.call);
  if (status == OG_OK || stream->failed != OG_OK) return;
  stream->failed = status;
  snprintf(stream->reason, sizeof stream->reason, "%s", base.reason);
}

static void work_append(thing *to, work *w) {
  work **at = &to->works;
  while (*at != NULL) at = &(*at)->next;
  *at = w;
}

// Takes what a function filled: does it, or keeps it for the capture.
static og_status work_give(void *handle, const work *filled,
                           const og_launch *launch, og_device_error *error) {
  thing *stream = thing_find(STREAM, handle);
  if (stream == NULL) return stray("a stream", error);
  work *w = calloc(1, sizeof *w);
  if (w == NULL) return OG_MEMORY;
  *w = *filled;
  if (w->is_launch && !launch_keep(&w->kept, launch)) {
    free(w);
    return OG_UNSUPPORTED;
  }
  if (stream->capture != NULL) {
    work_append(stream->capture, w);
    return OG_OK;
  }
  work_do(stream, w);
  free(w);
  return OG_OK;
}

// --- Its functions -----------------------------------------------------------

static og_status base_open(const og_device_host *host, void **out_state,
                           og_device_error *error) {
  (void)host;
  MAY_FAIL(open);
  ++base.opened;
  *out_state = &base;
  return OG_OK;
}

static void base_close(void *state) {
  (void)state;
  --base.opened;
  while (base.things != NULL) {
    thing *t = base.things;
    base.things = t->next;
    base.unasked += !t->is_asked;
    works_free(t);
    free(t->block);
    free(t);
  }
}

static og_status base_device_count(void *state, int32_t *out_count,
                                   og_device_error *error) {
  (void)state;
  MAY_FAIL(device_count);
  *out_count = 2;
  return OG_OK;
}

static og_status base_properties(void *state, int32_t device,
                                 og_device_properties *out_properties,
                                 og_device_error *error) {
  (void)state, (void)device;
  MAY_FAIL(properties);
  out_properties->alignment = ALIGNMENT;
  out_properties->memory_bytes = 1 << 20;
  return OG_OK;
}

// So many bytes behind a multiple of the alignment.
static og_status memory_make(size_t size_bytes, size_t behind,
                             void **out_address) {
  void *handle;
  const size_t room = (size_bytes + behind + ALIGNMENT - 1) / ALIGNMENT;
  char *block = aligned_alloc(ALIGNMENT, room * ALIGNMENT);
  thing *t =
      block != NULL ? thing_make(MEMORY, FN_memory_allocate, &handle) : NULL;
  if (t == NULL) {
    free(block);
    return OG_MEMORY;
  }
  memset(block, 0xa5, room * ALIGNMENT);
  t->block = block;
  t->address = block + behind;
  base.last[FN_memory_allocate] = *out_address = t->address;
  return OG_OK;
}

static og_status base_memory_allocate(void *state, int32_t device,
                                      size_t size_bytes, void **out_address,
                                      og_device_error *error) {
  (void)state, (void)device;
  const fault *f = fault_hit(FN_memory_allocate);
  if (f != NULL && f->how == CROOKED)
    return memory_make(size_bytes, 4, out_address);
  return f != NULL ? fault_make(f, FN_memory_allocate, out_address, error)
                   : memory_make(size_bytes, 0, out_address);
}

static og_status base_memory_free(void *state, int32_t device, void *address,
                                  og_device_error *error) {
  (void)state, (void)device;
  thing_ask(MEMORY, address);
  MAY_FAIL(memory_free);
  return thing_end(MEMORY, address, "memory", error);
}

static void base_memory_label(void *state, void *address, const char *label) {
  (void)state, (void)label;
  thing_find(MEMORY, address);
}

static og_status base_memory_set(void *state, void *stream, void *address,
                                 int32_t byte, size_t size_bytes,
                                 og_device_error *error) {
  (void)state;
  MAY_FAIL(memory_set);
  const work w = {.to = address, .byte = byte, .size_bytes = size_bytes};
  return work_give(stream, &w, NULL, error);
}

#define COPY(direction)                                                  \
  static og_status base_##direction(void *state, void *stream, void *to, \
                                    const void *from, size_t size_bytes, \
                                    og_device_error *error) {            \
    (void)state;                                                         \
    MAY_FAIL(direction);                                                 \
    const work w = {.to = to, .from = from, .size_bytes = size_bytes};   \
    return work_give(stream, &w, NULL, error);                           \
  }
COPY(copy_to_device)
COPY(copy_to_host)
COPY(copy_on_device)
#undef COPY

static og_status base_stream_create(void *state, int32_t device,
                                    void **out_stream, og_device_error *error) {
  (void)state, (void)device;
  MAY_FAIL_TO_MAKE(stream_create, out_stream);
  return thing_make(STREAM, FN_stream_create, out_stream) ? OG_OK : OG_MEMORY;
}

static og_status base_stream_destroy(void *state, void *stream,
                                     og_device_error *error) {
  (void)state;
  thing_ask(STREAM, stream);
  MAY_FAIL(stream_destroy);
  return thing_end(STREAM, stream, "a stream", error);
}

static og_status base_stream_synchronize(void *state, void *handle,
                                         int64_t timeout_ns,
                                         og_device_error *error) {
  (void)state;
  MAY_FAIL_TO_WAIT(stream_synchronize);
  thing *stream = thing_find(STREAM, handle);
  if (stream == NULL || stream->capture != NULL)
    return stray("a stream without a capture", error);
  const og_status status = stream->failed;
  snprintf(error->text, sizeof error->text, "%s", stream->reason);
  stream->failed = OG_OK;
  return status;
}

static og_status base_event_create(void *state, int32_t device,
                                   void **out_event, og_device_error *error) {
  (void)state, (void)device;
  MAY_FAIL_TO_MAKE(event_create, out_event);
  return thing_make(EVENT, FN_event_create, out_event) ? OG_OK : OG_MEMORY;
}

static og_status base_event_destroy(void *state, void *event,
                                    og_device_error *error) {
  (void)state;
  thing_ask(EVENT, event);
  MAY_FAIL(event_destroy);
  return thing_end(EVENT, event, "an event", error);
}

static og_status base_event_record(void *state, void *event, void *stream,
                                   og_device_error *error) {
  (void)state;
  MAY_FAIL(event_record);
  thing *t = thing_find(EVENT, event);
  if (t == NULL || thing_find(STREAM, stream) == NULL)
    return stray("an event and a stream", error);
  t->time_ns = ++base.clock_ns;
  return OG_OK;
}

static og_status base_event_wait(void *state, void *event, void *stream,
                                 og_device_error *error) {
  (void)state;
  MAY_FAIL(event_wait);
  if (thing_find(EVENT, event) == NULL || thing_find(STREAM, stream) == NULL)
    return stray("an event and a stream", error);
  return OG_OK;
}

static og_status base_event_synchronize(void *state, void *event,
                                        int64_t timeout_ns,
                                        og_device_error *error) {
  (void)state;
  MAY_FAIL_TO_WAIT(event_synchronize);
  return thing_find(EVENT, event) ? OG_OK : stray("an event", error);
}

static og_status base_event_elapsed(void *state, void *begin, void *end,
                                    int64_t *out_ns, og_device_error *error) {
  (void)state;
  MAY_FAIL(event_elapsed);
  const thing *a = thing_find(EVENT, begin), *b = thing_find(EVENT, end);
  if (a == NULL || b == NULL) return stray("two events", error);
  *out_ns = b->time_ns - a->time_ns;
  return OG_OK;
}

static og_status base_host_function(void *state, void *stream,
                                    void (*fn)(void *user), void *user,
                                    og_device_error *error) {
  (void)state;
  MAY_FAIL(host_function);
  if (thing_find(STREAM, stream) == NULL) return stray("a stream", error);
  fn(user);
  return OG_OK;
}

static og_status base_launch(void *state, void *stream, const og_launch *launch,
                             og_device_error *error) {
  (void)state;
  MAY_FAIL(launch);
  return work_give(stream, &(work){.is_launch = true}, launch, error);
}

static og_status base_capture_begin(void *state, void *handle,
                                    og_device_error *error) {
  void *graph;
  (void)state;
  MAY_FAIL(capture_begin);
  thing *stream = thing_find(STREAM, handle);
  if (stream == NULL || stream->capture != NULL)
    return stray("a stream without a capture", error);
  stream->capture = thing_make(GRAPH, FN_NONE, &graph);
  if (stream->capture == NULL) return OG_MEMORY;
  stream->capture->is_asked = true;  // the driver's until capture_end gives it
  return OG_OK;
}

static og_status base_capture_end(void *state, void *handle, void **out_graph,
                                  og_device_error *error) {
  (void)state;
  thing *stream = thing_find(STREAM, handle);
  thing *graph = stream != NULL ? stream->capture : NULL;
  if (graph == NULL) return stray("a stream with a capture", error);
  stream->capture = NULL;
  MAY_FAIL_TO_MAKE(capture_end, out_graph);
  graph->is_asked = false;
  *out_graph = base.last[FN_capture_end] = graph;
  return OG_OK;
}

static og_status base_graph_destroy(void *state, void *graph,
                                    og_device_error *error) {
  (void)state;
  thing_ask(GRAPH, graph);
  MAY_FAIL(graph_destroy);
  return thing_end(GRAPH, graph, "a graph", error);
}

static og_status base_graph_instantiate(void *state, void *graph,
                                        void **out_exec,
                                        og_device_error *error) {
  (void)state;
  MAY_FAIL_TO_MAKE(graph_instantiate, out_exec);
  const thing *from = thing_find(GRAPH, graph);
  if (from == NULL) return stray("a graph", error);
  thing *exec = thing_make(EXEC, FN_graph_instantiate, out_exec);
  if (exec == NULL) return OG_MEMORY;
  for (const work *w = from->works; w != NULL; w = w->next) {
    work *own = calloc(1, sizeof *own);
    if (own == NULL) return OG_MEMORY;
    *own = *w;
    own->next = NULL;
    if (w->is_launch) launch_keep(&own->kept, &w->kept.launch);
    work_append(exec, own);
  }
  return OG_OK;
}

static og_status base_exec_destroy(void *state, void *exec,
                                   og_device_error *error) {
  (void)state;
  thing_ask(EXEC, exec);
  MAY_FAIL(exec_destroy);
  return thing_end(EXEC, exec, "an executable", error);
}

static og_status base_exec_update(void *state, void *exec, int32_t index,
                                  const og_launch *launch,
                                  og_device_error *error) {
  (void)state;
  MAY_FAIL(exec_update);
  thing *t = thing_find(EXEC, exec);
  if (t == NULL) return stray("an executable", error);
  for (work *w = t->works; w != NULL; w = w->next)
    if (w->is_launch && index-- == 0)
      return launch_keep(&w->kept, launch) ? OG_OK : OG_UNSUPPORTED;
  return stray("a launch", error);
}

static og_status base_exec_launch(void *state, void *exec, void *stream,
                                  og_device_error *error) {
  (void)state;
  MAY_FAIL(exec_launch);
  thing *t = thing_find(EXEC, exec), *on = thing_find(STREAM, stream);
  if (t == NULL || on == NULL) return stray("an executable", error);
  for (work *w = t->works; w != NULL; w = w->next) work_do(on, w);
  return OG_OK;
}

static const og_device_driver base_driver = {
    .struct_size = sizeof base_driver,
    .abi_version = OG_DEVICE_ABI_VERSION,
    .name = "base",
    .device_type = OG_EXT_DEV,
    .flags = OG_DEVICE_RUNS_C,
    .open = base_open,
    .close = base_close,
    .device_count = base_device_count,
    .properties = base_properties,
    .memory_allocate = base_memory_allocate,
    .memory_free = base_memory_free,
    .memory_set = base_memory_set,
    .copy_to_device = base_copy_to_device,
    .copy_to_host = base_copy_to_host,
    .copy_on_device = base_copy_on_device,
    .stream_create = base_stream_create,
    .stream_destroy = base_stream_destroy,
    .stream_synchronize = base_stream_synchronize,
    .memory_label = base_memory_label,
    .event_create = base_event_create,
    .event_destroy = base_event_destroy,
    .event_record = base_event_record,
    .event_wait = base_event_wait,
    .event_synchronize = base_event_synchronize,
    .event_elapsed = base_event_elapsed,
    .host_function = base_host_function,
    .launch = base_launch,
    .capture_begin = base_capture_begin,
    .capture_end = base_capture_end,
    .graph_destroy = base_graph_destroy,
    .graph_instantiate = base_graph_instantiate,
    .exec_destroy = base_exec_destroy,
    .exec_update = base_exec_update,
    .exec_launch = base_exec_launch,
};

#endif  // OG_TEST_DEVICE_BASE_H
