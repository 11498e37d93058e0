// SPDX-License-Identifier: Apache-2.0
// Records of older and newer modules, kernels, linking, and tables that later
// layers read.

#include "decl/decl.h"
#include "decl/parse/backward.h"
#include "decl/types.h"
#include "unit/test.h"

static og_status run_nothing(const og_call *call) {
  (void)call;
  return OG_OK;
}

static const og_kernel any_kernel[] = {{.device = OG_CPU, .run = run_nothing}};

static const og_op add_op = {
    .schema = "add(Tensor x, Tensor y) -> Tensor",
    .shape = "x[*N], y[*N] -> [*N]",
    .kernels = OG_KERNELS(any_kernel),
};

static og_status create(const og_op *op, uint32_t size, og_decl **out,
                        opgraft_error *error) {
  memset(error, 0, sizeof *error);
  return og_decl_create(op, size, out, error);
}

TEST(older_record) {
  opgraft_error error;
  og_decl *decl = NULL;
  // A record that ends before `infer`, followed by bytes that are not its own.
  struct {
    og_op op;
    char more[8];
  } shorter;
  memset(&shorter, 0x5a, sizeof shorter);
  memcpy(&shorter.op, &add_op, offsetof(og_op, infer));
  REQUIRE(create(&shorter.op, offsetof(og_op, infer), &decl, &error) == OG_OK);
  CHECK(decl->record->infer == NULL);
  CHECK_STR(decl->name, "add");
  og_decl_destroy(decl);
  CHECK_EQ(create(&shorter.op, 24, &decl, &error), OG_VERSION);
done:
  og_decl_destroy(decl);
}

TEST(newer_record) {
  opgraft_error error;
  og_decl *decl = NULL;
  struct {
    og_op op;
    char more[16];
  } longer = {.op = add_op};
  REQUIRE(create(&longer.op, sizeof longer, &decl, &error) == OG_OK);
  og_decl_destroy(decl);
  longer.more[9] = 1;
  const og_status status = create(&longer.op, sizeof longer, &decl, &error);
  REQUIRE(status == OG_VERSION);
  CHECK(strstr(error.text, "update opgraft") != NULL);
  CHECK(decl == NULL);
done:
  og_decl_destroy(decl);
}

TEST(kernels_of_another_size) {
  opgraft_error error;
  og_decl *decl = NULL;
  struct {
    og_kernel kernel;
    int64_t more;
  } kernels[2] = {
      {.kernel = {.device = OG_CPU, .dtypes = "f32", .run = run_nothing}},
      {.kernel = {.device = OG_CUDA, .dtypes = "f64", .run = run_nothing}}};
  og_op op = add_op;
  op.kernels = &kernels[0].kernel;
  op.kernel_count = 2;
  op.kernel_size = sizeof kernels[0];
  REQUIRE(create(&op, sizeof op, &decl, &error) == OG_OK);
  CHECK_EQ(decl->kernel_count, 2);
  CHECK_STR(decl->kernels[1].dtypes, "f64");
  CHECK_EQ(decl->kernels[1].device, OG_CUDA);
  og_decl_destroy(decl);
  kernels[1].more = 1;
  CHECK_EQ(create(&op, sizeof op, &decl, &error), OG_VERSION);
  kernels[1].more = 0;
  kernels[1].kernel.run = NULL;
  CHECK_EQ(create(&op, sizeof op, &decl, &error), OG_INVALID);
  op.kernel_size = 8;
  CHECK_EQ(create(&op, sizeof op, &decl, &error), OG_INVALID);
  op.kernel_count = 0;
  CHECK_EQ(create(&op, sizeof op, &decl, &error), OG_INVALID);
done:
  og_decl_destroy(decl);
}

TEST(no_schema) {
  opgraft_error error;
  og_decl *decl;
  og_op op = add_op;
  op.schema = NULL;
  CHECK_EQ(create(&op, sizeof op, &decl, &error), OG_INVALID);
  CHECK_EQ(og_decl_create(&op, sizeof op, &decl, NULL), OG_INVALID);
}

TEST(error_points_at_the_character) {
  opgraft_error error;
  og_decl *decl;
  og_op op = add_op;
  op.shape = "x[*N], y[] -> [*N, M]";
  const og_status status = create(&op, sizeof op, &decl, &error);
  if (status == OG_MEMORY) return;
  CHECK_EQ(status, OG_INVALID);
  CHECK_STR(error.op, "add");
  CHECK_STR(error.argument, "shape");
  CHECK_EQ(error.begin, 19);
  CHECK_EQ(error.end, 20);
}

