// SPDX-License-Identifier: Apache-2.0
// opgraft run --plain, and the limits of opgraft run.

#include <unistd.h>

#include "graph_file.h"

enum { WORK_DEFAULT_E12 = 10 };

bool cli_limits_read(const cli_args *args, opgraft_host *host) {
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  const int64_t memory =
      pages > 0 && page > 0 ? pages / 4 * 3 * page : INT64_MAX;
  return cli_number_of(args, "max-bytes", 1, INT64_MAX, memory,
                       &host->max_bytes) &&
         cli_number_of(args, "max-work", 1, INT64_MAX,
                       WORK_DEFAULT_E12 * INT64_C(1000000000000),
                       &host->max_work);
}

opgraft_plain *cli_plain_run(const opgraft_graph *graph,
                             const cli_inputs *inputs,
                             const opgraft_host *host) {
  opgraft_error error;
  opgraft_plain *plain;
  if (opgraft_plain_run(graph, host, (const og_tensor *const *)inputs->files,
                        inputs->ints, inputs->count, &plain, &error) == OG_OK)
    return plain;
  cli_library_error(&error);
  return NULL;
}

bool cli_plain_output(const opgraft_plain *plain, int32_t index,
                      int64_t *number, og_tensor *out) {
  const int32_t kind = opgraft_plain_output(plain, index, out, number);
  if (kind == OPGRAFT_OUTPUT_SIZE)
    *out = (og_tensor){
        .data = number, .device = {OG_CPU, 0}, .dtype = {OG_CODE_INT, 64, 1}};
  return kind != OPGRAFT_OUTPUT_NONE;
}
