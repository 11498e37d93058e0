// SPDX-License-Identifier: Apache-2.0
// opgraft tune: which kernels mode max-autotune found to be the fastest on this
// processor.

#include <errno.h>
#include <opgraft/tune.h>
#include <string.h>
#include <unistd.h>

#include "options.h"
#include "output.h"
#include "target.h"

enum { PATH_BYTES = 4096 };

static const cli_option options[] = {
    {"file", "FILE", "these results, not those of the user's cache", 0},
    {"export", "FILE", "add the results to a file, for another machine", 0},
    {"import", "FILE", "add a file's results; they count before known ones", 0},
    {"clear", NULL, "forget the results", 0},
    {0},
};

static void on_line(void *context, const char *node, const char *found) {
  int64_t *count = context;
  printf("%s: %s\n", node, found);
  ++*count;
}

static int results_show(const char *path) {
  opgraft_error error;
  int64_t count = 0;
  if (opgraft_tune_read(path, on_line, &count, &error) != OG_OK)
    return cli_library_error(&error);
  cli_note("%s: %lld result%s", path, (long long)count, cli_plural(count));
  return CLI_OK;
}

static int results_clear(const char *path) {
  if (unlink(path) == 0 || errno == ENOENT) return CLI_OK;
  return cli_error("%s: could not be removed: %s", path, strerror(errno));
}

static int results_add(const char *from, const char *to) {
  opgraft_error error;
  return opgraft_tune_merge(from, to, &error) == OG_OK
             ? CLI_OK
             : cli_library_error(&error);
}

static int tune_run(const cli_args *args) {
  char own[PATH_BYTES];
  const char *path = cli_value_of(args, "file");
  const char *to = cli_value_of(args, "export");
  const char *from = cli_value_of(args, "import");
  if (args->operand_count > 0)
    return cli_error("tune: found '%s', expected options only",
                     args->operands[0]);
  if ((to != NULL) + (from != NULL) + cli_has(args, "clear") > 1)
    return cli_error("tune: --export, --import and --clear do not go together");
  if (path == NULL) {
    const size_t length = opgraft_tune_path(own, sizeof own);
    if (length == 0 || length >= sizeof own)
      return cli_error(
          "tune: neither XDG_CACHE_HOME nor HOME says where the "
          "results are; give --file");
    path = own;
  }
  if (to != NULL)
    return cli_outputs_check(&to, 1, &path, 1) ? results_add(path, to)
                                               : CLI_FAILED;
  if (from != NULL) return results_add(from, path);
  if (path != own && access(path, F_OK) != 0)
    return cli_error("%s: there is no such file; tune --export FILE writes one",
                     path);
  return cli_has(args, "clear") ? results_clear(path) : results_show(path);
}

const cli_command cli_command_tune = {
    .name = "tune",
    .summary = "the kernels that mode max-autotune found to be fastest",
    .usage = "[OPTIONS]",
    .text =
        "Prints what torch.compile(backend=\"opgraft\", "
        "mode=\"max-autotune\") found by timing\non this processor: for each "
        "node the kernel that won, and all times. Results\nare kept in the "
        "user's cache, a file for each kind of processor.",
    .examples =
        "  opgraft tune\n"
        "  opgraft tune --export tuned.txt\n"
        "  opgraft tune --import tuned.txt",
    .options = options,
    .operand = CLI_OPERAND_NONE,
    .run = tune_run,
};
