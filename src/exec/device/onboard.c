// SPDX-License-Identifier: Apache-2.0
// What an instance does on a device.
//
// A step there gives the driver a launch, on the stream of the call, and ends
// before the device has done it. Launches that follow each other are a stretch:
// the first replay captures it, the others launch it as a whole and tell the
// driver only of the arguments that moved. Copies from and to the host, and
// what the host runs, stand between stretches. Lanes of a section run on
// streams of their own, which a capture joins (onboard_lanes.c).
//
// Operators that have no kernel for the device run by the engine's (twin.c),
// where the driver runs C functions.
//
// Invariant: a launch's call holds the instance's tensors, so pointers that
// move are in it already when it is given.

#include "exec/device/onboard.h"

#include "call/call.h"
#include "device/driver.h"
#include "exec/device/onboard_lanes.h"
#include "exec/device/onboard_moves.h"
#include "exec/step/device.h"
#include "exec/step/operands.h"
#include "exec/step/run.h"

// An operand of the host's, and where each call copies it to.
typedef struct brought {
  struct brought *next;
  const og_tensor *from;
  og_tensor to;
  size_t size_bytes;
} brought;

typedef struct launched {
  struct launched *next;
  og_onboard *onboard;
  const og_node *node;
  og_launch launch;
  og_captured captured;
  og_call *call;
  og_tensor *const *in;
  og_tensor *const *out;
  void *workspace;
  bool copies_starts;  // first
  og_call own;         // of a kernel of the engine's
  brought *operands;   // of the host's
  og_tensor *fetched;  // where a result of the host's is made; NULL: no such
} launched;

// A copy between the host and the device.
typedef struct transfer {
  og_onboard *onboard;
  const og_tensor *from, *to;
  size_t size_bytes;
  int32_t kind;  // OPGRAFT_COPY_*
} transfer;

typedef struct stretch {
  int32_t first, end;  // steps
  bool has_copies;     // of the device, whose addresses a capture freezes
  void *exec;          // NULL until it is captured
} stretch;

struct og_onboard {
  og_device device;
  opgraft_driver *driver;
  void *stream;  // of the call in flight, or of the last one; of its lane
  og_onboard_lanes lanes;
  launched *launches;
  stretch *stretches;
  int32_t stretch_count;
  og_moves moves;
  og_twin *twin;
};

// --- Results that start as an operand ----------------------------------------

// The copy is of bytes, so both have to lie alike.
og_status og_starts_prepare(og_prep *prep, bool *out_are_copied) {
  const og_node *node = prep->node;
  *out_are_copied = false;
  for (int32_t r = 0; node->update != NULL && r < node->out_count; ++r) {
    const int32_t i = node->update[r] - 1;
    if (i < 0 || prep->out[r] == NULL ||
        og_plan_overlaps(prep->plan, node->in[i], node->out[r]))
      continue;
    if (!og_tensor_is_contiguous(prep->out[r]) ||
        !og_tensor_is_contiguous(prep->in[i]))
      return og_prep_wrong(prep,
                           "a result starts as a copy of an operand, and one "
                           "of the two is not row-major on the device");
    *out_are_copied = true;
  }
  return OG_OK;
}

og_status og_starts_copy(const og_onboard *onboard, const og_node *node,
                         og_tensor *const *in, og_tensor *const *out,
                         opgraft_error *error) {
  for (int32_t r = 0; r < node->out_count; ++r) {
    if (node->update[r] == 0 || out[r] == NULL) continue;
    const og_tensor *from = in[node->update[r] - 1], *to = out[r];
    if (from->data == to->data) continue;
    OG_TRY(opgraft_driver_copy(
        onboard->driver, onboard->stream, OPGRAFT_COPY_ON_DEVICE, to->data,
        from->data, (size_t)og_numel(to) * og_dtype_bytes(to->dtype), error));
  }
  return OG_OK;
}

// --- Launches ----------------------------------------------------------------

// The host waits for the stream, which is counted.
static og_status host_wait(const og_onboard *onboard, const og_run *run) {
  __atomic_add_fetch(&run->executable->stats.device_waits, 1, __ATOMIC_RELAXED);
  return opgraft_driver_stream_synchronize(onboard->driver, onboard->stream, -1,
                                           run->error);
}

