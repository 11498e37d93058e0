// SPDX-License-Identifier: Apache-2.0
// Captures: work that is kept as nodes, and done again at the same addresses.
//
// Invariants: nodes stand in the order in which they were given, so a wait
// stands behind its record; a replay does them in this order on one thread. A
// node knows which allocations it was captured with: one that was freed since
// is found at the launch, also where another one lies there now. An executable
// has its work twice: as the host updated it, and as the device does it, which
// hears of updates with the next launch. So nobody waits.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "npu_sim.h"

enum { LANES = 32 };

typedef struct npu_node {
  npu_work work;
  int32_t lane;
  int32_t source;      // of a wait: the node that is its record
  uint64_t *serials;   // of the allocations, by access; 0: of no byte
  npu_update *update;  // that the next launch brings; NULL
} npu_node;

typedef struct node_list {
  npu_node *nodes;
  int32_t count, capacity;
  int32_t lane_count;          // lane 0 is the stream that began
  int32_t lane_stream[LANES];  // numbers
} node_list;

struct npu_graph {
  node_list list;
  uint64_t id;
  npu_stream *origin;
};

// Another work of a node, or tensors that lie elsewhere.
struct npu_update {
  npu_update *next;
  int32_t node;
  npu_work work;
  const og_slot *slots;  // NULL: it is of the node
  int32_t slot_count;
  char *address;  // the driver's
};

struct npu_exec {
  node_list list;
  npu_work *works;    // by node, as the device does them
  int32_t *launches;  // their nodes
  int32_t launch_count;
  npu_update *updates;  // in order
  npu_update *last_update;
  bool is_moved;                // by one of them
  uint64_t checked_frees;       // of memory, at the last launch
  uint64_t given;               // launches
  atomic_ullong done;           // of them
  int32_t lane_context[LANES];  // of the detector; lane 0: the stream's
  npu_clock *clocks;            // of records, by node, in this launch
  npu_clock last;               // of the launch before
  int64_t simulated_ns;         // its end
};

// --- Nodes -------------------------------------------------------------------

static void list_reset(node_list *list) {
  for (int32_t n = 0; n < list->count; ++n) {
    npu_work_release(&list->nodes[n].work);
    free(list->nodes[n].serials);
  }
  free(list->nodes);
  *list = (node_list){0};
}

static bool list_reserve(node_list *list, int32_t count) {
  if (count <= list->capacity) return true;
  const int32_t capacity = count + list->capacity;
  npu_node *grown = realloc(list->nodes, (size_t)capacity * sizeof *grown);
  if (grown == NULL) return false;
  list->nodes = grown;
  list->capacity = capacity;
  return true;
}

static int32_t lane_find(node_list *list, const npu_stream *stream) {
  for (int32_t l = 0; l < list->lane_count; ++l)
    if (list->lane_stream[l] == stream->number) return l;
  if (list->lane_count == LANES) return -1;
  list->lane_stream[list->lane_count] = stream->number;
  return list->lane_count++;
}

typedef struct serial_reader {
  const npu_memory *memory;
  uint64_t *serials;  // NULL: count only
  int32_t count;
} serial_reader;

static og_status serial_read(void *user, const npu_touch *touch) {
  serial_reader *r = user;
  const size_t bytes = touch->range.end - touch->range.begin;
  const npu_block *block =
      bytes > 0
          ? npu_memory_find(r->memory, (const void *)touch->range.begin, bytes)
          : NULL;
  if (r->serials != NULL)
    r->serials[r->count] = block != NULL ? block->serial : 0;
  ++r->count;
  return OG_OK;
}

static bool serials_set(npu_sim *sim, npu_node *node) {
  serial_reader r = {.memory = &sim->memory};
  npu_work_touches(sim, &node->work, serial_read, &r);
  uint64_t *serials = calloc((size_t)r.count + 1, sizeof *serials);
  if (serials == NULL) return false;
  r = (serial_reader){.memory = &sim->memory, .serials = serials};
  npu_work_touches(sim, &node->work, serial_read, &r);
  free(node->serials);
  node->serials = serials;
  return true;
}

