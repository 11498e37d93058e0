// SPDX-License-Identifier: Apache-2.0
// A run on a device: its memory there, the launch, and what shows afterwards.

#include "check/run/on_device.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check/run/mirror.h"
#include "check/run/name.h"
#include "check/run/record.h"
#include "check/sample/types.h"

static bool has_types(const opgraft_op *op, int32_t device,
                      const og_sample *sample) {
  int32_t types[OG_VARIABLE_MAX];
  for (int32_t v = 0; v < op->decl->type_variable_count; ++v)
    types[v] = og_dtype_index(sample->type[op->variable_tensor[v]]);
  return og_sample_has_kernel(op, device, types);
}

bool og_is_on_device(const og_trial *trial, const og_sample *sample,
                     const og_mode *mode) {
  const opgraft_op *op = sample->op;
  if (trial->device == NULL || mode->is_on_host || mode->kernel != NULL ||
      op->module != trial->op->module)
    return false;
  if (op == trial->op &&
      memcmp(sample->type, trial->sample.type, sizeof sample->type) == 0)
    return true;
  return !op->decl->has_data_dependent_result &&
         has_types(op, trial->device->type, sample);
}

static og_status send_placed(og_running *c, og_placed *p, og_tensor *given,
                             opgraft_error *error) {
  char name[64];
  og_name_of(c->sample->op, p->role, p->index, p->entry, name, sizeof name);
  if (og_mirror_data(c->device, p->buffer) == NULL)
    OG_TRY(og_mirror_add(c->device, p->buffer, name, c->mode, error));
  given->data = og_mirror_data(c->device, p->buffer) - p->tensor.byte_offset;
  p->tensor.data = given->data;
  return OG_OK;
}

static og_status send_all(og_running *c, opgraft_error *error) {
  for (int32_t t = 0; t < c->sample->op->decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      og_placed *p = &c->in[t][e];
      if (p->buffer != NULL) OG_TRY(send_placed(c, p, &p->tensor, error));
    }
  for (int32_t i = 0; i < c->fresh_count; ++i)
    OG_TRY(
        send_placed(c, c->fresh[i], og_running_result(c, c->fresh[i]), error));
  if (c->workspace == NULL) return OG_OK;
  OG_TRY(og_mirror_add(c->device, c->workspace, "workspace", c->mode, error));
  c->frame.call.workspace = og_mirror_data(c->device, c->workspace);
  return OG_OK;
}

// This process cannot go on; the next child does, behind the call.
static void end_device(const og_trial *trial, int32_t kind, bool is_note,
                       const char *text) {
  og_tell_end(trial->op, kind, is_note, text);
  _exit(2);
}

// A device may end where a kernel traps on purpose: with an index out of range
// that is a note.
static void end_lost(const og_running *c, const opgraft_error *error) {
  const bool is_index = c->mode->reach > 0;
  char text[300];
  snprintf(text, sizeof text, "%sthe device works no more: %.220s",
           is_index ? "with an index out of range " : "", error->text);
  end_device(c->trial, is_index ? OPGRAFT_UNCHECKED_INDEX : OPGRAFT_CRASH,
             is_index, text);
}

static void see_failure(og_running *c, og_status status,
                        const opgraft_error *error) {
  if (status == OG_OK) return;
  if (og_check_device_is_lost(c->device)) end_lost(c, error);
  if (c->trial->refusal[0] == '\0')
    snprintf(c->trial->refusal, sizeof c->trial->refusal, "%.199s",
             error->text);
}

bool og_put_on_device(og_running *c) {
  opgraft_error error = {.code = OG_OK};
  // Without a tensor argument the call is the CPU's.
  if (c->frame.kernel->device == OG_CPU) c->device = NULL;
  if (c->device == NULL) return true;
  const og_status status = send_all(c, &error);
  if (status != OG_MEMORY) see_failure(c, status, &error);
  return status == OG_OK;
}

void og_device_end_late(const og_trial *trial) {
  char text[100];
  snprintf(text, sizeof text, "the kernel is not done %lld ms after its launch",
           (long long)(trial->device->wait_ns / 1000000));
  end_device(trial, OPGRAFT_TIMEOUT, false, text);
}

og_status og_device_launch(og_running *c) {
  opgraft_error error = {.code = OG_OK};
  opgraft_error other = {.code = OG_OK};
  bool is_late;
  og_status status = og_mirrors_launch(c->device, &c->frame, &error);
  const og_status done = og_mirrors_fetch(c->device, &is_late, &other);
  if (is_late) og_device_end_late(c->trial);
  if (status == OG_OK) {
    status = done;
    error = other;
  }
  see_failure(c, status, &error);
  return status;
}

static void tell_kept(const og_running *c, const char *name, int64_t byte,
                      bool is_inside) {
  if (is_inside)
    og_tell_finding(c->trial->op, OPGRAFT_KEPT_POINTER, false, "",
                    "a kernel wrote byte %lld of %s after the stream of its "
                    "call was done: by a pointer that it kept, or by work that "
                    "the stream does not wait for",
                    (long long)byte, name);
  else
    og_tell_finding(c->trial->op, OPGRAFT_OUT_OF_BOUNDS_WRITE, false, "",
                    "a kernel wrote far out of bounds: byte %lld of %s of an "
                    "earlier call",
                    (long long)byte, name);
}

bool og_device_see_report(const og_trial *trial, bool is_told) {
  char text[400];
  if (!og_check_device_report(trial->device, text, sizeof text)) return false;
  if (is_told)
    og_tell_finding(
        trial->op,
        strncmp(text, "race", 4) == 0 ? OPGRAFT_DATA_RACE : OPGRAFT_CRASH,
        false, "", "the driver reports: %.380s", text);
  return true;
}

void og_see_device(og_running *c) {
  char name[64];
  int64_t offset = 0;
  bool is_inside;
  const bool is_kept = !og_mirrors_end(c->device, name, &offset, &is_inside);
  // A write out of bounds may have come so far; that is told.
  if (is_kept && !c->is_wrong && c->mode->reach == 0)
    tell_kept(c, name, offset, is_inside);
  c->is_wrong |= is_kept;
  // With an index out of range, its probe says what a report means.
  c->is_wrong |= og_device_see_report(c->trial, c->mode->reach == 0);
}
