// SPDX-License-Identifier: Apache-2.0
// Packed weights in graph files: the same bits with and without, for every
// instruction set; what is wrong with a file is found or changes nothing.

#define _POSIX_C_SOURCE 200809L
#include <opgraft/graph_file.h>
#include <stdlib.h>
#include <unistd.h>

#include "files.h"
#include "fuzz/graph_seal.h"
#include "graph/prepacked.h"
#include "test.h"

enum { M = 5, K = 33, N = 40 };

// --- The graph ---------------------------------------------------------------

// Two weights, of which one is read as it lies and the other by its columns.
static const char text[] =
    "graph g(%x: f32[5, 33]) {\n"
    "  constant %w: f32[33, 40] = data 0\n"
    "  constant %v: f32[40, 40] = data 5312\n"
    "  %a: f32[5, 40] = matmul(%x, %w)\n"
    "  %t: f32[40, 40]{1, 40} = view(%v)\n"
    "  %y: f32[5, 40] = matmul(%a, %t)\n"
    "  return %y\n"
    "}\n";

enum { DATA_BYTES = 5312 + 40 * 40 * 4 };

static float number(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(int32_t)*state / (float)INT32_MAX;
}

static bool graph_put(const char *path) {
  static float data[DATA_BYTES / 4];
  uint32_t state = 7;
  opgraft_error error;
  for (size_t i = 0; i < DATA_BYTES / 4; ++i)
    data[i] = i < K * N || i >= 5312 / 4 ? number(&state) : 0;
  const og_file_piece piece = {0, data, sizeof data};
  const og_file_parts parts = {.text = text,
                               .text_bytes = sizeof text - 1,
                               .pieces = &piece,
                               .piece_count = 1,
                               .data_bytes = DATA_BYTES};
  return og_graph_file_write(&parts, path, &error) == OG_OK;
}

// What ran, and what it said.
typedef struct outcome {
  og_status status;
  opgraft_error error;
  float y[M * N];
  int64_t packed_bytes, mapped_bytes, pack_ns, prepare_ns;
  int lines;
  char said[256];
} outcome;

static void on_say(void *context, const char *said, int32_t is_progress) {
  outcome *o = context;
  o->lines += !is_progress;
  snprintf(o->said, sizeof o->said, "%s", said);
}

static int64_t told(const opgraft_executable *executable, const char *name) {
  static char json[1 << 16];
  opgraft_executable_describe(executable, json, sizeof json);
  const char *at = strstr(json, name);
  return at != NULL ? strtoll(at + strlen(name) + 3, NULL, 10) : -1;
}

static og_status executable_run(opgraft_executable *executable, outcome *o) {
  opgraft_call call = {.struct_size = sizeof call};
  float x[M * K];
  int64_t sizes[2] = {M, K}, strides[2] = {K, 1};
  uint32_t state = 99;
  for (int i = 0; i < M * K; ++i) x[i] = number(&state);
  const og_tensor tensor = {.data = x,
                            .device = {OG_CPU, 0},
                            .ndim = 2,
                            .dtype = {OG_CODE_FLOAT, 32, 1},
                            .shape = sizes,
                            .strides = strides};
  const og_tensor *in[1] = {&tensor};
  void *storage[1] = {o->y};
  og_status status =
      opgraft_executable_begin(executable, in, NULL, 1, &call, &o->error);
  if (status != OG_OK) return status;
  status = opgraft_call_run(&call, storage, &o->error);
  opgraft_call_end(&call);
  o->packed_bytes = told(executable, "packed_bytes");
  o->mapped_bytes = told(executable, "mapped_bytes");
  o->pack_ns = told(executable, "pack_ns");
  o->prepare_ns = told(executable, "prepare_ns");
  return status;
}

// Opens and runs the file, and saves it with its packed weights to `packed`.
static og_status file_run(const char *path, const char *packed, outcome *o) {
  opgraft_graph *graph = NULL;
  opgraft_executable *executable = NULL;
  const opgraft_host host = {
      .struct_size = sizeof host, .context = o, .threads = 2, .log = on_say};
  const opgraft_options options = {.struct_size = sizeof options,
                                   .flags = OPGRAFT_OPTION_MAX_AUTOTUNE};
  memset(o, 0, sizeof *o);
  o->status = opgraft_graph_open(path, &graph, &o->error);
  if (o->status == OG_OK)
    o->status = opgraft_graph_finish(graph, &options, &o->error);
  if (o->status == OG_OK)
    o->status = opgraft_executable_create(graph, &host, &executable, &o->error);
  if (o->status == OG_OK) o->status = executable_run(executable, o);
  if (o->status == OG_OK && packed != NULL)
    o->status = opgraft_executable_save(executable, packed, &o->error);
  opgraft_executable_release(executable);
  opgraft_graph_release(graph);
  return o->status;
}