// The host may write its memory again when the step has ended, so it waits.
static og_status operands_bring(const launched *l, const og_run *run) {
  const og_onboard *onboard = l->onboard;
  for (const brought *b = l->operands; b != NULL; b = b->next)
    OG_TRY(opgraft_driver_copy(onboard->driver, onboard->stream,
                               OPGRAFT_COPY_TO_DEVICE, b->to.data,
                               b->from->data, b->size_bytes, run->error));
  return host_wait(onboard, run);
}

static og_status launch_run(void *state, const og_run *run) {
  launched *l = state;
  l->call->stream = l->onboard->stream;
  if (l->copies_starts)
    OG_TRY(og_starts_copy(l->onboard, l->node, l->in, l->out, run->error));
  return opgraft_driver_launch(l->onboard->driver, l->onboard->stream,
                               &l->launch, run->error);
}

// With operands or a result of the host's; the device is done with them then.
static og_status hosts_run(void *state, const og_run *run) {
  const launched *l = state;
  const og_onboard *onboard = l->onboard;
  if (l->operands != NULL) OG_TRY(operands_bring(l, run));
  OG_TRY(launch_run(state, run));
  if (l->fetched == NULL) return OG_OK;
  og_tensor here;
  void *bytes;
  __atomic_add_fetch(&run->executable->stats.device_waits, 1, __ATOMIC_RELAXED);
  OG_TRY(
      og_device_fetch(l->fetched, onboard->stream, &here, &bytes, run->error));
  og_copy_elements(l->out[0], &here);
  og_free(bytes);
  return OG_OK;
}

// In the instance's list, so that what it holds of the device is freed.
static void launch_begin(og_prep *prep, launched *l) {
  og_onboard *onboard = prep->instance->onboard;
  l->onboard = onboard;
  l->node = prep->node;
  l->next = onboard->launches;
  onboard->launches = l;
}

static og_status launch_add(og_prep *prep, const og_launch *launch,
                            og_call *call, launched *l) {
  og_onboard *onboard = prep->instance->onboard;
  l->launch = *launch;
  l->call = call;
  l->in = prep->in;
  l->out = prep->out;
  if (call->workspace_bytes > 0) {
    OG_TRY(og_device_allocate(onboard->device, call->workspace_bytes,
                              "workspace", &l->workspace, prep->error));
    call->workspace = l->workspace;
  }
  prep->step = (og_step){
      l->operands != NULL || l->fetched != NULL ? hosts_run : launch_run, l};
  prep->is_pinned = true;
  return OG_OK;
}

og_status og_prepare_launch(og_prep *prep, const og_launch *launch,
                            og_call *call) {
  launched *l = og_prep_alloc(prep, sizeof *l);
  if (l == NULL) return og_prep_memory(prep);
  launch_begin(prep, l);
  OG_TRY(og_starts_prepare(prep, &l->copies_starts));
  return launch_add(prep, launch, call, l);
}

// --- Kernels of the engine's -------------------------------------------------

static og_status operand_bring(og_prep *prep, launched *l,
                               const og_tensor *from, const og_tensor **out) {
  brought *b = og_prep_alloc(prep, sizeof *b);
  if (b == NULL) return og_prep_memory(prep);
  *b = (brought){.next = l->operands,
                 .from = from,
                 .to = *from,
                 .size_bytes = og_span_bytes(from)};
  b->to.device = l->onboard->device;
  b->to.data = NULL;
  OG_TRY(og_device_allocate(l->onboard->device, b->size_bytes, "an operand",
                            &b->to.data, prep->error));
  l->operands = b;
  *out = &b->to;
  return OG_OK;
}

// Constants of the host's are the twin's already.
static og_status operand_give(og_prep *prep, launched *l, int32_t i,
                              const og_tensor **out) {
  const opgraft_value id = prep->node->in[i];
  const og_value *value = id >= 0 ? &prep->plan->graph->values[id] : NULL;
  *out = NULL;
  if (value == NULL) return OG_OK;
  if (!og_is_cpu(value->device))
    *out = prep->in[i];
  else if (prep->plan->places[id].kind != OG_PLACE_CONSTANT)
    return operand_bring(prep, l, prep->in[i], out);
  return OG_OK;
}

