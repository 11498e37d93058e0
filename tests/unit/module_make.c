// SPDX-License-Identifier: Apache-2.0
// Modules that the embedder makes at run time: what the kernel finds, hashes,
// and when what they were made of is freed.

#include <opgraft/opgraft.h>
#include <string.h>

#include "test.h"

static og_status add_run(const og_call *call) {
  const float *value = call->derived;
  if (value == NULL) return og_fail(call, OG_INTERNAL, "has no value");
  og_f32_mut(call->out[0])[0] = og_f32(call->in[0])[0] + *value;
  return OG_OK;
}

static const og_kernel kernels[] = {{.device = OG_CPU, .run = add_run}};
static const og_op ops[] = {
    {.schema = "one(Tensor x) -> Tensor",
     .shape = "x[1] -> [1]",
     .kernels = OG_KERNELS(kernels)},
    {.schema = "two(Tensor x) -> Tensor",
     .shape = "x[1] -> [1]",
     .kernels = OG_KERNELS(kernels)},
};
static const og_module record = {.struct_size = sizeof record,
                                 .abi_version = OG_ABI_VERSION,
                                 .name = "made",
                                 .ops = ops,
                                 .op_count = 2,
                                 .op_size = sizeof(og_op)};

static int released;

static void on_release(void *owner) { ++*(int *)owner; }

static og_status make(const char *key, const void *const *derived,
                      opgraft_module **out, opgraft_error *error) {
  const opgraft_made made = {
      .struct_size = sizeof made,
      .record = &record,
      .derived = derived,
      .key = key,
      .release = on_release,
      .owner = &released,
  };
  return opgraft_module_make(&made, out, error);
}

static og_status call(const opgraft_op *op, float *out, opgraft_error *error) {
  opgraft_frame frame;
  float x = 1;
  int64_t size = 1, stride = 1;
  const og_tensor tensor = {.data = &x,
                            .device = {OG_CPU, 0},
                            .ndim = 1,
                            .dtype = {OG_CODE_FLOAT, 32, 1},
                            .shape = &size,
                            .strides = &stride};
  opgraft_frame_init(&frame, op);
  frame.in[0] = frame.in[1] = &tensor;  // as many as it takes
  og_status status = opgraft_frame_infer(&frame, error);
  if (status == OG_OK) {
    frame.fresh[0].data = out;
    status = opgraft_frame_run(&frame, error);
  }
  opgraft_frame_reset(&frame);
  return status;
}

TEST(each_operator_finds_its_own) {
  static const float two = 2, three = 3;
  const void *const derived[] = {&two, &three};
  opgraft_module *module = NULL;
  opgraft_error error;
  float out = 0;
  released = 0;
  REQUIRE(make("key", derived, &module, &error) == OG_OK);
  CHECK(call(opgraft_module_op(module, 0), &out, &error) == OG_OK);
  CHECK(out == 3);
  CHECK(call(opgraft_module_op(module, 1), &out, &error) == OG_OK);
  CHECK(out == 4);
  opgraft_module_retain(module);
  opgraft_module_release(module);
  CHECK_EQ(released, 0);
  opgraft_module_release(module);
  module = NULL;
  CHECK_EQ(released, 1);
done:
  if (module != NULL) opgraft_module_release(module);
}

TEST(an_operator_may_have_none) {
  const void *const derived[] = {NULL, NULL};
  opgraft_module *module = NULL;
  opgraft_error error;
  float out = 0;
  REQUIRE(make("key", derived, &module, &error) == OG_OK);
  CHECK(call(opgraft_module_op(module, 0), &out, &error) == OG_INTERNAL);
  CHECK_STR(error.text, "one: has no value");
done:
  if (module != NULL) opgraft_module_release(module);
}