og_status npu_graph_add(npu_stream *stream, npu_work *work,
                        og_device_error *error) {
  node_list *list = &stream->graph->list;
  npu_node node = {.work = *work, .lane = lane_find(list, stream)};
  if (node.lane < 0 || !list_reserve(list, list->count + 1) ||
      !serials_set(stream->sim, &node)) {
    npu_work_release(work);
    return npu_fail(error, OG_MEMORY,
                    "no memory for a node of a capture, or more than %d "
                    "streams in it",
                    LANES);
  }
  node.work.number = (uint64_t)list->count + 1;
  if (work->kind == NPU_RECORD) {
    work->record->capture = stream->graph->id;
    work->record->node = list->count;
  }
  if (work->kind == NPU_WAIT) node.source = work->record->node;
  list->nodes[list->count++] = node;
  return OG_OK;
}

static npu_graph *capture_find(const npu_sim *sim, uint64_t id) {
  for (const npu_stream *s = sim->streams; s != NULL; s = s->next)
    if (s->graph != NULL && s->graph->id == id) return s->graph;
  return NULL;
}

og_status npu_graph_wait(npu_stream *stream, npu_record *record,
                         og_device_error *error) {
  npu_graph *graph = capture_find(stream->sim, record->capture);
  if (graph == NULL)
    return npu_fail(error, OG_INVALID,
                    "the event was recorded in a capture that has ended; "
                    "record it again");
  if (stream->graph != NULL && stream->graph != graph)
    return npu_fail(error, OG_INVALID,
                    "stream %d captures, and the event is another capture's",
                    (int)stream->number);
  stream->graph = graph;
  npu_work work = {.kind = NPU_WAIT, .record = record};
  npu_work_retain(&work);
  return npu_graph_add(stream, &work, error);
}

// --- Begin and end -----------------------------------------------------------

og_status npu_capture_begin(void *state, void *given, og_device_error *error) {
  npu_sim *sim = state;
  npu_stream *stream = given;
  npu_graph *graph = calloc(1, sizeof *graph);
  if (graph == NULL) return npu_fail(error, OG_MEMORY, "no memory");
  npu_lock(sim);
  const bool is_capturing = stream->graph != NULL;
  if (!is_capturing) {
    graph->id = ++sim->work_count;
    graph->origin = stream;
    lane_find(&graph->list, stream);
    stream->graph = graph;
  }
  npu_unlock(sim);
  if (!is_capturing) return OG_OK;
  free(graph);
  return npu_fail(error, OG_INVALID, "stream %d captures already",
                  (int)stream->number);
}

// A node that the capture's stream does not come after: a stream joined, and
// was not joined back. -1 for none.
static int32_t loose_find(const node_list *list) {
  int32_t reached[LANES];  // by lane: the last node that is
  for (int32_t l = 0; l < LANES; ++l) reached[l] = l == 0 ? list->count : -1;
  for (int32_t n = list->count - 1; n >= 0; --n) {
    const npu_node *node = &list->nodes[n];
    if (n > reached[node->lane]) return n;
    if (node->work.kind != NPU_WAIT) continue;
    int32_t *from = &reached[list->nodes[node->source].lane];
    if (node->source > *from) *from = node->source;
  }
  return -1;
}

og_status npu_capture_end(void *state, void *given, void **out_graph,
                          og_device_error *error) {
  npu_sim *sim = state;
  npu_stream *stream = given;
  og_status status = OG_OK;
  npu_lock(sim);
  npu_graph *graph = stream->graph;
  if (graph == NULL || graph->origin != stream) {
    npu_unlock(sim);
    return npu_fail(error, OG_INVALID, "stream %d began no capture",
                    (int)stream->number);
  }
  for (npu_stream *s = sim->streams; s != NULL; s = s->next)
    if (s->graph == graph) s->graph = NULL;
  const int32_t loose = loose_find(&graph->list);
  if (loose >= 0) {
    const npu_node *node = &graph->list.nodes[loose];
    status = npu_fail(error, OG_INVALID,
                      "%s (work %d of the capture, stream %d) is not joined "
                      "with stream %d; record an event behind it and let "
                      "stream %d wait",
                      npu_work_name(&node->work), (int)loose + 1,
                      (int)graph->list.lane_stream[node->lane],
                      (int)stream->number, (int)stream->number);
    list_reset(&graph->list);
    free(graph);
  } else {
    *out_graph = graph;
  }
  npu_unlock(sim);
  return status;
}

