// SPDX-License-Identifier: Apache-2.0
// opgraft new: a folder with a working operator or device driver, its test and
// its build file.

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "templates.h"

static const cli_option options[] = {
    {"device", NULL, "start a device driver instead", 0},
    {"dir", "FOLDER",
     "where to make NAME's folder (made if it is missing); the current one", 0},
    {0},
};

enum { NAME_MAX_LENGTH = 48, DEVICE_NAME_MAX_LENGTH = 31 };

// Words that cannot be names in C or in Python.
static bool is_reserved(const char *name) {
  static const char words[] =
      " and as assert async auto await bool break case char class const "
      "continue def default del do double elif else enum except extern finally "
      "float for from global goto if import in inline int is lambda long main "
      "nonlocal none not or pass raise register restrict return short signed "
      "sizeof static struct switch try typedef union unsigned void volatile "
      "while with yield ";
  return cli_has_word(words, name);
}

static bool name_check(const char *name) {
  const size_t length = strlen(name);
  bool is_right = length > 0 && length <= NAME_MAX_LENGTH;
  for (const char *c = name; is_right && *c != '\0'; ++c)
    is_right = islower((unsigned char)*c) || *c == '_' ||
               (isdigit((unsigned char)*c) && c != name);
  if (!is_right) {
    cli_error(
        "new: the name is '%.60s', expected up to %d small letters, digits "
        "and underscores, the first no digit",
        name, NAME_MAX_LENGTH);
    return false;
  }
  // _x and og_x belong to compilers and to op.h.
  is_right = !is_reserved(name) && name[0] != '_' &&
             strncmp(name, "og_", 3) != 0 && strncmp(name, "opgraft", 7) != 0;
  if (!is_right)
    cli_error(
        "new: the name '%s' is taken by C, Python or opgraft; choose "
        "another one",
        name);
  return is_right;
}

// torch has these devices by itself.
static bool device_name_check(const char *name) {
  static const char taken[] =
      " cpu cuda fpga hip hpu ideep ipu lazy maia meta mkldnn mps mtia opencl "
      "opengl ve vulkan xla xpu ";
  if (!cli_has_word(taken, name) && strpbrk(name, "_0123456789") == NULL &&
      strlen(name) <= DEVICE_NAME_MAX_LENGTH)
    return true;
  cli_error(
      "new: the device's name is '%s', expected up to %d small letters, "
      "and none of torch's own devices",
      name, DEVICE_NAME_MAX_LENGTH);
  return false;
}

// The template with @NAME@ replaced, written to folder/file.
static bool template_write(const char *folder, const char *file,
                           const char *text, const char *name) {
  static const char mark[] = "@NAME@";
  char *path = cli_format("%s/%s", folder, file);
  char *bytes = NULL;
  size_t size = 0;
  FILE *to = cli_memory_open(&bytes, &size);
  for (const char *at = text; *at != '\0';) {
    const char *next = strstr(at, mark);
    const size_t length = next != NULL ? (size_t)(next - at) : strlen(at);
    fwrite(at, 1, length, to);
    at += length;
    if (next == NULL) break;
    fputs(name, to);
    at += sizeof mark - 1;
  }
  fclose(to);
  const bool is_written = cli_file_write(path, bytes, size);
  if (is_written) printf("  %s\n", path);
  free(bytes);
  free(path);
  return is_written;
}

static bool bench_write(const char *folder, const char *name) {
  char *bench = cli_format("bench_%s.py", name);
  const bool is_written =
      template_write(folder, bench, cli_template_bench, name);
  free(bench);
  return is_written;
}

static bool folder_fill(const char *folder, const char *name,
                        const char *source_text, const char *test_text) {
  char *source = cli_format("%s.c", name);
  char *test = cli_format("test_%s.py", name);
  const bool is_written =
      template_write(folder, source, source_text, name) &&
      template_write(folder, test, test_text, name) &&
      template_write(folder, "CMakeLists.txt", cli_template_cmake, name);
  free(source);
  free(test);
  return is_written;
}

static int operator_new(const char *folder, const char *name) {
  if (!folder_fill(folder, name, cli_template_operator, cli_template_test) ||
      !bench_write(folder, name))
    return CLI_FAILED;
  printf(
      "\nNext:\n"
      "  opgraft check %s/%s.c     proves it right\n"
      "  python -m pytest %s      tests it in PyTorch\n"
      "  python %s/bench_%s.py    times it beside PyTorch\n"
      "  opgraft build %s/%s.c     makes the module to load\n",
      folder, name, folder, folder, name, folder, name);
  return CLI_OK;
}

static int device_new(const char *folder, const char *name) {
  if (!folder_fill(folder, name, cli_template_driver, cli_template_driver_test))
    return CLI_FAILED;
  printf(
      "\nNext, in %s:\n"
      "  cmake -B build -DCMAKE_PREFIX_PATH=\"$(opgraft info --prefix)\"\n"
      "  cmake --build build      makes the driver to load\n"
      "  python -m pytest .       tests it in PyTorch\n",
      folder);
  return CLI_OK;
}

// The folders that a path names, those that are missing. What fails shows when
// the last one is used.
static void folders_make(const char *path) {
  char *part = cli_format("%s", path);
  for (char *at = strchr(part + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
    *at = 0;
    mkdir(part, 0777);
    *at = '/';
  }
  mkdir(part, 0777);
  free(part);
}

static int new_run(const cli_args *args) {
  const char *name = cli_only_operand(args, "a name");
  const bool is_device = cli_has(args, "device");
  if (name == NULL || !name_check(name) ||
      (is_device && !device_name_check(name)))
    return CLI_FAILED;
  const char *parent = cli_value_of(args, "dir");
  char *folder = parent != NULL ? cli_format("%s/%s", parent, name)
                                : cli_format("%s", name);
  int result = CLI_FAILED;
  if (parent != NULL && parent[0] != 0) folders_make(parent);
  // Only mkdir can refuse: another process may write between look and write.
  if (mkdir(folder, 0777) == 0)
    result = is_device ? device_new(folder, name) : operator_new(folder, name);
  else if (errno == EEXIST)
    cli_error(
        "%s: is there already; choose another name or --dir, or remove "
        "it",
        folder);
  else
    cli_error("%s: could not make the folder: %s", folder, strerror(errno));
  free(folder);
  return result;
}

const cli_command cli_command_new = {
    .name = "new",
    .summary = "start an operator or a device: C file, test, CMake file",
    .usage = "NAME [--device] [--dir FOLDER]",
    .text =
        "Makes the folder NAME with a working operator, its gradient, a "
        "test for pytest, a\nbenchmark beside PyTorch and a CMakeLists.txt "
        "that "
        "uses find_package(opgraft). With --device, NAME is a device and the C "
        "file "
        "its driver,\nwhich works as it stands. Nothing is overwritten.",
    .examples =
        "  opgraft new soft_gate\n"
        "  opgraft new --device acme\n"
        "  opgraft new soft_gate --dir operators",
    .options = options,
    .run = new_run,
};
