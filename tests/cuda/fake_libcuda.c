// SPDX-License-Identifier: Apache-2.0
// The fake's devices, contexts, kernels, and the failures that tests ask for.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/fake.h"

enum { CONTEXTS_MAX = 8, FAILURES_MAX = 8, NAME_BYTES = 48 };

typedef struct failure {
  char symbol[NAME_BYTES];
  int left;  // calls up to it; 0: it is over
  int result;
} failure;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static fake_object *objects;
static fake_context contexts[CONTEXTS_MAX];
static failure failures[FAILURES_MAX];
static bool is_initialised, is_read;
static char met[NAME_BYTES];  // the call that a test had fail
static int misuses, lost;
static unsigned long long chance_state;
static _Thread_local fake_context *current;
static _Thread_local bool is_in_host_function;
static _Thread_local int mode;  // 0: global

// --- Objects -----------------------------------------------------------------

void *fake_make(fake_kind kind, size_t size_bytes) {
  fake_object *object = calloc(1, size_bytes);
  if (object == NULL) abort();  // a test's machine has memory
  object->kind = kind;
  object->next = objects;
  objects = object;
  return object;
}

void fake_drop(void *given) {
  fake_object **at = &objects;
  while (*at != given) at = &(*at)->next;
  *at = (*at)->next;
  free(given);
}

bool fake_is(fake_kind kind, const void *given, const char *symbol) {
  for (const fake_object *o = objects; o != NULL; o = o->next)
    if (o == given && o->kind == kind) return true;
  fake_misuse(0, "%s: %p is not such a handle, or destroyed", symbol, given);
  return false;
}

void *fake_next(fake_kind kind, const void *after) {
  fake_object *o = after != NULL ? ((const fake_object *)after)->next : objects;
  while (o != NULL && o->kind != kind) o = o->next;
  return o;
}

// --- Misuses and chance ------------------------------------------------------

