// SPDX-License-Identifier: Apache-2.0
// What mode max-autotune found by timing: a text file for each kind of
// processor, which several processes may write.
//
// A line is a node as opgraft_executable_rules prints it, with strides,
// attributes and what else its time depends on, then the kernel that won:
//
//   addmm f32[768] ... -> f32[128,768]; 2 threads, avx2: packed  # 1210 us, ...
//
// Errors and threads are as in opgraft.h.

#ifndef OPGRAFT_TUNE_H
#define OPGRAFT_TUNE_H

#include <opgraft/opgraft.h>

#ifdef __cplusplus
extern "C" {
#endif

// Where this processor's results are kept by default: below $XDG_CACHE_HOME,
// or ~/.cache. Returns the length without NUL, 0 where neither is known; writes
// at most `size` bytes, with a NUL.
OPGRAFT_API size_t opgraft_tune_path(char *buffer, size_t size);
// Calls `line` for each result of the file. A missing file has none. OG_IO,
// or OG_INVALID for one that is damaged, of another version, or of another
// processor.
OPGRAFT_API og_status opgraft_tune_read(const char *path,
                                        void (*line)(void *context,
                                                     const char *node,
                                                     const char *found),
                                        void *context, opgraft_error *error);
// Adds the results of `from` to those of `to`, whose folders are made; of two
// for one node that of `from` stays. A damaged `to` is written anew, a damaged
// `from` fails as it does for opgraft_tune_read. The file is replaced whole.
OPGRAFT_API og_status opgraft_tune_merge(const char *from, const char *to,
                                         opgraft_error *error);

#ifdef __cplusplus
}
#endif

#endif  // OPGRAFT_TUNE_H
