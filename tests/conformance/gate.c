// SPDX-License-Identifier: Apache-2.0
// Holds a call of waits.c inside its kernel until the process has run the
// module's destructors: the module needs this library, so the loader ends it
// last.

#include <opgraft/op.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tvm_ffi/abi.h"

enum { SIZE = 1 << 16 };  // enough for several threads

typedef int (*operation)(void *self, const tvm_any *args, int32_t count,
                         tvm_any *result);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int is_inside, is_open;
static pthread_t caller;
static float x[SIZE], y[SIZE];

static void set(int *flag) {
  pthread_mutex_lock(&lock);
  *flag = 1;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}

static void await(const int *flag) {
  pthread_mutex_lock(&lock);
  while (!*flag) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
}

OG_EXPORT void gate_wait(void) {
  set(&is_inside);
  await(&is_open);
}

static og_tensor floats(float *data, int64_t *size) {
  return (og_tensor){.data = data,
                     .device = {OG_CPU, 0},
                     .ndim = 1,
                     .dtype = {OG_CODE_FLOAT, 32, 1},
                     .shape = size};
}

static void *call(void *address) {
  int64_t size = SIZE;
  og_tensor in = floats(x, &size), out = floats(y, &size);
  const tvm_any args[] = {{.type = TVM_DL_TENSOR, .p = &in},
                          {.type = TVM_DL_TENSOR, .p = &out}};
  tvm_any result = {.type = TVM_NONE};
  const int status = (*(operation *)address)(NULL, args, 2, &result);
  double sum = 0;
  for (int i = 0; i < SIZE; ++i) sum += (double)y[i];
  printf("status %d, sum %g\n", status, sum);
  fflush(stdout);
  set(&is_inside);  // a call that was refused
  return NULL;
}

// Returns when the call is inside its kernel.
OG_EXPORT void gate_run(operation run) {
  static operation kept;
  kept = run;
  if (pthread_create(&caller, NULL, call, &kept) != 0) abort();
  await(&is_inside);
}

__attribute__((destructor)) static void gate_open(void) {
  set(&is_open);
  pthread_join(caller, NULL);
}
