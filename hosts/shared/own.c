// SPDX-License-Identifier: Apache-2.0
// The own module's declarations, read by whoever asks first.
//
// Invariant: after og_own_get has returned, nothing changes until the file is
// unmapped.

#include "shared/own.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/record.h"

static og_own own;
static opgraft_module *module;
static _Atomic int32_t calls;  // under way
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static og_own_busy *busy_list;  // under the mutex

static void no_memory(void) {
  own.error.code = OG_MEMORY;
  snprintf(own.error.text, sizeof own.error.text,
           "not enough memory to read the module's declarations");
}

static void op_fill(og_own_op *op) {
  for (int32_t i = 0; i < op->info.param_count; ++i) {
    opgraft_param_info *param = &op->params[i];
    param->struct_size = sizeof *param;
    opgraft_op_get_param(op->op, i, param);
    if (param->tensor >= 0) op->tensor_params[param->tensor] = param;
    if (param->attr >= 0) op->attr_params[param->attr] = param;
    if (param->out >= 0) op->mutated_tensors[param->out] = param->tensor;
  }
  for (int32_t i = 0; i < op->info.tensor_count; ++i) {
    op->tensors[i].struct_size = sizeof op->tensors[i];
    opgraft_op_get_tensor(op->op, i, &op->tensors[i]);
  }
  for (int32_t i = 0; i < op->info.result_count; ++i) {
    opgraft_result_info *result = &op->results[i];
    result->struct_size = sizeof *result;
    opgraft_op_get_result(op->op, i, result);
    if (result->fresh >= 0) op->fresh[result->fresh] = result;
  }
}

static int op_read(og_own_op *op) {
  op->info.struct_size = sizeof op->info;
  opgraft_op_get_info(op->op, &op->info);
  op->params = calloc((size_t)op->info.param_count + 1, sizeof *op->params);
  op->tensors = calloc((size_t)op->info.tensor_count + 1, sizeof *op->tensors);
  op->results = calloc((size_t)op->info.result_count + 1, sizeof *op->results);
  if (op->params == NULL || op->tensors == NULL || op->results == NULL)
    return 0;
  op_fill(op);
  return 1;
}

static void own_read(void) {
  const og_module *record = og_own_record();
  if (record == NULL) {
    own.error.code = OG_VERSION;
    snprintf(own.error.text, sizeof own.error.text,
             "the file was compiled with headers newer than ABI %u, the ABI of "
             "the adapters that are linked into it; compile and link it with "
             "one version of opgraft",
             OG_ABI_VERSION);
    return;
  }
  if (opgraft_module_wrap(record, &module, &own.error) != OG_OK) return;
  const int32_t count = opgraft_module_op_count(module);
  own.name = opgraft_module_name(module);
  own.ops = calloc((size_t)count, sizeof *own.ops);
  for (int32_t i = 0; own.ops != NULL && i < count; ++i) {
    own.ops[i].op = opgraft_module_op(module, i);
    own.op_count = i + 1;
    if (!op_read(&own.ops[i])) {
      no_memory();
      return;
    }
  }
  if (own.ops == NULL) no_memory();
}

const og_own *og_own_get(void) {
  pthread_once(&once, own_read);
  return &own;
}

void og_own_enter(void) {
  atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
}

void og_own_leave(void) {
  atomic_fetch_sub_explicit(&calls, 1, memory_order_release);
}

void og_own_busy_add(og_own_busy *busy) {
  pthread_mutex_lock(&mutex);
  busy->next = busy_list;
  busy_list = busy;
  pthread_mutex_unlock(&mutex);
}

void og_own_busy_remove(og_own_busy *busy) {
  pthread_mutex_lock(&mutex);
  og_own_busy **at = &busy_list;
  while (*at != busy) at = &(*at)->next;
  *at = busy->next;
  pthread_mutex_unlock(&mutex);
}

int og_own_is_called(void) {
  int is_called = atomic_load_explicit(&calls, memory_order_acquire) > 0;
  pthread_mutex_lock(&mutex);
  for (const og_own_busy *at = busy_list; at != NULL; at = at->next)
    is_called |= __atomic_load_n(&at->is_set, __ATOMIC_ACQUIRE);
  pthread_mutex_unlock(&mutex);
  return is_called;
}

