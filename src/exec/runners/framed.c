// SPDX-License-Identifier: Apache-2.0
// Operators of modules, called directly: a frame that is matched, inferred and
// given its kernel when the instance is made.
//
// Invariants: a replay finds the frame's tables as preparation left them; where
// a run may change them (arguments whose strides the kernel does not take)
// they are put back first. A frame is long, and a replay of what its embedder
// prepared reads none of it.

#include "exec/runners/framed.h"

#include <string.h>

#include "base/float_env.h"
#include "call/call.h"
#include "exec/device/onboard.h"
#include "exec/step/operands.h"
#include "module/module.h"

typedef struct og_framed {
  struct og_framed *next;
  const og_run *run;  // of the replay in progress, for parallel_for
  og_tensor *const *in;
  og_tensor *const *out;
  int32_t out_count;
  const int32_t *update;
  bool is_direct;  // the kernel takes everything as it lies
  void *heap;      // what inference allocated
  opgraft_frame frame;
  const og_tensor *kept_in[OPGRAFT_ARG_MAX];
  og_tensor_list kept_list[OPGRAFT_ARG_MAX];
  og_tensor *kept_out[OPGRAFT_OUT_MAX];
} og_framed;

// --- Running -----------------------------------------------------------------

static og_status frame_parallel(const og_call *call, int64_t total,
                                int64_t grain, og_task_fn fn, void *state) {
  const og_framed *framed = call->host;
  return og_run_parallel(framed->run, total, grain, fn, state);
}

static og_status run_direct(void *state, const og_run *run) {
  og_framed *framed = state;
  framed->run = run;
  framed->frame.error = run->error;
  og_updates_start(framed->in, framed->out, framed->out_count, framed->update);
  return og_frame_run_kernel(&framed->frame);
}

static og_status run_fitted(void *state, const og_run *run) {
  og_framed *framed = state;
  opgraft_frame *frame = &framed->frame;
  framed->run = run;
  og_updates_start(framed->in, framed->out, framed->out_count, framed->update);
  memcpy(frame->in, framed->kept_in, sizeof frame->in);
  memcpy(frame->in_list, framed->kept_list, sizeof frame->in_list);
  memcpy(frame->out, framed->kept_out, sizeof frame->out);
  frame->heap = NULL;
  const og_status status = opgraft_frame_run(frame, run->error);
  opgraft_frame_reset(frame);
  return status;
}

// What a replay reads of a node that its embedder prepared; the state follows.
typedef struct og_prepared {
  og_status (*run)(void *state, opgraft_error *error);
  const og_framed *updates;  // NULL where no result starts as an operand
} og_prepared;

static og_status run_prepared(void *state, const og_run *run) {
  og_prepared *prepared = state;
  const og_framed *framed = prepared->updates;
  if (OG_UNLIKELY(framed != NULL))
    og_updates_start(framed->in, framed->out, framed->out_count,
                     framed->update);
  const og_float_env env = og_float_env_get();
  const og_status status = prepared->run(prepared + 1, run->error);
  og_float_env_set(env);
  return status;
}

// --- Arguments ---------------------------------------------------------------

static og_status arg_wrong(og_prep *prep, const og_param *param,
                           const char *wanted) {
  return og_error_set(
      prep->error, OG_INVALID, prep->node->origin->name, param->name,
      "%s%s: argument %s is not %s", prep->node->origin->name,
      og_node_source(prep->node, &(og_source){{0}}), param->name, wanted);
}

// The tensor of an operand: what the result that replaces it starts as.
static og_tensor *operand(const og_prep *prep, int32_t index) {
  const og_node *node = prep->node;
  for (int32_t r = 0; node->update != NULL && r < node->out_count; ++r)
    if (node->update[r] == index + 1 && prep->out[r] != NULL)
      return prep->out[r];
  return prep->in[index];
}

