// SPDX-License-Identifier: Apache-2.0
// Floating point in a call: without flush-to-zero, which hosts set and which
// would change a kernel's results.

#ifndef OG_HOSTS_SHARED_CONTROL_H
#define OG_HOSTS_SHARED_CONTROL_H

#include <opgraft/opgraft.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

// The control bits of floating point and, among them, those that make small
// numbers zero. On x86 MXCSR alone, which is cheaper to read than the whole
// environment: a kernel's run puts that back by itself.
#if defined(__SSE__)
#define OG_CONTROL_BITS UINT64_C(0xffc0)
#define OG_CONTROL_FLUSH UINT64_C(0x8040)
static inline uint64_t og_control_get(void) {
  return _mm_getcsr() & OG_CONTROL_BITS;
}
static inline void og_control_set(uint64_t wanted) {
  _mm_setcsr((_mm_getcsr() & ~(uint32_t)OG_CONTROL_BITS) | (uint32_t)wanted);
}
#else
#if defined(__aarch64__)
#define OG_CONTROL_FLUSH (UINT64_C(1) << 24)
#else
#define OG_CONTROL_FLUSH UINT64_C(0)
#endif
static inline uint64_t og_control_get(void) { return opgraft_float_env_get(); }
static inline void og_control_set(uint64_t wanted) {
  opgraft_float_env_set(wanted);
}
#endif

// Returns the host's, for og_control_leave.
static inline uint64_t og_control_enter(void) {
  const uint64_t before = og_control_get();
  if ((before & OG_CONTROL_FLUSH) != 0)
    og_control_set(before & ~OG_CONTROL_FLUSH);
  return before;
}

static inline void og_control_leave(uint64_t before) {
  if (og_control_get() != before) og_control_set(before);
}

#endif  // OG_HOSTS_SHARED_CONTROL_H
