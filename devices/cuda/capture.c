// SPDX-License-Identifier: Apache-2.0
// Launches, captures, and executables of captures.
//
// A kernel's `run` puts its work on the stream itself, so a capture learns of a
// launch's nodes by looking at the graph before and after. An update captures
// the launch alone, into a graph that is thrown away, and gives the kernels'
// parameters to the executable: nothing is instantiated again.
//
// Invariants: a graph of ours lives as long as an executable of it, whose nodes
// CUDA knows by those of the graph. Nodes of a launch stand in the order of the
// stream; a launch that did anything but put kernels there one after the other
// has none that are known, and cannot be updated.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

enum { NODES_MAX = 64, FRONT_MAX = 16 };

// What one launch added to a capture.
typedef struct launched {
  og_status (*run)(const og_call *call);
  int32_t node_count;  // -1: they are not known
  void *nodes[];
} launched;

typedef struct launch_list {
  launched **items;
  int32_t count, capacity;
} launch_list;

typedef struct cuda_graph {
  atomic_int references;  // the caller's, and one of each executable
  void *graph;
  void *context;
  launch_list launches;
} cuda_graph;

typedef struct cuda_exec {
  cuda_graph *graph;
  void *exec;
  void *done;  // an event behind the latest launch
  pthread_mutex_t lock;
  void *updating_stream;  // captures launches alone; NULL until used
  atomic_bool is_launched;
} cuda_exec;

// One that has begun and not ended.
struct cuda_capture {
  cuda_capture *next;
  void *stream;  // that captures
  bool is_own;   // in place of the legacy default stream
  pthread_t thread;
  uint64_t id;
  void *context;
  launch_list launches;
};

// --- Lists -------------------------------------------------------------------

static bool launches_add(launch_list *list, launched *item) {
  if (list->count == list->capacity) {
    const int32_t capacity = 2 * list->capacity + 8;
    launched **grown =
        realloc(list->items, (size_t)capacity * sizeof(launched *));
    if (grown == NULL) return false;
    list->items = grown;
    list->capacity = capacity;
  }
  list->items[list->count++] = item;
  return true;
}

static void launches_reset(launch_list *list) {
  for (int32_t i = 0; i < list->count; ++i) free(list->items[i]);
  free(list->items);
  *list = (launch_list){0};
}

static bool capture_is_of(const cuda_capture *c, const void *stream) {
  return cuda_is_legacy(stream)
             ? c->is_own && pthread_equal(c->thread, pthread_self())
             : c->stream == stream;
}

// Borrowed: until its stream's capture ends.
static cuda_capture *capture_find(cuda_driver *driver, const void *stream) {
  if (atomic_load(&driver->capturing) == 0) return NULL;
  pthread_mutex_lock(&driver->lock);
  cuda_capture *c = driver->captures;
  while (c != NULL && !capture_is_of(c, stream)) c = c->next;
  pthread_mutex_unlock(&driver->lock);
  return c;
}

void *cuda_stream_of(cuda_driver *driver, void *stream) {
  if (!cuda_is_legacy(stream)) return stream;
  const cuda_capture *c = capture_find(driver, stream);
  return c != NULL ? c->stream : stream;
}

// --- Nodes of a launch -------------------------------------------------------

// The nodes that a stream's next one depends on.
typedef struct front {
  int result;  // of asking CUDA
  bool is_known;
  uint64_t id;  // of the capture; 0: the stream does not capture
  void *nodes[FRONT_MAX];
  size_t count;
} front;

static front front_read(const cuda_driver *driver, void *stream) {
  front f = {0};
  int status = 0;
  void *graph = NULL;
  void *const *nodes = NULL;
  size_t count = 0;
  f.result =
      driver->api->capture_info(stream, &status, &f.id, &graph, &nodes, &count);
  if (f.result != OG_CUDA_SUCCESS) return f;
  f.is_known = count <= FRONT_MAX;
  if (status != OG_CUDA_CAPTURE_ACTIVE) f.id = 0;
  f.count = f.is_known ? count : 0;
  for (size_t i = 0; i < f.count; ++i) f.nodes[i] = nodes[i];
  return f;
}

