// SPDX-License-Identifier: Apache-2.0
// A loaded device, for the files of this folder.

#ifndef OG_TORCH_DEVICE_STATE_H
#define OG_TORCH_DEVICE_STATE_H

#include <Python.h>
#include <opgraft/driver.h>
#include <pthread.h>
#include <stdbool.h>

#include "torch/device/memory.h"
#include "torch/device/registry.h"
#include "torch/device/stream_table.h"

enum { REPORTS_MAX = 64 };

typedef struct host_device {
  opgraft_driver *driver;
  memory_pool *pool;
  stream_table *streams;
  // Owned: of the thread's current streams, see streams.c.
  PyObject *has_streams, *get_streams, *streams_key;
  registry_tensor tensor_make;  // NULL without the C++ part
  pthread_mutex_t lock;         // of the reports
  char *reports[REPORTS_MAX];
  int report_count;
} host_device;

// For what reaches the driver: NULL with an exception set in a child of fork.
host_device *host_device_use(PyObject *capsule);
bool host_device_is_forked(void);

#endif  // OG_TORCH_DEVICE_STATE_H
