// SPDX-License-Identifier: Apache-2.0
// A launch as a driver gets it.

#include "device/given.h"

#include <stdio.h>

#include "base/sized.h"

static og_status reason_take(const og_call *call, og_status code,
                             const char *text) {
  og_device_error *reason = call->host;
  if (reason->text[0] == '\0')
    snprintf(reason->text, sizeof reason->text, "%s", text);
  return code;
}

void og_given_make(og_given *out, const og_launch *launch) {
  const og_call *call = launch->call;
  og_copy_known(launch, launch->struct_size, &out->launch, sizeof out->launch);
  og_copy_known(call, call->struct_size, &out->call, sizeof out->call);
  out->launch.struct_size = sizeof out->launch;
  out->launch.call = &out->call;
  out->call.struct_size = sizeof out->call;
  out->call.threads = 1;
  out->call.parallel_for = NULL;
  out->call.fail = reason_take;
  out->call.host = &out->reason;
  out->reason.text[0] = '\0';
  out->env = og_float_env_get();
}
