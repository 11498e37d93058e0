// SPDX-License-Identifier: Apache-2.0
// Operators whose kernel for the CPU is right, and the one for a device wrong;
// tests/cli/test_check_device.py says how each is found.

#define _GNU_SOURCE
#include <opgraft/op.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N, D, M };  // of what gathers

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

// Over all that lies around its own memory, into what the run before had.
static og_status writes_far(const og_call *call) {
  right(call);
  for (int64_t i = -4096; i < -64; ++i) og_f32_mut(call->out[0])[i] = 1;
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

// Takes the result of the call before for its own where the argument lies at
// the same address.
static og_status knows_address(const og_call *call) {
  enum { KEPT_MAX = 4096 };
  static const float *of;
  static int64_t kept_count;
  static float kept[KEPT_MAX];
  const int64_t count = count_of(call);
  float *y = og_f32_mut(call->out[0]);
  right(call);
  if (of == og_f32(call->in[0]) && kept_count == count)
    memcpy(y, kept, (size_t)count * sizeof *y);
  of = count <= KEPT_MAX ? og_f32(call->in[0]) : NULL;
  kept_count = count;
  if (of != NULL) memcpy(kept, y, (size_t)count * sizeof *y);
  return OG_OK;
}

// Works in memory that all calls share.
static og_status shares_scratch(const og_call *call) {
  enum { SCRATCH_MAX = 4096 };
  static volatile float scratch[SCRATCH_MAX];
  const int64_t count = count_of(call);
  if (count > SCRATCH_MAX) return right(call);
  for (int64_t i = 0; i < count; ++i) scratch[i] = 2 * og_f32(call->in[0])[i];
  usleep(20);
  for (int64_t i = 0; i < count; ++i) og_f32_mut(call->out[0])[i] = scratch[i];
  return OG_OK;
}

// Reads a dim that the call does not have.
static og_status reads_array(const og_call *call) {
  twice(call, 0, call->dim[1] >= 0 ? count_of(call) : 0);
  return OG_OK;
}

// --- Operators that only the device has --------------------------------------

static og_status square(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < count_of(call); ++i) y[i] = x[i] * x[i];
  return OG_OK;
}

// grad * x, of which it forgets the 2.
static og_status half_backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]), *x = og_f32(call->in[1]);
  float *to = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < count_of(call); ++i) to[i] = x[i] * grad[i];
  return OG_OK;
}

static og_status sum_but_last(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  y[0] = 0;
  for (int64_t i = 0; i + 1 < count_of(call); ++i) y[0] += x[i];
  return OG_OK;
}

// --- Indices -----------------------------------------------------------------

static og_status gather(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const int64_t *index = og_i64(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  const size_t width = (size_t)call->dim[D];
  for (int64_t i = 0; i < call->dim[M]; ++i)
    memcpy(y + (size_t)i * width, x + index[i] * (int64_t)width,
           width * sizeof *y);
  return OG_OK;
}

static og_status gather_right(const og_call *call) {
  const int64_t *index = og_i64(call->in[1]);
  for (int64_t i = 0; i < call->dim[M]; ++i)
    if (index[i] < 0 || index[i] >= call->dim[N])
      return og_fail(call, OG_INVALID, "an index is out of range");
  return gather(call);
}

static og_status gather_takes_last(const og_call *call) {
  const int64_t *index = og_i64(call->in[1]);
  for (int64_t i = 0; i < call->dim[M]; ++i)
    if (index[i] < 0 || index[i] > call->dim[N])
      return og_fail(call, OG_INVALID, "an index is out of range");
  return gather(call);
}

static og_status gather_sees_first(const og_call *call) {
  const int64_t *index = og_i64(call->in[1]);
  if (call->dim[M] > 0 && (index[0] < 0 || index[0] >= call->dim[N]))
    return og_fail(call, OG_INVALID, "an index is out of range");
  return gather(call);
}

static og_status scatter(const og_call *call) {
  float *x = og_f32_mut(call->out[0]);
  const int64_t *index = og_i64(call->in[1]);
  for (int64_t i = 0; i < call->dim[D]; ++i) x[index[i]] += 1;
  return OG_OK;
}

static og_status scatter_right(const og_call *call) {
  const int64_t *index = og_i64(call->in[1]);
  for (int64_t i = 0; i < call->dim[D]; ++i)
    if (index[i] < 0 || index[i] >= call->dim[N])
      return og_fail(call, OG_INVALID, "an index is out of range");
  return scatter(call);
}

#define PAIR(name, on_cpu, on_device)                     \
  static const og_kernel name##_kernels[] = {             \
      {.device = OG_CPU, .dtypes = "f32", .run = on_cpu}, \
      {.device = OG_EXT_DEV, .dtypes = "f32", .run = on_device}}
