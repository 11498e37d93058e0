// SPDX-License-Identifier: Apache-2.0
// A failing call as files: its inputs, and the command that repeats it.

#include <inttypes.h>
#include <opgraft/graph_file.h>
#include <opgraft/npy.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "exec/step/device.h"

static og_status no_memory(opgraft_error *error) {
  return og_error_set(error, OG_MEMORY, NULL, NULL,
                      "not enough memory to write a failing call");
}

static og_status input_write(const char *folder, int32_t index,
                             const og_tensor *tensor, opgraft_error *error) {
  og_text path = {0};
  og_tensor here;
  void *bytes;
  OG_TRY(og_device_fetch(tensor, NULL, &here, &bytes, error));
  og_text_addf(&path, "%s/input-%d.npy", folder, (int)index);
  const og_status status = path.failed
                               ? no_memory(error)
                               : opgraft_npy_write(path.data, &here, error);
  og_text_reset(&path);
  og_free(bytes);
  return status;
}

// Inputs stand in the graph's order, so files and numbers need no names.
static void command_add(const og_tensor *const *in, const int64_t *ints,
                        int32_t count, og_text *out) {
  og_text_add(out, "opgraft run --bisect graph.og");
  for (int32_t i = 0; i < count; ++i) {
    if (in[i] != NULL)
      og_text_addf(out, " \\\n  --in input-%d.npy", (int)i);
    else
      og_text_addf(out, " \\\n  --in %" PRId64, ints[i]);
  }
  og_text_add(out, "\n");
}

static og_status command_write(const char *folder, const og_text *command,
                               opgraft_error *error) {
  og_text path = {0};
  og_file_out file;
  og_text_addf(&path, "%s/run.txt", folder);
  og_status status = path.failed || command->failed
                         ? no_memory(error)
                         : og_file_begin(path.data, &file, error);
  if (status == OG_OK) {
    fwrite(command->data, 1, command->length, file.stream);
    status = og_file_end(&file, OG_OK, error);
  }
  og_text_reset(&path);
  return status;
}

og_status opgraft_repro_write(const char *folder, const og_tensor *const *in,
                              const int64_t *ints, int32_t count,
                              opgraft_error *error) {
  og_text command = {0};
  for (int32_t i = 0; i < count; ++i)
    if (in[i] != NULL) OG_TRY(input_write(folder, i, in[i], error));
  command_add(in, ints, count, &command);
  const og_status status = command_write(folder, &command, error);
  og_text_reset(&command);
  return status;
}
