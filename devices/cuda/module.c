// SPDX-License-Identifier: Apache-2.0
// What <opgraft/cuda.h> declares, linked into each module that has CUDA code.
//
// Invariants: `lock` is held while code is compiled and loaded and while a list
// is changed; entries of lists are never changed or freed once they are
// reachable, so that launches read the lists without it.

#define _GNU_SOURCE
#include <opgraft/cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "nvrtc.h"

enum {
  DEVICES_MAX = 64,
  TEXT_SIZE = 4096,
  PARAMETERS_MAX = 256,
  // CUdevice_attribute, CUfunction_attribute, CUjit_option
  MULTIPROCESSORS = 16,
  CAPABILITY_MAJOR = 75,
  CAPABILITY_MINOR = 76,
  KERNEL_SHARED_BYTES_MAX = 8,
  JIT_ERROR_LOG = 5,
  JIT_ERROR_LOG_BYTES = 6,
  SHARED_BYTES_USUAL = 48 * 1024,  // above, a kernel has to be told
};

// Code of one kind of device. Cubins and PTX as given are for all: arch 0.
typedef struct library {
  int arch;
  void *handle;
  char *why_not;  // loading failed for good, with this text
  struct library *next;
} library;

typedef struct kernel {
  char *name;
  int arch;
  void *handle;
  _Atomic uint32_t shared_bytes;  // that it has been told to allow
  struct kernel *next;
} kernel;

