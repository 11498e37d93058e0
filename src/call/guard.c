// SPDX-License-Identifier: Apache-2.0
// Code of a module, run so that the threads keep their floating-point
// environment: a kernel that leaves flush-to-zero set would change results of
// the host's own operators.

#include "base/float_env.h"
#include "call/call.h"

typedef struct share {
  og_task_fn fn;
  void *state;
  og_float_env env;  // of the kernel, where it asked for the loop
} share;

static void share_run(void *state, int64_t begin, int64_t end, int32_t worker) {
  const share *s = state;
  const og_float_env before = og_float_env_get();
  og_float_env_set(s->env);
  s->fn(s->state, begin, end, worker);
  og_float_env_set(before);
}

// A thread that the host makes for the loop inherits the environment of the
// one that makes it, for good: not the kernel's.
static og_status share_out(const og_call *call, int64_t total, int64_t grain,
                           og_task_fn fn, void *state) {
  const opgraft_frame *frame = (const opgraft_frame *)(const void *)call;
  share s = {fn, state, og_float_env_get()};
  og_float_env_set(frame->float_env);
  const og_status status = frame->share_out(call, total, grain, share_run, &s);
  og_float_env_set(s.env);
  return status;
}

og_status og_frame_run_kernel(opgraft_frame *frame) {
  if (OG_LIKELY(!frame->op->may_set_float_env)) {
    const uint16_t x87 = og_x87_get();
    const og_status ran = frame->kernel->run(&frame->call);
    og_x87_set(x87);
    return ran;
  }
  const og_float_env before = og_float_env_get();
  const bool is_shared = frame->call.threads > 1;
  if (is_shared) {
    frame->float_env = before;
    frame->share_out = frame->call.parallel_for;
    frame->call.parallel_for = share_out;
  }
  const og_status status = frame->kernel->run(&frame->call);
  if (is_shared) frame->call.parallel_for = frame->share_out;
  og_float_env_set(before);
  return status;
}

og_status og_frame_run_explained(opgraft_frame *frame, opgraft_error *error) {
  opgraft_error local;
  frame->error = error != NULL ? error : &local;
  frame->error->code = OG_OK;
  const og_status status = og_frame_run_kernel(frame);
  if (OG_LIKELY(status == OG_OK)) return OG_OK;
  if (frame->error->code == OG_OK)
    og_error_set(frame->error, status, frame->op->decl->name, NULL,
                 "%s: the kernel returned \"%s\" without a reason",
                 frame->op->decl->name, opgraft_status_text(status));
  return status;
}

bool og_frame_supports(const opgraft_frame *frame, const og_kernel *kernel) {
  if (kernel->supports == NULL) return true;
  if (OG_LIKELY(!frame->op->may_set_float_env))
    return kernel->supports(&frame->call) != 0;
  const og_float_env before = og_float_env_get();
  const bool is_taken = kernel->supports(&frame->call) != 0;
  og_float_env_set(before);
  return is_taken;
}

uint64_t opgraft_float_env_get(void) { return og_float_env_get(); }

void opgraft_float_env_set(uint64_t env) { og_float_env_set(env); }
