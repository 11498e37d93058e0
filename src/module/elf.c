// SPDX-License-Identifier: Apache-2.0
// Whether a file's bytes can be a shared object of this machine.
//
// The loader maps what the program headers say, and a file that is shorter
// than that is a bus error later; so what was cut short is found here. The
// loader also follows what it maps, and a damaged table there ends the process;
// so a file that was sealed has to have the sum of its seal.

#define _GNU_SOURCE
#include "module/elf.h"

#include <opgraft/seal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/checksum.h"

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

// --- The seal ----------------------------------------------------------------

// Where a written seal differs from the room for one; its sum covers the rest
// of the file.
typedef struct seal_tail {
  uint32_t kind;
  char name[sizeof OG_SEAL_NAME];
  unsigned char sum[8];
} seal_tail;

_Static_assert(sizeof(seal_tail) == sizeof(og_elf_tail), "one struct");

enum { SEAL_MADE = OG_SEAL_ROOM + 1 };

static uint64_t joined(uint64_t sum, const void *bytes, size_t size) {
  const uint64_t both[2] = {sum, og_checksum(bytes, size)};
  return og_checksum(both, sizeof both);
}

// Bytes [begin, end) but for the file's header and the tail at `hole`.
static uint64_t range_joined(uint64_t sum, const unsigned char *bytes,
                             size_t begin, size_t end, size_t hole) {
  const size_t behind = hole + sizeof(seal_tail);
  if (begin < sizeof(elf_header)) begin = sizeof(elf_header);
  if (begin <= hole && behind <= end) {
    sum = joined(sum, bytes + begin, hole - begin);
    begin = behind;
  }
  return begin < end ? joined(sum, bytes + begin, end - begin) : sum;
}

// Of what the loader reads and maps of a checked object: not of sections, which
// `strip` drops.
static uint64_t loaded_sum(const unsigned char *bytes, size_t hole) {
  elf_header header;
  memcpy(&header, bytes, sizeof header);
  const unsigned char *table = bytes + header.e_phoff;
  const uint32_t count = header.e_phnum;
  header.e_shoff = 0;
  header.e_shnum = header.e_shentsize = header.e_shstrndx = 0;
  uint64_t sum = joined(0, &header, sizeof header);
  sum = joined(sum, table, count * sizeof(elf_segment));
  for (uint32_t i = 0; i < count; ++i) {
    elf_segment segment;
    memcpy(&segment, table + i * sizeof segment, sizeof segment);
    const size_t begin = segment.p_offset;
    if (segment.p_type == PT_LOAD)
      sum = range_joined(sum, bytes, begin, begin + segment.p_filesz, hole);
  }
  return sum;
}

// Where the tail of the next seal lies, behind `from`; 0: there is none. It is
// looked for in all of the file, as what says where notes are may be damaged.
static size_t seal_next(const unsigned char *bytes, size_t size, size_t from,
                        seal_tail *out) {
  static const uint32_t head[2] = {sizeof out->name, sizeof out->sum};
  const size_t before = offsetof(seal_tail, name);
  for (size_t name = from + sizeof *out; name < size; ++name) {
    const unsigned char *at =
        memmem(bytes + name, size - name, OG_SEAL_NAME, sizeof OG_SEAL_NAME);
    if (at == NULL) return 0;
    name = (size_t)(at - bytes);
    const size_t tail = name - before;
    if (tail < sizeof head || sizeof *out > size - tail ||
        memcmp(bytes + tail - sizeof head, head, sizeof head) != 0)
      continue;
    memcpy(out, bytes + tail, sizeof *out);
    if (out->kind == OG_SEAL_ROOM || out->kind == SEAL_MADE) return tail;
  }
  return 0;
}

size_t og_elf_seal(const unsigned char *bytes, size_t size, og_elf_tail *out) {
  seal_tail tail;
  const size_t at = seal_next(bytes, size, 0, &tail);
  if (at == 0) return 0;
  const uint64_t sum = loaded_sum(bytes, at);
  tail.kind = SEAL_MADE;
  memcpy(tail.sum, &sum, sizeof sum);
  memcpy(out->bytes, &tail, sizeof tail);
  return at;
}

// A module may hold another one as data, so any seal that is right will do.
static bool is_other_than_sealed(const unsigned char *bytes, size_t size) {
  bool is_sealed = false;
  seal_tail tail;
  for (size_t at = 0; (at = seal_next(bytes, size, at, &tail)) != 0;) {
    if (tail.kind == OG_SEAL_ROOM) continue;
    const uint64_t sum = loaded_sum(bytes, at);
    if (memcmp(tail.sum, &sum, sizeof sum) == 0) return false;
    is_sealed = true;
  }
  return is_sealed;
}

// Whether a note is empty or too long, as those are that were overwritten: the
// seal may have been among them.
static bool has_wrong_note(const unsigned char *bytes,
                           const elf_segment *segment) {
  const uint64_t align = segment->p_align == 8 ? 8 : 4;
  const unsigned char *notes = bytes + segment->p_offset;
  uint32_t head[3];
  for (uint64_t at = 0; segment->p_filesz - at >= sizeof head;) {
    memcpy(head, notes + at, sizeof head);
    if (head[0] == 0 && head[1] == 0 && head[2] == 0) return true;
    const uint64_t name = (head[0] + align - 1) / align * align;
    at += sizeof head + name + (head[1] + align - 1) / align * align;
    if (at > segment->p_filesz) return at - segment->p_filesz > align;
  }
  return false;
}

// --- The check ---------------------------------------------------------------

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
  bool is_damaged = false;
  const uint64_t table_end = (uint64_t)header.e_phnum * sizeof(elf_segment);
  if (header.e_phoff > size || table_end > size - header.e_phoff)
    return cut_short(path, size, error);
  for (uint32_t i = 0; i < header.e_phnum; ++i) {
    elf_segment segment;
    memcpy(&segment, bytes + header.e_phoff + i * sizeof segment,
           sizeof segment);
    const bool is_note = segment.p_type == PT_NOTE;
    if ((segment.p_type == PT_LOAD || is_note) &&
        (segment.p_offset > size || segment.p_filesz > size - segment.p_offset))
      return cut_short(path, size, error);
    is_damaged |= is_note && has_wrong_note(bytes, &segment);
  }
  is_damaged = is_damaged || is_other_than_sealed(bytes, size);
  if (!is_damaged) return OG_OK;
  return og_error_set(error, OG_IO, NULL, NULL,
                      "%s: could not be loaded as a shared object: it is "
                      "damaged, its bytes are not those that were linked; "
                      "build or copy it again",
                      path);
}

#else

size_t og_elf_seal(const unsigned char *bytes, size_t size, og_elf_tail *out) {
  (void)bytes, (void)size, (void)out;
  return 0;
}

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
