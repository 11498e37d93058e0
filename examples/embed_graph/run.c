// SPDX-License-Identifier: Apache-2.0
// A graph file run from plain C: opened, planned for the sizes of its input,
// called, its output written. No Python, no PyTorch, no C++.
//
//   cc run.c $(pkg-config --cflags --libs opgraft_graph) -o run
//   ./run model.og x.npy y.npy
//
// Where opgraft came by pip, PKG_CONFIG_PATH is lib/pkgconfig in the folder
// that `opgraft info --prefix` prints, and -Wl,-rpath, takes its lib.

#include <opgraft/graph_file.h>
#include <opgraft/npy.h>
#include <stdio.h>
#include <stdlib.h>

// Opens, runs the passes, and makes it ready to run.
static og_status model_open(const char *path, opgraft_executable **out_model,
                            opgraft_error *error) {
  // A file may be anybody's, so a call may take so much and no more.
  const opgraft_host host = {.struct_size = sizeof host,
                             .max_bytes = INT64_C(1) << 30,
                             .max_work = INT64_C(1) << 40};
  opgraft_graph *graph;
  og_status status = opgraft_graph_open(path, &graph, error);
  if (status != OG_OK) return status;
  if (opgraft_graph_input_count(graph) != 1 ||
      opgraft_graph_output_count(graph) != 1) {
    fprintf(stderr, "%s: expected one input and one output\n", path);
    exit(2);
  }
  const opgraft_options options = {.struct_size = sizeof options,
                                   .flags = OPGRAFT_OPTION_MAX_AUTOTUNE};
  status = opgraft_graph_finish(graph, &options, error);
  if (status == OG_OK)
    status = opgraft_executable_create(graph, &host, out_model, error);
  opgraft_graph_release(graph);  // the executable keeps it
  return status;
}

// One call: `y` is memory of the caller's, which this returns to be freed.
static og_status model_call(opgraft_executable *model, const og_tensor *x,
                            const char *to, opgraft_error *error) {
  opgraft_call call = {.struct_size = sizeof call};
  og_status status = opgraft_executable_begin(model, &x, NULL, 1, &call, error);
  if (status != OG_OK) return status;
  const opgraft_output *output = &call.outputs[0];
  void *memory = NULL;
  if (output->kind != OPGRAFT_OUTPUT_STORAGE) {
    fprintf(stderr, "the output is no new tensor\n");
    status = OG_UNSUPPORTED;
  } else if ((memory = aligned_alloc(
                  64, (call.storages[0].size_bytes + 63) / 64 * 64)) == NULL) {
    status = OG_MEMORY;
  }
  if (status == OG_OK) status = opgraft_call_run(&call, &memory, error);
  if (status == OG_OK) {
    og_tensor y = output->tensor;
    y.data = memory;
    status = opgraft_npy_write(to, &y, error);
    printf("%s: [", to);
    for (int32_t d = 0; d < y.ndim; ++d)
      printf(d > 0 ? ", %lld" : "%lld", (long long)y.shape[d]);
    printf("]\n");
  }
  opgraft_call_end(&call);
  free(memory);
  return status;
}

int main(int argc, char **argv) {
  opgraft_error error = {0};
  opgraft_executable *model = NULL;
  og_tensor *x = NULL;
  if (argc < 4 || argc % 2 != 0) {
    fprintf(stderr, "usage: run MODEL.og X.npy Y.npy [X.npy Y.npy]...\n");
    return 2;
  }
  og_status status = model_open(argv[1], &model, &error);
  for (int i = 2; status == OG_OK && i < argc; i += 2) {
    status = opgraft_npy_read(argv[i], &x, &error);
    if (status == OG_OK) status = model_call(model, x, argv[i + 1], &error);
    opgraft_npy_release(x);
    x = NULL;
  }
  opgraft_stats stats = {.struct_size = sizeof stats};
  if (status == OG_OK &&
      (status = opgraft_executable_stats(model, &stats, &error)) == OG_OK)
    printf("%d nodes, %d plans, arena of %lld bytes, lower bound %lld\n",
           (int)stats.nodes, (int)stats.plans, (long long)stats.arena_bytes,
           (long long)stats.lower_bound_bytes);
  if (status != OG_OK) fprintf(stderr, "%s\n", error.text);
  opgraft_executable_release(model);
  return status == OG_OK ? 0 : 1;
}