static bool front_has(const front *f, const void *node) {
  for (size_t i = 0; i < f->count; ++i)
    if (f->nodes[i] == node) return true;
  return false;
}

// The node before, NULL where `before` is reached; false where the nodes are
// not a chain.
static bool node_before(const cuda_driver *driver, void *node,
                        const front *before, void **out_node) {
  void *nodes[FRONT_MAX] = {NULL};
  size_t count = 0;
  *out_node = NULL;
  if (driver->api->node_dependencies(node, NULL, &count) != OG_CUDA_SUCCESS ||
      count > FRONT_MAX)
    return false;
  if (count == 0) return before->count == 0;
  if (driver->api->node_dependencies(node, nodes, &count) != OG_CUDA_SUCCESS)
    return false;
  if (count == 1 && !front_has(before, nodes[0])) {
    *out_node = nodes[0];
    return true;
  }
  for (size_t i = 0; i < count; ++i)
    if (!front_has(before, nodes[i])) return false;
  return count == before->count;
}

// The kernels between two fronts, the latest first; -1 where they are no chain
// of kernels, or longer than NODES_MAX.
static int32_t nodes_between(const cuda_driver *driver, const front *before,
                             const front *after, void **out_nodes) {
  int32_t count = 0;
  if (!before->is_known || !after->is_known) return -1;
  if (after->count == before->count &&
      (after->count == 0 || front_has(before, after->nodes[0])))
    return 0;
  if (after->count != 1) return -1;
  void *node = after->nodes[0];
  while (node != NULL) {
    int type = -1;
    void *next;
    if (count == NODES_MAX ||
        driver->api->node_type(node, &type) != OG_CUDA_SUCCESS ||
        type != OG_CUDA_NODE_KERNEL ||
        !node_before(driver, node, before, &next))
      return -1;
    out_nodes[count++] = node;
    node = next;
  }
  return count;
}

// NULL where there is no memory.
static launched *launched_make(const cuda_driver *driver, const front *before,
                               void *stream, const og_launch *launch) {
  void *nodes[NODES_MAX];
  const front after = front_read(driver, stream);
  const int32_t count = nodes_between(driver, before, &after, nodes);
  const size_t kept = count > 0 ? (size_t)count : 0;
  launched *l = malloc(sizeof *l + kept * sizeof *l->nodes);
  if (l == NULL) return NULL;
  l->run = launch->run;
  l->node_count = count;
  for (size_t i = 0; i < kept; ++i) l->nodes[i] = nodes[kept - 1 - i];
  return l;
}

// --- Launches ----------------------------------------------------------------

typedef struct reason {
  char text[384];
} reason;

static og_status call_fail(const og_call *call, og_status code,
                           const char *text) {
  reason *said = call->host;
  if (said->text[0] == '\0')
    snprintf(said->text, sizeof said->text, "%s", text);
  return code;
}

// A copy of the call, as its author may be older or newer.
static og_status kernel_run(const og_launch *launch, void *stream,
                            og_device_error *error) {
  const og_call *given = launch->call;
  og_call call = {0};
  reason said = {{0}};
  memcpy(&call, given,
         given->struct_size < sizeof call ? given->struct_size : sizeof call);
  call.struct_size = sizeof call;
  call.stream = stream;
  call.threads = 1;
  call.parallel_for = NULL;
  call.fail = call_fail;
  call.host = &said;
  const og_status status = launch->run(&call);
  if (status == OG_OK) return OG_OK;
  if (status < OG_OK || status > OG_INTERNAL)
    return cuda_fail(error, OG_INTERNAL,
                     "the kernel of %s returned %d, expected a code of "
                     "og_status, 0 to %d",
                     launch->name, (int)status, (int)OG_INTERNAL);
  return cuda_fail(error, status, "%s: %s", launch->name,
                   said.text[0] != '\0' ? said.text
                                        : "its kernel failed and did not say "
                                          "why; let it use og_fail");
}

// Work of other streams may join a capture: it is found by its number.
static cuda_capture *capture_of_id(cuda_driver *driver, uint64_t id) {
  pthread_mutex_lock(&driver->lock);
  cuda_capture *c = driver->captures;
  while (c != NULL && c->id != id) c = c->next;
  pthread_mutex_unlock(&driver->lock);
  return c;
}

