// SPDX-License-Identifier: Apache-2.0
// A module that is released while a device still has its kernel.

#define _GNU_SOURCE
#include <stdatomic.h>
#include <unistd.h>

#include "device_sim.h"

static atomic_int kernels_done;
static int done_at_release;  // -1: not released

static og_status slow_run(const og_call *call) {
  usleep(50000);
  atomic_fetch_add(&kernels_done, 1);
  return call->attr[0].f == -1 ? og_fail(call, OG_KERNEL, "a is -1") : OG_OK;
}

static const og_kernel kernels[] = {{.device = OG_EXT_DEV, .run = slow_run}};
static const og_op ops[] = {{.schema = "slow(Tensor x, float a) -> Tensor",
                             .shape = "x[*N] -> [*N]",
                             .kernels = OG_KERNELS(kernels)}};
static const og_module record = {.struct_size = sizeof record,
                                 .abi_version = OG_ABI_VERSION,
                                 .name = "slow",
                                 .ops = ops,
                                 .op_count = 1,
                                 .op_size = sizeof(og_op)};

static void on_release(void *owner) {
  (void)owner;
  done_at_release = atomic_load(&kernels_done);
}

// Gives the module's kernel to two streams, and ends the module at once.
static void slow_case(double a, bool is_unloaded) {
  static const opgraft_made made = {.struct_size = sizeof made,
                                    .record = &record,
                                    .key = "slow",
                                    .release = on_release};
  sim s;
  axpy_call c;
  opgraft_module *module = NULL;
  void *x = NULL, *y = NULL;
  atomic_store(&kernels_done, 0);
  done_at_release = -1;
  REQUIRE(sim_open(&s, NULL));
  REQUIRE(SIM_OK(&s, opgraft_module_make(&made, &module, &s.error)));
  x = sim_floats(&s, "x");
  y = sim_floats(&s, "y");
  og_launch launch = *sim_axpy_launch(&c, x, y, a);
  launch.name = opgraft_op_name(opgraft_module_op(module, 0));
  launch.run = slow_run;
  for (int i = 0; i < 4; i += 2)
    SIM_OK(&s, opgraft_driver_launch(s.driver, s.stream[i], &launch, &s.error));
  if (is_unloaded)
    SIM_OK(&s, opgraft_module_unload(module, &s.error));
  else
    opgraft_module_release(module);
  CHECK_EQ(done_at_release, 2);
  CHECK_EQ(s.reports, a == -1 ? 2 : 0);
  if (a == -1) CHECK(strstr(s.report, "slow: a is -1") != NULL);
  SIM_OK(&s, sim_wait(&s, 0));
done:
  sim_free(&s, x);
  sim_free(&s, y);
  sim_close(&s);
}

TEST(a_release_waits_for_kernels) { slow_case(1, false); }
TEST(an_unload_waits_for_kernels) { slow_case(1, true); }
TEST(what_failed_is_reported) { slow_case(-1, false); }

TEST_MAIN("device_module", CASE_NO_FAULTS(a_release_waits_for_kernels),
          CASE_NO_FAULTS(an_unload_waits_for_kernels),
          CASE_NO_FAULTS(what_failed_is_reported))
