// SPDX-License-Identifier: Apache-2.0
// The device on which a child's kernels run, where the options name a driver.

#include "check/run/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_FACTOR = 5 };  // by the clock, of the processor time of a run

static void on_report(void *user, og_status code, const char *text) {
  og_check_device *device = user;
  (void)code;
  pthread_mutex_lock(&device->lock);
  if (device->report_count++ == 0)
    snprintf(device->report, sizeof device->report, "%s", text);
  pthread_mutex_unlock(&device->lock);
}

static og_status streams_make(og_check_device *device, opgraft_error *error) {
  opgraft_driver *driver = device->driver;
  if (opgraft_driver_device_count(driver) < 1)
    return og_error_set(error, OG_DEVICE, NULL, "device",
                        "%s: the driver has no device, expected one or more",
                        opgraft_driver_name(driver));
  OG_TRY(opgraft_driver_stream_create(driver, 0, &device->copies, error));
  return opgraft_driver_stream_create(driver, 0, &device->work, error);
}

og_status og_check_device_open(const opgraft_check_options *options,
                               og_check_device **out_device,
                               opgraft_error *error) {
  *out_device = NULL;
  og_check_device *device = calloc(1, sizeof *device);
  if (device == NULL)
    return og_error_set(error, OG_MEMORY, NULL, NULL,
                        "check: not enough memory for a device");
  pthread_mutex_init(&device->lock, NULL);
  og_status status = opgraft_driver_load(
      options->device, options->device_options, &device->driver, error);
  if (status == OG_OK) {
    opgraft_driver_on_report(device->driver, on_report, device);
    device->type = opgraft_driver_device_type(device->driver);
    device->wait_ns = options->is_inline ? -1
                                         : options->run_limit_ms *
                                               INT64_C(1000000) * WAIT_FACTOR;
    status = streams_make(device, error);
  }
  if (status == OG_OK)
    *out_device = device;
  else
    og_check_device_close(device);
  return status;
}

void og_check_device_close(og_check_device *device) {
  if (device == NULL) return;
  og_mirrors_reset(device);
  if (device->work != NULL)
    opgraft_driver_stream_destroy(device->driver, device->work, NULL);
  if (device->copies != NULL)
    opgraft_driver_stream_destroy(device->driver, device->copies, NULL);
  opgraft_driver_destroy(device->driver);
  pthread_mutex_destroy(&device->lock);
  free(device);
}

bool og_check_device_report(og_check_device *device, char *out, size_t size) {
  pthread_mutex_lock(&device->lock);
  const bool has_report = device->report_count > 0;
  if (has_report) snprintf(out, size, "%s", device->report);
  device->report_count = 0;
  pthread_mutex_unlock(&device->lock);
  return has_report;
}

bool og_check_device_is_lost(og_check_device *device) {
  opgraft_driver *driver = device->driver;
  opgraft_error error;
  void *byte = NULL;
  og_status status = opgraft_driver_allocate(driver, 0, 1, NULL, &byte, &error);
  if (status == OG_OK)
    status = opgraft_driver_set(driver, device->copies, byte, 0, 1, &error);
  if (status == OG_OK)
    status = opgraft_driver_stream_synchronize(driver, device->copies,
                                               device->wait_ns, &error);
  const og_status freed = opgraft_driver_free(driver, 0, byte, &error);
  return status != OG_OK || freed != OG_OK;
}