#define ONLY(name, on_device)                 \
  static const og_kernel name##_kernels[] = { \
      {.device = OG_EXT_DEV, .dtypes = "f32", .run = on_device}}
#define GATHER(name)                                                   \
  {                                                                    \
    .schema = #name "(Tensor x, Tensor index) -> Tensor",              \
    .shape = "x[N, D], index[M] -> [M, D]", .where = "N > 0",          \
    .dtype = "x: f32, index: i64 -> x", .backward = "none",            \
    .expect = "no_gradient: x", .kernels = OG_KERNELS(name##_kernels), \
  }

PAIR(gathers, gather_right, gather);
PAIR(gathers_last, gather_right, gather_takes_last);
PAIR(gathers_first, gather_right, gather_sees_first);
PAIR(scatters, scatter_right, scatter);
ONLY(half_gradient, square);
ONLY(half_gradient_backward, half_backward);
ONLY(ignores_last, sum_but_last);

#define WRONG(name)                                      \
  static const og_kernel name##_kernels[] = {            \
      {.device = OG_CPU, .dtypes = "f32", .run = right}, \
      {.device = OG_EXT_DEV, .dtypes = "f32", .run = name}}
#define ROW(name, memory)                                           \
  {                                                                 \
    .schema = #name "(Tensor x) -> Tensor", .shape = "x[N] -> [N]", \
    .dtype = "x: f32 -> x", .backward = "right(grad) -> x",         \
    .workspace = memory, .kernels = OG_KERNELS(name##_kernels),     \
  }

WRONG(right);
WRONG(writes_behind);
WRONG(writes_before);
WRONG(writes_far);
WRONG(leaves_last);
WRONG(writes_argument);
WRONG(wrong_value);
WRONG(reads_workspace);
WRONG(overruns_workspace);
WRONG(reads_behind);
WRONG(refuses);
WRONG(says_busy);
WRONG(knows_address);
WRONG(reads_array);
WRONG(shares_scratch);
WRONG(keeps_pointer);
WRONG(ends_too_early);
WRONG(crashes);
WRONG(never_ends);

static const og_op ops[] = {
    ROW(right, NULL),
    ROW(writes_behind, NULL),
    ROW(writes_before, NULL),
    ROW(writes_far, NULL),
    ROW(leaves_last, NULL),
    ROW(writes_argument, NULL),
    ROW(wrong_value, NULL),
    ROW(reads_workspace, "64"),
    ROW(overruns_workspace, "64"),
    ROW(reads_behind, NULL),
    ROW(refuses, NULL),
    ROW(keeps_pointer, NULL),
    ROW(ends_too_early, NULL),
    ROW(crashes, NULL),
    ROW(never_ends, NULL),
    ROW(says_busy, NULL),
    ROW(knows_address, NULL),
    ROW(reads_array, NULL),
    ROW(shares_scratch, NULL),
    GATHER(gathers),
    GATHER(gathers_last),
    GATHER(gathers_first),
    {
        .schema = "scatters(Tensor(a!) x, Tensor index) -> ()",
        .shape = "x[N], index[D]",
        .where = "N > 0",
        .dtype = "x: f32, index: i64",
        .backward = "none",
        .kernels = OG_KERNELS(scatters_kernels),
    },
    {
        .schema = "half_gradient(Tensor x) -> Tensor",
        .shape = "x[N] -> [N]",
        .dtype = "x: f32 -> x",
        .backward = "half_gradient_backward(grad, x) -> x",
        .kernels = OG_KERNELS(half_gradient_kernels),
    },
    {
        .schema = "half_gradient_backward(Tensor grad, Tensor x) -> Tensor",
        .shape = "grad[N], x[N] -> [N]",
        .dtype = "grad: f32, x: grad -> grad",
        .kernels = OG_KERNELS(half_gradient_backward_kernels),
    },
    {
        .schema = "ignores_last(Tensor x) -> Tensor",
        .shape = "x[N] -> [1]",
        .dtype = "x: f32 -> x",
        .kernels = OG_KERNELS(ignores_last_kernels),
    },
};
OG_MODULE(device_wrong, ops)
