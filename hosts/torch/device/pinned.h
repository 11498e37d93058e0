// SPDX-License-Identifier: Apache-2.0
// Memory of the host that torch counts as pinned: drivers have no function that
// pins, so it is ordinary memory, aligned to a page. Any thread.

#ifndef OG_TORCH_PINNED_H
#define OG_TORCH_PINNED_H

#include <stdbool.h>
#include <stddef.h>

// NULL where memory is short, and for 0.
void *pinned_take(size_t size_bytes);
// NULL is allowed.
void pinned_give(void *address);
// Whether the address is in what was taken.
bool pinned_has(const void *address);

#endif  // OG_TORCH_PINNED_H