og_status npu_graph_destroy(void *state, void *given, og_device_error *error) {
  npu_sim *sim = state;
  npu_graph *graph = given;
  (void)error;
  npu_lock(sim);
  list_reset(&graph->list);
  npu_unlock(sim);
  free(graph);
  return OG_OK;
}

// --- Executables -------------------------------------------------------------

static bool list_copy(npu_sim *sim, const node_list *from, node_list *to) {
  *to = *from;
  to->nodes = NULL;
  to->count = to->capacity = 0;
  if (!list_reserve(to, from->count + 1)) return false;
  for (int32_t n = 0; n < from->count; ++n) {
    npu_node *node = &to->nodes[n];
    *node = from->nodes[n];
    node->serials = NULL;
    node->update = NULL;
    if (node->work.kind == NPU_LAUNCH) {  // its tensors may move
      node->work.call = npu_call_copy(node->work.call);
      if (node->work.call == NULL) return false;
    } else {
      npu_work_retain(&node->work);
    }
    ++to->count;
    const size_t bytes = sizeof(uint64_t);
    serial_reader r = {.memory = &sim->memory};
    npu_work_touches(sim, &node->work, serial_read, &r);
    node->serials = calloc((size_t)r.count + 1, bytes);
    if (node->serials == NULL) return false;
    memcpy(node->serials, from->nodes[n].serials, (size_t)r.count * bytes);
  }
  return true;
}

// Contexts of the detector for the lanes behind the first.
static og_status lanes_begin(npu_sim *sim, npu_exec *exec,
                             og_device_error *error) {
  for (int32_t l = 1; l < LANES; ++l) exec->lane_context[l] = -1;
  if (sim->race == NULL) return OG_OK;
  exec->clocks = calloc((size_t)exec->list.count + 1, sizeof *exec->clocks);
  if (exec->clocks == NULL)
    return npu_fail(error, OG_MEMORY, "no memory for an executable");
  for (int32_t l = 1; l < exec->list.lane_count; ++l) {
    exec->lane_context[l] = npu_race_begin(sim->race);
    if (exec->lane_context[l] < 0)
      return npu_fail(error, OG_UNSUPPORTED,
                      "the race detector knows %d streams and lanes of "
                      "executables at a time; destroy some, or capture fewer "
                      "streams",
                      NPU_CONTEXTS);
  }
  return OG_OK;
}

static bool works_make(npu_exec *exec) {
  const node_list *list = &exec->list;
  const size_t count = (size_t)list->count + 1;
  exec->works = calloc(count, sizeof *exec->works);
  exec->launches = calloc(count, sizeof *exec->launches);
  if (exec->works == NULL || exec->launches == NULL) return false;
  for (int32_t n = 0; n < list->count; ++n) {
    exec->works[n] = list->nodes[n].work;
    npu_work_retain(&exec->works[n]);
    if (exec->works[n].kind == NPU_LAUNCH)
      exec->launches[exec->launch_count++] = n;
  }
  exec->checked_frees = UINT64_MAX;
  return true;
}

void npu_updates_release(npu_update *updates) {
  while (updates != NULL) {
    npu_update *next = updates->next;
    npu_work_release(&updates->work);
    free(updates);
    updates = next;
  }
}

static void exec_free(npu_sim *sim, npu_exec *exec) {
  for (int32_t n = 0; exec->works != NULL && n < exec->list.count; ++n)
    npu_work_release(&exec->works[n]);
  free(exec->works);
  free(exec->launches);
  npu_updates_release(exec->updates);
  for (int32_t l = 1; sim->race != NULL && l < LANES; ++l)
    if (exec->lane_context[l] > 0)
      npu_race_end(sim->race, exec->lane_context[l]);
  list_reset(&exec->list);
  free(exec->clocks);
  free(exec);
}