int fake_misuse(int result, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("fake libcuda: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  ++misuses;
  return result;
}

void fake_lose(int result) {
  if (lost == 0) lost = result;
}

int fake_lost(void) { return lost; }

// Knuth's generator of 64 bits.
bool fake_chance(unsigned one_in) {
  if (chance_state == 0) return false;
  chance_state = chance_state * 6364136223846793005ULL + 1442695040888963407ULL;
  return (chance_state >> 33) % one_in == 0;
}

int fake_environment(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text != NULL && *text != '\0' ? atoi(text) : otherwise;
}

static void failure_add(const char *symbol, size_t length, int nth,
                        int result) {
  for (int i = 0; i < FAILURES_MAX; ++i) {
    if (failures[i].left != 0) continue;
    failures[i] = (failure){.left = nth, .result = result};
    snprintf(failures[i].symbol, NAME_BYTES, "%.*s", (int)length, symbol);
    return;
  }
}

// SYMBOL:NTH:RESULT, with commas between.
static void environment_read(void) {
  const char *text = getenv("OPGRAFT_FAKE_FAIL");
  chance_state = (unsigned long long)fake_environment("OPGRAFT_FAKE_SEED", 0);
  while (text != NULL && *text != '\0') {
    const size_t length = strcspn(text, ":");
    int nth = 0, result = 0, used = 0;
    if (sscanf(text + length, ":%d:%d%n", &nth, &result, &used) != 2 ||
        length >= NAME_BYTES || nth < 1) {
      fake_misuse(0, "OPGRAFT_FAKE_FAIL is '%s', expected SYMBOL:NTH:RESULT",
                  text);
      return;
    }
    failure_add(text, length, nth, result);
    text += length + (size_t)used;
    if (*text == ',') ++text;
  }
}

static bool is_lost_result(int result) {
  return (result >= 700 && result < 720 &&
          result != OG_CUDA_LAUNCH_OUT_OF_RESOURCES) ||
         result == OG_CUDA_ECC_UNCORRECTABLE;
}

// The result that a test asked for; 0: none.
static int failure_meet(const char *symbol) {
  for (int i = 0; i < FAILURES_MAX; ++i) {
    failure *f = &failures[i];
    if (f->left == 0 ||
        (strcmp(f->symbol, symbol) != 0 && strcmp(f->symbol, "*") != 0) ||
        --f->left > 0)
      continue;
    snprintf(met, sizeof met, "%s", symbol);
    if (is_lost_result(f->result)) fake_lose(f->result);
    return f->result;
  }
  return 0;
}

static int enter_check(const char *symbol) {
  if (is_in_host_function)
    return fake_misuse(OG_CUDA_NOT_PERMITTED, "%s: called by a host function",
                       symbol);
  const int asked = failure_meet(symbol);
  if (asked != 0) return asked;
  if (!is_initialised && strcmp(symbol, "cuInit") != 0)
    return fake_misuse(OG_CUDA_NOT_INITIALIZED, "%s: before cuInit", symbol);
  return strncmp(symbol, "cuCtx", 5) != 0 || strstr(symbol, "Sync") != NULL
             ? lost
             : 0;
}

int fake_enter(const char *symbol) {
  if (!is_in_host_function) pthread_mutex_lock(&lock);
  if (!is_read) {
    is_read = true;
    environment_read();
  }
  const int early = enter_check(symbol);
  if (early == 0)
    fake_tick();
  else if (!is_in_host_function)
    pthread_mutex_unlock(&lock);
  return early;
}

int fake_leave(int result) {
  const int found = result == 0 ? lost : result;
  pthread_mutex_unlock(&lock);
  return found;
}

void fake_host_begin(void) { is_in_host_function = true; }
void fake_host_end(void) { is_in_host_function = false; }
int fake_mode(void) { return mode; }
fake_context *fake_current(void) { return current; }

bool fake_has_context(const char *symbol) {
  if (current != NULL) return true;
  fake_misuse(0, "%s: the thread has no context", symbol);
  return false;
}

// --- For tests ---------------------------------------------------------------

void opgraft_fake_fail(const char *symbol, int nth, int result) {
  pthread_mutex_lock(&lock);
  is_read = true;
  met[0] = '\0';
  memset(failures, 0, sizeof failures);
  if (nth > 0) failure_add(symbol, strlen(symbol), nth, result);
  pthread_mutex_unlock(&lock);
}

const char *opgraft_fake_met(void) { return met[0] != '\0' ? met : NULL; }
int opgraft_fake_misuses(void) { return misuses; }

void opgraft_fake_reset(unsigned seed) {
  pthread_mutex_lock(&lock);
  is_read = true;
  lost = misuses = 0;
  chance_state = seed;
  pthread_mutex_unlock(&lock);
}

static int contexts_count(void) {
  int count = 0;
  for (int i = 0; i < CONTEXTS_MAX; ++i) count += contexts[i].references;
  return count;
}

int opgraft_fake_count(const char *kind) {
  static const struct {
    const char *name;
    fake_kind kind;
  } kinds[] = {{"stream", FAKE_STREAM},   {"event", FAKE_EVENT},
               {"graph", FAKE_GRAPH},     {"exec", FAKE_EXEC},
               {"node", FAKE_NODE},       {"pool", FAKE_POOL},
               {"library", FAKE_LIBRARY}, {"kernel", FAKE_KERNEL}};
  int count = 0;
  pthread_mutex_lock(&lock);
  if (strcmp(kind, "memory") == 0) count = fake_memory_count();
  if (strcmp(kind, "context") == 0) count = contexts_count();
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
    if (strcmp(kind, kinds[i].name) != 0) continue;
    for (void *o = fake_next(kinds[i].kind, NULL); o != NULL;
         o = fake_next(kinds[i].kind, o))
      ++count;
  }
  pthread_mutex_unlock(&lock);
  return count;
}

// --- Devices and contexts ----------------------------------------------------

int cuInit(unsigned flags) {
  FAKE_ENTER("cuInit");
  if (flags != 0) return fake_leave(OG_CUDA_INVALID_VALUE);
  is_initialised = true;
  return fake_leave(0);
}

static const struct {
  int result;
  const char *name, *text;
} results[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "capturing stream has unjoined work"},
    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking "
     "stream"},
    {907, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
};

// As CUDA's, these two need no cuInit.
int cuGetErrorName(int result, const char **out_name) {
  for (size_t i = 0; i < sizeof results / sizeof *results; ++i) {
    if (results[i].result != result) continue;
    *out_name = results[i].name;
    return 0;
  }
  *out_name = NULL;
  return OG_CUDA_INVALID_VALUE;
}

int cuGetErrorString(int result, const char **out_text) {
  for (size_t i = 0; i < sizeof results / sizeof *results; ++i) {
    if (results[i].result != result) continue;
    *out_text = results[i].text;
    return 0;
  }
  *out_text = NULL;
  return OG_CUDA_INVALID_VALUE;
}

