// SPDX-License-Identifier: Apache-2.0
// The driver that the options name, as the parent knows it.
//
// Invariant: a parent that forks loads no driver, since threads of one, and
// contexts of CUDA, do not outlive a fork.

#include "check/driver.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "check/run/allowance.h"
#include "check/run/child.h"
#include "check/run/device.h"
#include "check/run/limits.h"
#include "check/run/record.h"

static void target_ask(const opgraft_check_options *options,
                       og_record_device *out) {
  og_check_device *device;
  opgraft_error error;
  out->status = og_check_device_open(options, &device, &error);
  if (out->status != OG_OK) {
    snprintf(out->text, sizeof out->text, "%.419s", error.text);
    return;
  }
  out->type = device->type;
  snprintf(out->name, sizeof out->name, "%.31s",
           opgraft_driver_name(device->driver));
  og_check_device_close(device);
}

static void child_ask(const void *options) {
  og_record record = {.kind = OG_RECORD_DEVICE};
  og_limits_bound();
  target_ask(options, &record.driver);
  og_record_send(&record);
}

static og_status ended(const char *path, int32_t status, opgraft_error *error) {
  char how[64];
  if (WIFSIGNALED(status))
    snprintf(how, sizeof how, "signal %d", WTERMSIG(status));
  else
    snprintf(how, sizeof how, "exit status %d", WEXITSTATUS(status));
  return og_error_set(error, OG_DEVICE, NULL, NULL,
                      "%s: loading the driver ended its process (%s), expected "
                      "a driver that opens within 10 s; run it under a "
                      "debugger",
                      path, how);
}

static og_status answer_wait(const opgraft_check_options *options,
                             const opgraft_check_sink *sink,
                             og_record *out_record, opgraft_error *error) {
  og_child child;
  int32_t status = 0;
  OG_TRY(og_child_start(sink, child_ask, options, &child, error));
  const int32_t got = og_child_wait(sink, &child, out_record, &status);
  if (got == -1) return ended(options->device, status, error);
  og_child_stop(&child);
  if (got == 1) return OG_OK;
  return og_error_set(error, OG_DEVICE, NULL, NULL,
                      "%s: the driver does not open: it neither ends nor "
                      "works; expected a device, or an error that says why not",
                      options->device);
}

og_status og_target_find(const opgraft_check_options *options,
                         const opgraft_check_sink *sink, og_target *out_target,
                         opgraft_error *error) {
  og_record record = {.kind = OG_RECORD_DEVICE};
  *out_target = (og_target){.device = OG_CPU};
  if (options->device == NULL) return OG_OK;
  if (options->is_inline)
    target_ask(options, &record.driver);
  else
    OG_TRY(answer_wait(options, sink, &record, error));
  const og_record_device *answer = &record.driver;
  if (answer->status != OG_OK)
    return og_error_set(error, answer->status, NULL, NULL, "check: %s",
                        answer->text);
  out_target->device = answer->type;
  memcpy(out_target->name, answer->name, sizeof out_target->name);
  return OG_OK;
}

const char *og_target_lacks(const og_target *target, const og_decl *decl) {
  bool has_kernel = false;
  for (int32_t k = 0; k < decl->kernel_count; ++k)
    has_kernel |= decl->kernels[k].device == target->device;
  if (!has_kernel) return "it has no kernel for the device";
  if (target->device == OG_CPU) return NULL;
  if (decl->tensor_count == 0)
    return "without a tensor argument, its calls are the CPU's";
  return decl->has_data_dependent_result
             ? "a result's size depends on data, which only the device knows"
             : NULL;
}
