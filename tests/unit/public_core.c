// SPDX-License-Identifier: Apache-2.0
// What an embedder of libopgraft may call, by the public headers alone.

#include <opgraft/npy.h>
#include <opgraft/opgraft.h>
#include <opgraft/report.h>
#include <opgraft/sample.h>

#include "unit/test.h"

static og_status twice(const og_call *call) {
  const float *x = call->in[0]->data;
  float *y = call->out[0]->data;
  for (int64_t i = 0; i < call->dim[0]; ++i) y[i] = 2 * x[i];
  return OG_OK;
}

static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f64", .run = twice},
    {.device = OG_CPU, .dtypes = "f32", .run = twice}};
static const og_op ops[] = {{.schema = "twice(Tensor x) -> Tensor",
                             .shape = "x[*N] -> [*N]",
                             .dtype = "x: f32 | f64 -> x",
                             .kernels = OG_KERNELS(kernels)}};
static const og_module record = {.struct_size = sizeof record,
                                 .abi_version = OG_ABI_VERSION,
                                 .name = "public",
                                 .ops = ops,
                                 .op_count = 1,
                                 .op_size = sizeof(og_op)};

typedef struct bytes {
  char at[4096];
  size_t count;
} bytes;

static void bytes_add(void *user, const char *text, size_t length) {
  bytes *b = user;
  if (b->count + length <= sizeof b->at) memcpy(b->at + b->count, text, length);
  b->count += length;
}

static og_tensor matrix(float *data, int64_t *shape, int64_t *strides) {
  return (og_tensor){.data = data,
                     .device = {OG_CPU, 0},
                     .ndim = 2,
                     .dtype = {OG_CODE_FLOAT, 32, 1},
                     .shape = shape,
                     .strides = strides};
}

TEST(versions_and_codes) {
  CHECK_EQ(opgraft_abi_version(), OG_ABI_VERSION);
  CHECK(strcmp(opgraft_status_text(OG_OK), "ok") == 0);
  CHECK(strcmp(opgraft_status_text(OG_SHAPE), opgraft_status_text(OG_DTYPE)));
  CHECK(opgraft_status_text((og_status)9999) != NULL);
}

TEST(the_environment_comes_back) {
  const uint64_t env = opgraft_float_env_get();
  opgraft_float_env_set(env);
  CHECK(opgraft_float_env_get() == env);
}

TEST(tensors_that_interleave_do_not_overlap) {
  float data[8];
  int64_t shape[2] = {4, 1}, strides[2] = {2, 1};
  const og_tensor even = matrix(data, shape, strides);
  og_tensor odd = matrix(data + 1, shape, strides);
  CHECK_EQ(opgraft_tensors_overlap(&even, &odd), 0);
  odd.data = data + 2;
  CHECK_EQ(opgraft_tensors_overlap(&even, &odd), 1);
}

TEST(teams_have_threads) {
  opgraft_team *team = NULL;
  opgraft_error error;
  REQUIRE(opgraft_team_create(3, &team, &error) == OG_OK);
  CHECK_EQ(opgraft_team_threads(team), 3);
done:
  opgraft_team_destroy(team);
}