static og_status tensor_set(og_prep *prep, opgraft_frame *frame,
                            const og_param *param, const opgraft_arg *arg) {
  frame->in[param->index] = NULL;
  frame->in_list[param->index] = (og_tensor_list){0, NULL};
  if (!param->is_list) {
    if (arg != NULL && arg->kind == OPGRAFT_ARG_VALUE)
      frame->in[param->index] = operand(prep, arg->value);
    else if (!param->is_optional)
      return arg_wrong(prep, param, "a tensor");
    return OG_OK;
  }
  if (arg == NULL || arg->kind == OPGRAFT_ARG_NONE) return OG_OK;
  if (arg->kind != OPGRAFT_ARG_LIST)
    return arg_wrong(prep, param, "a list of tensors");
  og_tensor **list =
      og_prep_alloc(prep, ((size_t)arg->count + 1) * sizeof *list);
  if (list == NULL) return og_prep_memory(prep);
  for (int32_t i = 0; i < arg->count; ++i)
    if (arg->list[i].kind == OPGRAFT_ARG_VALUE)
      list[i] = operand(prep, arg->list[i].value);
  frame->in_list[param->index] = (og_tensor_list){arg->count, list};
  return OG_OK;
}

static bool number_get(const opgraft_arg *arg, int64_t *out) {
  *out = arg->i;
  return arg->kind == OPGRAFT_ARG_INT || arg->kind == OPGRAFT_ARG_BOOL;
}

// A list of numbers or strings; one number stands for a list of its size.
static og_status list_set(og_prep *prep, const og_param *param,
                          const opgraft_arg *arg, og_attr *out) {
  const bool is_one = arg->kind != OPGRAFT_ARG_LIST;
  const int32_t given = is_one ? 1 : arg->count;
  const int32_t count =
      is_one && param->list_size > 0 ? param->list_size : given;
  void *memory = og_prep_alloc(prep, ((size_t)count + 1) * 8);
  if (memory == NULL) return og_prep_memory(prep);
  int64_t *ints = memory;
  double *floats = memory;
  const char **strings = memory;
  for (int32_t i = 0; i < count; ++i) {
    const opgraft_arg item =
        og_prep_resolved(prep, is_one ? arg : &arg->list[i]);
    int64_t number = 0;
    const bool is_int = number_get(&item, &number);
    if (param->type == OG_TYPE_STR && item.kind == OPGRAFT_ARG_STR)
      strings[i] = item.s;
    else if (param->type == OG_TYPE_FLOAT)
      floats[i] = item.kind == OPGRAFT_ARG_FLOAT ? item.f : (double)number;
    else if (is_int)
      ints[i] = number;
    else
      return arg_wrong(prep, param, "a list of what its type says");
  }
  out->count = count;
  out->kind = param->type == OG_TYPE_STR     ? OG_ATTR_STRS
              : param->type == OG_TYPE_FLOAT ? OG_ATTR_FLOATS
              : param->type == OG_TYPE_BOOL  ? OG_ATTR_BOOLS
                                             : OG_ATTR_INTS;
  out->ints = ints;
  return OG_OK;
}

static og_status attr_set(og_prep *prep, const og_param *param,
                          const opgraft_arg *given, og_attr *out) {
  int64_t number;
  *out = (og_attr){.kind = OG_ATTR_NONE};
  if (given == NULL) {
    *out = param->default_value;
    return OG_OK;
  }
  const opgraft_arg own = og_prep_resolved(prep, given), *arg = &own;
  if (arg->kind == OPGRAFT_ARG_NONE) return OG_OK;
  if (param->is_list) return list_set(prep, param, arg, out);
  if (number_get(arg, &number)) {
    const bool is_bool =
        param->type == OG_TYPE_BOOL ||
        (param->type == OG_TYPE_SCALAR && arg->kind == OPGRAFT_ARG_BOOL);
    out->kind = param->type == OG_TYPE_FLOAT ? OG_ATTR_FLOAT
                : is_bool                    ? OG_ATTR_BOOL
                                             : OG_ATTR_INT;
    if (out->kind == OG_ATTR_FLOAT)
      out->f = (double)number;
    else
      out->i = number;
    return OG_OK;
  }
  switch (arg->kind) {
    case OPGRAFT_ARG_FLOAT:
      out->kind = OG_ATTR_FLOAT;
      out->f = arg->f;
      break;
    case OPGRAFT_ARG_DTYPE:
      out->kind = OG_ATTR_DTYPE;
      out->dtype = arg->dtype;
      break;
    case OPGRAFT_ARG_DEVICE:
      out->kind = OG_ATTR_DEVICE;
      out->device = arg->device;
      break;
    case OPGRAFT_ARG_STR:
      out->kind = OG_ATTR_STR;
      out->s = arg->s;
      out->count = (int64_t)strlen(arg->s);
      break;
    default:
      return arg_wrong(prep, param, "a value of its type");
  }
  return OG_OK;
}

