// SPDX-License-Identifier: Apache-2.0
// Which instruction set contractions use.

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/kernel.h"

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

static bool may_use_vnni(bool is_long) {
  const char *asked = getenv("OPGRAFT_ISA");
  const bool is_barred = asked != NULL && asked[0] != '\0' &&
                         og_isa_parse(asked) < OG_ISA_AVX512_BF16;
  return !is_barred && og_isa_has_vnni(is_long);
}

int og_has_vnni(int is_long) {
  static atomic_int known[2] = {-1, -1};
  int has = atomic_load_explicit(&known[is_long], memory_order_relaxed);
  if (has < 0) {
    has = may_use_vnni(is_long != 0);
    atomic_store_explicit(&known[is_long], has, memory_order_relaxed);
  }
  return has;
}

og_isa og_contraction_isa(int element) {
  static atomic_int known = -1;
  const og_isa isa = og_isa_used();
  if (isa < OG_ISA_AVX512_BF16) return isa;
  if (isa > OG_ISA_AVX512_BF16) return element == OG_BF16 ? isa : OG_ISA_AVX512;
  int pays = atomic_load_explicit(&known, memory_order_relaxed);
  if (pays < 0) {
    pays = dots_pay();
    atomic_store_explicit(&known, pays, memory_order_relaxed);
  }
  return element == OG_BF16 && pays ? isa : OG_ISA_AVX512;
}