og_status npu_graph_instantiate(void *state, void *given, void **out_exec,
                                og_device_error *error) {
  npu_sim *sim = state;
  const npu_graph *graph = given;
  npu_exec *exec = calloc(1, sizeof *exec);
  if (exec == NULL) return npu_fail(error, OG_MEMORY, "no memory");
  npu_lock(sim);
  const og_status status =
      list_copy(sim, &graph->list, &exec->list) && works_make(exec)
          ? lanes_begin(sim, exec, error)
          : npu_fail(error, OG_MEMORY, "no memory for an executable");
  if (status == OG_OK)
    *out_exec = exec;
  else
    exec_free(sim, exec);
  npu_unlock(sim);
  return status;
}

static bool exec_is_idle(void *user) {
  const npu_exec *exec = user;
  return atomic_load(&exec->done) == exec->given;
}

og_status npu_exec_destroy(void *state, void *given, og_device_error *error) {
  npu_sim *sim = state;
  npu_exec *exec = given;
  (void)error;
  npu_lock(sim);
  npu_wait(sim, -1, exec_is_idle, exec);
  if (sim->race != NULL) npu_race_order(sim->race, NPU_HOST, &exec->last);
  npu_trace_host(sim->trace, exec->simulated_ns);
  exec_free(sim, exec);
  npu_unlock(sim);
  return OG_OK;
}

static npu_node *launch_find(const npu_exec *exec, int32_t index) {
  if (index < 0 || index >= exec->launch_count) return NULL;
  return &exec->list.nodes[exec->launches[index]];
}

static og_status update_check(npu_sim *sim, const npu_node *node,
                              const og_launch *launch, og_device_error *error) {
  if (node->work.call->launch.run != launch->run)
    return npu_fail(error, OG_INVALID,
                    "launch '%s' was captured with another kernel, that of "
                    "'%s'; capture again",
                    launch->name, node->work.call->launch.name);
  return npu_launch_check(sim, launch, error);
}

static npu_update *update_append(npu_exec *exec) {
  npu_update *update = calloc(1, sizeof *update);
  if (update == NULL) return NULL;
  if (exec->updates == NULL)
    exec->updates = update;
  else
    exec->last_update->next = update;
  exec->last_update = update;
  return update;
}

// For the device: the node's work from the next launch on.
static bool update_add(npu_exec *exec, npu_node *node) {
  npu_update *update = exec->is_moved ? NULL : node->update;
  if (update == NULL) {
    update = update_append(exec);
    if (update == NULL) return false;
    update->node = (int32_t)(node - exec->list.nodes);
    node->update = update;
  }
  npu_work_release(&update->work);
  update->work = node->work;
  npu_work_retain(&update->work);
  return true;
}

static void update_apply(npu_exec *exec, const npu_update *u) {
  npu_work *work = &exec->works[u->node];
  npu_work_release(work);
  *work = u->work;
  npu_work_retain(work);
}

static void move_apply(npu_exec *exec, const npu_update *u) {
  for (int32_t s = 0; s < u->slot_count; ++s) {
    const og_slot *slot = &u->slots[s];
    const npu_call *call = exec->works[exec->launches[slot->launch]].call;
    call->tensors[slot->tensor]->data = u->address + slot->offset_bytes;
  }
}

bool npu_exec_has_works(const npu_work *launch) {
  const npu_update *u = launch->updates;
  while (u != NULL && u->slots != NULL) u = u->next;
  return u != NULL;
}

void npu_exec_apply(const npu_work *launch) {
  for (const npu_update *u = launch->updates; u != NULL; u = u->next) {
    if (u->slots == NULL)
      update_apply(launch->exec, u);
    else
      move_apply(launch->exec, u);
  }
}

og_status npu_exec_update(void *state, void *given, int32_t index,
                          const og_launch *launch, og_device_error *error) {
  npu_sim *sim = state;
  npu_exec *exec = given;
  npu_work work = {.kind = NPU_LAUNCH,
                   .call = npu_call_create(launch, &sim->memory, true, NULL)};
  if (work.call == NULL) return npu_fail(error, OG_MEMORY, "no memory");
  npu_lock(sim);
  npu_node *node = launch_find(exec, index);
  og_status status =
      node != NULL
          ? update_check(sim, node, launch, error)
          : npu_fail(error, OG_INVALID,
                     "the capture has no launch %d, expected one below its "
                     "number of launches",
                     (int)index);
  if (status == OG_OK) {
    work.number = node->work.number;
    const npu_work old = node->work;
    node->work = work;
    work = old;
    if (!serials_set(sim, node) || !update_add(exec, node))
      status = npu_fail(error, OG_MEMORY, "no memory");
  }
  npu_work_release(&work);
  npu_unlock(sim);
  return status;
}

