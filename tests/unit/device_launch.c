// SPDX-License-Identifier: Apache-2.0
// Calls on a device: which device of several, the kernel's reason, the
// workspace of a launch that fails, and a host with streams of its own.

#include <opgraft/driver.h>

#include "base/float_env.h"
#include "device_fake.h"
#include "test.h"

static int kernel_device, synchronized, synchronized_at_free;

static og_status spoil_run(const og_call *call) {
  og_float_env_set(og_float_env_get() ^ 0x8000);  // x86: flush-to-zero
  return og_fail(call, OG_KERNEL, "the fuse is gone");
}

static og_status lists_run(const og_call *call) {
  return call->in_list[0].count == 2 ? OG_OK : OG_INTERNAL;
}

// Adds what its stream and its workspace say to x[0], whose memory is the
// host's here.
static og_status given_run(const og_call *call) {
  const float *stream = call->stream, *workspace = call->workspace;
  og_f32_mut(call->out[0])[0] += stream[0] + workspace[0];
  return OG_OK;
}

static const og_kernel given_kernels[] = {
    {.device = OG_EXT_DEV, .run = given_run}};
static const og_kernel spoil_kernels[] = {
    {.device = OG_EXT_DEV, .run = spoil_run}};
static const og_kernel lists_kernels[] = {
    {.device = OG_EXT_DEV, .run = lists_run}};
static const og_op ops[] = {
    {.schema = "spoil(Tensor(a!) x) -> ()",
     .shape = "x[N]",
     .kernels = OG_KERNELS(spoil_kernels)},
    {.schema = "work(Tensor(a!) x) -> ()",
     .shape = "x[N]",
     .workspace = "64",
     .kernels = OG_KERNELS(spoil_kernels)},
    {.schema = "lists(Tensor[] xs) -> Tensor[]",
     .shape = "xs[][N] -> {i < len(xs): [N]}",
     .kernels = OG_KERNELS(lists_kernels)},
    {.schema = "given(Tensor(a!) x) -> ()",
     .shape = "x[N]",
     .workspace = "64",
     .kernels = OG_KERNELS(given_kernels)},
};
static const og_module record = {.struct_size = sizeof record,
                                 .abi_version = OG_ABI_VERSION,
                                 .name = "launched",
                                 .ops = ops,
                                 .op_count = 4,
                                 .op_size = sizeof(og_op)};

static og_status count_synchronize(void *state, void *stream,
                                   int64_t timeout_ns, og_device_error *error) {
  ++synchronized;
  return fake_stream_synchronize(state, stream, timeout_ns, error);
}

static og_status noted_free(void *state, int32_t device, void *address,
                            og_device_error *error) {
  synchronized_at_free = synchronized;
  return fake_free(state, device, address, error);
}

static og_status noted_launch(void *state, void *stream,
                              const og_launch *launch, og_device_error *error) {
  kernel_device = launch->device;
  return fake_launch(state, stream, launch, error);
}

typedef struct fixture {
  og_device_driver table;
  opgraft_driver *driver;
  opgraft_module *module;
  opgraft_frame frame;
  opgraft_error error;
  float x[4];
  int64_t size, stride;
  og_tensor tensor;
} fixture;

static bool begin(fixture *f, const char *name, bool has_launch) {
  *f = (fixture){.table = fake_driver, .size = 4, .stride = 1};
  f->table.launch = has_launch ? noted_launch : NULL;
  f->table.stream_synchronize = count_synchronize;
  f->table.memory_free = noted_free;
  f->tensor = (og_tensor){.data = f->x,
                          .device = {OG_EXT_DEV, 1},
                          .ndim = 1,
                          .dtype = {OG_CODE_FLOAT, 32, 1},
                          .shape = &f->size,
                          .strides = &f->stride};
  if (opgraft_driver_wrap(&f->table, NULL, &f->driver, &f->error) != OG_OK ||
      opgraft_module_wrap(&record, &f->module, &f->error) != OG_OK)
    return false;
  opgraft_frame_init(&f->frame, opgraft_module_find_op(f->module, name));
  f->frame.in[0] = &f->tensor;
  synchronized = synchronized_at_free = 0;
  kernel_device = -1;
  return true;
}

