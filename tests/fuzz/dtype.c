// SPDX-License-Identifier: Apache-2.0
// Any bytes as a dtype rule, a kernel's types and a `strides` demand, one a
// line; where they parse, types are inferred for every pair of a few types.

#include "declare.h"

static const og_dtype types[] = {
    {OG_CODE_FLOAT, 32, 1}, {OG_CODE_FLOAT, 64, 1}, {OG_CODE_BFLOAT, 16, 1},
    {OG_CODE_INT, 64, 1},   {OG_CODE_BOOL, 8, 1},   {OG_CODE_COMPLEX, 64, 1},
    {OG_CODE_UINT, 8, 1},   {OG_CODE_FLOAT, 8, 1},  {99, 3, 7}};
enum { TYPE_COUNT = sizeof types / sizeof *types };

static void infer(const opgraft_op *op, og_dtype x_type, og_dtype y_type) {
  int64_t shape[2] = {2, 3}, strides[2] = {3, 1};
  const og_tensor x = {.device = {OG_CPU, 0},
                       .ndim = 2,
                       .dtype = x_type,
                       .shape = shape,
                       .strides = strides};
  og_tensor y = x;
  y.dtype = y_type;
  opgraft_frame *frame = (opgraft_frame *)calloc(1, sizeof *frame);
  if (frame == NULL) abort();
  opgraft_frame_init(frame, op);
  frame->in[0] = &x;
  frame->in[1] = &y;
  frame->attr[0] = (og_attr){.kind = OG_ATTR_FLOAT, .f = 0.5};
  if (x_type.bits != 64)
    frame->attr[1] = (og_attr){.kind = OG_ATTR_DTYPE, .dtype = y_type};
  opgraft_error error = {0};
  if (opgraft_frame_infer(frame, &error) != OG_OK) fuzz_check_error(&error);
  opgraft_frame_reset(frame);
  free(frame);
}

static void visit(const opgraft_op *op) {
  for (int i = 0; i < TYPE_COUNT; ++i)
    for (int j = 0; j < TYPE_COUNT; ++j) infer(op, types[i], types[j]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *line[3];
  char *text = fuzz_lines(data, size, line, 3);
  const og_kernel kernels[] = {
      {.device = OG_CPU, .dtypes = line[1], .run = fuzz_kernel}};
  const og_op op = {.schema =
                        "f(Tensor x, Tensor y, Tensor? z=None, Scalar alpha=1,"
                        " ScalarType? dtype=None) -> (Tensor, Tensor)",
                    .shape = "x[*N], y[*N], z?[*N] -> [*N], [*N]",
                    .dtype = line[0],
                    .strides = line[2],
                    .kernels = kernels,
                    .kernel_count = 1,
                    .kernel_size = sizeof(og_kernel)};
  fuzz_record(&op, 1, visit);
  free(text);
  return 0;
}
