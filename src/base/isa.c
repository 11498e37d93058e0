// SPDX-License-Identifier: Apache-2.0
// Which instruction sets this machine has, and which ones may be used.

#define _GNU_SOURCE  // syscall

#include "base/isa.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

static const char *const isa_names[] = {
#define OG_ISA(name, level, machine, test) #name,
#include "base/isa.def"
#undef OG_ISA
};

const char *og_isa_name(og_isa isa) {
  return isa < OG_ISA_UNKNOWN ? isa_names[isa] : "unknown";
}

og_isa og_isa_parse(const char *name) {
  if (name == NULL || name[0] == '\0') return OG_ISA_SCALAR;
  for (int i = 0; i < OG_ISA_UNKNOWN; ++i)
    if (strcmp(name, isa_names[i]) == 0) return (og_isa)i;
  return OG_ISA_UNKNOWN;
}

#if defined(__x86_64__) && defined(__GNUC__)
enum { EAX, EBX, ECX, EDX, REGISTERS };

static bool has_bit(unsigned leaf, unsigned subleaf, int from, int bit) {
  unsigned word[REGISTERS] = {0};
  __get_cpuid_count(leaf, subleaf, &word[EAX], &word[EBX], &word[ECX],
                    &word[EDX]);
  return (word[from] >> bit & 1) != 0;
}

#define HAS(feature) (__builtin_cpu_supports(feature) != 0)
#define CPUID(leaf, subleaf, from, bit) has_bit(leaf, subleaf, from, bit)

// Tiles are 8 KB more of each thread's state, which Linux keeps for processes
// that ask (Documentation/arch/x86/xstate.rst); asked again, it says the same.
static bool tiles_ask(void) {
#if defined(__linux__)
  enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
  return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
#else
  return false;
#endif
}
#endif

// The last of the rows that hold, and all before it.
static og_isa machine_isa(void) {
  og_isa best = OG_ISA_SCALAR;
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
#endif
#define TILES() tiles_ask()
#define OG_ISA(name, level, machine, test) \
  machine(if (!(test)) return best; best = OG_ISA_##level;)
#include "base/isa.def"
#undef OG_ISA
#undef TILES
  return best;
}

#if defined(__x86_64__) && defined(__GNUC__)
#define OG_ISA(name, level, machine, test)
#define OG_ISA_WORD(name, test) \
  static bool has_##name(void) { return test; }
#include "base/isa.def"
#undef OG_ISA
#endif

bool og_isa_has_vnni(bool is_long) {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  return is_long ? has_avx512_vnni() : has_avx_vnni();
#else
  (void)is_long;
  return false;
#endif
}

og_isa og_isa_used(void) {
  static atomic_int known = -1;
  int isa = atomic_load_explicit(&known, memory_order_relaxed);
  if (isa < 0) {
    const char *asked = getenv("OPGRAFT_ISA");
    isa = (int)machine_isa();
    if (asked != NULL && asked[0] != '\0' && (int)og_isa_parse(asked) < isa)
      isa = (int)og_isa_parse(asked);
    atomic_store_explicit(&known, isa, memory_order_relaxed);
  }
  return (og_isa)isa;
}
