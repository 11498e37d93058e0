// SPDX-License-Identifier: Apache-2.0
// Two calls on two streams of a device, which nothing orders.

#include "check/run/streams.h"

#include <stdlib.h>
#include <time.h>

#include "base/text.h"
#include "call/call.h"
#include "check/run/device.h"
#include "check/run/on_device.h"
#include "check/run/wait.h"
#include "check/sample/sketch.h"

enum { LAUNCHES = 16 };  // of a call, before anything is waited for

typedef struct launched {
  og_sketch *sketch;
  og_outputs found;
  void *result[OG_ARRAYS_MAX];  // on the device
} launched;

typedef struct side {
  const og_call_alone *call;
  void *stream;
  void *argument[OPGRAFT_ARG_MAX];  // on the device
  launched launch[LAUNCHES];
} side;

typedef struct pair {
  og_trial *trial;
  opgraft_driver *driver;
  og_check_device *device;
  side side[2];
} pair;

static size_t array_bytes(const og_array *a) {
  return (size_t)a->count * og_dtype_bytes(a->type);
}

// --- Memory ------------------------------------------------------------------

static og_status send(pair *p, side *s, const og_array *a, void **out_data) {
  const size_t bytes = array_bytes(a);
  OG_TRY(opgraft_driver_allocate(p->driver, 0, bytes, "an argument", out_data,
                                 NULL));
  opgraft_driver_host_access(p->driver, a->data, bytes, 1);
  return opgraft_driver_copy(p->driver, s->stream, OPGRAFT_COPY_TO_DEVICE,
                             *out_data, a->data, bytes, NULL);
}

static og_status arguments_send(pair *p, side *s) {
  const og_sample *sample = s->call->sample;
  for (int32_t t = 0; t < sample->op->decl->tensor_count; ++t)
    if (sample->is_given[t])
      OG_TRY(send(p, s, &s->call->inputs->tensor[t][0], &s->argument[t]));
  return OG_OK;
}

static og_status result_make(pair *p, launched *l, int32_t i) {
  og_tensor *f = &l->sketch->frame.fresh[i];
  if (!og_outputs_add_fresh(&l->found, f)) return OG_MEMORY;
  OG_TRY(opgraft_driver_allocate(p->driver, 0, array_bytes(&l->found.array[i]),
                                 "a result", &l->result[i], NULL));
  f->data = l->result[i];
  return OG_OK;
}

static og_status launch_make(pair *p, side *s, launched *l) {
  const og_sample *sample = s->call->sample;
  og_sketch *k = l->sketch = og_sketch_create(sample);
  if (k == NULL) return OG_MEMORY;
  for (int32_t t = 0; t < sample->op->decl->tensor_count; ++t) {
    if (!sample->is_given[t]) continue;
    og_tensor *tensor = &k->tensor[t][0];
    og_array_as_tensor(&s->call->inputs->tensor[t][0], k->strides[t][0],
                       tensor);
    tensor->data = s->argument[t];
    tensor->device = (og_device){p->device->type, 0};
  }
  OG_TRY(opgraft_frame_infer(&k->frame, NULL));
  for (int32_t i = 0; i < k->frame.fresh_count; ++i)
    OG_TRY(result_make(p, l, i));
  k->frame.call.stream = s->stream;
  return OG_OK;
}

static og_status side_make(pair *p, side *s) {
  OG_TRY(opgraft_driver_stream_create(p->driver, 0, &s->stream, NULL));
  OG_TRY(arguments_send(p, s));
  for (int32_t i = 0; i < LAUNCHES; ++i)
    OG_TRY(launch_make(p, s, &s->launch[i]));
  return OG_OK;
}

static void launch_drop(pair *p, launched *l) {
  for (int32_t i = 0; i < OG_ARRAYS_MAX; ++i)
    if (l->result[i] != NULL)
      opgraft_driver_free(p->driver, 0, l->result[i], NULL);
  og_outputs_reset(&l->found);
  og_sketch_destroy(l->sketch);
}

