// SPDX-License-Identifier: Apache-2.0
// Operators whose kernel for the CPU is right, and the one for a device wrong;
// tests/cli/test_check_device.py says how each is found.

#define _GNU_SOURCE
#include <opgraft/op.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void twice(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = begin; i < end; ++i) y[i] = 2 * x[i];
}

static int64_t count_of(const og_call *call) { return og_numel(call->in[0]); }

static og_status right(const og_call *call) {
  twice(call, 0, count_of(call));
  return OG_OK;
}

static og_status writes_behind(const og_call *call) {
  twice(call, 0, count_of(call));
  og_f32_mut(call->out[0])[count_of(call)] = 1;
  return OG_OK;
}

static og_status writes_before(const og_call *call) {
  twice(call, 0, count_of(call));
  og_f32_mut(call->out[0])[-1] = 1;
  return OG_OK;
}

static og_status leaves_last(const og_call *call) {
  if (count_of(call) > 0) twice(call, 0, count_of(call) - 1);
  return OG_OK;
}

static og_status writes_argument(const og_call *call) {
  float *x = (float *)(uintptr_t)og_f32(call->in[0]);
  twice(call, 0, count_of(call));
  for (int64_t i = 0; i < count_of(call); ++i) x[i] += 1;
  return OG_OK;
}

static og_status wrong_value(const og_call *call) {
  twice(call, 0, count_of(call));
  if (count_of(call) > 0) og_f32_mut(call->out[0])[0] += 1;
  return OG_OK;
}

static og_status reads_workspace(const og_call *call) {
  float *sum = call->workspace;
  twice(call, 0, count_of(call));
  if (count_of(call) > 0) og_f32_mut(call->out[0])[0] += sum[0] > 0 ? 1 : 0;
  return OG_OK;
}

static og_status overruns_workspace(const og_call *call) {
  char *scratch = call->workspace;
  scratch[call->workspace_bytes] = 1;
  return right(call);
}

static og_status reads_behind(const og_call *call) {
  const int64_t count = count_of(call);
  twice(call, 0, count);
  if (count > 0)
    og_f32_mut(call->out[0])[0] += og_f32(call->in[0])[count] > 0 ? 1 : 0;
  return OG_OK;
}

static og_status refuses(const og_call *call) {
  return og_fail(call, OG_KERNEL, "the device has no room for that");
}

static og_status says_busy(const og_call *call) {
  return og_fail(call, OG_BUSY, "another call uses the unit");
}

static og_status keeps_pointer(const og_call *call) {
  static float *kept;
  if (kept != NULL) *kept = 5;
  kept = count_of(call) > 0 ? og_f32_mut(call->out[0]) : NULL;
  return right(call);
}

typedef struct late {
  float *y;
  int64_t count;
} late;

static void *write_late(void *given) {
  late *l = given;
  usleep(300);
  for (int64_t i = 0; i < l->count; ++i) l->y[i] = 7;
  free(l);
  return NULL;
}

// Begins work that its stream does not wait for.
static og_status ends_too_early(const og_call *call) {
  pthread_t thread;
  late *l = malloc(sizeof *l);
  if (l == NULL) return OG_MEMORY;
  *l = (late){og_f32_mut(call->out[0]), count_of(call)};
  if (pthread_create(&thread, NULL, write_late, l) != 0) return OG_INTERNAL;
  pthread_detach(thread);
  return OG_OK;
}

static og_status crashes(const og_call *call) {
  if (count_of(call) > 0) *(volatile int *)(uintptr_t)16 = 1;
  return right(call);
}

static og_status never_ends(const og_call *call) {
  while (count_of(call) > 0) usleep(1000);
  return OG_OK;
}

#define WRONG(name)                                      \
  static const og_kernel name##_kernels[] = {            \
      {.device = OG_CPU, .dtypes = "f32", .run = right}, \
      {.device = OG_EXT_DEV, .dtypes = "f32", .run = name}}
#define ROW(name, memory)                                            \
  {                                                                  \
    .schema = #name "(Tensor x) -> Tensor", .shape = "x[N] -> [N]",  \
    .dtype = "x: f32 -> x", .backward = "none", .workspace = memory, \
    .kernels = OG_KERNELS(name##_kernels),                           \
  }

WRONG(right);
WRONG(writes_behind);
WRONG(writes_before);
WRONG(leaves_last);
WRONG(writes_argument);
WRONG(wrong_value);
WRONG(reads_workspace);
WRONG(overruns_workspace);
WRONG(reads_behind);
WRONG(refuses);
WRONG(says_busy);
WRONG(keeps_pointer);
WRONG(ends_too_early);
WRONG(crashes);
WRONG(never_ends);

static const og_op ops[] = {
    ROW(right, NULL),           ROW(writes_behind, NULL),
    ROW(writes_before, NULL),   ROW(leaves_last, NULL),
    ROW(writes_argument, NULL), ROW(wrong_value, NULL),
    ROW(reads_workspace, "64"), ROW(overruns_workspace, "64"),
    ROW(reads_behind, NULL),    ROW(refuses, NULL),
    ROW(keeps_pointer, NULL),   ROW(ends_too_early, NULL),
    ROW(crashes, NULL),         ROW(never_ends, NULL),
    ROW(says_busy, NULL),
};
OG_MODULE(device_wrong, ops)