static int devices(void) {
  const int count = fake_environment("OPGRAFT_FAKE_DEVICES", 1);
  return count < CONTEXTS_MAX ? count : CONTEXTS_MAX;
}

int cuDeviceGetCount(int *out_count) {
  FAKE_ENTER("cuDeviceGetCount");
  *out_count = devices();
  return fake_leave(0);
}

static bool is_device(int device, const char *symbol) {
  if (device >= 0 && device < devices()) return true;
  fake_misuse(0, "%s: there is no device %d", symbol, device);
  return false;
}

int cuDeviceGet(int *out_device, int ordinal) {
  FAKE_ENTER("cuDeviceGet");
  if (!is_device(ordinal, "cuDeviceGet"))
    return fake_leave(OG_CUDA_INVALID_DEVICE);
  *out_device = ordinal;
  return fake_leave(0);
}

int cuDeviceGetName(char *name, int size_bytes, int device) {
  FAKE_ENTER("cuDeviceGetName");
  if (!is_device(device, "cuDeviceGetName"))
    return fake_leave(OG_CUDA_INVALID_DEVICE);
  snprintf(name, (size_t)size_bytes, "fake GPU %d", device);
  return fake_leave(0);
}

int cuDeviceTotalMem_v2(size_t *out_size_bytes, int device) {
  FAKE_ENTER("cuDeviceTotalMem_v2");
  if (!is_device(device, "cuDeviceTotalMem"))
    return fake_leave(OG_CUDA_INVALID_DEVICE);
  *out_size_bytes = (size_t)fake_environment("OPGRAFT_FAKE_MEMORY_MB", 64)
                    << 20;
  return fake_leave(0);
}

// compute 9.0, as an H100; what is not in the list is 0.
int cuDeviceGetAttribute(int *out_value, int attribute, int device) {
  FAKE_ENTER("cuDeviceGetAttribute");
  if (!is_device(device, "cuDeviceGetAttribute"))
    return fake_leave(OG_CUDA_INVALID_DEVICE);
  *out_value = attribute == OG_CUDA_CAPABILITY_MAJOR ? 9
               : attribute == OG_CUDA_HAS_POOLS
                   ? fake_environment("OPGRAFT_FAKE_POOLS", 1)
               : attribute == 1  ? 1024    // threads of a block
               : attribute == 8  ? 49152   // bytes of a block's shared memory
               : attribute == 97 ? 232448  // the same, where a kernel asks
               : attribute == 10 ? 32      // threads of a warp
               : attribute == 16 ? 132     // multiprocessors
                                 : 0;
  return fake_leave(0);
}

int cuDevicePrimaryCtxRetain(void **out_context, int device) {
  FAKE_ENTER("cuDevicePrimaryCtxRetain");
  if (!is_device(device, "cuDevicePrimaryCtxRetain"))
    return fake_leave(OG_CUDA_INVALID_DEVICE);
  contexts[device].device = device;
  ++contexts[device].references;
  *out_context = &contexts[device];
  return fake_leave(0);
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  FAKE_ENTER("cuDevicePrimaryCtxRelease_v2");
  if (!is_device(device, "cuDevicePrimaryCtxRelease"))
    return fake_leave(OG_CUDA_INVALID_DEVICE);
  if (contexts[device].references == 0)
    return fake_leave(fake_misuse(OG_CUDA_INVALID_CONTEXT,
                                  "cuDevicePrimaryCtxRelease: device %d was "
                                  "not retained",
                                  device));
  --contexts[device].references;
  return fake_leave(0);
}

int cuCtxGetCurrent(void **out_context) {
  FAKE_ENTER("cuCtxGetCurrent");
  *out_context = current;
  pthread_mutex_unlock(&lock);
  return 0;
}

int cuCtxSetCurrent(void *context) {
  FAKE_ENTER("cuCtxSetCurrent");
  int result = 0;
  bool is_known = context == NULL;
  for (int i = 0; i < CONTEXTS_MAX; ++i)
    is_known |= context == &contexts[i] && contexts[i].references > 0;
  if (is_known)
    current = context;
  else
    result = fake_misuse(OG_CUDA_INVALID_CONTEXT,
                         "cuCtxSetCurrent: %p is not a context that is "
                         "retained",
                         context);
  pthread_mutex_unlock(&lock);
  return result;
}

