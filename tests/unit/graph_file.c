// SPDX-License-Identifier: Apache-2.0
// Graph files and .npy files: written, read back, and every way in which they
// can be wrong.

#define _POSIX_C_SOURCE 200809L
#include <opgraft/graph_file.h>
#include <opgraft/npy.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/checksum.h"
#include "files.h"
#include "test.h"

// --- Graphs ------------------------------------------------------------------

static const char text[] =
    "graph g(%x: f32[2, 2]) {\n"
    "  constant %w: f32[2, 2] = [1, 2, 3, 4]\n"
    "  constant %i: i64[3] = [7, 8, 9]\n"
    "  constant %e: bf16[0, 5] = []\n"
    "  %y: f32[2, 2] = add(%x, %w)\n"
    "  return %y, %i, %e\n"
    "}\n";

static opgraft_graph *parsed(const char *given) {
  opgraft_graph *graph;
  opgraft_error error;
  if (opgraft_graph_parse(given, strlen(given), &graph, &error) == OG_OK)
    return graph;
  return NULL;
}

// What x becomes: x + w.
static bool adds(opgraft_graph *graph) {
  opgraft_executable *executable = NULL;
  opgraft_error error;
  opgraft_call call = {.struct_size = sizeof call};
  float x[4] = {10, 20, 30, 40}, y[4] = {0};
  int64_t sizes[2] = {2, 2}, strides[2] = {2, 1};
  const og_tensor tensor = {.data = x,
                            .device = {OG_CPU, 0},
                            .ndim = 2,
                            .dtype = {OG_CODE_FLOAT, 32, 1},
                            .shape = sizes,
                            .strides = strides};
  const og_tensor *in[1] = {&tensor};
  const opgraft_host host = {.struct_size = sizeof host, .threads = 1};
  void *storage[1] = {y};
  bool holds = false;
  if (opgraft_graph_finish(graph, NULL, &error) != OG_OK) return false;
  if (opgraft_executable_create(graph, &host, &executable, &error) == OG_OK &&
      opgraft_executable_begin(executable, in, NULL, 1, &call, &error) ==
          OG_OK) {
    const int64_t *seven = call.outputs[1].tensor.data;
    holds = opgraft_call_run(&call, storage, &error) == OG_OK && y[0] == 11 &&
            y[3] == 44 && seven[0] == 7 && seven[2] == 9;
    opgraft_call_end(&call);
  }
  opgraft_executable_release(executable);
  return holds;
}

TEST(a_graph_comes_back) {
  opgraft_graph *graph = parsed(text), *again = NULL;
  opgraft_error error;
  char first[1024], second[1024];
  REQUIRE(graph != NULL);
  REQUIRE(opgraft_graph_save(graph, path_in("g.og"), &error) == OG_OK);
  REQUIRE(opgraft_graph_open(path_in("g.og"), &again, &error) == OG_OK);
  CHECK(opgraft_graph_print(again, first, sizeof first) > 0);
  CHECK(strstr(first, "constant %w: f32[2, 2] = data 0\n") != NULL);
  CHECK(strstr(first, "constant %i: i64[3] = data 64\n") != NULL);
  // Saved once more, it is the same file.
  REQUIRE(opgraft_graph_save(again, path_in("h.og"), &error) == OG_OK);
  size_t a_size, b_size;
  char *a = file_bytes(path_in("g.og"), &a_size);
  char *b = file_bytes(path_in("h.og"), &b_size);
  CHECK(a_size == b_size && memcmp(a, b, a_size) == 0);
  CHECK_EQ(a_size % 8, 0);
  free(a);
  free(b);
  // The file may go while the graph is there.
  unlink(path_in("g.og"));
  CHECK(adds(again));
  CHECK(opgraft_graph_print(graph, second, sizeof second) > 0);
  CHECK(strstr(second, "[1.0, 2.0, 3.0, 4.0]") != NULL);
done:
  opgraft_graph_release(graph);
  opgraft_graph_release(again);
}

