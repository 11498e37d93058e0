// SPDX-License-Identifier: Apache-2.0
// A module whose constructor, destructor and kernel leave the floating-point
// environment changed, as code that is built with -ffast-math may, and a kernel
// that tells what it finds. By the control registers, so that it does not
// depend on what a compiler links in.

#include <fenv.h>
#include <opgraft/op.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

static int64_t look(void) {
#if defined(__SSE__)
  uint16_t x87;
  __asm__ volatile("fnstcw %0" : "=m"(x87));
  return (int64_t)x87 << 32 | (_mm_getcsr() & 0xffc0);
#else
  return fegetround();
#endif
}

// Flush-to-zero, denormals-are-zero, rounding up, x87 rounding up.
static void spoil(void) {
#if defined(__SSE__)
  const uint16_t x87 = 0x0b7f;
  _mm_setcsr(_mm_getcsr() | 0x8040 | 0x4000);
  __asm__ volatile("fldcw %0" : : "m"(x87));
#else
  fesetround(FE_UPWARD);
#endif
}

__attribute__((constructor)) static void at_load(void) { spoil(); }
__attribute__((destructor)) static void at_unload(void) { spoil(); }

static void look_range(const og_call *call, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    ((int64_t *)og_data(call->out[0]))[i] = look();
}

static og_status look_run(const og_call *call) {
  return og_parallel_for(call, og_numel(call->out[0]), 1, look_range);
}

static void leave_range(const og_call *call, int64_t begin, int64_t end) {
  look_range(call, begin, end);
  spoil();
}

// Spoils in each share, and before and behind the loop.
static og_status leave_run(const og_call *call) {
  spoil();
  const og_status status =
      og_parallel_for(call, og_numel(call->out[0]), 1, leave_range);
  spoil();
  return status;
}

static const og_kernel look_kernels[] = {{.device = OG_CPU, .run = look_run}};
static const og_kernel leave_kernels[] = {{.device = OG_CPU, .run = leave_run}};

static int32_t spoils(const og_call *call) {
  (void)call;
  spoil();
  return 1;
}
static const og_kernel asked_kernels[] = {
    {.device = OG_CPU, .supports = spoils, .run = look_run}};

static og_status infer(const og_infer_call *call) {
  spoil();
  call->ndim[0] = 1;
  call->shape[0][0] = og_numel(call->in[0]);
  return OG_OK;
}

static const og_op ops[] = {
    {.schema = "look(Tensor x) -> Tensor",
     .shape = "x[N] -> [N]",
     .dtype = "x: f32 -> i64",
     .backward = "none",
     .kernels = OG_KERNELS(look_kernels)},
    {.schema = "leave(Tensor x) -> Tensor",
     .shape = "x[N] -> [N]",
     .dtype = "x: f32 -> i64",
     .backward = "none",
     .kernels = OG_KERNELS(leave_kernels)},
    {.schema = "asked(Tensor x) -> Tensor",
     .infer = infer,
     .dtype = "x: f32 -> i64",
     .backward = "none",
     .kernels = OG_KERNELS(asked_kernels)},
};
OG_MODULE(float_env, ops)