// Nothing of its streams is pending any more.
static void side_drop(pair *p, side *s) {
  for (int32_t i = 0; i < LAUNCHES; ++i) launch_drop(p, &s->launch[i]);
  for (int32_t t = 0; t < OPGRAFT_ARG_MAX; ++t)
    if (s->argument[t] != NULL)
      opgraft_driver_free(p->driver, 0, s->argument[t], NULL);
  if (s->stream != NULL)
    opgraft_driver_stream_destroy(p->driver, s->stream, NULL);
}

// --- Runs --------------------------------------------------------------------

// Waits in any case: what is pending uses memory.
static og_status sides_wait(pair *p, og_status status) {
  for (int32_t i = 0; i < 2; ++i) {
    bool is_late = false;
    if (p->side[i].stream == NULL) continue;
    const og_status done = og_stream_wait(p->driver, p->side[i].stream,
                                          p->device->wait_ns, &is_late, NULL);
    if (is_late) og_device_end_late(p->trial);
    if (status == OG_OK) status = done;
  }
  return status;
}

static og_status sides_make(pair *p) {
  og_status status = side_make(p, &p->side[0]);
  if (status == OG_OK) status = side_make(p, &p->side[1]);
  return sides_wait(p, status);
}

static og_status both_launch(pair *p) {
  for (int32_t i = 0; i < LAUNCHES; ++i)
    for (int32_t k = 0; k < 2; ++k)
      OG_TRY(og_frame_launch(&p->side[k].launch[i].sketch->frame, NULL));
  return OG_OK;
}

static og_status results_fetch(pair *p, side *s) {
  for (int32_t i = 0; i < LAUNCHES; ++i) {
    launched *l = &s->launch[i];
    for (int32_t k = 0; k < l->found.count; ++k) {
      const og_array *a = &l->found.array[k];
      opgraft_driver_host_access(p->driver, a->data, array_bytes(a), 1);
      OG_TRY(opgraft_driver_copy(p->driver, s->stream, OPGRAFT_COPY_TO_HOST,
                                 a->data, l->result[k], array_bytes(a), NULL));
    }
  }
  return OG_OK;
}

static og_verdict side_compare(pair *p, side *s) {
  og_verdict verdict = {.differs = false};
  for (int32_t i = 0; i < LAUNCHES && !verdict.differs; ++i) {
    launched *l = &s->launch[i];
    for (int32_t k = 0; k < l->found.count; ++k)
      opgraft_driver_host_access(p->driver, l->found.array[k].data,
                                 array_bytes(&l->found.array[k]), 0);
    verdict = og_outputs_compare(p->trial->op, &l->found, s->call->wanted, -1);
  }
  return verdict;
}

static og_status round_run(pair *p, og_verdict *out_verdict) {
  og_status status = both_launch(p);
  for (int32_t k = 0; k < 2 && status == OG_OK; ++k)
    status = results_fetch(p, &p->side[k]);
  OG_TRY(sides_wait(p, status));
  for (int32_t k = 0; k < 2 && !out_verdict->differs; ++k)
    *out_verdict = side_compare(p, &p->side[k]);
  return OG_OK;
}

og_verdict og_run_on_streams(og_trial *trial, const og_call_alone calls[2],
                             int32_t rounds, int32_t limit_ms) {
  og_verdict verdict = {.differs = false};
  pair *p = calloc(1, sizeof *p);
  if (p == NULL) return verdict;
  p->trial = trial;
  p->device = trial->device;
  p->driver = p->device->driver;
  for (int32_t k = 0; k < 2; ++k) p->side[k].call = &calls[k];
  const clock_t end = clock() + limit_ms * CLOCKS_PER_SEC / 1000;
  if (sides_make(p) == OG_OK)
    for (int32_t i = 0; i < rounds && !verdict.differs && clock() < end; ++i)
      if (round_run(p, &verdict) != OG_OK) break;
  for (int32_t k = 0; k < 2; ++k) side_drop(p, &p->side[k]);
  free(p);
  og_device_see_report(trial, true);
  return verdict;
}
