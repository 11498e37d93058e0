// SPDX-License-Identifier: Apache-2.0
// The seal of a module's file, an ELF note for which OG_MODULE leaves room:
// `opgraft build` writes a sum of what the loader maps of the file there, so
// that a damaged one is refused and not mapped. It is data that no thread
// writes; authors get it from OG_MODULE.

#ifndef OPGRAFT_SEAL_H
#define OPGRAFT_SEAL_H

#include <stdint.h>

#define OG_SEAL_NAME "opgraft"
#define OG_SEAL_ROOM 1u  // its kind until then

typedef struct og_seal {
  uint32_t name_bytes;
  uint32_t sum_bytes;
  uint32_t kind;
  char name[8];
  uint8_t sum[8];
} og_seal;

#if defined(__ELF__)
#define OG_SEAL                                                       \
  static const og_seal seal                                           \
      __attribute__((section(".note.opgraft"), aligned(4), used)) = { \
          8u, 8u, OG_SEAL_ROOM, OG_SEAL_NAME, {0, 0, 0, 0, 0, 0, 0, 0}};
#else
#define OG_SEAL
#endif

#endif  // OPGRAFT_SEAL_H