static og_status arguments_set(og_prep *prep, opgraft_frame *frame,
                               const og_decl *decl) {
  for (int32_t p = 0; p < decl->param_count; ++p) {
    const og_param *param = &decl->params[p];
    const opgraft_arg *arg = og_origin_arg(prep->node->origin, param->name, p);
    if (param->type == OG_TYPE_TENSOR)
      OG_TRY(tensor_set(prep, frame, param, arg));
    else
      OG_TRY(attr_set(prep, param, arg, &frame->attr[param->index]));
  }
  return OG_OK;
}

// Shows the node's tensors at addresses that tell where the plan puts them, so
// that a call is matched as one with memory is: every place has a range of its
// own. A constant has its own address and keeps it. `out_kept`, by operand and
// result: the addresses until then.
static void places_show(const og_prep *prep, void **out_kept) {
  const og_node *node = prep->node;
  for (int32_t i = 0; i < node->in_count + node->out_count; ++i) {
    const opgraft_value id = og_node_value(node, i);
    if (id < 0) continue;
    const og_place *place = &prep->plan->places[id];
    og_tensor *tensor = &prep->instance->tensors[id];
    out_kept[i] = tensor->data;
    if (place->kind == OG_PLACE_NONE || place->kind == OG_PLACE_CONSTANT)
      continue;
    const uint64_t range = ((uint64_t)place->index + 1) * OG_PLACE_CONSTANT +
                           (uint64_t)place->kind;
    tensor->data =
        (void *)(uintptr_t)((range << 40) + (uint64_t)place->offset_bytes);
  }
}

// Backwards: a value may be several operands.
static void places_hide(const og_prep *prep, void *const *kept) {
  const og_node *node = prep->node;
  for (int32_t i = node->in_count + node->out_count - 1; i >= 0; --i) {
    const opgraft_value id = og_node_value(node, i);
    if (id >= 0) prep->instance->tensors[id].data = kept[i];
  }
}

// --- What the embedder prepares ----------------------------------------------

// A result is followed as the plan has it: the frame's own record of one is a
// copy.
static og_status state_follow(const opgraft_prepare_call *prepare, void **where,
                              const og_tensor *tensor) {
  og_prep *prep = prepare->host;
  const opgraft_frame *frame =
      (const opgraft_frame *)(const void *)prepare->call;
  for (int32_t i = 0; i < frame->fresh_count; ++i)
    if (tensor == &frame->fresh[i]) tensor = prep->out[i];
  return og_prep_pointer(prep, where, tensor);
}

static og_status embedder_prepare(og_prep *prep, og_framed *framed,
                                  const opgraft_prepared *by) {
  opgraft_frame *frame = &framed->frame;
  og_prepared *prepared =
      og_prep_alloc(prep, sizeof *prepared + by->state_bytes);
  if (prepared == NULL) return og_prep_memory(prep);
  prepared->run = by->run;
  prepared->updates = framed->update != NULL ? framed : NULL;
  const opgraft_prepare_call call = {.struct_size = sizeof call,
                                     .call = &frame->call,
                                     .state = prepared + 1,
                                     .follow = state_follow,
                                     .host = prep};
  frame->error = prep->error;
  if (prep->error != NULL) prep->error->code = OG_OK;
  prep->step = (og_step){run_prepared, prepared};
  return by->prepare(&call);
}

// --- Preparing ---------------------------------------------------------------

static bool takes(const og_decl *decl, int32_t t, const og_tensor *tensor) {
  return tensor == NULL || decl->strides[t] == OG_STRIDES_ANY ||
         og_tensor_is_contiguous(tensor);
}