// Each launch counts, also one whose nodes CUDA does not tell.
static og_status launch_captured(cuda_driver *driver, void *stream,
                                 const og_launch *launch,
                                 og_device_error *error) {
  const front before = front_read(driver, stream);
  const bool is_told = before.result == OG_CUDA_SUCCESS;
  cuda_capture *c =
      is_told ? capture_of_id(driver, before.id) : capture_find(driver, stream);
  if (!is_told && c == NULL)
    return cuda_result(driver, "cuStreamGetCaptureInfo", before.result, error);
  CUDA_TRY_STATUS(kernel_run(launch, stream, error));
  if (c == NULL) return OG_OK;
  launched *l = launched_make(driver, &before, stream, launch);
  pthread_mutex_lock(&driver->lock);
  const bool is_added = l != NULL && launches_add(&c->launches, l);
  pthread_mutex_unlock(&driver->lock);
  if (is_added) return OG_OK;
  free(l);
  return cuda_fail(error, OG_MEMORY,
                   "no memory of the host for a launch of %s in a capture; end "
                   "the capture",
                   launch->name);
}

og_status cuda_launch(void *state, void *stream, const og_launch *launch,
                      og_device_error *error) {
  cuda_driver *driver = state;
  cuda_scope scope;
  CUDA_TRY_STATUS(cuda_enter_stream(driver, stream, &scope, error));
  void *const real = cuda_stream_of(driver, stream);
  const og_status status = atomic_load(&driver->capturing) == 0
                               ? kernel_run(launch, real, error)
                               : launch_captured(driver, real, launch, error);
  cuda_leave(driver, &scope);
  return status;
}

// --- Begin and end -----------------------------------------------------------

// CUDA begins to capture the stream, or one of ours in its place.
static og_status capture_start(cuda_driver *driver, void *stream,
                               cuda_capture *c, og_device_error *error) {
  const og_cuda_api *api = driver->api;
  c->stream = stream;
  c->thread = pthread_self();
  c->is_own = cuda_is_legacy(stream);
  CUDA_TRY(driver, "cuCtxGetCurrent", api->context_current(&c->context));
  if (c->is_own)
    CUDA_TRY(driver, "cuStreamCreate",
             api->stream_create(&c->stream, OG_CUDA_STREAM_NON_BLOCKING));
  const int result = api->capture_begin(c->stream, OG_CUDA_CAPTURE_RELAXED);
  if (result != OG_CUDA_SUCCESS) {
    if (c->is_own) api->stream_destroy(c->stream);
    return cuda_result(driver, "cuStreamBeginCapture", result, error);
  }
  const front begun = front_read(driver, c->stream);
  c->id = begun.id;
  if (begun.result == OG_CUDA_SUCCESS) return OG_OK;
  void *graph = NULL;
  if (api->capture_end(c->stream, &graph) == OG_CUDA_SUCCESS)
    api->graph_destroy(graph);
  if (c->is_own) api->stream_destroy(c->stream);
  return cuda_result(driver, "cuStreamGetCaptureInfo", begun.result, error);
}

static og_status capture_make(cuda_driver *driver, void *stream,
                              og_device_error *error) {
  int is_capturing = 0;
  void *const real = cuda_stream_of(driver, stream);
  if (!cuda_is_legacy(real))
    CUDA_TRY(driver, "cuStreamIsCapturing",
             driver->api->capture_status(real, &is_capturing));
  if (is_capturing != 0)
    return cuda_fail(error, OG_INVALID,
                     "stream %p captures already; end that capture first",
                     stream);
  cuda_capture *c = calloc(1, sizeof *c);
  if (c == NULL)
    return cuda_fail(error, OG_MEMORY,
                     "no memory of the host for a capture; free some");
  const og_status status = capture_start(driver, stream, c, error);
  if (status != OG_OK) {
    free(c);
    return status;
  }
  pthread_mutex_lock(&driver->lock);
  c->next = driver->captures;
  driver->captures = c;
  atomic_fetch_add(&driver->capturing, 1);
  pthread_mutex_unlock(&driver->lock);
  return OG_OK;
}

