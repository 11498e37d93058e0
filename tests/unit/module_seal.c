// SPDX-License-Identifier: Apache-2.0
// Modules whose file was sealed: each damage of what the loader maps is an
// error, and none ends the process; other bytes may change. A seed as
// argument draws others, and a hundred times as many.

#define _GNU_SOURCE
#include <elf.h>
#include <opgraft/opgraft.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "module/elf.h"
#include "unit/test.h"

enum { SIZE_MAX_BYTES = 1 << 20, BLOCK_BYTES = 512 };

static char path[] = "/tmp/opgraft-seal.XXXXXX";
static unsigned char whole[SIZE_MAX_BYTES], damaged[SIZE_MAX_BYTES];

static size_t bytes_get(const char *from) {
  FILE *file = fopen(from, "rb");
  const size_t size = file != NULL ? fread(whole, 1, sizeof whole, file) : 0;
  if (file != NULL) fclose(file);
  return size;
}

static bool bytes_put(const unsigned char *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  const bool is_put = file != NULL && fwrite(bytes, 1, size, file) == size;
  return file != NULL && fclose(file) == 0 && is_put;
}

// The size of the file, which is sealed; 0: it is not.
static size_t seal(void) {
  opgraft_error error;
  const size_t size = bytes_get(TEST_MODULE_DIR "/check_right.so");
  if (!CHECK(size > 0 && size < sizeof whole && bytes_put(whole, size)) ||
      !CHECK_EQ(opgraft_module_seal(path, &error), OG_OK))
    return 0;
  return CHECK_EQ(bytes_get(path), size) ? size : 0;
}

static bool is_mapped(size_t at) {
  Elf64_Ehdr header;
  memcpy(&header, whole, sizeof header);
  for (size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr p;
    memcpy(&p, whole + header.e_phoff + i * sizeof p, sizeof p);
    if (p.p_type == PT_LOAD && at >= p.p_offset && at - p.p_offset < p.p_filesz)
      return true;
  }
  return false;
}

static int damages = 4000;
static uint64_t drawn_state = 88172645463325252ULL;

static uint32_t drawn(uint32_t below) {
  drawn_state ^= drawn_state << 13;
  drawn_state ^= drawn_state >> 7;
  drawn_state ^= drawn_state << 17;
  return (uint32_t)(drawn_state >> 20) % below;
}

// Behind the program headers and the notes, where the seal itself lies.
enum { HEAD_BYTES = 1024 };

// Up to 4096 bytes become zero or anything. True where a mapped one changed.
static bool damage(size_t size) {
  const size_t count = (size_t)1 << drawn(13);
  const size_t at = HEAD_BYTES + drawn((uint32_t)(size - HEAD_BYTES));
  const bool is_zero = drawn(2) == 0;
  bool is_any = false;
  memcpy(damaged, whole, size);
  for (size_t i = at; i < at + count && i < size; ++i) {
    damaged[i] = is_zero ? 0 : (unsigned char)drawn(256);
    is_any |= damaged[i] != whole[i] && is_mapped(i);
  }
  return is_any;
}

TEST(each_damage_is_found) {
  int refused = 0;
  opgraft_error error;
  const size_t size = seal();
  REQUIRE(size > 0);
  for (int i = 0; i < damages; ++i) {
    const bool is_any = damage(size);
    const og_status status = og_elf_check(path, damaged, size, &error);
    if (!CHECK_EQ(status, is_any ? OG_IO : OG_OK)) break;
    refused += is_any;
  }
  CHECK(refused > damages / 4 && refused < damages);
done:
  return;
}

static int load_apart(void) {
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    opgraft_module *module;
    opgraft_error error;
    _exit(opgraft_module_load(path, &module, &error) == OG_OK ? 0 : 2);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST(a_block_of_zeros_ends_no_process) {
  const size_t size = seal();
  REQUIRE(size > 0);
  CHECK_EQ(load_apart(), 0);
  for (size_t at = 0; at < size; at += BLOCK_BYTES) {
    memcpy(damaged, whole, size);
    for (size_t i = at; i < at + BLOCK_BYTES && i < size; ++i) damaged[i] = 0;
    REQUIRE(bytes_put(damaged, size));
    const int status = load_apart();
    CHECK(WIFEXITED(status));
    if (at >= HEAD_BYTES && memcmp(damaged, whole, size) != 0 && is_mapped(at))
      CHECK_EQ(WEXITSTATUS(status), 2);
  }
done:
  return;
}

// As other compilers leave it, and without sections, which nothing maps.
TEST(what_is_not_sealed_loads) {
  const size_t size = bytes_get(TEST_MODULE_DIR "/check_right.so");
  REQUIRE(size > 0 && bytes_put(whole, size));
  CHECK_EQ(load_apart(), 0);
  REQUIRE(seal() == size);
  Elf64_Ehdr header;
  memcpy(&header, whole, sizeof header);
  header.e_shoff = header.e_shnum = header.e_shstrndx = 0;
  memcpy(whole, &header, sizeof header);
  REQUIRE(bytes_put(whole, size));
  CHECK_EQ(load_apart(), 0);
done:
  return;
}

int main(int argc, char **argv) {
  static const test_case tests[] = {
      CASE_NO_FAULTS(each_damage_is_found),
      CASE_NO_FAULTS(a_block_of_zeros_ends_no_process),
      CASE_NO_FAULTS(what_is_not_sealed_loads),
  };
  const int file = mkstemp(path);
  if (file < 0) return 1;
  close(file);
  if (argc > 1) {
    drawn_state ^= strtoull(argv[1], NULL, 10) << 20;
    damages *= 100;
  }
  const int result =
      test_run_all("module_seal", tests, sizeof tests / sizeof *tests);
  unlink(path);
  return result;
}