// As the host's result lies, in the device's memory.
static og_status result_place(og_prep *prep, launched *l,
                              og_tensor *const **out) {
  og_tensor **table = og_prep_alloc(prep, 2 * sizeof *table);
  og_tensor *there = og_prep_alloc(prep, sizeof *there);
  if (table == NULL || there == NULL) return og_prep_memory(prep);
  *there = *prep->out[0];
  there->device = l->onboard->device;
  there->data = NULL;
  OG_TRY(og_device_allocate(there->device, og_span_bytes(there), "a result",
                            &there->data, prep->error));
  table[0] = l->fetched = there;
  *out = table;
  return OG_OK;
}

// The call's tables, of the instance's tensors.
static og_status call_make(og_prep *prep, launched *l,
                           const og_twin_kernel *kernel) {
  const og_node *node = prep->node;
  const size_t in = (size_t)node->in_count, out = (size_t)node->out_count;
  const og_tensor **tensors = og_prep_alloc(prep, (in + 1) * sizeof *tensors);
  og_tensor_list *lists = og_prep_alloc(prep, (in + out + 1) * sizeof *lists);
  if (tensors == NULL || lists == NULL) return og_prep_memory(prep);
  for (int32_t i = 0; i < node->in_count; ++i)
    OG_TRY(operand_give(prep, l, i, &tensors[i]));
  og_tensor *const *results = prep->out;
  if (og_is_cpu(prep->device)) OG_TRY(result_place(prep, l, &results));
  l->own = (og_call){.struct_size = sizeof l->own,
                     .in = tensors,
                     .out = results,
                     .in_list = lists,
                     .out_list = lists + in,
                     .threads = 1,
                     .derived = kernel};
  return OG_OK;
}

static og_status kernel_make(og_prep *prep, og_node_prepare_fn prepare) {
  og_onboard *onboard = prep->instance->onboard;
  const og_twin_kernel *kernel;
  launched *l = og_prep_alloc(prep, sizeof *l);
  if (l == NULL) return og_prep_memory(prep);
  launch_begin(prep, l);
  OG_TRY(og_twin_prepare(onboard->twin, prep, prepare, &kernel));
  if (kernel == NULL) return OG_OK;  // nothing to do
  OG_TRY(call_make(prep, l, kernel));
  const og_launch launch = {.struct_size = sizeof launch,
                            .device = onboard->device.id,
                            .name = og_node_name(prep->node),
                            .run = og_twin_run,
                            .call = &l->own,
                            .in_count = prep->node->in_count,
                            .out_count = prep->node->out_count};
  return launch_add(prep, &launch, &l->own, l);
}

// --- Copies from and to the host ---------------------------------------------

static og_status transfer_run(void *state, const og_run *run) {
  const transfer *t = state;
  og_onboard *onboard = t->onboard;
  opgraft_driver *driver = onboard->driver;
  const bool is_read = t->kind == OPGRAFT_COPY_TO_HOST;
  OG_TRY(opgraft_driver_copy(driver, onboard->stream, t->kind, t->to->data,
                             t->from->data, t->size_bytes, run->error));
  OG_TRY(host_wait(onboard, run));
  opgraft_driver_host_access(driver, is_read ? t->to->data : t->from->data,
                             t->size_bytes, !is_read);
  return OG_OK;
}

static bool lies_alike(const og_tensor *a, const og_tensor *b) {
  return og_dtype_equal(a->dtype, b->dtype) && og_same_shape(a, b) &&
         og_tensor_is_contiguous(a) && og_tensor_is_contiguous(b);
}

static og_status transfer_make(og_prep *prep, const og_tensor *from) {
  const og_tensor *to = prep->out[0];
  // A kernel of the device changes layout and type.
  if (!lies_alike(from, to)) return OG_UNSUPPORTED;
  transfer *t = og_prep_alloc(prep, sizeof *t);
  if (t == NULL) return og_prep_memory(prep);
  *t =
      (transfer){.onboard = prep->instance->onboard,
                 .from = from,
                 .to = to,
                 .size_bytes = (size_t)og_numel(to) * og_dtype_bytes(to->dtype),
                 .kind = og_is_cpu(from->device) ? OPGRAFT_COPY_TO_DEVICE
                                                 : OPGRAFT_COPY_TO_HOST};
  if (t->size_bytes > 0) prep->step = (og_step){transfer_run, t};
  prep->is_pinned = true;
  return OG_OK;
}

