// SPDX-License-Identifier: Apache-2.0
// The surroundings of a run of a kernel.

#ifndef OG_CHECK_RUN_MODE_H
#define OG_CHECK_RUN_MODE_H

#include <opgraft/op.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum og_share_kind {
  OG_SHARES_ONE,      // [0, total) at once
  OG_SHARES_FORWARD,  // several, one after the other
  OG_SHARES_REVERSE,
  OG_SHARES_SHUFFLED,  // in any order, of any size
  OG_SHARES_REAL,      // by threads
} og_share_kind;

typedef enum og_layout {
  OG_LAYOUT_DENSE,
  OG_LAYOUT_STRIDED,   // permuted and padded, as far as .strides allows
  OG_LAYOUT_EXPANDED,  // a dim of an argument has stride 0
  OG_LAYOUT_LOOSE,     // dims of size 1 have senseless strides
  OG_LAYOUT_COUNT,
} og_layout;

typedef struct og_mode {
  og_share_kind shares;
  int32_t threads;
  bool tracks_writes;  // which chunk wrote what
  og_layout layout;
  uint64_t seed;       // of layout and shares
  bool is_packed;      // strided: dims in any order, but no gaps
  bool is_left;        // buffers border the unreadable page at their start
  bool has_offset;     // byte_offset is not 0, and `data` is unreadable
  bool is_read_only;   // arguments that are not mutated
  bool is_in_place;    // the first result is in the inplace argument's memory
  bool guards_arrays;  // those of the call: in, out, attr, dim, the lists
  bool watches_arguments;  // which of those that are not tensors are read
  int32_t watched_tensor;  // 1 + the tensor argument; 0: none
  bool is_quiet;           // what the run does wrong is not reported
  uint16_t poison;         // of results: a byte, or OG_POISON_SMALL
  uint16_t workspace_poison;
  uint16_t stack_poison;
  uint8_t redzone;          // bytes around buffers on a device
  int32_t reach;            // of these: at least so many times the buffer's
                            // own, since indices are out of range; 0: few
  bool is_over;             // on a device: in the memory of the run before
  bool is_on_host;          // not on the device, where there is one
  const og_kernel *kernel;  // NULL: the one that a host would choose
} og_mode;

extern const og_mode og_mode_plain;

// Not a byte, but 1 in words of 8 bytes, or in each element: a flag that is
// set, a count that is small, a float close to 0.
enum { OG_POISON_SMALL = 0x100 };
void og_poison(void *memory, size_t bytes, uint16_t poison);

#endif  // OG_CHECK_RUN_MODE_H
