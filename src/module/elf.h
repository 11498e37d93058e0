// SPDX-License-Identifier: Apache-2.0
// Whether a file's bytes can be a shared object of this machine.

#ifndef OG_MODULE_ELF_H
#define OG_MODULE_ELF_H

#include <stddef.h>

#include "base/status.h"

// OG_IO for what is no shared object, or shorter than its headers say. On a
// system that has another format everything passes.
og_status og_elf_check(const char *path, const unsigned char *bytes,
                       size_t size, opgraft_error *error);

#endif  // OG_MODULE_ELF_H
