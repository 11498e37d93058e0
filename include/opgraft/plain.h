// SPDX-License-Identifier: Apache-2.0
// The oracle of the graph engine: runs a graph as its text says, slowly.
//
// No pass runs, nothing is planned and nothing is shared: each node's operands
// are copied to dense memory of their own, views too, its results are made in
// dense memory, and are then copied to where the graph says that they lie.
// What is read must have been written, and no result may have two elements at
// one place. Kernels are the engine's own; everything else that decides what a
// graph computes is not. Errors and threads are as in opgraft.h.

#ifndef OPGRAFT_PLAIN_H
#define OPGRAFT_PLAIN_H

#include <opgraft/executable.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct opgraft_plain opgraft_plain;

// Runs what the outputs and the writes to inputs need. The graph may be
// finished or not, and must stay until the result is destroyed. Inputs are as
// for opgraft_executable_begin, but of any strides, and are only read; of
// `host`, which may be NULL, only the limits count. Failure: OG_SHAPE where the
// graph reads what nothing wrote or writes two elements to one place, OG_MEMORY
// or OG_UNSUPPORTED beyond a limit or for an operator that only a host has, and
// what kernels say.
OPGRAFT_API og_status opgraft_plain_run(const opgraft_graph *graph,
                                        const opgraft_host *host,
                                        const og_tensor *const *in,
                                        const int64_t *ints, int32_t count,
                                        opgraft_plain **out_plain,
                                        opgraft_error *error);
// Output `index`: OPGRAFT_OUTPUT_STORAGE with a dense tensor, ..._SIZE with a
// number, or ..._NONE. The memory is the result's.
OPGRAFT_API int32_t opgraft_plain_output(const opgraft_plain *plain,
                                         int32_t index, og_tensor *out_tensor,
                                         int64_t *out_size);
// What the graph left in input `index`, with the strides that the graph gives
// it; false for an integer.
OPGRAFT_API int32_t opgraft_plain_input(const opgraft_plain *plain,
                                        int32_t index, og_tensor *out_tensor);
OPGRAFT_API void opgraft_plain_destroy(opgraft_plain *plain);

#ifdef __cplusplus
}
#endif

#endif  // OPGRAFT_PLAIN_H