og_status cuda_capture_begin(void *state, void *stream,
                             og_device_error *error) {
  cuda_driver *driver = state;
  cuda_scope scope;
  CUDA_TRY_STATUS(cuda_enter_stream(driver, stream, &scope, error));
  const og_status status = capture_make(driver, stream, error);
  cuda_leave(driver, &scope);
  return status;
}

// Takes it out of the list; NULL where the stream began none.
static cuda_capture *capture_take(cuda_driver *driver, const void *stream) {
  cuda_capture *c = capture_find(driver, stream);
  if (c == NULL) return NULL;
  pthread_mutex_lock(&driver->lock);
  cuda_capture **at = &driver->captures;
  while (*at != c) at = &(*at)->next;
  *at = c->next;
  atomic_fetch_sub(&driver->capturing, 1);
  pthread_mutex_unlock(&driver->lock);
  return c;
}

// The capture has ended, whatever comes of it.
static og_status capture_finish(cuda_driver *driver, cuda_capture *c,
                                void **out_graph, og_device_error *error) {
  const og_cuda_api *api = driver->api;
  void *graph = NULL;
  const int result = api->capture_end(c->stream, &graph);
  if (c->is_own) api->stream_destroy(c->stream);
  if (result != OG_CUDA_SUCCESS) {
    if (graph != NULL) api->graph_destroy(graph);
    return cuda_result(driver, "cuStreamEndCapture", result, error);
  }
  cuda_graph *own = calloc(1, sizeof *own);
  if (own == NULL) {
    api->graph_destroy(graph);
    return cuda_fail(error, OG_MEMORY,
                     "no memory of the host for a captured graph; free some");
  }
  atomic_init(&own->references, 1);
  own->graph = graph;
  own->context = c->context;
  own->launches = c->launches;
  c->launches = (launch_list){0};
  *out_graph = own;
  return OG_OK;
}

og_status cuda_capture_end(void *state, void *stream, void **out_graph,
                           og_device_error *error) {
  cuda_driver *driver = state;
  cuda_scope scope;
  CUDA_TRY_STATUS(cuda_enter_stream(driver, stream, &scope, error));
  cuda_capture *c = capture_take(driver, stream);
  const og_status status =
      c != NULL
          ? capture_finish(driver, c, out_graph, error)
          : cuda_fail(error, OG_INVALID,
                      "stream %p began no capture, expected one that "
                      "capture_begin was given%s",
                      stream, cuda_is_legacy(stream) ? " on this thread" : "");
  if (c != NULL) launches_reset(&c->launches);
  free(c);
  cuda_leave(driver, &scope);
  return status;
}

static void graph_release(const cuda_driver *driver, cuda_graph *graph) {
  if (atomic_fetch_sub(&graph->references, 1) > 1) return;
  driver->api->graph_destroy(graph->graph);
  launches_reset(&graph->launches);
  free(graph);
}

og_status cuda_graph_destroy(void *state, void *graph, og_device_error *error) {
  (void)error;
  graph_release(state, graph);
  return OG_OK;
}

// --- Executables -------------------------------------------------------------

static og_status exec_make(const cuda_driver *driver, cuda_graph *graph,
                           cuda_exec *exec, og_device_error *error) {
  const og_cuda_api *api = driver->api;
  CUDA_TRY(driver, "cuEventCreate", api->event_create(&exec->done, 0));
  const int result = api->graph_instantiate(&exec->exec, graph->graph, 0);
  if (result == OG_CUDA_SUCCESS) return OG_OK;
  api->event_destroy(exec->done);
  return cuda_result(driver, "cuGraphInstantiateWithFlags", result, error);
}

og_status cuda_graph_instantiate(void *state, void *given, void **out_exec,
                                 og_device_error *error) {
  const cuda_driver *driver = state;
  cuda_graph *graph = given;
  cuda_scope scope;
  cuda_exec *exec = calloc(1, sizeof *exec);
  if (exec == NULL)
    return cuda_fail(error, OG_MEMORY,
                     "no memory of the host for an executable; free some");
  og_status status = cuda_enter_context(driver, graph->context, &scope, error);
  if (status == OG_OK) {
    status = exec_make(driver, graph, exec, error);
    cuda_leave(driver, &scope);
  }
  if (status != OG_OK) {
    free(exec);
    return status;
  }
  pthread_mutex_init(&exec->lock, NULL);
  atomic_fetch_add(&graph->references, 1);
  exec->graph = graph;
  *out_exec = exec;
  return OG_OK;
}

