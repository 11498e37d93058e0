// SPDX-License-Identifier: Apache-2.0
// Which instruction set the kernels use. Kernels are linked into operator
// modules, which see no other part of the library, so this is their own copy.

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/kernel.h"

static int machine_isa(void) {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    return OG_KERNEL_SCALAR;
  if (!__builtin_cpu_supports("avx512f") ||
      !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512vl"))
    return OG_KERNEL_AVX2;
  return __builtin_cpu_supports("avx512bf16") ? OG_KERNEL_AVX512_BF16
                                              : OG_KERNEL_AVX512;
#else
  return OG_KERNEL_SCALAR;
#endif
}

int og_kernel_isa(void) {
  static const char *const names[] = {"scalar", "avx2", "avx512",
                                      "avx512_bf16"};
  static atomic_int known = -1;
  int isa = atomic_load_explicit(&known, memory_order_relaxed);
  if (isa >= 0) return isa;
  isa = machine_isa();
  const char *asked = getenv("OPGRAFT_ISA");
  for (int i = 0; asked != NULL && i < isa; ++i)
    if (strcmp(asked, names[i]) == 0) isa = i;
  atomic_store_explicit(&known, isa, memory_order_relaxed);
  return isa;
}

// Cores whose bf16 dot product does at most FMA's work in its time: on Intel's
// (measured on family 6, model 207) half of it. Widening is faster there, and
// more exact. Asked for by name, dots are used anyway.
static bool dots_pay(void) {
#if defined(__x86_64__) && defined(__GNUC__)
  const char *asked = getenv("OPGRAFT_ISA");
  if (asked != NULL && strcmp(asked, "avx512_bf16") == 0) return true;
  return !__builtin_cpu_is("intel");
#else
  return false;
#endif
}

int og_contraction_isa(int element) {
  static atomic_int known = -1;
  const int isa = og_kernel_isa();
  if (isa < OG_KERNEL_AVX512_BF16) return isa;
  int pays = atomic_load_explicit(&known, memory_order_relaxed);
  if (pays < 0) {
    pays = dots_pay();
    atomic_store_explicit(&known, pays, memory_order_relaxed);
  }
  return element == OG_BF16 && pays ? isa : OG_KERNEL_AVX512;
}
