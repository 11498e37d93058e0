// SPDX-License-Identifier: Apache-2.0
// What the public headers promise, and no other test looks at:
// tools/contracts.txt lists every contract with its test.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <opgraft/builder.h>
#include <opgraft/check.h>
#include <opgraft/npy.h>
#include <opgraft/opgraft.h>
#include <opgraft/report.h>
#include <opgraft/sample.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/test.h"

enum { THREADS = 4, ROUNDS = 30, COLUMNS = 3 };

static const og_dtype f32 = {OG_CODE_FLOAT, 32, 1};

// Row sums; refuses a tensor without strides.
static og_status sums(const og_call *call) {
  const og_tensor *x = call->in[0];
  const float *from = x->data;
  float *to = call->out[0]->data;
  if (x->strides == NULL || call->out[0]->strides == NULL) return OG_INVALID;
  for (int64_t i = 0; i < x->shape[0]; ++i) {
    to[i] = 0;
    for (int64_t j = 0; j < x->shape[1]; ++j)
      to[i] += from[i * x->strides[0] + j * x->strides[1]];
  }
  return OG_OK;
}

static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = sums}};
static const og_op ops[] = {{.schema = "sums(Tensor x) -> Tensor",
                             .shape = "x[N, M] -> [N]",
                             .dtype = "x: f32 -> f32",
                             .kernels = OG_KERNELS(kernels)}};
static const og_module record = {.struct_size = sizeof record,
                                 .abi_version = OG_ABI_VERSION,
                                 .name = "contracts",
                                 .ops = ops,
                                 .op_count = 1,
                                 .op_size = sizeof(og_op)};

static og_tensor matrix(float *data, int64_t *shape, int64_t *strides) {
  return (og_tensor){.data = data,
                     .device = {OG_CPU, 0},
                     .ndim = 2,
                     .dtype = f32,
                     .shape = shape,
                     .strides = strides};
}

// One call on a matrix of two rows.
static bool adds_up(const opgraft_op *op, int64_t *strides, float seed) {
  float x[2 * COLUMNS], y[2] = {0, 0};
  int64_t shape[2] = {2, COLUMNS};
  const og_tensor tensor = matrix(x, shape, strides);
  opgraft_error error;
  opgraft_frame frame;
  for (int32_t i = 0; i < 2 * COLUMNS; ++i) x[i] = seed + (float)i;
  opgraft_frame_init(&frame, op);
  frame.in[0] = &tensor;
  og_status status = opgraft_frame_infer(&frame, &error);
  if (status == OG_OK) {
    frame.fresh[0].data = y;
    status = opgraft_frame_run(&frame, &error);
  }
  opgraft_frame_reset(&frame);
  return status == OG_OK && y[0] == 3 * seed + 3 && y[1] == 3 * seed + 12;
}

TEST(strides_are_there_inside_a_kernel) {
  opgraft_module *module = NULL;
  opgraft_error error;
  REQUIRE(opgraft_module_wrap(&record, &module, &error) == OG_OK);
  CHECK(adds_up(opgraft_module_find_op(module, "sums"), NULL, 1));
done:
  if (module != NULL) opgraft_module_release(module);
}

TEST(a_file_is_replaced_as_a_whole) {
  char folder[] = "/tmp/opgraft_contracts_XXXXXX", path[64], left[4096];
  float data[6] = {1, 2, 3, 4, 5, 6};
  int64_t shape[2] = {2, 3}, strides[2] = {3, 1};
  og_tensor tensor = matrix(data, shape, strides);
  struct stat before, after;
  opgraft_error error;
  int reader = -1;
  if (!CHECK(mkdtemp(folder) != NULL)) return;
  snprintf(path, sizeof path, "%s/a.npy", folder);
  REQUIRE(opgraft_npy_write(path, &tensor, &error) == OG_OK);
  reader = open(path, O_RDONLY);
  REQUIRE(reader >= 0 && fstat(reader, &before) == 0);
  data[0] = 9;
  REQUIRE(opgraft_npy_write(path, &tensor, &error) == OG_OK);
  // Who has the old file open reads all of it, as it was.
  REQUIRE(fstat(reader, &after) == 0);
  CHECK_EQ(after.st_size, before.st_size);
  REQUIRE(read(reader, left, sizeof left) == before.st_size);
  CHECK(memcmp(left + before.st_size - sizeof data, &(float){1},
               sizeof(float)) == 0);
done:
  if (reader >= 0) close(reader);
  unlink(path);
  CHECK(rmdir(folder) == 0);  // nothing is left beside it
}

static bool fork_fails;

// The process's fork, which a test can make fail.
pid_t fork(void) {
  static pid_t (*real)(void);
  if (fork_fails) {
    errno = EAGAIN;
    return -1;
  }
  if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, "fork");
  return real();
}

