// SPDX-License-Identifier: Apache-2.0
// Which instruction sets this machine has, and which ones may be used.

#include "base/cpu.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const char *const isa_names[] = {"scalar", "avx2", "avx512",
                                        "avx512_bf16"};

const char *og_isa_name(og_isa isa) {
  return isa < OG_ISA_UNKNOWN ? isa_names[isa] : "unknown";
}

og_isa og_isa_parse(const char *name) {
  if (name == NULL || name[0] == '\0') return OG_ISA_SCALAR;
  for (int i = 0; i < OG_ISA_UNKNOWN; ++i)
    if (strcmp(name, isa_names[i]) == 0) return (og_isa)i;
  return OG_ISA_UNKNOWN;
}

static og_isa machine_isa(void) {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    return OG_ISA_SCALAR;
  if (!__builtin_cpu_supports("avx512f") ||
      !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512vl"))
    return OG_ISA_AVX2;
  return __builtin_cpu_supports("avx512bf16") ? OG_ISA_AVX512_BF16
                                              : OG_ISA_AVX512;
#else
  return OG_ISA_SCALAR;
#endif
}

// What OPGRAFT_ISA asks for; NULL for nothing.
static const char *asked_name(void) {
  const char *name = getenv("OPGRAFT_ISA");
  return name != NULL && name[0] != '\0' ? name : NULL;
}

og_status og_cpu_check(opgraft_error *error) {
  const char *name = asked_name();
  if (name == NULL || og_isa_parse(name) != OG_ISA_UNKNOWN) return OG_OK;
  return og_error_set(
      error, OG_INVALID, NULL, NULL,
      "the environment's OPGRAFT_ISA is '%.64s', wanted scalar, "
      "avx2, avx512 or avx512_bf16; unset it to use what the "
      "machine has",
      name);
}

og_isa og_cpu_isa(void) {
  static atomic_int known = -1;
  int isa = atomic_load_explicit(&known, memory_order_relaxed);
  if (isa < 0) {
    const char *name = asked_name();
    isa = (int)machine_isa();
    if (name != NULL && (int)og_isa_parse(name) < isa)
      isa = (int)og_isa_parse(name);
    atomic_store_explicit(&known, isa, memory_order_relaxed);
  }
  return (og_isa)isa;
}