TEST(plain_text_opens) {
  opgraft_graph *graph = NULL;
  opgraft_error error;
  file_put(path_in("plain.og"), text, strlen(text));
  REQUIRE(opgraft_graph_open(path_in("plain.og"), &graph, &error) == OG_OK);
  CHECK(adds(graph));
done:
  opgraft_graph_release(graph);
}

static bool says(og_status found, og_status wanted, const opgraft_error *error,
                 const char *part) {
  return CHECK_EQ(found, wanted) && CHECK(strstr(error->text, part) != NULL);
}

TEST(every_cut_and_every_change_is_found) {
  opgraft_graph *graph = parsed(text), *again = NULL;
  opgraft_error error;
  size_t size;
  REQUIRE(graph != NULL);
  REQUIRE(opgraft_graph_save(graph, path_in("g.og"), &error) == OG_OK);
  char *bytes = file_bytes(path_in("g.og"), &size);
  int refused = 0, checked = 0;
  for (size_t n = 0; n < size; n += 1 + n / 64, ++checked) {
    file_put(path_in("cut.og"), bytes, n);
    refused +=
        opgraft_graph_open(path_in("cut.og"), &again, &error) == OG_INVALID;
    opgraft_graph_release(again);
  }
  CHECK_EQ(refused, checked);
  refused = checked = 0;
  for (size_t n = 0; n < size; n += 1 + n / 64, ++checked) {
    bytes[n] = (char)(bytes[n] ^ 1);
    file_put(path_in("altered.og"), bytes, size);
    // Constants are checked where they are first read.
    refused +=
        opgraft_graph_open(path_in("altered.og"), &again, &error) != OG_OK ||
        !adds(again);
    opgraft_graph_release(again);
    bytes[n] = (char)(bytes[n] ^ 1);
  }
  CHECK_EQ(refused, checked);
  free(bytes);
done:
  opgraft_graph_release(graph);
}

TEST(wrong_files_are_errors) {
  opgraft_graph *graph = parsed(text), *again = NULL;
  opgraft_error error;
  size_t size;
  REQUIRE(graph != NULL);
  REQUIRE(opgraft_graph_save(graph, path_in("g.og"), &error) == OG_OK);
  char *bytes = file_bytes(path_in("g.og"), &size);
  file_put(path_in("cut.og"), bytes, size - 8);
  says(opgraft_graph_open(path_in("cut.og"), &again, &error), OG_INVALID,
       &error, "was cut short");
  bytes[size] = 0;
  file_put(path_in("long.og"), bytes, size + 1);
  says(opgraft_graph_open(path_in("long.og"), &again, &error), OG_INVALID,
       &error, "something follows its end");
  bytes[size - 1] = 1;
  file_put(path_in("altered.og"), bytes, size);
  if (opgraft_graph_open(path_in("altered.og"), &again, &error) == OG_OK) {
    says(opgraft_graph_save(again, path_in("h.og"), &error), OG_INVALID, &error,
         "a checksum of its data is not");
    opgraft_graph_release(again);
  }
  char *name = strstr(bytes, "graph g(");
  REQUIRE(name != NULL);
  name[6] = 'h';
  file_put(path_in("altered.og"), bytes, size);
  says(opgraft_graph_open(path_in("altered.og"), &again, &error), OG_INVALID,
       &error, "its checksum is not");
  char *version = strstr(bytes, "version 0003");
  REQUIRE(version != NULL);
  version[11] = '2';
  file_put(path_in("newer.og"), bytes, size);
  says(opgraft_graph_open(path_in("newer.og"), &again, &error), OG_VERSION,
       &error, "export it again");
  version[11] = '4';
  file_put(path_in("newer.og"), bytes, size);
  says(opgraft_graph_open(path_in("newer.og"), &again, &error), OG_VERSION,
       &error, "a newer opgraft wrote it");
  says(opgraft_graph_open(path_in("none.og"), &again, &error), OG_IO, &error,
       "No such file");
  says(opgraft_graph_open(folder, &again, &error), OG_IO, &error,
       "is a folder, expected a file");
  says(opgraft_graph_save(graph, path_in("no/where.og"), &error), OG_IO, &error,
       "could not be written");
  free(bytes);
done:
  opgraft_graph_release(graph);
}

