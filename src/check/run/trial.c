// SPDX-License-Identifier: Apache-2.0
// One run of a kernel: the order of its steps, the call itself, and its
// results.

#include "check/run/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/float_env.h"
#include "call/call.h"
#include "check/run/array.h"
#include "check/run/call_arrays.h"
#include "check/run/guard.h"
#include "check/run/limits.h"
#include "check/run/name.h"
#include "check/run/on_device.h"
#include "check/run/parallel.h"
#include "check/run/record.h"
#include "check/run/running.h"
#include "check/run/see.h"
#include "check/run/static_data.h"
#include "check/run/watchpoint.h"
#include "check/sample/sample.h"

enum { STACK_BYTES = 1 << 15 };

// --- The call ----------------------------------------------------------------

static og_status note_refusal(const og_call *call, og_status code,
                              const char *text) {
  const og_share_host *host = call->host;
  og_trial *trial = host->user;
  if (trial->refusal[0] == '\0' && text != NULL)
    snprintf(trial->refusal, sizeof trial->refusal, "%s", text);
  return code;
}

// What a kernel's own locals will find on the stack.
__attribute__((noinline)) static void poison_stack(uint16_t poison) {
  uint8_t stack[STACK_BYTES];
  og_poison(stack, sizeof stack, poison);
  __asm__ volatile("" : : "r"(stack) : "memory");  // it is not dead
}

static void watch_writes(og_running *c) {
  char name[64];
  for (int32_t i = 0; i < c->fresh_count; ++i) {
    const og_placed *p = c->fresh[i];
    og_name_of(c->sample->op, p->role, p->index, p->entry, name, sizeof name);
    og_share_watch(&c->host, p->buffer->data, p->buffer->bytes, name, false);
  }
  for (int32_t t = 0; t < c->sample->op->decl->tensor_count; ++t) {
    const og_placed *p = &c->in[t][0];
    if (p->buffer == NULL || p->role != OG_ROLE_MUTATED) continue;
    og_name_of(c->sample->op, p->role, t, 0, name, sizeof name);
    og_share_watch(&c->host, p->buffer->data, p->buffer->bytes, name, false);
  }
  if (c->workspace != NULL)
    og_share_watch(&c->host, c->workspace->data, c->workspace->bytes,
                   "workspace", true);
  og_data_span spans[4];
  const int32_t count = og_static_spans(c->frame.kernel, spans, 4);
  for (int32_t i = 0; i < count; ++i)
    og_share_watch(&c->host, spans[i].data, spans[i].bytes, "static data",
                   true);
}

static void exchange_dims(og_running *c) {
  const int32_t *dims = c->trial->exchanged;
  if (c->sample->op != c->trial->op) return;
  const int64_t size = c->frame.dim[dims[0]];
  c->frame.dim[dims[0]] = c->frame.dim[dims[1]];
  c->frame.dim[dims[1]] = size;
}

static void prepare(og_running *c) {
  const og_decl *decl = c->sample->op->decl;
  exchange_dims(c);
  for (int32_t i = 0; i < c->fresh_count; ++i)
    og_placed_give(c->fresh[i], og_running_result(c, c->fresh[i]));
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      og_placed *p = &c->in[t][e];
      if (p->buffer == NULL) continue;
      og_placed_give(p, &p->tensor);
      const bool is_result = og_running_under(c, 0) == p;
      if (c->mode->is_read_only && p->role == OG_ROLE_INPUT && !is_result &&
          c->device == NULL)
        og_guard_protect(p->buffer, true);
    }
  memcpy(c->dim_before, c->frame.dim, sizeof c->dim_before);
  c->host.random.state = c->mode->seed;
  if (c->mode->tracks_writes) watch_writes(c);
}

// --- Collecting --------------------------------------------------------------

static bool collect_one(og_running *c, const og_placed *p, og_outputs *out) {
  if (out->count == OG_ARRAYS_MAX) return true;
  og_array *a = &out->array[out->count];
  og_dims sizes = {.rank = p->tensor.ndim};
  for (int32_t d = 0; d < sizes.rank; ++d) sizes.size[d] = p->shape[d];
  if (!og_array_create(a, p->tensor.dtype, &sizes)) return false;
  og_placed_load(p, a->data);
  if (og_running_is_bound(c, p)) {
    const int32_t d = c->sample->op->decl->shapes[p->index].items[0].dim;
    const int64_t rows = a->sizes.size[0];
    a->sizes.size[0] = c->frame.dim[d];
    if (rows > 0) a->count = a->count / rows * c->frame.dim[d];
  }
  out->role[out->count] = p->role;
  out->index[out->count] = p->index;
  out->entry[out->count++] = p->entry;
  return true;
}

static bool collect_all(og_running *c, og_outputs *out) {
  const og_decl *decl = c->sample->op->decl;
  bool ok = true;
  for (int32_t i = 0; ok && i < c->fresh_count; ++i)
    ok = collect_one(c, c->fresh[i], out);
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    for (int32_t e = 0; ok && e < OG_SAMPLE_LIST; ++e)
      if (c->in[t][e].buffer != NULL && c->in[t][e].role == OG_ROLE_MUTATED)
        ok = collect_one(c, &c->in[t][e], out);
  if (!ok) og_outputs_reset(out);
  return ok;
}

// --- All of it ---------------------------------------------------------------

