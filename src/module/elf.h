// SPDX-License-Identifier: Apache-2.0
// Whether a file's bytes can be a shared object of this machine.

#ifndef OG_MODULE_ELF_H
#define OG_MODULE_ELF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

// OG_IO for a file that is not a shared object, ends too early, or is not as it
// was sealed. On a system that has another format everything passes.
og_status og_elf_check(const char *path, const unsigned char *bytes,
                       size_t size, opgraft_error *error);

typedef struct og_elf_tail {
  unsigned char bytes[20];
} og_elf_tail;

// The tail of a checked object's seal (opgraft/seal.h) with the sum of what the
// loader maps, and where it lies in the file; 0 where there is no room for one.
size_t og_elf_seal(const unsigned char *bytes, size_t size, og_elf_tail *out);

// Whether code of a checked object may change MXCSR: it holds an instruction
// that writes it, asks the C library to, or calls a library of another kind.
// True on other processors and formats. What is found in error costs a call
// two reads of the register, some 7 ns each on some processors.
bool og_elf_may_set_float_env(const unsigned char *bytes, size_t size);

#endif  // OG_MODULE_ELF_H