static og_status run(fixture *f) {
  og_status status = opgraft_frame_infer(&f->frame, &f->error);
  if (status == OG_OK) status = opgraft_frame_run(&f->frame, &f->error);
  return status;
}

static void end(fixture *f) {
  if (f->module != NULL) {
    opgraft_frame_reset(&f->frame);
    opgraft_module_release(f->module);
  }
  opgraft_driver_destroy(f->driver);
}

TEST(a_driver_without_launch_keeps_reason_and_environment) {
  fixture f;
  const og_float_env before = og_float_env_get();
  REQUIRE(begin(&f, "spoil", false));
  CHECK_EQ(run(&f), OG_KERNEL);
  CHECK(strstr(f.error.text, "the fuse is gone") != NULL);
  CHECK_EQ(og_float_env_get(), before);
done:
  og_float_env_set(before);
  end(&f);
}

TEST(a_workspace_is_freed_behind_the_stream) {
  fixture f;
  REQUIRE(begin(&f, "work", false));
  CHECK_EQ(run(&f), OG_KERNEL);
  CHECK_EQ(synchronized_at_free, 1);
  CHECK_EQ(fake_live_count, 0);
done:
  end(&f);
}

// No driver: the host's stream and memory.
static bool begin_alone(fixture *f, const char *name) {
  if (!begin(f, name, false)) return false;
  opgraft_driver_destroy(f->driver);
  f->driver = NULL;
  return true;
}

TEST(a_host_with_a_stream_needs_no_driver) {
  fixture f;
  float stream = 1, workspace[16] = {2};
  REQUIRE(begin_alone(&f, "given"));
  f.frame.call.stream = &stream;
  f.frame.call.workspace = workspace;
  if (!CHECK_EQ(run(&f), OG_OK)) printf("%s\n", f.error.text);
  CHECK_EQ((int)f.x[0], 3);
done:
  end(&f);
}

TEST(a_host_with_a_stream_brings_the_workspace) {
  fixture f;
  float stream = 1;
  REQUIRE(begin_alone(&f, "given"));
  CHECK_EQ(run(&f), OG_DEVICE);
  CHECK(strstr(f.error.text, "no driver") != NULL);
  f.error = (opgraft_error){0};
  f.frame.call.stream = &stream;
  CHECK_EQ(run(&f), OG_INVALID);
  CHECK(strstr(f.error.text, "64 bytes of workspace") != NULL);
done:
  end(&f);
}

TEST(a_driver_leaves_the_hosts_workspace) {
  fixture f;
  float stream = 1, workspace[16] = {2};
  REQUIRE(begin(&f, "given", false));
  f.frame.call.stream = &stream;
  f.frame.call.workspace = workspace;
  if (!CHECK_EQ(run(&f), OG_OK)) printf("%s\n", f.error.text);
  CHECK_EQ((int)f.x[0], 3);
  CHECK_EQ(synchronized, 0);
done:
  end(&f);
}

TEST(lists_tell_the_device) {
  fixture f;
  REQUIRE(begin(&f, "lists", true));
  og_tensor *const xs[] = {&f.tensor, &f.tensor};
  f.frame.in[0] = NULL;
  f.frame.in_list[0] = (og_tensor_list){.count = 2, .tensors = xs};
  if (!CHECK_EQ(run(&f), OG_OK)) printf("%s\n", f.error.text);
  CHECK_EQ(kernel_device, 1);
done:
  end(&f);
}

TEST_MAIN("device_launch",
          CASE_NO_FAULTS(a_driver_without_launch_keeps_reason_and_environment),
          CASE_NO_FAULTS(a_workspace_is_freed_behind_the_stream),
          CASE_NO_FAULTS(a_host_with_a_stream_needs_no_driver),
          CASE_NO_FAULTS(a_host_with_a_stream_brings_the_workspace),
          CASE_NO_FAULTS(a_driver_leaves_the_hosts_workspace),
          CASE_NO_FAULTS(lists_tell_the_device))
