// SPDX-License-Identifier: Apache-2.0
// Which instruction set the kernels use. Kernels are linked into operator
// modules, which see no other part of the library, so this is their own copy.

#include <stdatomic.h>
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
