// SPDX-License-Identifier: Apache-2.0
// The processor: what it is called, whose it is, how large its caches are.
// Source: AMD64 Architecture Programmer's Manual 3, CPUID functions 0 and 1.

#define _GNU_SOURCE
#include "base/machine.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>

static bool vendor_get(char out[13]) {
  unsigned most, parts[3];
  memset(out, 0, 13);
  if (!__get_cpuid(0, &most, &parts[0], &parts[2], &parts[1])) return false;
  memcpy(out, parts, sizeof parts);
  for (char *c = out; *c != '\0'; ++c) {
    const bool is_letter = (*c >= 'A' && *c <= 'Z') || (*c >= 'a' && *c <= 'z');
    if (!is_letter) *c = '_';
  }
  return true;
}

void og_machine_name(char out[OG_MACHINE_NAME]) {
  char vendor[13];
  unsigned a = 0, b, c, d;
  if (!vendor_get(vendor) || !__get_cpuid(1, &a, &b, &c, &d)) a = 0;
  const unsigned base = a >> 8 & 15;
  const unsigned family = base == 15 ? base + (a >> 20 & 255) : base;
  const unsigned model = (a >> 4 & 15) | (a >> 12 & 240);
  snprintf(out, OG_MACHINE_NAME, "%s-%u-%u-%u", vendor, family, model, a & 15);
}

bool og_machine_is_amd(void) {
  char vendor[13];
  return vendor_get(vendor) && strcmp(vendor, "AuthenticAMD") == 0;
}

#else

void og_machine_name(char out[OG_MACHINE_NAME]) {
  snprintf(out, OG_MACHINE_NAME, "%s",
#if defined(__aarch64__)
           "aarch64"
#else
           "unknown"
#endif
  );
}

bool og_machine_is_amd(void) { return false; }

#endif

enum { CACHE_GUESS = 32 << 20 };

// A number of bytes as Linux writes it, "32768K"; 0: there is none.
static int64_t size_read(const char *path) {
  char unit = '\0';
  long count = 0;
  FILE *file = fopen(path, "r");
  if (file == NULL) return 0;
  const int found = fscanf(file, "%9ld%c", &count, &unit);
  fclose(file);
  if (found < 1 || count <= 0) return 0;
  return (int64_t)count * (unit == 'K' ? 1 << 10 : unit == 'M' ? 1 << 20 : 1);
}

static int64_t cache_bytes;

// What one processor sees. The C library adds up the caches of a whole AMD
// socket, of which a core reaches one.
static void cache_find(void) {
  cache_bytes = size_read("/sys/devices/system/cpu/cpu0/cache/index3/size");
  if (cache_bytes == 0) cache_bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (cache_bytes <= 0) cache_bytes = CACHE_GUESS;
}

int64_t og_machine_cache_bytes(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, cache_find);
  return cache_bytes;
}