// What a copy takes from another device; NULL for any other node. No other has
// an operand there but numbers of the host's (graph/verify.c).
static const og_tensor *stranger_of(const og_prep *prep) {
  const og_node *node = prep->node;
  const bool is_copy = node->op == OG_IR_copy || node->op == OG_IR_copy_to;
  if (!is_copy) return NULL;
  const int32_t i = node->op == OG_IR_copy ? 0 : 1;
  const og_value *from = &prep->plan->graph->values[node->in[i]];
  if (from->kind == OG_VALUE_LITERAL ||
      og_device_equal(from->device, prep->device))
    return NULL;
  // A kernel of ours reads the graph's constants itself, without a wait.
  if (from->kind == OG_VALUE_CONSTANT &&
      og_driver_runs_c(prep->instance->onboard->driver))
    return NULL;
  return prep->in[i];
}

og_status og_prepare_onboard(og_prep *prep, og_node_prepare_fn prepare) {
  const og_tensor *from = stranger_of(prep);
  if (from != NULL) {
    const og_status status = transfer_make(prep, from);
    if (status != OG_UNSUPPORTED) return status;
  }
  return og_driver_runs_c(prep->instance->onboard->driver)
             ? kernel_make(prep, prepare)
             : OG_UNSUPPORTED;
}

// --- Making and releasing ----------------------------------------------------

og_status og_onboard_make(og_instance *instance, const og_plan *plan,
                          opgraft_error *error) {
  const opgraft_graph *graph = plan->graph;
  const og_device device = og_graph_device(graph);
  og_arena *memory = &instance->memory;
  if (og_is_cpu(device)) return OG_OK;
  og_onboard *onboard = og_arena_array(memory, 1, sizeof *onboard);
  if (onboard == NULL) return og_graph_no_memory(error);
  onboard->device = device;
  onboard->driver = og_driver_of(device);
  if (onboard->driver == NULL)
    return og_error_set(error, OG_DEVICE, NULL, NULL,
                        "graph %s: the driver of %s:%d is gone; it has to "
                        "outlive the graph's executables",
                        graph->name, og_device_name(device.type),
                        (int)device.id);
  instance->onboard = onboard;
  onboard->twin = og_twin_make(instance, plan);
  return onboard->twin != NULL ? OG_OK : og_graph_no_memory(error);
}

void og_onboard_release(og_instance *instance) {
  og_onboard *onboard = instance->onboard;
  if (onboard == NULL) return;
  for (int32_t s = 0; s < onboard->stretch_count; ++s)
    if (onboard->stretches[s].exec != NULL)
      opgraft_driver_exec_destroy(onboard->driver, onboard->stretches[s].exec,
                                  NULL);
  og_driver_stream_finish(onboard->driver, onboard->stream);
  og_onboard_lanes_release(&onboard->lanes);
  for (const launched *l = onboard->launches; l != NULL; l = l->next) {
    og_device_free(onboard->device, l->workspace);
    if (l->fetched != NULL) og_device_free(onboard->device, l->fetched->data);
    for (const brought *b = l->operands; b != NULL; b = b->next)
      og_device_free(onboard->device, b->to.data);
  }
  if (onboard->twin != NULL) og_twin_release(onboard->twin);
}

// --- Stretches ---------------------------------------------------------------

static bool is_launch(const og_instance *instance, int32_t step) {
  return instance->steps[step].run == launch_run;
}

static launched *launch_at(const og_instance *instance, int32_t step) {
  return instance->steps[step].state;
}

// Returns the number of launches.
static int32_t stretches_find(const og_instance *instance, og_onboard *onboard,
                              og_captured **captured) {
  int32_t count = 0;
  stretch *at = NULL;
  for (int32_t i = 0; i < instance->step_count; ++i) {
    if (!is_launch(instance, i)) {
      at = NULL;
      continue;
    }
    if (at == NULL) {
      at = &onboard->stretches[onboard->stretch_count++];
      at->first = i;
    }
    launched *l = launch_at(instance, i);
    l->captured = (og_captured){.launch = &l->launch,
                                .node = l->node,
                                .stretch = onboard->stretch_count - 1,
                                .index = i - at->first,
                                .copies_starts = l->copies_starts};
    captured[count++] = &l->captured;
    at->has_copies |= l->copies_starts;
    at->end = i + 1;
  }
  return count;
}

