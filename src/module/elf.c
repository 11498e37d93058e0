// SPDX-License-Identifier: Apache-2.0
// Whether a file's bytes can be a shared object of this machine.
//
// The loader maps what the program headers say, and a file that is shorter
// than that is a bus error later; so what was cut short is found here.

#include "module/elf.h"

#include <string.h>

#if defined(__linux__)
#include <elf.h>

#if UINTPTR_MAX > 0xffffffffu
typedef Elf64_Ehdr elf_header;
typedef Elf64_Phdr elf_segment;
enum { ELF_CLASS = ELFCLASS64 };
#else
typedef Elf32_Ehdr elf_header;
typedef Elf32_Phdr elf_segment;
enum { ELF_CLASS = ELFCLASS32 };
#endif

static og_status cut_short(const char *path, size_t size,
                           opgraft_error *error) {
  return og_error_set(error, OG_IO, NULL, NULL,
                      "%s: could not be loaded as a shared object: it is cut "
                      "short at %zu bytes; build or copy it again",
                      path, size);
}

og_status og_elf_check(const char *path, const unsigned char *bytes,
                       size_t size, opgraft_error *error) {
  elf_header header;
  if (size < SELFMAG || memcmp(bytes, ELFMAG, SELFMAG) != 0)
    return og_error_set(error, OG_IO, NULL, NULL,
                        "%s: could not be loaded as a shared object: it has "
                        "no ELF header; `opgraft build` makes one from C files",
                        path);
  if (size < sizeof header) return cut_short(path, size, error);
  memcpy(&header, bytes, sizeof header);
  if (header.e_ident[EI_CLASS] != ELF_CLASS || header.e_type != ET_DYN ||
      header.e_phentsize != sizeof(elf_segment))
    return og_error_set(error, OG_IO, NULL, NULL,
                        "%s: could not be loaded as a shared object: it is "
                        "one of another machine, or a program or object file",
                        path);
  const uint64_t table_end = (uint64_t)header.e_phnum * sizeof(elf_segment);
  if (header.e_phoff > size || table_end > size - header.e_phoff)
    return cut_short(path, size, error);
  for (uint32_t i = 0; i < header.e_phnum; ++i) {
    elf_segment segment;
    memcpy(&segment, bytes + header.e_phoff + i * sizeof segment,
           sizeof segment);
    if (segment.p_type == PT_LOAD &&
        (segment.p_offset > size || segment.p_filesz > size - segment.p_offset))
      return cut_short(path, size, error);
  }
  return OG_OK;
}

#else

og_status og_elf_check(const char *path, const unsigned char *bytes,
                       size_t size, opgraft_error *error) {
  (void)path, (void)bytes, (void)size, (void)error;
  return OG_OK;
}

#endif
