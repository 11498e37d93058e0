// SPDX-License-Identifier: Apache-2.0
// Graphs as files, and what a program asks of a graph that it did not build:
// its inputs, its steps and their times.
//
//   opgraft_graph_open("m.og") -> finish -> opgraft_executable_create -> ...
//
// Errors are as in opgraft.h, and so are structs that begin with struct_size.
// Threads are as in graph.h.

#ifndef OPGRAFT_GRAPH_FILE_H
#define OPGRAFT_GRAPH_FILE_H

#include <opgraft/executable.h>

#ifdef __cplusplus
extern "C" {
#endif

// --- Files (docs/graph-file.md) ----------------------------------------------

// The graph's text, then its constants, aligned and checksummed. The file
// appears whole or not at all. Save before finish: a file of a finished graph
// opens too, but its passes have run. OG_UNSUPPORTED for a graph that text
// cannot hold; OG_INVALID for one of a file that was altered.
OPGRAFT_API og_status opgraft_graph_save(const opgraft_graph *graph,
                                         const char *path,
                                         opgraft_error *error);
// Opens what save wrote, or a file of plain graph text. Constants are mapped,
// not read: the file must stay as it is until the graph is released (save
// replaces a file, so the old one stays for those who have it open). The graph
// is not finished yet. Failure: OG_IO, OG_INVALID for a file that is cut short
// or whose text was altered, OG_VERSION for one that a newer opgraft wrote,
// OG_MEMORY. A constant that was altered is OG_INVALID where it is first read:
// by opgraft_executable_begin, opgraft_executable_plan or opgraft_call_run.
OPGRAFT_API og_status opgraft_graph_open(const char *path,
                                         opgraft_graph **out_graph,
                                         opgraft_error *error);
// The file that the executable's graph was opened from, once more, with the
// packed forms of all weights that its plans packed or mapped so far: plan the
// sizes first (opgraft_executable_plan). An executable of the new file maps
// them and does not pack. `path` may be the file itself. Failure: OG_INVALID
// where the graph was not opened from such a file, or where the file was
// altered; OG_IO, OG_MEMORY. Safe beside calls of the executable.
OPGRAFT_API og_status opgraft_executable_save(opgraft_executable *executable,
                                              const char *path,
                                              opgraft_error *error);

// A failing call for somebody else to look at: the inputs as
// FOLDER/input-N.npy (integers in the command only), and FOLDER/run.txt with
// the command that repeats it on FOLDER/graph.og, which the host saved before
// it finished the graph. in and ints are as for opgraft_executable_begin. The
// folder is there.
OPGRAFT_API og_status opgraft_repro_write(const char *folder,
                                          const og_tensor *const *in,
                                          const int64_t *ints, int32_t count,
                                          opgraft_error *error);

// --- Inputs and outputs ------------------------------------------------------

OPGRAFT_API int32_t opgraft_graph_input_count(const opgraft_graph *graph);
OPGRAFT_API int32_t opgraft_graph_output_count(const opgraft_graph *graph);
// Input `index`: type and sizes; ndim is -1 for an integer. The arrays are the
// graph's. out_info->struct_size is set by the caller; OG_INVALID where it is
// not, and for an input that is not there.
OPGRAFT_API og_status opgraft_graph_input(const opgraft_graph *graph,
                                          int32_t index,
                                          opgraft_value_info *out_info,
                                          opgraft_error *error);
// NULL where it has no name.
OPGRAFT_API const char *opgraft_graph_input_name(const opgraft_graph *graph,
                                                 int32_t index);
// The name of its value; NULL where that has none, and for an integer.
OPGRAFT_API const char *opgraft_graph_output_name(const opgraft_graph *graph,
                                                  int32_t index);
// out_written[i] is 1 where a node writes the memory of input i, else 0.
OPGRAFT_API void opgraft_graph_written(const opgraft_graph *graph,
                                       uint8_t *out_written);
// "%x: f32[s0, 768]", or "size n = s0"; the length as opgraft_graph_print.
OPGRAFT_API size_t opgraft_graph_print_input(const opgraft_graph *graph,
                                             int32_t index, char *buffer,
                                             size_t size);
// The strides that the inputs must have, for inputs of these shapes (type,
// device, rank and shape are looked at). out_strides[i] has a place for each
// dim of input i.
OPGRAFT_API og_status opgraft_graph_input_strides(
    const opgraft_graph *graph, const og_tensor *const *in, const int64_t *ints,
    int32_t count, int64_t *const *out_strides, opgraft_error *error);

// --- Passes and steps --------------------------------------------------------

// The passes in the order in which they run; NULL past the last.
OPGRAFT_API const char *opgraft_pass_name(int32_t index);

typedef struct opgraft_step {
  uint32_t struct_size;
  int32_t line;
  const char *file;    // NULL where it is not known
  const char *name;    // the operator's
  const char *result;  // its first result's name; NULL: none
  int64_t bytes;       // of its operands and results
  og_device device;    // on which it runs
} opgraft_step;

OPGRAFT_API int32_t opgraft_call_step_count(const opgraft_call *call);
// Step `index`. out_step->struct_size is set by the caller; OG_INVALID where it
// is not, and for a step that is not there.
OPGRAFT_API og_status opgraft_call_step(const opgraft_call *call, int32_t index,
                                        opgraft_step *out_step,
                                        opgraft_error *error);
// opgraft_call_run, one step after another, adding the time of each to
// step_ns, which has opgraft_call_step_count places or is NULL, and to what
// opgraft_executable_schedule says of the plan's nodes.
OPGRAFT_API og_status opgraft_call_profile(opgraft_call *call,
                                           void *const *storage_data,
                                           int64_t *step_ns,
                                           opgraft_error *error);

#ifdef __cplusplus
}
#endif

#endif  // OPGRAFT_GRAPH_FILE_H