// Two values of one name: text cannot say which is meant.
TEST(what_text_cannot_hold_is_refused) {
  opgraft_graph *graph = NULL;
  opgraft_error error;
  opgraft_value a, b;
  const opgraft_value_info info = {.struct_size = sizeof info,
                                   .dtype = {OG_CODE_FLOAT, 32, 1}};
  REQUIRE(opgraft_graph_create("twice", &graph, &error) == OG_OK);
  REQUIRE(opgraft_graph_add_input(graph, "x", &info, &a, &error) == OG_OK);
  REQUIRE(opgraft_graph_add_input(graph, "x", &info, &b, &error) == OG_OK);
  REQUIRE(opgraft_graph_add_output(graph, b, &error) == OG_OK);
  says(opgraft_graph_save(graph, path_in("twice.og"), &error), OG_UNSUPPORTED,
       &error, "cannot be said in text");
  CHECK(access(path_in("twice.og"), F_OK) != 0);
done:
  opgraft_graph_release(graph);
}

TEST(checksums_see_every_word) {
  char bytes[1000];
  for (size_t i = 0; i < sizeof bytes; ++i) bytes[i] = (char)(i * 7);
  const uint64_t whole = og_checksum(bytes, sizeof bytes);
  int missed = 0;
  for (size_t i = 0; i < sizeof bytes * 8; ++i) {
    bytes[i / 8] = (char)(bytes[i / 8] ^ 1 << i % 8);
    missed += og_checksum(bytes, sizeof bytes) == whole;
    bytes[i / 8] = (char)(bytes[i / 8] ^ 1 << i % 8);
  }
  CHECK_EQ(missed, 0);
  const char zeros[601] = {0};
  for (size_t n = 0; n < 600; ++n)
    missed += og_checksum(zeros, n) == og_checksum(zeros, n + 1);
  CHECK_EQ(missed, 0);
  // The format's own, of tests/cli/og_file.py: a change of the function is a
  // new version of the file.
  static unsigned char many[100003];
  for (size_t i = 0; i < sizeof many; ++i)
    many[i] = (unsigned char)(7 * i + i / 256);
  CHECK(og_checksum("opgraft", 7) == UINT64_C(0x8ec45a4f2acfad6c));
  CHECK(og_checksum(many, sizeof many) == UINT64_C(0xb25417cf8ed81e16));
}

// --- Arrays ------------------------------------------------------------------

TEST(arrays_come_back) {
  float data[6] = {1, 2, 3, 4, 5, 6};
  int64_t shape[2] = {3, 2}, strides[2] = {1, 3};
  opgraft_error error;
  og_tensor *again = NULL;
  const og_tensor tensor = {.data = data,
                            .device = {OG_CPU, 0},
                            .ndim = 2,
                            .dtype = {OG_CODE_FLOAT, 32, 1},
                            .shape = shape,
                            .strides = strides};
  REQUIRE(opgraft_npy_write(path_in("a.npy"), &tensor, &error) == OG_OK);
  REQUIRE(opgraft_npy_read(path_in("a.npy"), &again, &error) == OG_OK);
  CHECK_EQ(again->ndim, 2);
  CHECK(again->shape[0] == 3 && again->shape[1] == 2);
  CHECK(again->strides[0] == 2 && again->strides[1] == 1);
  CHECK_EQ((uintptr_t)again->data % 64, 0);
  const float *found = again->data;
  CHECK(found[0] == 1 && found[1] == 4 && found[5] == 6);
done:
  opgraft_npy_release(again);
}

typedef struct wrong_array {
  const char *header;
  size_t data_bytes;
  og_status status;
  const char *part;
} wrong_array;

