// SPDX-License-Identifier: Apache-2.0
// Nodes that the host runs.
//
// Invariants: what the host is shown stays where it is for the life of the
// instance; only the data pointers of the tensors change. A result that the
// host may donate is the first in its storage, and the whole of it.

#include "exec/runners/hosted.h"

#include <string.h>

#include "base/grain.h"
#include "base/sized.h"
#include "exec/device/onboard.h"
#include "exec/runners/framed.h"
#include "exec/step/device.h"
#include "exec/step/operands.h"
#include "exec/step/reloc.h"
#include "scalar/element.h"

enum {
  NODE_FLAGS =
      OPGRAFT_NODE_ANY_THREAD | OPGRAFT_NODE_DONATES | OPGRAFT_NODE_SLOW
};

typedef struct og_hosted {
  struct og_hosted *next;
  const opgraft_host *host;
  void *state;
  opgraft_node_call call;
  og_tensor *const *in;
  og_tensor *const *out;
  const int32_t *update;  // of result r: 1 + the operand it starts as
  og_instance *instance;
  int32_t *storages;  // of result r: the one it may be donated for, or -1
  const og_node *node;
  bool may_loop;        // on several threads of the host's
  og_onboard *onboard;  // of a node on the device; else NULL
  bool copies_starts;   // there, before it runs
} og_hosted;

og_status og_host_copy(const opgraft_host *from, opgraft_host *out,
                       opgraft_error *error) {
  OG_TRY(og_copy_sized("opgraft_host", from, out, sizeof *out, error));
  return og_flags_check("opgraft_host", out->flags,
                        OPGRAFT_HOST_UNSHARED | OPGRAFT_HOST_LANES_NOW |
                            OPGRAFT_HOST_TEAM | OPGRAFT_HOST_WEIGHTS_STAY,
                        error);
}

// --- Arguments with numbers for sizes ----------------------------------------

static bool has_sizes(const opgraft_arg *args, int32_t count) {
  for (int32_t i = 0; i < count; ++i)
    if (args[i].kind == OPGRAFT_ARG_SIZE ||
        (args[i].kind == OPGRAFT_ARG_LIST &&
         has_sizes(args[i].list, args[i].count)))
      return true;
  return false;
}

// The origin's own where none is a size.
static og_status args_resolve(og_prep *prep, const opgraft_arg *args,
                              int32_t count, const opgraft_arg **out_args) {
  *out_args = args;
  if (!has_sizes(args, count)) return OG_OK;
  opgraft_arg *copy = og_prep_alloc(prep, (size_t)count * sizeof *copy);
  if (copy == NULL) return og_prep_memory(prep);
  for (int32_t i = 0; i < count; ++i) {
    copy[i] = args[i];
    if (args[i].kind == OPGRAFT_ARG_SIZE) {
      og_size_resolve(&prep->executable->graph->sizes, prep->plan->sizes,
                      &copy[i]);
    } else if (args[i].kind == OPGRAFT_ARG_LIST) {
      OG_TRY(args_resolve(prep, args[i].list, args[i].count, &copy[i].list));
    }
  }
  *out_args = copy;
  return OG_OK;
}

// --- The host's nodes --------------------------------------------------------

// From here on the storage is the donated memory.
static void given_take(og_hosted *hosted, int32_t r) {
  const int32_t storage = hosted->storages[r];
  if (storage < 0 || hosted->call.donated[r] == NULL) return;
  hosted->instance->donated[storage].owner = hosted->call.donated[r];
  hosted->call.donated[r] = NULL;
  og_relocs_set(&hosted->instance->storages[storage], hosted->out[r]->data);
}

static og_status run_hosted(void *state, const og_run *run) {
  og_hosted *hosted = state;
  if (hosted->onboard == NULL)
    og_updates_start(hosted->in, hosted->out, hosted->call.out_count,
                     hosted->update);
  else if (hosted->copies_starts)
    OG_TRY(og_starts_copy(hosted->onboard, hosted->node, hosted->in,
                          hosted->out, run->error));
  const og_status status = hosted->host->run(
      hosted->host->context, hosted->state, &hosted->call, run->error);
  for (int32_t r = 0; hosted->call.donated && r < hosted->call.out_count; ++r)
    given_take(hosted, r);
  return status;
}

