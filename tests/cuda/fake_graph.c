// SPDX-License-Identifier: Apache-2.0
// The fake's captures, graphs and executables.

#include <stdlib.h>
#include <string.h>

#include "tests/cuda/fake.h"

enum { NODE_KERNEL, NODE_COPY, NODE_SET, NODE_HOST, NODE_GRAPH };

// A node as the executable has it: the graph's, and what it does now.
typedef struct exec_node {
  const fake_node *node;
  fake_work *work;
} exec_node;

typedef struct fake_exec {
  fake_object object;
  exec_node *nodes;
  size_t count;
  fake_mark *last;  // behind the latest launch; NULL: none
} fake_exec;

static uint64_t capture_count;

// --- Fronts and nodes --------------------------------------------------------

bool fake_front_add(fake_front *front, fake_node *node) {
  for (size_t i = 0; i < front->count; ++i)
    if (front->nodes[i] == node) return false;
  fake_node **grown =
      realloc(front->nodes, (front->count + 1) * sizeof(fake_node *));
  if (grown == NULL) abort();
  grown[front->count++] = node;
  front->nodes = grown;
  return true;
}

void fake_front_reset(fake_front *front) {
  free(front->nodes);
  *front = (fake_front){0};
}

static int node_type(const fake_work *work) {
  return work->kind == FAKE_RUN    ? NODE_KERNEL
         : work->kind == FAKE_COPY ? NODE_COPY
         : work->kind == FAKE_SET  ? NODE_SET
         : work->kind == FAKE_HOST ? NODE_HOST
                                   : NODE_GRAPH;
}

int fake_node_add(fake_stream *stream, fake_work *work) {
  fake_graph *graph = stream->capture->graph;
  fake_node *node = fake_make(FAKE_NODE, sizeof *node);
  node->graph = graph;
  node->type = node_type(work);
  node->work = work;
  node->before = stream->front.nodes;
  node->before_count = stream->front.count;
  stream->front = (fake_front){0};
  fake_front_add(&stream->front, node);
  fake_front all = {graph->nodes, graph->count};
  fake_front_add(&all, node);
  graph->nodes = all.nodes;
  graph->count = all.count;
  return stream->capture->is_broken ? OG_CUDA_CAPTURE_INVALIDATED : 0;
}

static void graph_drop(fake_graph *graph) {
  for (size_t i = 0; i < graph->count; ++i) {
    fake_work_free(graph->nodes[i]->work);
    free(graph->nodes[i]->before);
    fake_drop(graph->nodes[i]);
  }
  free(graph->nodes);
  fake_drop(graph);
}

// --- Captures ----------------------------------------------------------------

bool fake_is_forbidden(const char *symbol) {
  for (fake_stream *s = fake_next(FAKE_STREAM, NULL); s != NULL;
       s = fake_next(FAKE_STREAM, s)) {
    if (s->capture == NULL || s->capture->mode != 0 || fake_mode() != 0)
      continue;
    s->capture->is_broken = true;
    fake_misuse(0, "%s: while a capture in global mode goes on", symbol);
    return true;
  }
  return false;
}

int cuStreamBeginCapture_v2(void *handle, int mode) {
  FAKE_ENTER("cuStreamBeginCapture_v2");
  fake_stream *stream = fake_stream_find(handle, "cuStreamBeginCapture");
  if (stream == NULL) return fake_leave(OG_CUDA_INVALID_HANDLE);
  if (stream->object.kind != FAKE_STREAM || stream->context == NULL)
    return fake_leave(fake_misuse(OG_CUDA_CAPTURE_UNSUPPORTED,
                                  "cuStreamBeginCapture: a default stream"));
  if (stream->capture != NULL)
    return fake_leave(fake_misuse(OG_CUDA_CAPTURE_UNSUPPORTED,
                                  "cuStreamBeginCapture: it captures already"));
  fake_capture *capture = calloc(1, sizeof *capture);
  if (capture == NULL) abort();
  capture->id = ++capture_count;
  capture->graph = fake_make(FAKE_GRAPH, sizeof *capture->graph);
  capture->origin = stream;
  capture->mode = mode;
  stream->capture = capture;
  return fake_leave(0);
}

static bool comes_before(const fake_node *node, const fake_front *front) {
  for (size_t i = 0; i < front->count; ++i) {
    const fake_node *n = front->nodes[i];
    const fake_front before = {n->before, n->before_count};
    if (n == node || comes_before(node, &before)) return true;
  }
  return false;
}