og_status og_onboard_settle(og_instance *instance, opgraft_error *error) {
  og_onboard *onboard = instance->onboard;
  if (onboard == NULL) return OG_OK;
  og_arena *memory = &instance->memory;
  const size_t steps = (size_t)instance->step_count + 1;
  onboard->stretches =
      og_arena_array(memory, steps, sizeof *onboard->stretches);
  og_captured **captured = og_arena_array(memory, steps, sizeof *captured);
  if (onboard->stretches == NULL || captured == NULL)
    return og_graph_no_memory(error);
  const int32_t count = stretches_find(instance, onboard, captured);
  if (og_moves_make(&onboard->moves, instance, captured, count,
                    onboard->stretch_count) != OG_OK)
    return og_graph_no_memory(error);
  OG_TRY(og_onboard_lanes_make(&onboard->lanes, instance, onboard->driver,
                               onboard->device.id, is_launch, error));
  og_twin_seal(onboard->twin);
  return OG_OK;
}

// --- A call ------------------------------------------------------------------

og_status og_onboard_begin(og_instance *instance, opgraft_error *error) {
  og_onboard *onboard = instance->onboard;
  if (OG_LIKELY(onboard == NULL)) return OG_OK;
  void *stream =
      opgraft_driver_current_stream(onboard->driver, onboard->device.id);
  OG_TRY(og_driver_stream_follow(onboard->driver, onboard->device.id, stream,
                                 onboard->stream, error));
  onboard->stream = stream;
  return OG_OK;
}

void *og_onboard_stream(const og_instance *instance) {
  return instance->onboard != NULL ? instance->onboard->stream : NULL;
}

static og_status range_give(const og_instance *instance, int32_t first,
                            int32_t end, const og_run *run, int32_t *out_step) {
  for (int32_t i = first; i < end; ++i) {
    *out_step = i;
    OG_TRY(instance->steps[i].run(instance->steps[i].state, run));
  }
  return OG_OK;
}

// Lanes that began are joined, also where one fails: memory of the call's is
// free for the next one behind its stream.
static og_status section_give(const og_instance *instance,
                              const og_section *section, const og_run *run,
                              int32_t *out_step) {
  og_onboard *onboard = instance->onboard;
  void *stream = onboard->stream;
  *out_step = section->first;
  og_status status =
      og_onboard_lanes_fork(&onboard->lanes, section, stream, run->error);
  for (int32_t l = 0; status == OG_OK && l < section->lane_count; ++l) {
    if (l > 0) onboard->stream = onboard->lanes.streams[l];
    status = range_give(instance, l > 0 ? section->end[l - 1] : section->first,
                        section->end[l], run, out_step);
  }
  onboard->stream = stream;
  const og_status joined = og_onboard_lanes_join(
      &onboard->lanes, section, stream, status == OG_OK ? run->error : NULL);
  return status == OG_OK ? joined : status;
}

static og_status steps_give(const og_instance *instance, const stretch *s,
                            const og_run *run, int32_t *out_step) {
  const og_onboard_lanes *lanes = &instance->onboard->lanes;
  int32_t first = s->first;
  for (int32_t k = 0; k < lanes->section_count; ++k) {
    const og_section *section = &lanes->sections[k];
    if (section->first < s->first || section->first >= s->end) continue;
    OG_TRY(range_give(instance, first, section->first, run, out_step));
    OG_TRY(section_give(instance, section, run, out_step));
    first = og_section_end(section);
  }
  return range_give(instance, first, s->end, run, out_step);
}

static int32_t number_of(const og_onboard *onboard, const stretch *s) {
  return (int32_t)(s - onboard->stretches);
}