static const wrong_array wrong_arrays[] = {
    {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", 24, OG_OK,
     ""},
    {"{'shape':(),'descr':'|b1','fortran_order':False}", 1, OG_OK, ""},
    {"{'descr': '|V2', 'fortran_order': False, 'shape': (2,), }", 4, OG_OK, ""},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9), }", 0, OG_OK,
     ""},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 23,
     OG_INVALID, "was cut short"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 25,
     OG_INVALID, "expected one array"},
    {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", 4, OG_DTYPE,
     "big-endian"},
    {"{'descr': '<U3', 'fortran_order': False, 'shape': (1,), }", 12, OG_DTYPE,
     "cannot have NumPy's type \"U3\""},
    {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", 4,
     OG_INVALID, "the name of one type"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", 4,
     OG_INVALID, "a size"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': "
     "(4294967296, 4294967296), }",
     4, OG_INVALID, "memory can have"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': "
     "(99999999999999999999,), }",
     4, OG_INVALID, "memory can have"},
    {"{'descr': '<f4', 'shape': (1,), }", 4, OG_INVALID, "before this"},
    {"{'descr': '<f4", 0, OG_INVALID, "'"},
    {"", 0, OG_INVALID, "{"},
};

TEST(wrong_arrays_are_errors) {
  for (size_t i = 0; i < sizeof wrong_arrays / sizeof *wrong_arrays; ++i) {
    const wrong_array *w = &wrong_arrays[i];
    char bytes[512] = "\x93NUMPY\x01";
    const size_t length = strlen(w->header);
    bytes[8] = (char)length;
    memcpy(bytes + 10, w->header, length);
    file_put(path_in("w.npy"), bytes, 10 + length + w->data_bytes);
    opgraft_error error = {.text = ""};
    og_tensor *tensor;
    const og_status status =
        opgraft_npy_read(path_in("w.npy"), &tensor, &error);
    opgraft_npy_release(tensor);
    if (!says(status, w->status, &error, w->part) && test_now.fault < 0)
      printf("  case %zu: %s\n", i, error.text);
  }
}

TEST(a_failing_call_is_kept) {
  float data[2] = {1, 2};
  int64_t shape[1] = {2}, strides[1] = {1};
  int64_t ints[2] = {0, 5};
  opgraft_error error;
  const og_tensor tensor = {.data = data,
                            .device = {OG_CPU, 0},
                            .ndim = 1,
                            .dtype = {OG_CODE_FLOAT, 32, 1},
                            .shape = shape,
                            .strides = strides};
  const og_tensor *in[2] = {&tensor, NULL};
  size_t size;
  og_tensor *again = NULL;
  REQUIRE(opgraft_repro_write(folder, in, ints, 2, &error) == OG_OK);
  REQUIRE(opgraft_npy_read(path_in("input-0.npy"), &again, &error) == OG_OK);
  CHECK(((const float *)again->data)[1] == 2);
  char *command = file_bytes(path_in("run.txt"), &size);
  CHECK(strstr(command, "--in input-0.npy") && strstr(command, "--in 5"));
  free(command);
done:
  opgraft_npy_release(again);
}

int main(void) {
  static const test_case tests[] = {
      CASE(a_graph_comes_back),
      CASE(plain_text_opens),
      CASE_NO_FAULTS(every_cut_and_every_change_is_found),
      CASE(wrong_files_are_errors),
      CASE(what_text_cannot_hold_is_refused),
      CASE_NO_FAULTS(checksums_see_every_word),
      CASE(arrays_come_back),
      CASE(wrong_arrays_are_errors),
      CASE(a_failing_call_is_kept),
  };
  static const char *const made[] = {"g.og",     "h.og",       "plain.og",
                                     "cut.og",   "altered.og", "long.og",
                                     "newer.og", "twice.og",   "a.npy",
                                     "w.npy",    "run.txt",    "input-0.npy"};
  snprintf(folder, sizeof folder, "/tmp/opgraft-graph-file.XXXXXX");
  if (mkdtemp(folder) == NULL) return 1;
  const int result =
      test_run_all("graph_file", tests, sizeof tests / sizeof *tests);
  for (size_t i = 0; i < sizeof made / sizeof *made; ++i)
    unlink(path_in(made[i]));
  rmdir(folder);
  return result;
}