// Every node comes before where the origin has got to.
static bool is_joined(const fake_capture *capture) {
  for (size_t i = 0; i < capture->graph->count; ++i)
    if (!comes_before(capture->graph->nodes[i], &capture->origin->front))
      return false;
  return true;
}

int cuStreamEndCapture(void *handle, void **out_graph) {
  FAKE_ENTER("cuStreamEndCapture");
  fake_stream *stream = fake_stream_find(handle, "cuStreamEndCapture");
  if (stream == NULL) return fake_leave(OG_CUDA_INVALID_HANDLE);
  fake_capture *capture = stream->capture;
  if (capture == NULL || capture->origin != stream)
    return fake_leave(fake_misuse(OG_CUDA_CAPTURE_UNMATCHED,
                                  "cuStreamEndCapture: the stream began none"));
  const int result = capture->is_broken    ? OG_CUDA_CAPTURE_INVALIDATED
                     : !is_joined(capture) ? OG_CUDA_CAPTURE_UNJOINED
                                           : 0;
  for (fake_stream *s = fake_next(FAKE_STREAM, NULL); s != NULL;
       s = fake_next(FAKE_STREAM, s)) {
    if (s->capture != capture) continue;
    s->capture = NULL;
    fake_front_reset(&s->front);
  }
  *out_graph = result == 0 ? capture->graph : NULL;
  if (result != 0) graph_drop(capture->graph);
  free(capture);
  return fake_leave(result);
}

int cuStreamGetCaptureInfo_v2(void *handle, int *out_status, uint64_t *out_id,
                              void **out_graph, void *const **out_nodes,
                              size_t *out_count) {
  FAKE_ENTER("cuStreamGetCaptureInfo_v2");
  const fake_stream *stream =
      fake_stream_find(handle, "cuStreamGetCaptureInfo");
  if (stream == NULL) return fake_leave(OG_CUDA_INVALID_HANDLE);
  const fake_capture *capture = stream->capture;
  *out_status = capture == NULL ? 0 : capture->is_broken ? 2 : 1;
  if (capture == NULL) return fake_leave(0);
  *out_id = capture->id;
  *out_graph = capture->graph;
  *out_nodes = (void *const *)stream->front.nodes;
  *out_count = stream->front.count;
  return fake_leave(0);
}

int cuStreamIsCapturing(void *handle, int *out_status) {
  FAKE_ENTER("cuStreamIsCapturing");
  const fake_stream *stream = fake_stream_find(handle, "cuStreamIsCapturing");
  if (stream == NULL) return fake_leave(OG_CUDA_INVALID_HANDLE);
  *out_status = stream->capture == NULL      ? 0
                : stream->capture->is_broken ? 2
                                             : 1;
  return fake_leave(0);
}

// --- Graphs ------------------------------------------------------------------

int cuGraphDestroy(void *graph) {
  FAKE_ENTER("cuGraphDestroy");
  if (!fake_is(FAKE_GRAPH, graph, "cuGraphDestroy"))
    return fake_leave(OG_CUDA_INVALID_VALUE);
  graph_drop(graph);
  return fake_leave(0);
}

int cuGraphNodeGetDependencies(void *given, void **nodes, size_t *count) {
  FAKE_ENTER("cuGraphNodeGetDependencies");
  const fake_node *node = given;
  if (!fake_is(FAKE_NODE, given, "cuGraphNodeGetDependencies"))
    return fake_leave(OG_CUDA_INVALID_VALUE);
  for (size_t i = 0; nodes != NULL && i < *count; ++i)
    nodes[i] = i < node->before_count ? node->before[i] : NULL;
  if (nodes == NULL || *count > node->before_count) *count = node->before_count;
  return fake_leave(0);
}

int cuGraphNodeGetType(void *node, int *out_type) {
  FAKE_ENTER("cuGraphNodeGetType");
  if (!fake_is(FAKE_NODE, node, "cuGraphNodeGetType"))
    return fake_leave(OG_CUDA_INVALID_VALUE);
  *out_type = ((const fake_node *)node)->type;
  return fake_leave(0);
}