// A capture that failed in the middle is ended all the same.
static og_status capture(const og_instance *instance, stretch *s,
                         const og_run *run, int32_t *out_step) {
  og_onboard *onboard = instance->onboard;
  opgraft_driver *driver = onboard->driver;
  void *graph = NULL;
  OG_TRY(opgraft_driver_capture_begin(driver, onboard->stream, run->error));
  const og_status given = steps_give(instance, s, run, out_step);
  const og_status ended = opgraft_driver_capture_end(
      driver, onboard->stream, &graph, given == OG_OK ? run->error : NULL);
  og_status status = given != OG_OK ? given : ended;
  if (status == OG_OK)
    status =
        opgraft_driver_graph_instantiate(driver, graph, &s->exec, run->error);
  // From here on the executable is used, even if the graph stays.
  if (status == OG_OK) og_moves_capture(&onboard->moves, number_of(onboard, s));
  if (ended == OG_OK) {
    const og_status gone = opgraft_driver_graph_destroy(
        driver, graph, status == OG_OK ? run->error : NULL);
    if (status == OG_OK) status = gone;
  }
  if (status != OG_OK) return status;
  *out_step = s->first;
  __atomic_add_fetch(&run->executable->stats.captures, 1, __ATOMIC_RELAXED);
  return OG_OK;
}

static og_status recapture(const og_instance *instance, stretch *s,
                           const og_run *run, int32_t *out_step) {
  OG_TRY(opgraft_driver_exec_destroy(instance->onboard->driver, s->exec,
                                     run->error));
  s->exec = NULL;
  __atomic_add_fetch(&run->executable->stats.recaptures, 1, __ATOMIC_RELAXED);
  return capture(instance, s, run, out_step);
}

// Captured addresses of copies do not move, and without the driver's launch
// nobody knows which work is whose. The driver may not be able to update a
// launch either.
static og_status stretch_refresh(const og_instance *instance, stretch *s,
                                 const og_run *run, int32_t *out_step) {
  og_onboard *onboard = instance->onboard;
  const int32_t number = number_of(onboard, s);
  const bool is_frozen =
      s->has_copies || !og_driver_has_launch(onboard->driver);
  int32_t index = 0;
  if (s->exec == NULL) return capture(instance, s, run, out_step);
  if (og_moves_are_none(&onboard->moves, number)) return OG_OK;
  if (is_frozen) return recapture(instance, s, run, out_step);
  const og_status told =
      og_moves_tell(&onboard->moves, instance, onboard->driver, number, s->exec,
                    &index, run->error);
  *out_step = s->first + index;
  return told == OG_UNSUPPORTED ? recapture(instance, s, run, out_step) : told;
}

static og_status stretch_run(const og_instance *instance, stretch *s,
                             const og_run *run, int32_t *out_step) {
  const og_onboard *onboard = instance->onboard;
  const int32_t count = s->end - s->first;
  *out_step = s->first;
  if (count < 2 || !og_driver_has_capture(onboard->driver)) {
    __atomic_add_fetch(&run->executable->stats.launches, count,
                       __ATOMIC_RELAXED);
    return steps_give(instance, s, run, out_step);
  }
  OG_TRY(stretch_refresh(instance, s, run, out_step));
  __atomic_add_fetch(&run->executable->stats.launches, 1, __ATOMIC_RELAXED);
  return opgraft_driver_exec_launch(onboard->driver, s->exec, onboard->stream,
                                    run->error);
}

static og_status steps_run(const og_instance *instance, const og_run *run,
                           int32_t *out_step) {
  const og_onboard *onboard = instance->onboard;
  int32_t at = 0;
  for (int32_t i = 0; i < instance->step_count;) {
    stretch *s = &onboard->stretches[at];
    if (at < onboard->stretch_count && i == s->first) {
      OG_TRY(stretch_run(instance, s, run, out_step));
      i = s->end;
      ++at;
      continue;
    }
    *out_step = i;
    OG_TRY(instance->steps[i].run(instance->steps[i].state, run));
    ++i;
  }
  return OG_OK;
}

og_status og_onboard_run(og_instance *instance, const og_run *run) {
  og_onboard *onboard = instance->onboard;
  int32_t step = 0;
  og_moves_note(&onboard->moves, instance, onboard->driver);
  const og_status status = steps_run(instance, run, &step);
  return OG_LIKELY(status == OG_OK)
             ? OG_OK
             : og_step_failed(instance, step, status, run->error);
}