// What its launches failed with is reported.
static void exec_wait(const cuda_driver *driver, cuda_exec *exec) {
  if (!atomic_load(&exec->is_launched)) return;
  const int mode = cuda_relax(driver);
  const int result = driver->api->event_synchronize(exec->done);
  cuda_relax_end(driver, mode);
  if (result == OG_CUDA_SUCCESS) return;
  og_device_error said;
  const og_status status =
      cuda_result(driver, "cuEventSynchronize", result, &said);
  driver->host->report(driver->host->user, status, said.text);
}

static og_status exec_end(const cuda_driver *driver, cuda_exec *exec,
                          og_device_error *error) {
  const og_cuda_api *api = driver->api;
  exec_wait(driver, exec);
  const int result = api->exec_destroy(exec->exec);
  if (result != OG_CUDA_SUCCESS && !cuda_is_lost(result))
    return cuda_result(driver, "cuGraphExecDestroy", result, error);
  api->event_destroy(exec->done);
  if (exec->updating_stream != NULL) api->stream_destroy(exec->updating_stream);
  graph_release(driver, exec->graph);
  pthread_mutex_destroy(&exec->lock);
  free(exec);
  return OG_OK;
}

og_status cuda_exec_destroy(void *state, void *given, og_device_error *error) {
  const cuda_driver *driver = state;
  cuda_exec *exec = given;
  cuda_scope scope;
  CUDA_TRY_STATUS(
      cuda_enter_context(driver, exec->graph->context, &scope, error));
  const og_status status = exec_end(driver, exec, error);
  cuda_leave(driver, &scope);
  return status;
}

// A launch into another library's capture becomes a node there: nothing runs
// that could be waited for.
static og_status exec_give(const cuda_driver *driver, cuda_exec *exec,
                           void *stream, og_device_error *error) {
  const og_cuda_api *api = driver->api;
  int is_capturing = 0;
  CUDA_TRY(driver, "cuGraphLaunch", api->exec_launch(exec->exec, stream));
  if (!cuda_is_legacy(stream))
    CUDA_TRY(driver, "cuStreamIsCapturing",
             api->capture_status(stream, &is_capturing));
  if (is_capturing != 0) return OG_OK;
  CUDA_TRY(driver, "cuEventRecord", api->event_record(exec->done, stream));
  atomic_store(&exec->is_launched, true);
  return OG_OK;
}

og_status cuda_exec_launch(void *state, void *exec, void *stream,
                           og_device_error *error) {
  cuda_driver *driver = state;
  cuda_scope scope;
  CUDA_TRY_STATUS(cuda_enter_stream(driver, stream, &scope, error));
  const og_status status =
      exec_give(driver, exec, cuda_stream_of(driver, stream), error);
  cuda_leave(driver, &scope);
  return status;
}

// --- Updates -----------------------------------------------------------------

// The executable keeps the kernels that it has: one with other attributes, or
// another number of them, needs a new capture.
static og_status other_work(const og_launch *launch, const char *what,
                            og_device_error *error) {
  return cuda_fail(error, OG_UNSUPPORTED,
                   "%s: %s; destroy the executable and capture again",
                   launch->name, what);
}

static og_status kernel_update(const cuda_driver *driver, const cuda_exec *exec,
                               void *old, void *new, const og_launch *launch,
                               og_device_error *error) {
  const og_cuda_api *api = driver->api;
  og_cuda_kernel_params before = {0}, after = {0};
  CUDA_TRY(driver, "cuGraphKernelNodeGetParams",
           api->kernel_params(old, &before));
  CUDA_TRY(driver, "cuGraphKernelNodeGetParams",
           api->kernel_params(new, &after));
  if (before.function != after.function || before.kernel != after.kernel)
    return other_work(launch,
                      "it launches another CUDA kernel for these arguments "
                      "than in the capture",
                      error);
  const int result = api->exec_kernel_set(exec->exec, old, &after);
  if (result == OG_CUDA_SUCCESS) return OG_OK;
  const og_status status =
      cuda_result(driver, "cuGraphExecKernelNodeSetParams", result, error);
  return cuda_is_lost(result) ? status : OG_UNSUPPORTED;
}