struct og_cuda_loaded {
  library *libraries;
  _Atomic(kernel *) kernels;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// What is asked once of each device; 0 is: not yet.
static struct {
  _Atomic int arch, multiprocessors;
  _Atomic(void *) context;
} devices[DEVICES_MAX];

// One launch, or a question about a device.
typedef struct launch {
  const og_call *call;
  const og_cuda_api *api;
  const og_cuda_code *code;
  const char *kernel;
  int device;
  int arch;
} launch;

static og_status fail_by(const launch *l, og_status status, const char *symbol,
                         int result) {
  char what[512], text[1024];
  og_cuda_api_explain(l->api, symbol, result, what, sizeof what);
  if (l->code == NULL)
    snprintf(text, sizeof text, "%s (device cuda:%d)", what, l->device);
  else
    snprintf(text, sizeof text, "kernel '%s' of %s: %s (device cuda:%d)",
             l->kernel, l->code->name, what, l->device);
  return og_fail(l->call, status, text);
}

// --- The device --------------------------------------------------------------

static og_status attribute_get(const launch *l, int attribute, int *out_value) {
  int device = 0;
  int result = l->api->device_get(&device, l->device);
  if (result != 0) return fail_by(l, OG_DEVICE, "cuDeviceGet", result);
  result = l->api->device_attribute(out_value, attribute, device);
  return result == 0 ? OG_OK
                     : fail_by(l, OG_DEVICE, "cuDeviceGetAttribute", result);
}

static og_status launch_begin(const og_call *call, const og_tensor *tensor,
                              launch *out) {
  char text[512];
  if (tensor == NULL || tensor->device.type != OG_CUDA ||
      tensor->device.id < 0 || tensor->device.id >= DEVICES_MAX)
    return og_fail(call, OG_DEVICE,
                   "og_cuda_launch: the tensor that says which device is NULL "
                   "or not on a CUDA device 0 to 63; give one of the call's");
  *out = (launch){.call = call, .device = tensor->device.id};
  out->api = og_cuda_api_open(text, sizeof text);
  return out->api != NULL ? OG_OK : og_fail(call, OG_DEVICE, text);
}

static og_status arch_get(launch *l) {
  int major = 0, minor = 0;
  l->arch = devices[l->device].arch;
  if (l->arch != 0) return OG_OK;
  og_status status = attribute_get(l, CAPABILITY_MAJOR, &major);
  if (status == OG_OK) status = attribute_get(l, CAPABILITY_MINOR, &minor);
  if (status == OG_OK) devices[l->device].arch = l->arch = 10 * major + minor;
  return status;
}

// The context of the device, made current; *out_before is what was, where that
// was another device's, else NULL.
static og_status context_enter(const launch *l, void **out_before) {
  void *now = NULL, *context = devices[l->device].context;
  int device = -1, wanted = 0;
  *out_before = NULL;
  int result = l->api->device_get(&wanted, l->device);
  if (result != 0) return fail_by(l, OG_DEVICE, "cuDeviceGet", result);
  result = l->api->context_current(&now);
  if (result != 0) return fail_by(l, OG_DEVICE, "cuCtxGetCurrent", result);
  if (now != NULL && l->api->context_device(&device) == 0 && device == wanted)
    return OG_OK;
  if (context == NULL) {
    result = l->api->context_retain(&context, wanted);
    if (result != 0)
      return fail_by(l, OG_DEVICE, "cuDevicePrimaryCtxRetain", result);
    devices[l->device].context = context;
  }
  result = l->api->context_set(context);
  if (result != 0) return fail_by(l, OG_DEVICE, "cuCtxSetCurrent", result);
  *out_before = now;
  return OG_OK;
}

static void context_leave(const launch *l, void *before) {
  if (before != NULL) l->api->context_set(before);
}

// --- The code ----------------------------------------------------------------

enum { CODE_BINARY, CODE_PTX, CODE_SOURCE };

// Behind white space and comments.
static const char *text_begin(const char *text, const char *end) {
  while (text < end) {
    if (strchr(" \t\r\n", *text) != NULL) {
      ++text;
    } else if (end - text > 1 && text[0] == '/' && text[1] == '/') {
      while (text < end && *text != '\n') ++text;
    } else if (end - text > 1 && text[0] == '/' && text[1] == '*') {
      const char *close = strstr(text + 2, "*/");
      if (close == NULL) return end;
      text = close + 2;
    } else {
      break;
    }
  }
  return text;
}

static int code_kind(const og_cuda_code *code) {
  static const unsigned char magics[][4] = {
      {0x7f, 'E', 'L', 'F'},      // a cubin
      {0x50, 0xed, 0x55, 0xba},   // a fatbin
      {0xb1, 0x43, 0x62, 0x46}};  // what wraps one
  const char *text = code->bytes, *end = code->end;
  for (size_t i = 0; i < sizeof magics / sizeof *magics; ++i)
    if (end - text >= 4 && memcmp(text, magics[i], 4) == 0) return CODE_BINARY;
  text = text_begin(text, end);
  return end - text > 8 && memcmp(text, ".version", 8) == 0 ? CODE_PTX
                                                            : CODE_SOURCE;
}

// `text` has room for TEXT_SIZE.
static void library_load(const launch *l, const void *bytes, library *out,
                         char *text) {
  char log[2048] = "", what[512];
  int options[] = {JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES};
  void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
  const int result = l->api->library_load(&out->handle, bytes, options, values,
                                          2, NULL, NULL, 0);
  if (result == 0) return;
  og_cuda_api_explain(l->api, "cuLibraryLoadData", result, what, sizeof what);
  snprintf(text, TEXT_SIZE,
           "%s: %s (device cuda:%d of compute capability %d.%d)%s%s",
           l->code->name, what, l->device, l->arch / 10, l->arch % 10,
           log[0] != '\0' ? "\n" : "", log);
}

static library *library_find(const og_cuda_loaded *loaded, int arch) {
  for (library *at = loaded->libraries; at != NULL; at = at->next)
    if (at->arch == arch) return at;
  return NULL;
}

// The library of the launch's code, loaded or failed. Under `lock`; NULL: out
// of memory.
static library *library_get(const launch *l, og_cuda_loaded *loaded) {
  const int kind = code_kind(l->code);
  const int arch = kind == CODE_SOURCE ? l->arch : 0;
  library *found = library_find(loaded, arch);
  if (found != NULL) return found;
  char text[TEXT_SIZE] = "", *compiled = NULL;
  found = calloc(1, sizeof *found);
  if (found == NULL) return NULL;
  found->arch = arch;
  if (kind != CODE_SOURCE)
    library_load(l, l->code->bytes, found, text);
  else if (og_cuda_compile(l->code->bytes, l->code->name, l->arch, &compiled,
                           text, sizeof text) == 0)
    library_load(l, compiled, found, text);
  free(compiled);
  if (found->handle == NULL) {
    found->why_not = strdup(text);
    if (found->why_not == NULL) {
      free(found);
      return NULL;
    }
  }
  found->next = loaded->libraries;
  loaded->libraries = found;
  return found;
}

// --- The kernel --------------------------------------------------------------

static kernel *kernel_find(og_cuda_loaded *loaded, const char *name, int arch) {
  kernel *at = loaded != NULL ? atomic_load_explicit(&loaded->kernels,
                                                     memory_order_acquire)
                              : NULL;
  for (; at != NULL; at = at->next)
    if (at->arch == arch && strcmp(at->name, name) == 0) return at;
  return NULL;
}

static kernel *kernel_create(const launch *l, void *handle) {
  kernel *made = calloc(1, sizeof *made);
  if (made == NULL) return NULL;
  made->name = strdup(l->kernel);
  made->arch = l->arch;
  made->handle = handle;
  made->shared_bytes = SHARED_BYTES_USUAL;
  if (made->name != NULL) return made;
  free(made);
  return NULL;
}

// Under `lock`.
static og_status kernel_load(const launch *l, og_cuda_loaded *loaded,
                             kernel **out_kernel) {
  void *handle = NULL;
  *out_kernel = kernel_find(loaded, l->kernel, l->arch);
  if (*out_kernel != NULL) return OG_OK;
  library *from = library_get(l, loaded);
  if (from == NULL) return og_fail(l->call, OG_MEMORY, "out of memory");
  if (from->why_not != NULL) return og_fail(l->call, OG_KERNEL, from->why_not);
  const int result = l->api->library_kernel(&handle, from->handle, l->kernel);
  if (result != 0) return fail_by(l, OG_KERNEL, "cuLibraryGetKernel", result);
  kernel *made = kernel_create(l, handle);
  if (made == NULL) return og_fail(l->call, OG_MEMORY, "out of memory");
  made->next = loaded->kernels;
  atomic_store_explicit(&loaded->kernels, made, memory_order_release);
  *out_kernel = made;
  return OG_OK;
}

static og_status kernel_get(const launch *l, kernel **out_kernel) {
  _Atomic(og_cuda_loaded *) *place =
      (_Atomic(og_cuda_loaded *) *)l->code->loaded;
  *out_kernel = kernel_find(*place, l->kernel, l->arch);
  if (*out_kernel != NULL) return OG_OK;
  pthread_mutex_lock(&lock);
  if (*place == NULL) *place = calloc(1, sizeof(og_cuda_loaded));
  const og_status status = *place == NULL
                               ? og_fail(l->call, OG_MEMORY, "out of memory")
                               : kernel_load(l, *place, out_kernel);
  pthread_mutex_unlock(&lock);
  return status;
}

static og_status shared_allow(const launch *l, kernel *k, uint32_t bytes) {
  int device = 0;
  if (bytes <= k->shared_bytes) return OG_OK;
  int result = l->api->device_get(&device, l->device);
  if (result == 0)
    result = l->api->kernel_set(KERNEL_SHARED_BYTES_MAX, (int)bytes, k->handle,
                                device);
  if (result != 0) return fail_by(l, OG_KERNEL, "cuKernelSetAttribute", result);
  k->shared_bytes = bytes;
  return OG_OK;
}

static uint32_t or_one(uint32_t x) { return x > 0 ? x : 1; }

static og_status kernel_launch(const launch *l, const og_cuda_shape *s,
                               void *const *parameters, int32_t count) {
  void *given[PARAMETERS_MAX];
  kernel *k = NULL;
  og_status status = kernel_get(l, &k);
  if (status == OG_OK) status = shared_allow(l, k, s->shared_bytes);
  if (status != OG_OK) return status;
  for (int32_t i = 0; i < count; ++i) given[i] = parameters[i];
  const int result = l->api->launch(
      k->handle, or_one(s->grid[0]), or_one(s->grid[1]), or_one(s->grid[2]),
      or_one(s->block[0]), or_one(s->block[1]), or_one(s->block[2]),
      s->shared_bytes, l->call->stream, given, NULL);
  return result == 0 ? OG_OK : fail_by(l, OG_KERNEL, "cuLaunchKernel", result);
}

// --- Interface ---------------------------------------------------------------

og_status og_cuda_launch(const og_call *call, const og_cuda_code *code,
                         const char *name, const og_cuda_shape *shape,
                         void *const *parameters, int32_t count) {
  launch l;
  void *before = NULL;
  if (count < 0 || count > PARAMETERS_MAX)
    return og_fail(call, OG_INVALID,
                   "og_cuda_launch: count is negative or above 256, expected "
                   "how many parameters the kernel has");
  og_status status = launch_begin(call, shape->tensor, &l);
  if (status != OG_OK) return status;
  l.code = code;
  l.kernel = name;
  status = arch_get(&l);
  if (status == OG_OK) status = context_enter(&l, &before);
  if (status != OG_OK) return status;
  status = kernel_launch(&l, shape, parameters, count);
  context_leave(&l, before);
  return status;
}

og_status og_cuda_multiprocessors(const og_call *call, const og_tensor *tensor,
                                  int32_t *out_count) {
  launch l;
  int count = 0;
  *out_count = 0;
  og_status status = launch_begin(call, tensor, &l);
  if (status != OG_OK) return status;
  count = devices[l.device].multiprocessors;
  if (count == 0) status = attribute_get(&l, MULTIPROCESSORS, &count);
  if (status != OG_OK) return status;
  devices[l.device].multiprocessors = *out_count = count;
  return OG_OK;
}