static bool is_same(const outcome *a, const outcome *b) {
  return memcmp(a->y, b->y, sizeof a->y) == 0;
}

static char plain_path[128], packed_path[128], other_path[128];

static bool both_put(outcome *plain) {
  return graph_put(plain_path) &&
         file_run(plain_path, packed_path, plain) == OG_OK;
}

// --- Tests -------------------------------------------------------------------

TEST(packed_weights_are_mapped) {
  outcome plain, packed;
  REQUIRE(both_put(&plain));
  CHECK(plain.packed_bytes > 0);
  CHECK_EQ(plain.mapped_bytes, 0);
  CHECK(plain.pack_ns > 0 && plain.prepare_ns > 0);
  REQUIRE(file_run(packed_path, other_path, &packed) == OG_OK);
  CHECK(is_same(&plain, &packed));
  CHECK_EQ(packed.packed_bytes, 0);
  CHECK_EQ(packed.mapped_bytes, plain.packed_bytes);
  CHECK(packed.pack_ns == 0 && packed.prepare_ns > 0);
  CHECK_EQ(packed.lines, 0);
  // Saved once more, also over itself, it is the same file.
  size_t a_size, b_size, c_size;
  REQUIRE(file_run(other_path, other_path, &packed) == OG_OK);
  char *a = file_bytes(packed_path, &a_size);
  char *b = file_bytes(other_path, &b_size);
  CHECK(a_size == b_size && memcmp(a, b, a_size) == 0);
  // Without them it is the file that it was made of.
  char *c = file_bytes(plain_path, &c_size);
  CHECK(c_size < a_size);
  free(a);
  free(b);
  free(c);
done:;
}

// A change is found, or is in what is not read, as the weight whose packed form
// is.
TEST(every_cut_and_every_change_is_found) {
  outcome plain, found;
  size_t size;
  int refused = 0, silent = 0, wrong = 0, cuts = 0;
  REQUIRE(both_put(&plain));
  char *bytes = file_bytes(packed_path, &size);
  REQUIRE(size > 0 && size < FILE_MOST);
  for (size_t n = 0; n < size; n += 1 + n / 16, ++cuts) {
    file_put(other_path, bytes, n);
    refused += file_run(other_path, NULL, &found) == OG_INVALID;
  }
  CHECK_EQ(refused, cuts);
  for (size_t n = 0; n < size; n += n < 1024 ? 3 : 61) {
    bytes[n] = (char)(bytes[n] ^ 4);
    file_put(other_path, bytes, size);
    if (file_run(other_path, NULL, &found) == OG_OK) {
      ++silent;
      wrong += !is_same(&plain, &found);
    }
    bytes[n] = (char)(bytes[n] ^ 4);
  }
  CHECK_EQ(wrong, 0);
  CHECK_EQ(silent, 0);  // of a file of one block
  free(bytes);
done:;
}

// The first line of the table, and the file with it replaced by one as long.
static bool table_replace(const char *from, const char *to, outcome *out) {
  size_t size;
  char *bytes = file_bytes(packed_path, &size);
  char *at = NULL;
  for (size_t i = 0; at == NULL && i + strlen(from) < size; ++i)
    if (memcmp(bytes + i, from, strlen(from)) == 0) at = bytes + i;
  if (at != NULL) {
    memcpy(at, to, strlen(from));
    seal(bytes, size);
    file_put(other_path, bytes, size);
    file_run(other_path, NULL, out);
  }
  free(bytes);
  return at != NULL;
}