static og_status nodes_update(const cuda_driver *driver, const cuda_exec *exec,
                              const launched *old, const launched *new,
                              const og_launch *launch, og_device_error *error) {
  if (new->node_count < 0)
    return other_work(launch, "its work is not a chain of kernels", error);
  if (old->node_count != new->node_count)
    return other_work(launch,
                      "it launches another number of CUDA kernels than in the "
                      "capture",
                      error);
  for (int32_t i = 0; i < old->node_count; ++i)
    CUDA_TRY_STATUS(kernel_update(driver, exec, old->nodes[i], new->nodes[i],
                                  launch, error));
  return OG_OK;
}

// The launch alone, in a graph that the caller destroys, also where it fails;
// NULL: there is none.
static og_status launch_alone(const cuda_driver *driver, cuda_exec *exec,
                              const og_launch *launch, launched **out_launched,
                              void **out_graph, og_device_error *error) {
  const og_cuda_api *api = driver->api;
  if (exec->updating_stream == NULL)
    CUDA_TRY(driver, "cuStreamCreate",
             api->stream_create(&exec->updating_stream,
                                OG_CUDA_STREAM_NON_BLOCKING));
  void *const stream = exec->updating_stream;
  CUDA_TRY(driver, "cuStreamBeginCapture",
           api->capture_begin(stream, OG_CUDA_CAPTURE_RELAXED));
  const front nothing = {.is_known = true};
  const og_status status = kernel_run(launch, stream, error);
  if (status == OG_OK)
    *out_launched = launched_make(driver, &nothing, stream, launch);
  const int result = api->capture_end(stream, out_graph);
  if (status != OG_OK) return status;
  if (result != OG_CUDA_SUCCESS)
    return cuda_result(driver, "cuStreamEndCapture", result, error);
  if (*out_launched == NULL)
    return cuda_fail(error, OG_MEMORY,
                     "no memory of the host for an update of %s; free some",
                     launch->name);
  return OG_OK;
}

static og_status exec_change(const cuda_driver *driver, cuda_exec *exec,
                             const launched *old, const og_launch *launch,
                             og_device_error *error) {
  launched *new = NULL;
  void *graph = NULL;
  og_status status = launch_alone(driver, exec, launch, &new, &graph, error);
  if (status == OG_OK)
    status = nodes_update(driver, exec, old, new, launch, error);
  if (graph != NULL) driver->api->graph_destroy(graph);
  free(new);
  return status;
}

// NULL where there is no such launch.
static const launched *launched_find(const cuda_exec *exec, int32_t index) {
  const launch_list *list = &exec->graph->launches;
  return index >= 0 && index < list->count ? list->items[index] : NULL;
}

static og_status update_check(const launched *old, int32_t index,
                              const og_launch *launch, og_device_error *error) {
  if (old == NULL)
    return cuda_fail(error, OG_INVALID,
                     "the capture has no launch %d, expected one below its "
                     "number of launches",
                     (int)index);
  if (old->run != launch->run)
    return cuda_fail(error, OG_INVALID,
                     "launch %d was captured with another kernel than that of "
                     "%s; capture again",
                     (int)index, launch->name);
  if (old->node_count < 0)
    return other_work(
        launch, "its work in the capture is not a chain of kernels", error);
  return OG_OK;
}

og_status cuda_exec_update(void *state, void *given, int32_t index,
                           const og_launch *launch, og_device_error *error) {
  const cuda_driver *driver = state;
  cuda_exec *exec = given;
  cuda_scope scope;
  const launched *old = launched_find(exec, index);
  CUDA_TRY_STATUS(update_check(old, index, launch, error));
  CUDA_TRY_STATUS(
      cuda_enter_context(driver, exec->graph->context, &scope, error));
  pthread_mutex_lock(&exec->lock);
  const og_status status = exec_change(driver, exec, old, launch, error);
  pthread_mutex_unlock(&exec->lock);
  cuda_leave(driver, &scope);
  return status;
}
