// SPDX-License-Identifier: Apache-2.0
// Texts of what a module, an operator's record or a call may be refused for,
// where no text test can say it: each is caused here, and pinned.

#define _POSIX_C_SOURCE 200809L

#include <opgraft/opgraft.h>
#include <stdlib.h>
#include <unistd.h>

#include "unit/test.h"

static og_status fill(const og_call *call) {
  for (int64_t i = 0; i < og_numel(call->out[0]); ++i)
    og_f32_mut(call->out[0])[i] = 1;
  return OG_OK;
}

static og_status fail_silently(const og_call *call) {
  (void)call;
  return OG_KERNEL;
}

static og_status find_too_many(const og_call *call) {
  og_set_dim(call, 1, call->dim[0] + 1);
  return OG_OK;
}

static og_status infer_nothing(const og_infer_call *call) {
  (void)call;
  return OG_SHAPE;
}

static og_status infer_ranks(const og_infer_call *call) {
  call->ndim[0] = 65;
  return OG_OK;
}

static og_status infer_sizes(const og_infer_call *call) {
  call->ndim[0] = 1;
  call->shape[0][0] = -3;
  return OG_OK;
}

#define KERNEL(name, ...) \
  static const og_kernel name[] = {{.device = OG_CPU, __VA_ARGS__}};
KERNEL(plain, .dtypes = "f32", .run = fill)
KERNEL(silent, .dtypes = "f32", .run = fail_silently)
KERNEL(finder, .dtypes = "f32", .run = find_too_many)
KERNEL(unknown_isa, .dtypes = "f32", .isa = "sse9", .run = fill)
KERNEL(without_run, .dtypes = "f32")

// Loads one or two operators and, where that goes well, calls the first on
// tensors of `size` floats with a stride.
typedef struct attempt {
  og_op op;  // what is zero is f's: one argument, a result of its shape
  const char *text;
  void (*spoil)(og_op *op);  // NULL: nothing more
  const char *name;          // the module's; NULL: "m"
  uint32_t abi_version;
  uint32_t op_count;
  int64_t stride;  // 0: 1
  int32_t device;  // 0: the CPU
} attempt;

static og_status call(opgraft_module *module, const attempt *a,
                      opgraft_error *error) {
  static float data[16], result[16];
  int64_t size = 4, stride = a->stride;
  opgraft_frame *frame = calloc(1, sizeof *frame);
  if (frame == NULL) return OG_MEMORY;
  og_tensor x = {.data = data,
                 .device = {a->device == 0 ? OG_CPU : a->device, 0},
                 .ndim = 1,
                 .dtype = {OG_CODE_FLOAT, 32, 1},
                 .shape = &size,
                 .strides = &stride};
  og_tensor y = x;
  opgraft_frame_init(frame, opgraft_module_op(module, 0));
  frame->in[0] = &x;
  frame->in[1] = &y;
  og_status status = opgraft_frame_infer(frame, error);
  if (status == OG_OK) {
    frame->fresh[0].data = result;
    status = opgraft_frame_run(frame, error);
  }
  opgraft_frame_reset(frame);
  free(frame);
  return status;
}

static void expect_text(const attempt *a) {
  static const og_op f = {.schema = "f(Tensor x) -> Tensor",
                          .shape = "x[N] -> [N]",
                          .kernels = OG_KERNELS(plain)};
  og_op op = a->op;
  if (op.schema == NULL) op.schema = f.schema;
  if (op.shape == NULL) op.shape = f.shape;
  if (op.kernels == NULL) {
    op.kernels = f.kernels;
    op.kernel_count = f.kernel_count;
    op.kernel_size = f.kernel_size;
  }
  if (a->spoil != NULL) a->spoil(&op);
  const og_op ops[2] = {op, op};
  const og_module record = {
      .struct_size = sizeof record,
      .abi_version = a->abi_version == 0 ? OG_ABI_VERSION : a->abi_version,
      .name = a->name == NULL ? "m" : a->name,
      .ops = ops,
      .op_count = a->op_count,
      .op_size = sizeof(og_op)};
  opgraft_module *module = NULL;
  opgraft_error error = {0};
  og_status status = opgraft_module_wrap(&record, &module, &error);
  if (status == OG_OK) status = call(module, a, &error);
  if (module != NULL) opgraft_module_release(module);
  if (status == OG_MEMORY) return;
  CHECK(status != OG_OK);
  CHECK_STR(error.text, a->text);
}

static void no_schema(og_op *op) { op->schema = NULL; }
static void no_kernels(og_op *op) { op->kernel_count = 0; }
static void small_kernels(og_op *op) { op->kernel_size = 8; }

#define F(...) \
  { .flags = 0, __VA_ARGS__ }