static og_ran refuse(og_running *c, og_status status) {
  og_trial *trial = c->trial;
  trial->refusal_status = status;
  if (status >= OG_OK && status < OG_INTERNAL) return OG_RAN_REFUSED;
  if (c->mode->is_quiet) return OG_RAN_WRONG;
  if (status == OG_INTERNAL)  // not a call that it refuses: it is at odds
    og_tell_finding(trial->op, OPGRAFT_RULE_DISAGREES, false, "", "%s",
                    trial->refusal[0] != '\0' ? trial->refusal
                                              : "the kernel says OG_INTERNAL");
  else
    og_tell_finding(trial->op, OPGRAFT_BAD_STATUS, false, "",
                    "the kernel returned %d, which is not an og_status",
                    (int)status);
  return OG_RAN_WRONG;
}

// From here on reads of the arguments that are not tensors are noted; what
// chooses the kernel counts.
static bool watch_arguments(og_running *c) {
  const og_decl *decl = c->sample->op->decl;
  c->frame.call.attr = og_watch_begin(c->frame.attr, decl->attr_count);
  if (c->frame.call.attr == NULL) return false;
  for (int32_t k = 0; k < decl->kernel_count; ++k)
    if (decl->kernels[k].supports != NULL)
      decl->kernels[k].supports(&c->frame.call);
  return true;
}

static void see_float_env(const og_running *c, og_float_env before) {
  char changed[128];
  og_float_env_name(before, og_float_env_get(), changed, sizeof changed);
  og_float_env_set(before);
  if (changed[0] != '\0' && !c->mode->is_quiet)
    og_tell_finding(c->trial->op, OPGRAFT_FLOAT_ENVIRONMENT, false, "",
                    "the kernel leaves the thread's floating-point "
                    "environment changed: %s",
                    changed);
}

// --- The run -----------------------------------------------------------------

static void take_shares(og_running *c) {
  og_trial *trial = c->trial;
  trial->share_total = c->host.total;
  trial->share_grain = c->host.grain;
  trial->has_clash = c->host.has_clash;
  memcpy(trial->clash_name, c->host.clash_name, sizeof trial->clash_name);
  memcpy(trial->clash_text, c->host.clash_text, sizeof trial->clash_text);
}

static og_status run_kernel(og_running *c) {
  if (c->device != NULL) return og_device_launch(c);
  const og_float_env env = og_float_env_get();
  const og_status status = c->frame.kernel->run(&c->frame.call);
  see_float_env(c, env);
  return status;
}

static og_ran run_call(og_running *c, og_outputs *out) {
  og_trial *trial = c->trial;
  opgraft_error error = {.code = OG_OK};
  trial->refusal[0] = '\0';
  trial->refusal_status = OG_OK;
  trial->has_clash = false;
  const og_status inferred = opgraft_frame_infer(&c->frame, &error);
  if (inferred != OG_OK) {
    snprintf(trial->refusal, sizeof trial->refusal, "%.199s", error.text);
    trial->refusal_status = inferred;
    return OG_RAN_REFUSED;
  }
  if (c->mode->kernel != NULL) {
    c->frame.kernel = c->mode->kernel;
    if (c->frame.kernel->supports != NULL &&
        !c->frame.kernel->supports(&c->frame.call))
      return OG_RAN_REFUSED;
  }
  if (!og_running_put_results(c) || !og_put_on_device(c)) return OG_RAN_FAILED;
  prepare(c);
  ++trial->run_count;
  ++trial->layout_count[c->mode->layout];
  trial->offset_count += c->mode->has_offset;
  og_limits_arm(c->sample->op);
  if (c->mode->watches_arguments && !watch_arguments(c)) return OG_RAN_FAILED;
  poison_stack(c->mode->stack_poison);
  int64_t *dim = NULL;
  if (c->mode->guards_arrays && !og_guard_arrays(c, &dim)) return OG_RAN_FAILED;
  const og_guard *watched = c->mode->watched_tensor > 0
                                ? c->in[c->mode->watched_tensor - 1][0].buffer
                                : NULL;
  if (watched != NULL) og_watch_pages(watched->page, watched->page_bytes);
  const og_status status = run_kernel(c);
  take_shares(c);
  if (dim != NULL)  // a kernel sets those that it finds
    memcpy(c->frame.dim, dim,
           (size_t)c->sample->op->decl->dim_count * sizeof *dim);
  if (watched != NULL) trial->tensor_read = og_watch_pages_end();
  if (c->mode->watches_arguments) {
    trial->arguments_read = og_watch_end();
    for (int32_t k = 0; k < c->sample->op->decl->attr_count; ++k)
      trial->entries_read[k] = og_watch_entries(k);
  }
  og_see_run(c);
  if (c->device != NULL) og_see_device(c);
  if (status != OG_OK) return c->is_wrong ? OG_RAN_WRONG : refuse(c, status);
  if (c->is_wrong) return OG_RAN_WRONG;
  return collect_all(c, out) ? OG_RAN : OG_RAN_FAILED;
}

og_ran og_trial_run(og_trial *trial, const og_sample *sample,
                    const og_inputs *inputs, const og_mode *mode,
                    og_outputs *out) {
  out->count = 0;
  og_running *c = calloc(1, sizeof *c);
  if (c == NULL) return OG_RAN_FAILED;
  c->trial = trial;
  c->sample = sample;
  c->mode = mode;
  c->host.user = trial;
  c->host.team = trial->team;
  c->host.mode = mode;
  c->device = og_is_on_device(trial, sample, mode) ? trial->device : NULL;
  opgraft_frame_init(&c->frame, sample->op);
  og_sample_attrs(sample, c->frame.attr);
  c->frame.call.threads = mode->threads;
  c->frame.call.parallel_for = og_share_parallel_for;
  c->frame.call.fail = note_refusal;
  c->frame.call.host = &c->host;
  const og_ran ran =
      og_running_put_arguments(c, inputs) ? run_call(c, out) : OG_RAN_FAILED;
  og_running_destroy(c);
  return ran;
}