// When the file is unmapped: a host may load and drop it many times.
__attribute__((destructor)) static void own_drop(void) {
  if (og_own_is_called()) return;
  for (int32_t i = 0; i < own.op_count; ++i) {
    free(own.ops[i].params);
    free(own.ops[i].tensors);
    free(own.ops[i].results);
  }
  free(own.ops);
  if (module != NULL) opgraft_module_release(module);
}

og_status og_own_fail_by(const og_own_op *op, og_status code,
                         opgraft_error *error, const char *format,
                         va_list values) {
  const size_t size = sizeof error->text;
  const int used = snprintf(error->text, size, "%s: ", op->info.name);
  if (used > 0 && (size_t)used < size)
    vsnprintf(error->text + used, size - (size_t)used, format, values);
  error->code = code;
  return code;
}

og_status og_own_fail(const og_own_op *op, og_status code, opgraft_error *error,
                      const char *format, ...) {
  va_list values;
  va_start(values, format);
  og_own_fail_by(op, code, error, format, values);
  va_end(values);
  return code;
}

int32_t og_own_open(char *text, size_t size) {
  if (og_own_get()->error.code == OG_OK) return own.op_count;
  snprintf(text, size, "%s", own.error.text);
  return -1;
}

size_t og_own_describe(int32_t op, char *text, size_t size) {
  if (op < 0 || op >= og_own_get()->op_count) return 0;
  return opgraft_op_describe(own.ops[op].op, text, size);
}

// --- Types by name -----------------------------------------------------------

static const struct {
  og_dtype dtype;
  const char *name;
} dtypes[] = {
#define DTYPE_ROW(name, long_name, code, bits) {{code, bits, 1}, #name},
    OG_DTYPE_LIST(DTYPE_ROW)
#undef DTYPE_ROW
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

const char *og_own_dtype_name(og_dtype dtype) {
  for (int i = 0; i < DTYPES; ++i)
    if (dtypes[i].dtype.code == dtype.code &&
        dtypes[i].dtype.bits == dtype.bits)
      return dtypes[i].name;
  return NULL;
}

int og_own_dtype_find(const char *name, og_dtype *out_dtype) {
  for (int i = 0; i < DTYPES; ++i) {
    if (strcmp(dtypes[i].name, name) != 0) continue;
    *out_dtype = dtypes[i].dtype;
    return 1;
  }
  return 0;
}

static int has_cpu_kernel(const og_own_op *op) {
  for (int32_t k = 0; k < op->info.kernel_count; ++k) {
    opgraft_kernel_info kernel = {.struct_size = sizeof kernel};
    opgraft_op_get_kernel(op->op, k, &kernel);
    if (kernel.device == OG_CPU) return 1;
  }
  return 0;
}

const char *og_own_call_limit(const og_own_op *op) {
  for (int32_t i = 0; i < op->info.result_count; ++i)
    if (op->results[i].type == OPGRAFT_TYPE_INT)
      return "a result is a number, not a tensor";
  return has_cpu_kernel(op) ? NULL : "it has no kernel for the CPU";
}

const char *og_own_op_limit(const og_own_op *op) {
  const char *limit = og_own_call_limit(op);
  if (limit != NULL) return limit;
  for (int32_t t = 0; t < op->info.tensor_count; ++t) {
    const uint32_t flags = op->tensor_params[t]->flags;
    if ((flags & OPGRAFT_PARAM_MUTATED) == 0) continue;
    if ((flags & OPGRAFT_PARAM_LIST) != 0) return "a tensor list is written";
    if ((flags & OPGRAFT_PARAM_OPTIONAL) != 0)
      return "an optional argument is written";
  }
  for (int32_t i = 0; i < op->info.attr_count; ++i)
    if (op->attr_params[i]->type == OPGRAFT_TYPE_DEVICE &&
        (op->attr_params[i]->flags & OPGRAFT_PARAM_OPTIONAL) == 0)
      return "an argument is a device, which the host chooses";
  return NULL;
}
