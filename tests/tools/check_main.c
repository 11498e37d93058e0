// SPDX-License-Identifier: Apache-2.0
// check as a bare program: MODULE [--json] [--verbose] [--op NAME] [--calls N]
// [--seed N] [--reference MODULE] [--probe NAME]. Exit 0: clean, 1: findings,
// 2: could not run.

#include <opgraft/check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print(void *user, const char *text, size_t length) {
  fwrite(text, 1, length, (FILE *)user);
}

static int fail(const opgraft_error *error) {
  fprintf(stderr, "%s\n", error->text);
  return 2;
}

// One flag; true if it was one, with its value where it takes one.
static int take_flag(opgraft_check_options *options, const char *flag,
                     const char *value, const char **out_reference) {
  if (strcmp(flag, "--json") == 0) return options->format = 1, 1;
  if (strcmp(flag, "--verbose") == 0) return options->is_verbose = 1, 1;
  if (value == NULL) return 0;
  if (strcmp(flag, "--op") == 0) return options->op = value, 2;
  if (strcmp(flag, "--calls") == 0) return options->calls = atoi(value), 2;
  if (strcmp(flag, "--seed") == 0)
    return options->seed = strtoull(value, NULL, 10), 2;
  if (strcmp(flag, "--probe") == 0) return options->probe = value, 2;
  if (strcmp(flag, "--reference") == 0) return *out_reference = value, 2;
  return 0;
}

int main(int argc, char **argv) {
  opgraft_check_options options = {.struct_size = sizeof options};
  const opgraft_check_sink sink = {
      .struct_size = sizeof sink, .user = stdout, .write = print};
  opgraft_module *module = NULL, *reference = NULL;
  const char *reference_path = NULL;
  opgraft_error error;
  int32_t findings = 0;
  for (int i = 2; i < argc;) {
    const int taken = take_flag(
        &options, argv[i], i + 1 < argc ? argv[i + 1] : NULL, &reference_path);
    if (taken == 0) return fprintf(stderr, "bad flag %s\n", argv[i]), 2;
    i += taken;
  }
  if (argc < 2) return fprintf(stderr, "expected a module\n"), 2;
  if (opgraft_module_load(argv[1], &module, &error) != OG_OK)
    return fail(&error);
  if (reference_path != NULL &&
      opgraft_module_load(reference_path, &reference, &error) != OG_OK)
    return fail(&error);
  options.reference = reference;
  const og_status status =
      opgraft_check(module, &options, &sink, &findings, &error);
  opgraft_module_release(module);
  if (reference != NULL) opgraft_module_release(reference);
  if (status != OG_OK) return fail(&error);
  return findings > 0;
}
