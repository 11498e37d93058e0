// SPDX-License-Identifier: Apache-2.0
// Whether a file's bytes can be a shared object of this machine.
//
// The loader maps what the program headers say, and a file that is shorter
// than that is a bus error later; so what was cut short is found here.

#include "module/elf.h"

#include <stdint.h>
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

// --- The floating-point environment ------------------------------------------

#if defined(__linux__) && defined(__x86_64__)
// ldmxcsr, fxrstor or xrstor: 0f ae, or VEX's last byte and ae, and a register
// field of 2, 1 or 5 with an operand in memory.
static bool has_load(const unsigned char *at, size_t size) {
  for (size_t i = 1; i + 1 < size; ++i) {
    const unsigned field = at[i + 1] >> 3 & 7u;
    if (at[i] == 0xae && at[i + 1] < 0xc0 &&
        (at[i - 1] == 0x0f || at[i - 1] == 0x78 || at[i - 1] == 0xf8) &&
        (field == 1 || field == 2 || field == 5))
      return true;
  }
  return false;
}

static bool has_text(const unsigned char *at, size_t size, const char *text) {
  const size_t length = strlen(text);
  for (size_t i = 0; i + length <= size; ++i)
    if (at[i] == (unsigned char)text[0] && memcmp(at + i, text, length) == 0)
      return true;
  return false;
}

// Libraries beside the C library's own, or functions that set it.
static bool has_name(const unsigned char *at, size_t size) {
  static const char *const names[] = {
      "fesetround",     "fesetenv",        "feupdateenv", "feholdexcept",
      "feenableexcept", "fedisableexcept", "dlopen",      "dlsym"};
  static const char *const known[] = {"libc", "libm", "ld-linux-x86-64"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (has_text(at, size, names[i])) return true;
  for (size_t i = 0; i + 3 <= size; ++i) {
    if (memcmp(at + i, ".so", 3) != 0) continue;
    bool is_known = false;
    for (size_t k = 0; k < sizeof known / sizeof *known; ++k) {
      const size_t length = strlen(known[k]);
      is_known |= i > length && at[i - length - 1] == '\0' &&
                  memcmp(at + i - length, known[k], length) == 0;
    }
    if (!is_known) return true;
  }
  return false;
}

bool og_elf_may_set_float_env(const unsigned char *bytes, size_t size) {
  elf_header header;
  memcpy(&header, bytes, sizeof header);
  for (size_t i = 0; i < header.e_phnum; ++i) {
    elf_segment segment;
    memcpy(&segment, bytes + header.e_phoff + i * sizeof segment,
           sizeof segment);
    if (segment.p_type != PT_LOAD) continue;
    if (segment.p_offset > size || segment.p_filesz > size - segment.p_offset)
      return true;
    const unsigned char *at = bytes + segment.p_offset;
    const size_t length = (size_t)segment.p_filesz;
    const bool is_code = (segment.p_flags & PF_X) != 0;
    if (is_code ? has_load(at, length) : has_name(at, length)) return true;
  }
  return false;
}
#else
bool og_elf_may_set_float_env(const unsigned char *bytes, size_t size) {
  (void)bytes;
  (void)size;
  return true;
}
#endif
