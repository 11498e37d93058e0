// SPDX-License-Identifier: Apache-2.0
// The static data of an operator's module, found among the process's loaded
// objects.

#define _GNU_SOURCE
#include "check/run/static_data.h"

#include <link.h>
#include <string.h>

typedef struct search {
  uintptr_t address;
  og_data_span *out;
  int32_t max;
  int32_t count;
} search;

static bool object_holds(const struct dl_phdr_info *info, uintptr_t address) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    if (info->dlpi_phdr[i].p_type == PT_LOAD && address >= begin &&
        address < begin + info->dlpi_phdr[i].p_memsz)
      return true;
  }
  return false;
}

static int collect(struct dl_phdr_info *info, size_t size, void *data) {
  search *s = data;
  (void)size;
  if (!object_holds(info, s->address)) return 0;
  // Linked into the process: the data is everybody's.
  if (object_holds(info, (uintptr_t)&og_static_spans)) return 1;
  uintptr_t relro_begin = 0, relro_end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i)
    if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO) {
      relro_begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
      relro_end = relro_begin + info->dlpi_phdr[i].p_memsz;
    }
  for (int i = 0; i < info->dlpi_phnum && s->count < s->max; ++i) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    if (p->p_type != PT_LOAD || !(p->p_flags & PF_W)) continue;
    uintptr_t begin = info->dlpi_addr + p->p_vaddr;
    const uintptr_t end = begin + p->p_memsz;
    if (begin >= relro_begin && begin < relro_end) begin = relro_end;
    if (begin < end)
      s->out[s->count++] = (og_data_span){(char *)begin, end - begin};
  }
  return 1;
}

int32_t og_static_spans(const og_kernel *kernel, og_data_span *out,
                        int32_t max) {
#ifdef __SANITIZE_ADDRESS__
  max = 0;  // between variables lies what AddressSanitizer lets nobody read
#endif
  search s = {.out = out, .max = max};
  memcpy(&s.address, &kernel->run, sizeof s.address);
  dl_iterate_phdr(collect, &s);
  return s.count;
}