// The storage of an output that a fresh result is the whole of, or -1.
static int32_t storage_of(const og_prep *prep, int32_t r) {
  const opgraft_value id = prep->node->out[r];
  if (id < 0 || prep->plan->graph->values[id].root != id ||
      (prep->node->update != NULL && prep->node->update[r] > 0))
    return -1;
  const og_place *place = &prep->plan->places[id];
  if (place->kind != OG_PLACE_STORAGE || place->offset_bytes != 0 ||
      prep->plan->lent[place->index])
    return -1;
  const int64_t bytes = og_numel(prep->out[r]) * og_item_bytes(prep->out[r]);
  const size_t size = prep->plan->storages[place->index].size_bytes;
  return bytes > 0 && (size_t)bytes == size ? place->index : -1;
}

static og_status gives_note(og_prep *prep, og_hosted *hosted) {
  const int32_t count = prep->node->out_count;
  int32_t *storages =
      og_prep_alloc(prep, ((size_t)count + 1) * sizeof *storages);
  void **given = og_prep_alloc(prep, ((size_t)count + 1) * sizeof *given);
  if (storages == NULL || given == NULL) return og_prep_memory(prep);
  bool is_any = false;
  for (int32_t r = 0; r < count; ++r) {
    given[r] = NULL;
    storages[r] = storage_of(prep, r);
    if (storages[r] < 0) continue;
    is_any = true;
    prep->instance->donated[storages[r]].tensor = prep->out[r];
  }
  hosted->instance = prep->instance;
  hosted->storages = storages;
  if (is_any) hosted->call.donated = given;
  return OG_OK;
}

static bool is_number(const og_prep *prep, int32_t i) {
  const opgraft_value id = prep->node->in[i];
  if (id < 0 || !og_ops[prep->node->op].converts || prep->out[0] == NULL)
    return false;
  const og_value *value = &prep->plan->graph->values[id];
  return value->kind == OG_VALUE_LITERAL && value->dtype.code != OG_CODE_BOOL;
}

// A number that stands for a tensor, as one of the result's type: the host
// would take a double for more than it was.
static og_status number_make(og_prep *prep, int32_t i, og_tensor **out) {
  struct number {
    og_tensor tensor;
    char element[16];
  } *made = og_prep_alloc(prep, sizeof *made);
  if (made == NULL) return og_prep_memory(prep);
  const og_value *value = &prep->plan->graph->values[prep->node->in[i]];
  const og_dtype dtype = prep->out[0]->dtype;
  made->tensor = *prep->in[i];
  made->tensor.dtype = dtype;
  made->tensor.data = made->element;
  if (value->dtype.code == OG_CODE_FLOAT)
    og_element_set_double(dtype, made->element, value->number.f);
  else
    og_element_set_int(dtype, made->element, value->number.i);
  *out = &made->tensor;
  return OG_OK;
}

// What the host sees as operands: one that a result starts as is that result,
// so that an operator which writes its argument finds what it may write.
static og_status operands_make(og_prep *prep, og_tensor *const **out_in) {
  const og_node *node = prep->node;
  og_tensor **in =
      og_prep_alloc(prep, ((size_t)node->in_count + 1) * sizeof *in);
  if (in == NULL) return og_prep_memory(prep);
  for (int32_t i = 0; i < node->in_count; ++i) {
    in[i] = prep->in[i];
    if (is_number(prep, i)) OG_TRY(number_make(prep, i, &in[i]));
  }
  for (int32_t r = 0; node->update != NULL && r < node->out_count; ++r)
    if (node->update[r] > 0 && prep->out[r] != NULL)
      in[node->update[r] - 1] = prep->out[r];
  *out_in = in;
  return OG_OK;
}

static og_status hosted_make(og_prep *prep, og_hosted **out_hosted) {
  const og_node *node = prep->node;
  const og_origin *origin = node->origin;
  og_tensor *const *operands = NULL;
  og_hosted *hosted = og_prep_alloc(prep, sizeof *hosted);
  if (hosted == NULL) return og_prep_memory(prep);
  OG_TRY(operands_make(prep, &operands));
  *hosted = (og_hosted){
      .host = &prep->executable->host,
      .in = prep->in,
      .out = prep->out,
      .update = node->update,
      .call = {
          .struct_size = sizeof hosted->call,
          .host_node = origin->host_node,
          .name = origin->name,
          .op = og_op_is(node, OG_OP_FOREIGN) ? NULL : og_ops[node->op].name,
          .arg_count = origin->arg_count,
          .in_count = node->in_count,
          .in = (const og_tensor *const *)operands,
          .out = prep->out,
          .out_count = node->out_count,
          .line = node->line,
          .file = node->file,
          .may_keep = node->update == NULL && (node->flags & OG_OP_EFFECT),
          .stream = prep->stream}};
  *out_hosted = hosted;
  return args_resolve(prep, origin->args, origin->arg_count,
                      &hosted->call.args);
}