int cuCtxSynchronize(void) {
  FAKE_ENTER("cuCtxSynchronize");
  if (!fake_has_context("cuCtxSynchronize"))
    return fake_leave(OG_CUDA_INVALID_CONTEXT);
  if (fake_is_forbidden("cuCtxSynchronize"))
    return fake_leave(OG_CUDA_CAPTURE_UNSUPPORTED);
  fake_drain_all();
  return fake_leave(0);
}

// Not counted by "*": it never fails.
int cuThreadExchangeStreamCaptureMode(int *given) {
  const int before = mode;
  if (*given < 0 || *given > OG_CUDA_CAPTURE_RELAXED)
    return OG_CUDA_INVALID_VALUE;
  mode = *given;
  *given = before;
  return 0;
}

// --- Kernels -----------------------------------------------------------------

typedef struct fake_library {
  fake_object object;
} fake_library;

// Any bytes are code.
int cuLibraryLoadData(void **out_library, const void *code, int *jit_options,
                      void **jit_values, unsigned jit_count,
                      int *library_options, void **library_values,
                      unsigned library_count) {
  FAKE_ENTER("cuLibraryLoadData");
  (void)jit_options, (void)jit_values, (void)jit_count;
  (void)library_options, (void)library_values, (void)library_count;
  if (code == NULL) return fake_leave(OG_CUDA_INVALID_VALUE);
  *out_library = fake_make(FAKE_LIBRARY, sizeof(fake_library));
  return fake_leave(0);
}

static void *kernels_open(void) {
  static void *opened;
  const char *path = getenv("OPGRAFT_FAKE_KERNELS");
  if (opened != NULL) return opened;
  opened = path != NULL ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : RTLD_DEFAULT;
  if (path != NULL && opened == NULL)
    fake_misuse(0, "OPGRAFT_FAKE_KERNELS: %s", dlerror());
  return opened;
}

int cuLibraryGetKernel(void **out_kernel, void *library, const char *name) {
  FAKE_ENTER("cuLibraryGetKernel");
  char symbol[192];
  if (!fake_is(FAKE_LIBRARY, library, "cuLibraryGetKernel"))
    return fake_leave(OG_CUDA_INVALID_HANDLE);
  void *kernels = kernels_open();
  snprintf(symbol, sizeof symbol, "opgraft_fake_%s", name);
  void *run = dlsym(kernels, symbol);
  if (run == NULL)
    return fake_leave(fake_misuse(OG_CUDA_NOT_FOUND,
                                  "cuLibraryGetKernel: there is no function %s "
                                  "in OPGRAFT_FAKE_KERNELS",
                                  symbol));
  snprintf(symbol, sizeof symbol, "opgraft_fake_%s_sizes", name);
  fake_kernel *kernel = fake_make(FAKE_KERNEL, sizeof *kernel);
  kernel->library = library;
  snprintf(kernel->name, sizeof kernel->name, "%s", name);
  *(void **)&kernel->run = run;
  kernel->sizes = dlsym(kernels, symbol);
  *out_kernel = kernel;
  return fake_leave(0);
}

// --- For operators (devices/cuda/module.c) -----------------------------------

OG_EXPORT int cuCtxGetDevice(int *out_device);
OG_EXPORT int cuKernelSetAttribute(int attribute, int value, void *kernel,
                                   int device);

int cuCtxGetDevice(int *out_device) {
  FAKE_ENTER("cuCtxGetDevice");
  if (!fake_has_context("cuCtxGetDevice"))
    return fake_leave(OG_CUDA_INVALID_CONTEXT);
  *out_device = current->device;
  return fake_leave(0);
}

// The shared memory that a kernel may ask for is the only one that is set.
int cuKernelSetAttribute(int attribute, int value, void *kernel, int device) {
  FAKE_ENTER("cuKernelSetAttribute");
  if (!fake_is(FAKE_KERNEL, kernel, "cuKernelSetAttribute"))
    return fake_leave(OG_CUDA_INVALID_HANDLE);
  if (!is_device(device, "cuKernelSetAttribute"))
    return fake_leave(OG_CUDA_INVALID_DEVICE);
  return fake_leave(attribute == 8 && value >= 0 && value <= 232448
                        ? 0
                        : OG_CUDA_INVALID_VALUE);
}