TEST(results_of_the_caller) {
  opgraft_module *module = NULL;
  opgraft_frame frame;
  opgraft_error error;
  float from[6] = {1, 2, 3, 4, 5, 6}, to[12];
  int64_t shape[2] = {2, 3}, wrong[2] = {3, 2}, strides[2] = {3, 1};
  const og_tensor x = matrix(from, shape, strides);
  og_tensor y = matrix(to, wrong, strides);
  const og_tensor *outs[1] = {&y};
  const opgraft_op *op = NULL;
  REQUIRE(opgraft_module_wrap(&record, &module, &error) == OG_OK);
  op = opgraft_module_find_op(module, "twice");
  CHECK(strcmp(opgraft_op_record(op)->schema, ops[0].schema) == 0);
  opgraft_frame_init(&frame, op);
  frame.in[0] = &x;
  if (CHECK(opgraft_frame_infer(&frame, &error) == OG_OK)) {
    CHECK_EQ(opgraft_frame_explain(&frame, 0, &error), OG_DTYPE);
    CHECK(strstr(error.text, "f64") != NULL);
    CHECK_EQ(opgraft_frame_explain(&frame, 1, &error), OG_OK);
    CHECK_EQ(opgraft_frame_set_out(&frame, 0, &y, &error), OG_SHAPE);
    y = matrix(from + 1, shape, strides);
    CHECK_EQ(opgraft_frame_set_out(&frame, 0, &y, &error), OG_INVALID);
    CHECK_EQ(opgraft_frame_check_written(&frame, outs, &error), OG_INVALID);
    y = matrix(to, shape, strides);
    CHECK_EQ(opgraft_frame_check_written(&frame, outs, &error), OG_OK);
    CHECK_EQ(opgraft_frame_infer(&frame, &error), OG_OK);
    CHECK_EQ(opgraft_frame_set_out(&frame, 0, &y, &error), OG_OK);
    CHECK_EQ(opgraft_frame_run(&frame, &error), OG_OK);
    CHECK(to[0] == 2 && to[5] == 12);
  }
  opgraft_frame_reset(&frame);
done:
  if (module != NULL) opgraft_module_release(module);
}

TEST(samples_say_what_they_are) {
  opgraft_module *module = NULL;
  opgraft_sample *sample = NULL;
  opgraft_error error;
  const char *names[1] = {"N"};
  const int64_t sizes[1] = {7};
  const opgraft_sample_options options = {.struct_size = sizeof options,
                                          .dim_names = names,
                                          .dim_sizes = sizes,
                                          .dim_count = 1};
  REQUIRE(opgraft_module_wrap(&record, &module, &error) == OG_OK);
  const opgraft_op *op = opgraft_module_find_op(module, "twice");
  CHECK_EQ(opgraft_sample_type_count(op), 2);
  REQUIRE(opgraft_sample_create(op, &options, &sample, &error) == OG_OK);
  CHECK(strstr(opgraft_sample_text(sample), "7") != NULL);
done:
  opgraft_sample_destroy(sample);
  if (module != NULL) opgraft_module_release(module);
}

TEST(npy_files_go_anywhere) {
  float data[6] = {1, 2, 3, 4, 5, 6};
  const float dense[6] = {1, 4, 2, 5, 3, 6};
  int64_t shape[2] = {3, 2}, strides[2] = {1, 3};
  const og_tensor turned = matrix(data, shape, strides);
  static bytes found;
  opgraft_error error;
  found.count = 0;
  if (!CHECK(opgraft_npy_print(&turned, bytes_add, &found, &error) == OG_OK))
    return;
  CHECK(memcmp(found.at, "\x93NUMPY", 6) == 0);
  CHECK_EQ(found.count % 64, sizeof dense);
  CHECK(memcmp(found.at + found.count - sizeof dense, dense, sizeof dense) ==
        0);
  og_tensor elsewhere = turned;
  elsewhere.device = (og_device){OG_EXT_DEV, 0};
  found.count = 0;
  CHECK_EQ(opgraft_npy_print(&elsewhere, bytes_add, &found, &error), OG_DEVICE);
  CHECK_EQ(found.count, 0);
}

TEST(reports_count_their_roots) {
  static const char events[] = "opgraft-events 1\n";
  opgraft_report *report = NULL;
  opgraft_error error;
  REQUIRE(opgraft_report_read(events, sizeof events - 1, &report, &error) ==
          OG_OK);
  CHECK_EQ(opgraft_report_root_count(report), 0);
done:
  opgraft_report_release(report);
}

TEST_MAIN("public_core", CASE(versions_and_codes),
          CASE(the_environment_comes_back),
          CASE(tensors_that_interleave_do_not_overlap),
          CASE_NO_FAULTS(teams_have_threads), CASE(results_of_the_caller),
          CASE(samples_say_what_they_are), CASE(npy_files_go_anywhere),
          CASE(reports_count_their_roots))