// What the host prepared of the node that it does not get.
static void let_go(const opgraft_host *host, void *state) {
  if (host->release != NULL) host->release(host->context, state);
}

// Whether the host may run the node on threads of its own. It says nothing of
// that, so its sizes do; products of any size are shared out.
static bool may_loop(const og_prep *prep) {
  const og_node *node = prep->node;
  int64_t elements = 0;
  if (og_is_contraction(node)) return true;
  for (int32_t i = 0; i < node->in_count; ++i)
    if (prep->in[i] != NULL) elements += og_numel(prep->in[i]);
  for (int32_t r = 0; r < node->out_count; ++r)
    if (prep->out[r] != NULL) elements += og_numel(prep->out[r]);
  return elements >= OG_GRAIN_HEAVY;
}

og_status og_prepare_hosted(og_prep *prep, bool may_be_slow, bool *out_taken) {
  const opgraft_host *host = &prep->executable->host;
  og_hosted *hosted = NULL;
  uint32_t flags = 0;
  *out_taken = false;
  if (host->prepare == NULL || host->run == NULL) return OG_OK;
  OG_TRY(hosted_make(prep, &hosted));
  og_status status = host->prepare(host->context, &hosted->call, &hosted->state,
                                   &flags, prep->error);
  if (status == OG_UNSUPPORTED) return OG_OK;
  if (status != OG_OK) return status;
  status =
      og_flags_check("opgraft_host.prepare", flags, NODE_FLAGS, prep->error);
  if (status != OG_OK || ((flags & OPGRAFT_NODE_SLOW) != 0 && !may_be_slow)) {
    let_go(host, hosted->state);
    return status;
  }
  hosted->next = prep->instance->hosted;
  prep->instance->hosted = hosted;
  hosted->node = prep->node;
  if (!og_is_cpu(prep->device)) {
    hosted->onboard = prep->instance->onboard;
    OG_TRY(og_starts_prepare(prep, &hosted->copies_starts));
  }
  hosted->may_loop = may_loop(prep);
  ++prep->instance->host_steps;
  prep->instance->host_loops += hosted->may_loop;
  prep->step = (og_step){run_hosted, hosted};
  prep->is_pinned = (flags & OPGRAFT_NODE_ANY_THREAD) == 0;
  *out_taken = true;
  return (flags & OPGRAFT_NODE_DONATES) != 0 ? gives_note(prep, hosted) : OG_OK;
}

bool og_hosted_needs_threads(const og_instance *instance, const og_node *node) {
  for (const og_hosted *at = instance->hosted; at != NULL; at = at->next)
    if (at->node == node) return at->may_loop || instance->section_count > 0;
  return false;
}

void og_hosted_set_stream(og_instance *instance, void *stream) {
  for (og_hosted *at = instance->hosted; at != NULL; at = at->next)
    at->call.stream = stream;
}

void og_hosted_release(og_instance *instance) {
  for (og_hosted *at = instance->hosted; at != NULL; at = at->next)
    let_go(at->host, at->state);
}

og_status og_prepare_foreign(og_prep *prep) {
  bool is_taken;
  const og_node *node = prep->node;
  if (node->origin->module_op != NULL) {
    const og_status status = og_prepare_module(prep);
    const bool lacks_kernel = status == OG_DEVICE || status == OG_UNSUPPORTED;
    if (!lacks_kernel || og_is_cpu(prep->device)) return status;
    OG_TRY(og_prepare_hosted(prep, true, &is_taken));
    return is_taken ? OG_OK : status;
  }
  OG_TRY(og_prepare_hosted(prep, true, &is_taken));
  if (is_taken) return OG_OK;
  return og_error_set(
      prep->error, OG_UNSUPPORTED, node->origin->name, NULL,
      "%s%s needs a host that runs it: %s", node->origin->name,
      og_node_source(node, &(og_source){{0}}),
      node->origin->reason
          ? node->origin->reason
          : "neither the engine nor a module has this operator");
}