static bool takes_all(const og_decl *decl, const opgraft_frame *frame) {
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    if (!takes(decl, t, frame->in[t])) return false;
    for (int64_t i = 0; i < frame->in_list[t].count; ++i)
      if (!takes(decl, t, frame->in_list[t].tensors[i])) return false;
  }
  for (int32_t i = 0; i < frame->fresh_count; ++i)
    if (!og_tensor_is_contiguous(&frame->fresh[i])) return false;
  return true;
}

static og_status results_set(og_prep *prep, opgraft_frame *frame) {
  if (frame->fresh_count > prep->node->out_count)
    return og_prep_wrong(prep, "it has fewer results than its operator");
  for (int32_t i = 0; i < frame->fresh_count; ++i) {
    og_tensor *out = prep->out[i];
    if (out == NULL)
      return og_prep_wrong(prep, "a result of a module's operator is missing");
    OG_TRY(opgraft_frame_set_out(frame, i, out, prep->error));
    frame->fresh[i].data = NULL;
    OG_TRY(og_prep_pointer(prep, &frame->fresh[i].data, out));
  }
  return OG_OK;
}

// On a device, whose driver gets the call as the frame has it; but the results
// are the plan's, as a capture is told by them which memory moved.
static og_status launch_prepare(og_prep *prep, opgraft_frame *frame) {
  og_tensor **fresh = frame->out + frame->op->decl->mutated_count;
  og_launch launch;
  for (int32_t i = 0; i < frame->fresh_count; ++i)
    if (fresh[i] != NULL) fresh[i] = prep->out[i];
  OG_TRY(og_frame_launch_make(frame, &launch, prep->error));
  return og_prepare_launch(prep, &launch, &frame->call);
}

static og_status frame_fill(og_prep *prep, og_framed *framed) {
  opgraft_frame *frame = &framed->frame;
  const opgraft_op *op = prep->node->origin->module_op;
  void **kept = og_prep_alloc(
      prep, (size_t)(prep->node->in_count + prep->node->out_count + 1) *
                sizeof *kept);
  if (kept == NULL) return og_prep_memory(prep);
  opgraft_frame_init(frame, op);
  frame->call.threads = prep->executable->threads;
  frame->call.stream = prep->stream;
  OG_TRY(arguments_set(prep, frame, op->decl));
  places_show(prep, kept);
  og_status status = opgraft_frame_infer(frame, prep->error);
  framed->heap = frame->heap;
  if (status == OG_OK) status = results_set(prep, frame);
  places_hide(prep, kept);
  OG_TRY(status);
  if (frame->kernel->device != OG_CPU) return launch_prepare(prep, frame);
  framed->is_direct = takes_all(op->decl, frame);
  if (framed->is_direct && frame->call.workspace_bytes > 0) {
    char *memory = og_prep_alloc(prep, frame->call.workspace_bytes + 64);
    if (memory == NULL) return og_prep_memory(prep);
    frame->call.workspace = memory + (64 - (uintptr_t)memory % 64) % 64;
  }
  memcpy(framed->kept_in, frame->in, sizeof frame->in);
  memcpy(framed->kept_list, frame->in_list, sizeof frame->in_list);
  memcpy(framed->kept_out, frame->out, sizeof frame->out);
  // What was adopted may need its host's lock.
  prep->is_pinned = op->derived != NULL;
  if (framed->is_direct && op->prepared.run != NULL)
    return embedder_prepare(prep, framed, &op->prepared);
  // Not before: only a replay has a team.
  frame->call.parallel_for = frame_parallel;
  frame->call.host = framed;
  prep->step = (og_step){framed->is_direct ? run_direct : run_fitted, framed};
  return OG_OK;
}

og_status og_prepare_module(og_prep *prep) {
  og_framed *framed = og_prep_alloc(prep, sizeof *framed);
  if (framed == NULL) return og_prep_memory(prep);
  framed->in = prep->in;
  framed->out = prep->out;
  framed->out_count = prep->node->out_count;
  framed->update = prep->node->update;
  framed->next = prep->instance->framed;
  prep->instance->framed = framed;
  const og_status status = frame_fill(prep, framed);
  framed->heap = framed->frame.heap;
  return status;
}

void og_framed_release(og_instance *instance) {
  for (og_framed *at = instance->framed; at != NULL; at = at->next) {
    at->frame.heap = at->heap;
    opgraft_frame_reset(&at->frame);
  }
}