TEST(another_layout_is_packed_anew) {
  outcome plain, found;
  REQUIRE(both_put(&plain));
  REQUIRE(table_replace("f32-panels16 of 0", "f32-panels17 of 0", &found));
  CHECK_EQ(found.status, OG_OK);
  CHECK(is_same(&plain, &found));
  CHECK(found.packed_bytes > 0 && found.mapped_bytes > 0);
  CHECK_EQ(found.packed_bytes + found.mapped_bytes, plain.packed_bytes);
  CHECK_EQ(found.lines, 1);
  CHECK(strstr(found.said,
               "1 packed weight is of a layout that this opgraft "
               "does not know: packed anew") != NULL);
done:;
}

// A form of other strides is another weight's; the table stays sorted.
TEST(a_form_of_something_else_is_not_taken) {
  outcome plain, found;
  REQUIRE(both_put(&plain));
  REQUIRE(
      table_replace("40 x 33, strides 1 40", "40 x 33, strides 2 40", &found));
  CHECK_EQ(found.status, OG_OK);
  CHECK(is_same(&plain, &found));
  CHECK(found.packed_bytes > 0);
done:;
}

typedef struct wrong_table {
  const char *from, *to;
} wrong_table;

TEST(wrong_tables_are_errors) {
  static const wrong_table tables[] = {
      {"# packed f32", "# Packed f32"}, {"f32-panels16", "f32_panels16"},
      {" of 0: 40", " of 9: 40"},       {" of 0: 40", " of 00:40"},
      {"strides 1 40", "strides -1 4"}, {" bytes\n", " Bytes\n"},
      {"40 x 33, ", "4 0x 33, "},       {" 40 x 33", " 04 x 33"},
  };
  outcome plain, found;
  REQUIRE(both_put(&plain));
  for (size_t i = 0; i < sizeof tables / sizeof *tables; ++i) {
    REQUIRE(table_replace(tables[i].from, tables[i].to, &found));
    // One that is sorted and whole is another weight's.
    if (found.status == OG_OK)
      CHECK(is_same(&plain, &found) && found.packed_bytes > 0);
    else
      CHECK(found.status == OG_INVALID &&
            strstr(found.error.text, "its table of packed weights") != NULL);
  }
  // Sizes that do not add up to what the first line says.
  REQUIRE(table_replace("6528 bytes", "6464 bytes", &found));
  CHECK_EQ(found.status, OG_INVALID);
done:;
}

TEST(what_is_no_graph_file_is_not_saved) {
  opgraft_graph *graph = NULL;
  opgraft_executable *executable = NULL;
  opgraft_error error;
  outcome plain;
  static const char given[] =
      "graph g(%x: f32[2]) {\n  %y: f32[2] = neg(%x)\n  return %y\n}\n";
  const opgraft_host host = {.struct_size = sizeof host, .threads = 1};
  REQUIRE(opgraft_graph_parse(given, strlen(given), &graph, &error) == OG_OK);
  REQUIRE(opgraft_graph_finish(graph, NULL, &error) == OG_OK);
  REQUIRE(opgraft_executable_create(graph, &host, &executable, &error) ==
          OG_OK);
  CHECK_EQ(opgraft_executable_save(executable, other_path, &error), OG_INVALID);
  CHECK(strstr(error.text, "is not of a graph file") != NULL);
  REQUIRE(graph_put(plain_path));
  CHECK_EQ(file_run(plain_path, path_in("no/where.og"), &plain), OG_IO);
done:
  opgraft_executable_release(executable);
  opgraft_graph_release(graph);
}

int main(void) {
  static const test_case tests[] = {
      CASE(packed_weights_are_mapped),
      CASE_NO_FAULTS(every_cut_and_every_change_is_found),
      CASE(another_layout_is_packed_anew),
      CASE(a_form_of_something_else_is_not_taken),
      CASE_NO_FAULTS(wrong_tables_are_errors),
      CASE(what_is_no_graph_file_is_not_saved),
  };
  snprintf(folder, sizeof folder, "/tmp/opgraft-graph-packed.XXXXXX");
  if (mkdtemp(folder) == NULL) return 1;
  snprintf(plain_path, sizeof plain_path, "%s/plain.og", folder);
  snprintf(packed_path, sizeof packed_path, "%s/packed.og", folder);
  snprintf(other_path, sizeof other_path, "%s/other.og", folder);
  const int result =
      test_run_all("graph_packed", tests, sizeof tests / sizeof *tests);
  unlink(plain_path);
  unlink(packed_path);
  unlink(other_path);
  rmdir(folder);
  return result;
}