TEST(a_process_that_cannot_fork_is_told) {
  opgraft_module *module = NULL;
  opgraft_error error;
  const opgraft_check_options options = {.struct_size = sizeof options};
  const opgraft_check_sink sink = {.struct_size = sizeof sink};
  int32_t findings = -1;
  REQUIRE(opgraft_module_wrap(&record, &module, &error) == OG_OK);
  fork_fails = true;
  CHECK_EQ(opgraft_check(module, &options, &sink, &findings, &error), OG_IO);
  fork_fails = false;
  CHECK(strstr(error.text, strerror(EAGAIN)) != NULL);
done:
  if (module != NULL) opgraft_module_release(module);
}

static bool graph_make(int32_t count, opgraft_graph **out_graph,
                       opgraft_value *out_values, opgraft_error *error) {
  opgraft_size shape[1];
  const opgraft_value_info info = {
      .struct_size = sizeof info, .dtype = f32, .ndim = 1, .shape = shape};
  if (opgraft_graph_create("g", out_graph, error) != OG_OK ||
      opgraft_graph_size(*out_graph, 4, &shape[0], error) != OG_OK)
    return false;
  for (int32_t i = 0; i < count; ++i) {
    char name[16];
    snprintf(name, sizeof name, "x%d", i);
    if (opgraft_graph_add_input(*out_graph, name, &info, &out_values[i],
                                error) != OG_OK)
      return false;
  }
  return true;
}

TEST(ids_are_not_used_again) {
  enum { COUNT = 40 };
  opgraft_graph *graph = NULL;
  opgraft_value values[COUNT];
  opgraft_error error;
  REQUIRE(graph_make(COUNT, &graph, values, &error));
  for (int32_t i = 0; i < COUNT; ++i) {
    CHECK(values[i] >= 0 && values[i] < 2 * COUNT);
    for (int32_t j = 0; j < i; ++j) CHECK(values[i] != values[j]);
  }
done:
  if (graph != NULL) opgraft_graph_release(graph);
}

typedef struct worker {
  const opgraft_op *op;
  atomic_int *wrong;
  int32_t seed;
} worker;

// A graph with its builder, a sample, a frame and a report of this thread.
static bool own_objects(const opgraft_op *op, float seed) {
  static const char events[] = "opgraft-events 1\n";
  opgraft_error error;
  opgraft_graph *graph = NULL;
  opgraft_builder *builder = NULL;
  opgraft_sample *sample = NULL;
  opgraft_report *report = NULL;
  opgraft_value values[3];
  const opgraft_sample_options options = {.struct_size = sizeof options};
  const bool is_right =
      adds_up(op, (int64_t[]){COLUMNS, 1}, seed) &&
      graph_make(3, &graph, values, &error) &&
      opgraft_builder_create(graph, &builder, &error) == OG_OK &&
      opgraft_sample_create(op, &options, &sample, &error) == OG_OK &&
      strstr(opgraft_sample_text(sample), "x f32[256, 256]") != NULL &&
      opgraft_report_read(events, sizeof events - 1, &report, &error) ==
          OG_OK &&
      opgraft_report_root_count(report) == 0;
  opgraft_report_release(report);
  opgraft_sample_destroy(sample);
  opgraft_builder_destroy(builder);
  if (graph != NULL) opgraft_graph_release(graph);
  return is_right;
}

static void *work(void *argument) {
  const worker *w = argument;
  for (int32_t i = 0; i < ROUNDS; ++i)
    if (!own_objects(w->op, (float)(w->seed + i)))
      atomic_fetch_add(w->wrong, 1);
  return NULL;
}

// What belongs to one thread shares nothing with what another thread has:
// ThreadSanitizer runs this too.
TEST(each_thread_has_objects_of_its_own) {
  opgraft_module *module = NULL;
  opgraft_error error;
  pthread_t threads[THREADS];
  worker workers[THREADS];
  atomic_int wrong = 0;
  int32_t started = 0;
  REQUIRE(opgraft_module_wrap(&record, &module, &error) == OG_OK);
  for (; started < THREADS; ++started) {
    workers[started] = (worker){opgraft_module_find_op(module, "sums"), &wrong,
                                started * ROUNDS};
    REQUIRE(pthread_create(&threads[started], NULL, work, &workers[started]) ==
            0);
  }
done:
  for (int32_t i = 0; i < started; ++i) pthread_join(threads[i], NULL);
  CHECK_EQ(wrong, 0);
  if (module != NULL) opgraft_module_release(module);
}

TEST_MAIN("public_contracts", CASE(strides_are_there_inside_a_kernel),
          CASE_NO_FAULTS(a_file_is_replaced_as_a_whole),
          CASE_NO_FAULTS(a_process_that_cannot_fork_is_told),
          CASE(ids_are_not_used_again),
          CASE_NO_FAULTS(each_thread_has_objects_of_its_own))