// The block is that of the slot before, mostly.
static og_status slot_move(npu_sim *sim, const npu_exec *exec,
                           const og_slot *slot, char *address,
                           const npu_block **block, og_device_error *error) {
  npu_node *node = launch_find(exec, slot->launch);
  if (node == NULL || slot->tensor < 0 ||
      slot->tensor >= node->work.call->operand_count)
    return npu_fail(error, OG_INVALID,
                    "the capture has no tensor %d of a launch %d, expected "
                    "numbers below those of its launches and their tensors",
                    (int)slot->tensor, (int)slot->launch);
  npu_operand *operand = &node->work.call->operands[slot->tensor];
  char *data = address + slot->offset_bytes;
  if (operand->span_bytes > 0) {
    const char *first = data + operand->lead_bytes;
    if (*block == NULL ||
        !npu_block_has(&sim->memory, *block, first, operand->span_bytes))
      *block = npu_memory_find(&sim->memory, first, operand->span_bytes);
    if (*block == NULL)
      return npu_fail(error, OG_INVALID,
                      "tensor %d of launch '%s' moves to %p, expected %zu "
                      "bytes of one live allocation of the device from %p on",
                      (int)slot->tensor, npu_work_name(&node->work),
                      (void *)data, operand->span_bytes, (const void *)first);
    node->serials[slot->tensor] = (*block)->serial;
  }
  operand->own.data = data;
  return OG_OK;
}

og_status npu_exec_move(void *state, void *given, const og_slot *slots,
                        int32_t count, void *address, og_device_error *error) {
  npu_sim *sim = state;
  npu_exec *exec = given;
  const npu_block *block = NULL;
  og_status status = OG_OK;
  npu_lock(sim);
  for (int32_t s = 0; status == OG_OK && s < count; ++s)
    status = slot_move(sim, exec, &slots[s], address, &block, error);
  npu_update *update =
      status == OG_OK && count > 0 ? update_append(exec) : NULL;
  if (update != NULL) {
    update->slots = slots;
    update->slot_count = count;
    update->address = npu_memory_alias(&sim->memory, address);
    exec->is_moved = true;
  } else if (status == OG_OK && count > 0) {
    status = npu_fail(error, OG_MEMORY, "no memory");
  }
  npu_unlock(sim);
  return status;
}

// --- Launches ----------------------------------------------------------------

typedef struct stale_reader {
  npu_sim *sim;
  const npu_node *node;
  int32_t index;
  og_device_error *error;
} stale_reader;

static og_status stale_find(void *user, const npu_touch *touch) {
  stale_reader *r = user;
  const uint64_t captured = r->node->serials[r->index++];
  if (captured == 0) return OG_OK;
  const void *begin = (const void *)touch->range.begin;
  const npu_block *now = npu_memory_find(&r->sim->memory, begin,
                                         touch->range.end - touch->range.begin);
  if (now != NULL && now->serial == captured) return OG_OK;
  return npu_fail(
      r->error, OG_INVALID,
      "%s (work %llu of the capture) %s %p, whose allocation was freed after "
      "the capture%s%s%s; capture again, or update the launch",
      npu_work_name(&r->node->work), (unsigned long long)r->node->work.number,
      touch->is_write ? "writes" : "reads", begin, now != NULL ? ": '" : "",
      now != NULL ? now->label : "", now != NULL ? "' lies there now" : "");
}

// What no allocation was freed since the last launch of is as it was.
static og_status exec_check(npu_sim *sim, npu_exec *exec,
                            og_device_error *error) {
  const uint64_t frees = sim->memory.free_count;
  if (frees == exec->checked_frees) return OG_OK;
  for (int32_t n = 0; n < exec->list.count; ++n) {
    stale_reader r = {sim, &exec->list.nodes[n], 0, error};
    const og_status status =
        npu_work_touches(sim, &exec->list.nodes[n].work, stale_find, &r);
    if (status != OG_OK) return status;
  }
  exec->checked_frees = frees;
  return OG_OK;
}

