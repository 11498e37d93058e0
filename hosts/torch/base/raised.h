// SPDX-License-Identifier: Apache-2.0
// Exceptions that cross C code, and the stack that is left for calls of
// Python.

#ifndef OG_TORCH_RAISED_H
#define OG_TORCH_RAISED_H

#include "torch/base/host.h"

// The exception that is set is kept for this thread's caller, which ends with
// raised_restore; false if there is none.
void raised_keep(void);
bool raised_restore(void);
void raised_drop(void);
// Whether the thread's stack has too little left to call Python.
#define STACK_TEXT                                                         \
  "the thread's stack is nearly used up: a callable calls itself without " \
  "end, or the thread needs a larger stack (threading.stack_size)"
bool stack_is_short(void);
// 0, or -1 with RecursionError set.
int stack_check(const char *name);

#endif  // OG_TORCH_RAISED_H
