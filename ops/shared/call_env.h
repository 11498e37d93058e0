// SPDX-License-Identifier: Apache-2.0
// The kernel environment of a call.

#ifndef OG_OPS_CALL_ENV_H
#define OG_OPS_CALL_ENV_H

#include <opgraft/op.h>

#include "kernel/env.h"

static inline og_status og_call_env_parallel(const og_kernel_env *env,
                                             int64_t total, int64_t grain,
                                             og_task_fn fn, void *state) {
  return og_parallel_tasks((const og_call *)env->host, total, grain, fn, state);
}

static inline og_status og_call_env_fail(const og_kernel_env *env,
                                         og_status code, const char *text) {
  return og_fail((const og_call *)env->host, code, text);
}

// Workspace, threads and error sink of `call`, which it borrows.
static inline og_kernel_env og_call_env(const og_call *call) {
  return (og_kernel_env){
      .workspace = call->workspace,
      .workspace_bytes = call->workspace_bytes,
      .threads = call->threads,
      .parallel_for = call->parallel_for != NULL ? og_call_env_parallel : NULL,
      .fail = og_call_env_fail,
      .host = call,
  };
}

#endif  // OG_OPS_CALL_ENV_H