static npu_update *updates_take(npu_exec *exec) {
  npu_update *updates = exec->updates;
  for (const npu_update *u = updates; u != NULL; u = u->next)
    if (u->slots == NULL) exec->list.nodes[u->node].update = NULL;
  exec->updates = exec->last_update = NULL;
  exec->is_moved = false;
  return updates;
}

static void exec_race(npu_sim *sim, npu_exec *exec, const npu_stream *stream) {
  npu_race *race = sim->race;
  exec->lane_context[0] = stream->context;
  npu_race_order(race, stream->context, &exec->last);
  for (int32_t n = 0; n < exec->list.count; ++n) {
    const npu_node *node = &exec->list.nodes[n];
    const int32_t context = exec->lane_context[node->lane];
    npu_race_tick(race, context);
    if (node->work.kind == NPU_WAIT)
      npu_race_order(race, context, &exec->clocks[node->source]);
    else if (node->work.kind == NPU_RECORD)
      exec->clocks[n] = *npu_race_clock(race, context);
    else
      npu_work_race(sim, &node->work, context,
                    node->lane == 0 ? stream->number
                                    : exec->list.lane_stream[node->lane]);
  }
  exec->last = *npu_race_clock(race, stream->context);
}

// The launch stands last on the stream. Lanes run beside each other in
// simulated time, each from the launch's start.
static void exec_trace(const npu_sim *sim, npu_exec *exec, npu_stream *stream) {
  npu_row row = {.stream = stream->number,
                 .replay = stream->queue.last->work.number};
  int64_t end_ns[LANES];
  for (int32_t l = 0; l < LANES; ++l)
    end_ns[l] = exec->simulated_ns > stream->simulated_ns
                    ? exec->simulated_ns
                    : stream->simulated_ns;
  for (int32_t n = 0; n < exec->list.count; ++n) {
    const npu_node *node = &exec->list.nodes[n];
    row.lane = node->lane;
    npu_trace_work(sim->trace, &row, &node->work, &end_ns[node->lane]);
  }
  stream->simulated_ns = exec->simulated_ns = end_ns[0];
}

og_status npu_exec_launch(void *state, void *given, void *given_stream,
                          og_device_error *error) {
  npu_sim *sim = state;
  npu_exec *exec = given;
  npu_stream *stream = given_stream;
  npu_lock(sim);
  og_status status =
      stream->graph == NULL
          ? exec_check(sim, exec, error)
          : npu_fail(error, OG_UNSUPPORTED,
                     "stream %d captures: an executable cannot be captured",
                     (int)stream->number);
  npu_work work = {.kind = NPU_EXEC, .exec = exec, .ticket = exec->given};
  if (status == OG_OK) status = npu_stream_give(stream, &work, error);
  if (status == OG_OK) {
    stream->queue.last->work.updates = updates_take(exec);
    ++exec->given;
  }
  if (status == OG_OK && sim->race != NULL) exec_race(sim, exec, stream);
  if (status == OG_OK && sim->trace != NULL) exec_trace(sim, exec, stream);
  npu_unlock(sim);
  return status;
}

og_status npu_exec_run(npu_sim *sim, npu_exec *exec, char *reason,
                       size_t size) {
  for (int32_t n = 0; n < exec->list.count; ++n) {
    const npu_work *work = &exec->works[n];
    const og_status status = npu_work_run(sim, work);
    if (status == OG_OK) continue;
    snprintf(reason, size, "%s (work %d): %s", npu_work_name(work), (int)n + 1,
             work->kind == NPU_LAUNCH ? work->call->reason : "");
    return status;
  }
  return OG_OK;
}

bool npu_exec_is_next(const npu_exec *exec, uint64_t ticket) {
  return atomic_load(&exec->done) == ticket;
}

void npu_exec_done(npu_exec *exec) { atomic_fetch_add(&exec->done, 1); }