TEST(records) {
  const attempt attempts[] = {
      {F(),
       .text =
           "module: built for ABI version 9, this opgraft reads versions up "
           "to 1; install a newer opgraft or rebuild the module",
       .abi_version = 9, .op_count = 1},
      {F(),
       .text = "module: the module's name is 'a-b', expected up to 63 letters, "
               "digits and underscores",
       .name = "a-b", .op_count = 1},
      {F(),
       .text =
           "module: module m declares 0 operators of 144 bytes, expected 1 to "
           "65536"},
      {F(),
       .text =
           "f: schema: two operators of the module have this name; give one "
           "another name or an overload: f.other(...)",
       .op_count = 2},
      {F(.kernels = OG_KERNELS(unknown_isa)),
       .text =
           "f: kernel 0: isa is 'sse9', expected avx2, avx512, avx512_bf16, "
           "amx_bf16 or nothing",
       .op_count = 1},
      {F(.kernels = OG_KERNELS(without_run)),
       .text = "f: kernels: kernel 0 has no .run", .op_count = 1},
      {F(),
       .text = "f: kernels: none; expected .kernels = OG_KERNELS(array), or a "
               "formula (.row)",
       .spoil = no_kernels, .op_count = 1},
      {F(),
       .text = "f: kernels: 1 of 8 bytes each; expected .kernels = "
               "OG_KERNELS(array), up to 256",
       .spoil = small_kernels, .op_count = 1},
      {F(),
       .text =
           "schema: missing; every operator has one, such as \"f(Tensor x) -> "
           "Tensor\"",
       .spoil = no_schema, .op_count = 1},
      {F(.infer = infer_nothing),
       .text = "f: shape: at 5: found '->', expected no results here, for the "
               "operator "
               "has an infer callback; leave out one of them",
       .op_count = 1},
      {F(.schema = "f(Tensor x) -> Tensor[]", .shape = "x[N]",
         .infer = infer_nothing),
       .text = "f: infer: an infer callback cannot size a list result; write a "
               "shape "
               "rule",
       .op_count = 1},
      {F(.schema = "f(Tensor x) -> (Tensor, int)", .shape = "x[N]",
         .infer = infer_nothing),
       .text = "f: infer: an infer callback cannot give an int result; write a "
               "shape "
               "rule",
       .op_count = 1},
  };
  for (size_t i = 0; i < sizeof attempts / sizeof *attempts; ++i)
    expect_text(&attempts[i]);
}

TEST(calls) {
  const attempt attempts[] = {
      {F(),
       .text =
           "f: the arguments are on cuda, its kernels are for cpu; move the "
           "arguments",
       .op_count = 1, .stride = 1, .device = OG_CUDA},
      {F(.workspace = "0 - N"), .text = "f: its workspace rule gives -4 bytes",
       .op_count = 1, .stride = 1},
      {F(.kernels = OG_KERNELS(silent)),
       .text = "f: the kernel returned \"kernel failed\" without a reason",
       .op_count = 1, .stride = 1},
      {F(.shape = "x[N] -> [K <= N]", .kernels = OG_KERNELS(finder)),
       .text = "f: the kernel set K to 5, its rule allows 0 to 4; fix the "
               "kernel or "
               "the rule",
       .op_count = 1, .stride = 1},
      {F(.shape = "x[N]", .infer = infer_nothing),
       .text = "f: infer: its callback refused the arguments: wrong shape",
       .op_count = 1, .stride = 1},
      {F(.shape = "x[N]", .infer = infer_ranks),
       .text = "f: infer: result 0 has 65 dims, expected 0 to 64",
       .op_count = 1, .stride = 1},
      {F(.shape = "x[N]", .infer = infer_sizes),
       .text = "f: infer: dim 0 of result 0 is -3, expected 0 or more",
       .op_count = 1, .stride = 1},
      {F(.schema = "f(Tensor(a!) x) -> Tensor"),
       .text = "f: x is written, and several of its elements lie at the same "
               "address, "
               "as in an expanded tensor; clone() it before the call",
       .op_count = 1, .stride = 0},
      {F(.schema = "f(Tensor(a!) x, Tensor y) -> Tensor",
         .shape = "x[N], y[N] -> [N]"),
       .text =
           "f: x is written and is the same memory as y; clone() one of them "
           "before "
           "the call",
       .op_count = 1, .stride = 1},
  };
  for (size_t i = 0; i < sizeof attempts / sizeof *attempts; ++i)
    expect_text(&attempts[i]);
}

static void expect_load(const char *path, const char *text) {
  opgraft_module *module = NULL;
  opgraft_error error = {0};
  char whole[900];
  const og_status status = opgraft_module_load(path, &module, &error);
  if (status == OG_MEMORY) return;
  snprintf(whole, sizeof whole, "%s: %s", path, text);
  CHECK_EQ(status, OG_IO);
  CHECK_STR(error.text, whole);
}

TEST(files) {
  static const char elf[] = "\177ELF and no more";
  unsigned char other[4096] = "\177ELF";
  char path[] = "/tmp/opgraft-messages-XXXXXX";
  const int file = mkstemp(path);
  REQUIRE(file >= 0);
  CHECK_EQ(write(file, "no ELF", 6), 6);
  expect_load(path,
              "could not be loaded as a shared object: it has no ELF header; "
              "`opgraft build` makes one from C files");
  CHECK_EQ(pwrite(file, elf, sizeof elf, 0), sizeof elf);
  expect_load(path,
              "could not be loaded as a shared object: it is cut short at 17 "
              "bytes; build or copy it again");
  CHECK_EQ(pwrite(file, other, sizeof other, 0), sizeof other);
  expect_load(path,
              "could not be loaded as a shared object: it is one of another "
              "machine, or a program or object file");
  expect_load("/tmp", "is not a file, expected a shared object");
done:
  if (file >= 0) {
    close(file);
    unlink(path);
  }
}

TEST_MAIN("message_texts", CASE(records), CASE(calls), CASE(files))