TEST(limits) {
  opgraft_error error;
  og_decl *decl = NULL;
  og_text schema = {0}, shape = {0};
  og_op op = {.kernels = OG_KERNELS(any_kernel)};
  og_text_add(&schema, "f(");
  for (int i = 0; i < OPGRAFT_ARG_MAX; ++i)
    og_text_addf(&schema, "%sTensor x%d", i > 0 ? ", " : "", i);
  og_text_add(&schema, ") -> ()");
  REQUIRE(!schema.failed);
  op.schema = schema.data;
  REQUIRE(create(&op, sizeof op, &decl, &error) == OG_OK);
  CHECK_EQ(decl->tensor_count, OPGRAFT_ARG_MAX);
  og_decl_destroy(decl);
  decl = NULL;
  schema.length -= strlen(") -> ()");
  og_text_add(&schema, ", Tensor y) -> ()");
  REQUIRE(!schema.failed);
  op.schema = schema.data;
  CHECK_EQ(create(&op, sizeof op, &decl, &error), OG_INVALID);
  // One dim more than a call has room for.
  op.schema = "g(Tensor x, Tensor y) -> ()";
  og_text_add(&shape, "x[");
  for (int i = 0; i < OPGRAFT_DIM_MAX; ++i)
    og_text_addf(&shape, "%sD%d", i > 0 ? ", " : "", i);
  og_text_add(&shape, "], y[E]");
  REQUIRE(!shape.failed);
  op.shape = shape.data;
  REQUIRE(create(&op, sizeof op, &decl, &error) == OG_INVALID);
  CHECK(strstr(error.text, "64 named dims") != NULL);
done:
  og_decl_destroy(decl);
  og_text_reset(&schema);
  og_text_reset(&shape);
}

TEST(deep_expressions) {
  opgraft_error error;
  og_decl *decl = NULL;
  og_text where = {0};
  og_op op = add_op;
  // Each term waits on the stack: one more than the stack holds.
  og_text_add(&where, "N[0]");
  op.shape = "x[*N], y[*N] -> [*N]";
  for (int i = 0; i < OG_EXPR_DEPTH_MAX; ++i) og_text_add(&where, " + (1");
  for (int i = 0; i < OG_EXPR_DEPTH_MAX; ++i) og_text_add(&where, ")");
  REQUIRE(!where.failed);
  op.where = where.data;
  CHECK_EQ(create(&op, sizeof op, &decl, &error), OG_INVALID);
  where.length = 0;
  for (int i = 0; i < OG_EXPR_CODE_MAX; ++i)
    og_text_add(&where, i > 0 ? "+1" : "1");
  REQUIRE(!where.failed);
  op.where = where.data;
  CHECK_EQ(create(&op, sizeof op, &decl, &error), OG_INVALID);
done:
  og_decl_destroy(decl);
  og_text_reset(&where);
}

TEST(links) {
  opgraft_error error;
  og_decl *decls[2] = {0};
  og_op op = add_op;
  og_op backward = {.schema = "add_b.x(Tensor grad) -> (Tensor, Tensor)",
                    .shape = "grad[*N] -> [*N], [*N]",
                    .kernels = OG_KERNELS(any_kernel)};
  op.backward = "add_b.x(grad) -> x, y";
  REQUIRE(create(&op, sizeof op, &decls[0], &error) == OG_OK);
  REQUIRE(create(&backward, sizeof op, &decls[1], &error) == OG_OK);
  CHECK_EQ(og_decl_link(decls, 2, &error), OG_OK);
  CHECK_EQ(decls[0]->grad.arg_count, 1);
  CHECK_EQ(decls[0]->grad.target_count, 2);
  CHECK_EQ(og_decl_link(decls, 1, &error), OG_INVALID);
  CHECK_STR(decls[1]->overload, "x");
  CHECK_STR(decls[1]->base_name, "add_b");
done:
  og_decl_destroy(decls[0]);
  og_decl_destroy(decls[1]);
}

TEST(kernel_types) {
  opgraft_error error;
  og_decl *decl = NULL;
  static const og_kernel kernels[] = {
      {.device = OG_CPU, .dtypes = "f32|f64, i64, i32", .run = run_nothing},
      {.device = OG_CPU, .dtypes = "any, i64, integral", .run = run_nothing}};
  og_op op = add_op;
  op.schema = "f(Tensor x, Tensor y, Tensor z) -> Tensor";
  op.shape = "x[*N] -> [*N]";
  op.dtype = "x: f32|f64|bf16, y: i64, z: i32|i8 -> x";
  op.kernels = kernels;
  op.kernel_count = 2;
  REQUIRE(create(&op, sizeof op, &decl, &error) == OG_OK);
  CHECK_EQ(decl->type_variable_count, 2);
  CHECK_EQ(decl->types[1].variable, -1);
  CHECK_EQ(decl->types[2].variable, 1);
  const og_dtype i32 = {OG_CODE_INT, 32, 1};
  CHECK_EQ(decl->kernel_types[1], 1u << og_dtype_index(i32));
done:
  og_decl_destroy(decl);
}

TEST(type_table) {
  for (int32_t i = 0; i < og_dtype_table_count(); ++i)
    CHECK_EQ(og_dtype_index(og_dtype_at(i)), i);
  for (int code = 0; code < 256; ++code)
    for (int bits = 0; bits < 256; ++bits) {
      const og_dtype dtype = {(uint8_t)code, (uint8_t)bits, 1};
      const int32_t index = og_dtype_index(dtype);
      CHECK(index < 0 || og_dtype_equal(og_dtype_at(index), dtype));
    }
  CHECK_EQ(og_dtype_index((og_dtype){OG_CODE_FLOAT, 32, 2}), -1);
}

TEST_MAIN("decl_record", CASE(older_record), CASE(newer_record),
          CASE(kernels_of_another_size), CASE(no_schema),
          CASE(error_points_at_the_character), CASE(limits),
          CASE(deep_expressions), CASE(links), CASE(kernel_types),
          CASE_NO_FAULTS(type_table))