int cuGraphKernelNodeGetParams_v2(void *given,
                                  og_cuda_kernel_params *out_params) {
  FAKE_ENTER("cuGraphKernelNodeGetParams_v2");
  const fake_node *node = given;
  if (!fake_is(FAKE_NODE, node, "cuGraphKernelNodeGetParams") ||
      node->type != NODE_KERNEL)
    return fake_leave(OG_CUDA_INVALID_VALUE);
  *out_params =
      (og_cuda_kernel_params){.parameters = node->work->parameters,
                              .shared_bytes = node->work->shared_bytes,
                              .kernel = node->work->kernel};
  memcpy(out_params->grid, node->work->grid, sizeof out_params->grid);
  memcpy(out_params->block, node->work->block, sizeof out_params->block);
  return fake_leave(0);
}

// --- Executables -------------------------------------------------------------

int cuGraphInstantiateWithFlags(void **out_exec, void *given,
                                unsigned long long flags) {
  FAKE_ENTER("cuGraphInstantiateWithFlags");
  const fake_graph *graph = given;
  if (flags != 0 || !fake_is(FAKE_GRAPH, given, "cuGraphInstantiateWithFlags"))
    return fake_leave(OG_CUDA_INVALID_VALUE);
  if (!fake_has_context("cuGraphInstantiateWithFlags"))
    return fake_leave(OG_CUDA_INVALID_CONTEXT);
  fake_exec *exec = fake_make(FAKE_EXEC, sizeof *exec);
  exec->nodes = calloc(graph->count + 1, sizeof *exec->nodes);
  if (exec->nodes == NULL) abort();
  exec->count = graph->count;
  for (size_t i = 0; i < graph->count; ++i)
    exec->nodes[i] =
        (exec_node){graph->nodes[i], fake_work_copy(graph->nodes[i]->work)};
  *out_exec = exec;
  return fake_leave(0);
}

int cuGraphExecDestroy(void *given) {
  FAKE_ENTER("cuGraphExecDestroy");
  fake_exec *exec = given;
  if (!fake_is(FAKE_EXEC, given, "cuGraphExecDestroy"))
    return fake_leave(OG_CUDA_INVALID_VALUE);
  for (size_t i = 0; i < exec->count; ++i) fake_work_free(exec->nodes[i].work);
  free(exec->nodes);
  fake_mark_release(exec->last);
  fake_drop(exec);
  return fake_leave(0);
}

static exec_node *exec_find(const fake_exec *exec, const void *node) {
  for (size_t i = 0; i < exec->count; ++i)
    if (exec->nodes[i].node == node) return &exec->nodes[i];
  return NULL;
}

// The graph's node stays as it is; launches that were given keep their copies.
int cuGraphExecKernelNodeSetParams_v2(void *given, void *node,
                                      const og_cuda_kernel_params *params) {
  FAKE_ENTER("cuGraphExecKernelNodeSetParams_v2");
  static const char symbol[] = "cuGraphExecKernelNodeSetParams";
  if (!fake_is(FAKE_EXEC, given, symbol) || !fake_is(FAKE_NODE, node, symbol))
    return fake_leave(OG_CUDA_INVALID_VALUE);
  exec_node *at = exec_find(given, node);
  fake_kernel *kernel =
      params->kernel != NULL ? params->kernel : params->function;
  if (at == NULL || at->node->type != NODE_KERNEL ||
      !fake_is(FAKE_KERNEL, kernel, symbol))
    return fake_leave(OG_CUDA_INVALID_VALUE);
  fake_work work = *at->work;
  work.parameters = NULL;
  work.kernel = kernel;
  work.shared_bytes = params->shared_bytes;
  memcpy(work.grid, params->grid, sizeof work.grid);
  memcpy(work.block, params->block, sizeof work.block);
  fake_work *copy = fake_work_copy(&work);
  if (!fake_parameters_copy(kernel, params->parameters, &copy->parameters))
    abort();
  fake_work_free(at->work);
  at->work = copy;
  return fake_leave(0);
}

int cuGraphLaunch(void *given, void *handle) {
  FAKE_ENTER("cuGraphLaunch");
  fake_exec *exec = given;
  fake_stream *stream = fake_stream_find(handle, "cuGraphLaunch");
  if (stream == NULL || !fake_is(FAKE_EXEC, given, "cuGraphLaunch"))
    return fake_leave(OG_CUDA_INVALID_HANDLE);
  const fake_work none = {.kind = FAKE_GRAPH_RUN};
  fake_work *work = fake_work_copy(&none);
  fake_work **link = &work->works;
  for (size_t i = 0; i < exec->count; ++i) {
    *link = fake_work_copy(exec->nodes[i].work);
    link = &(*link)->next;
  }
  return fake_leave(
      fake_give_behind(stream, work, &exec->last, "cuGraphLaunch"));
}