TEST(equal_keys_have_equal_hashes_and_modules_of_their_own) {
  const void *const derived[] = {NULL, NULL};
  opgraft_module *a = NULL, *b = NULL, *c = NULL;
  opgraft_error error;
  REQUIRE(make("key", derived, &a, &error) == OG_OK);
  REQUIRE(make("key", derived, &b, &error) == OG_OK);
  REQUIRE(make("other", derived, &c, &error) == OG_OK);
  CHECK(a != b);
  CHECK(strcmp(opgraft_module_hash(a), opgraft_module_hash(b)) == 0);
  CHECK(strcmp(opgraft_module_hash(a), opgraft_module_hash(c)) != 0);
done:
  if (a != NULL) opgraft_module_release(a);
  if (b != NULL) opgraft_module_release(b);
  if (c != NULL) opgraft_module_release(c);
}

TEST(what_is_wrong_releases_nothing) {
  const void *const derived[] = {NULL, NULL};
  static const og_op wrong[] = {{.schema = "f(Tensor x -> Tensor",
                                 .shape = "x[1] -> [1]",
                                 .kernels = OG_KERNELS(kernels)}};
  og_module bad = record;
  bad.ops = wrong;
  bad.op_count = 1;
  opgraft_made made = {.struct_size = sizeof made,
                       .record = &bad,
                       .derived = derived,
                       .key = "",
                       .release = on_release,
                       .owner = &released};
  opgraft_module *module = (opgraft_module *)&made;
  opgraft_error error;
  released = 0;
  CHECK(opgraft_module_make(&made, &module, &error) == OG_INVALID);
  CHECK(module == NULL);
  CHECK_EQ(released, 0);
  made.key = NULL;
  CHECK(opgraft_module_make(&made, &module, &error) == OG_INVALID);
  CHECK_STR(error.text, "opgraft_made.key is NULL, expected a text");
  made.struct_size = 8;
  CHECK(opgraft_module_make(&made, &module, &error) == OG_INVALID);
  CHECK_STR(error.text,
            "opgraft_made.record is NULL, expected a module's record");
}

static opgraft_module *derived(opgraft_module *of, int32_t kind) {
  opgraft_module *module = NULL;
  opgraft_error error;
  if (of != NULL)
    CHECK(opgraft_op_derive(opgraft_module_op(of, 0), kind, &module, &error) ==
          OG_OK);
  return module;
}

// A derived module keeps what it was derived of, and is a formula again.
TEST(what_a_formula_derives_is_a_formula) {
  static const og_op square[] = {{.schema = "square(Tensor x) -> Tensor",
                                  .shape = "x[1] -> [1]",
                                  .row = "y = x * x"}};
  og_module formulas = record;
  formulas.ops = square;
  formulas.op_count = 1;
  opgraft_module *modules[4] = {NULL};
  opgraft_error error;
  CHECK(opgraft_module_wrap(&formulas, &modules[0], &error) == OG_OK);
  modules[1] = derived(modules[0], OPGRAFT_GRADIENT);
  modules[2] = derived(modules[1], OPGRAFT_GRADIENT);
  modules[3] = derived(modules[0], OPGRAFT_TANGENT);
  for (int i = 0; i < 3; ++i)
    if (modules[i] != NULL) opgraft_module_release(modules[i]);
  if (modules[3] == NULL) return;
  float out = 0;
  CHECK(call(opgraft_module_op(modules[3], 0), &out, &error) == OG_OK);
  CHECK(out == 2);
  opgraft_module_release(modules[3]);
}

TEST(what_is_no_formula_derives_nothing) {
  opgraft_module *module, *made = (opgraft_module *)&released;
  opgraft_error error;
  CHECK(opgraft_module_wrap(&record, &module, &error) == OG_OK);
  if (module == NULL) return;
  CHECK(opgraft_op_derive(opgraft_module_op(module, 0), OPGRAFT_GRADIENT, &made,
                          &error) == OG_UNSUPPORTED);
  CHECK(made == NULL);
  CHECK_STR(error.text, "one: nothing can be derived from it");
  opgraft_module_release(module);
}

TEST_MAIN("module_make", CASE(each_operator_finds_its_own),
          CASE(an_operator_may_have_none),
          CASE(equal_keys_have_equal_hashes_and_modules_of_their_own),
          CASE(what_is_wrong_releases_nothing),
          CASE(what_a_formula_derives_is_a_formula),
          CASE(what_is_no_formula_derives_nothing))
