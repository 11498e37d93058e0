// SPDX-License-Identifier: Apache-2.0
// The kernel environment: what a caller lends to one run of a kernel.
//
// Kernels of this folder know operands and sizes, not how a call carries them.
// So an operator of a module, the graph engine and a test run the same code,
// each with an environment of its own.

#ifndef OG_KERNEL_ENV_H
#define OG_KERNEL_ENV_H

#include <opgraft/op.h>
#include <stddef.h>
#include <stdint.h>

// The caller owns all of it, until the run returns. One environment is one
// run's at a time.
typedef struct og_kernel_env {
  void *workspace;  // 64-byte aligned, uninitialised; each kernel says its size
  size_t workspace_bytes;
  int32_t threads;  // that parallel_for may use, >= 1
  // Calls fn on disjoint shares that cover [0, total), at least `grain` long
  // where there are several, and returns when all are done. `worker` is below
  // `threads`, and no two shares that run at once have the same one. NULL: one
  // share, on the thread that asks.
  og_status (*parallel_for)(const struct og_kernel_env *env, int64_t total,
                            int64_t grain, og_task_fn fn, void *state);
  // Keeps a copy of `text`, the reason, and returns `code`. NULL: the reason is
  // lost.
  og_status (*fail)(const struct og_kernel_env *env, og_status code,
                    const char *text);
  const void *host;  // of these functions; kernels do not read it
} og_kernel_env;

static inline og_status og_env_parallel(const og_kernel_env *env, int64_t total,
                                        int64_t grain, og_task_fn fn,
                                        void *state) {
  if (total <= 0) return OG_OK;
  if (env->parallel_for != NULL)
    return env->parallel_for(env, total, grain, fn, state);
  fn(state, 0, total, 0);
  return OG_OK;
}

static inline og_status og_env_fail(const og_kernel_env *env, og_status code,
                                    const char *text) {
  return env->fail != NULL ? env->fail(env, code, text) : code;
}

#endif  // OG_KERNEL_ENV_H
