// SPDX-License-Identifier: Apache-2.0
// Any bytes as a formula and a shape rule, one a line; where they
// parse, the derived kernel runs on tensors that end where their memory does.

#include "declare.h"

static const og_dtype types[] = {
    {OG_CODE_FLOAT, 32, 1}, {OG_CODE_FLOAT, 16, 1}, {OG_CODE_FLOAT, 64, 1}};

// Exactly the bytes that the shape needs.
static void *exact(int64_t count, og_dtype dtype) {
  const size_t bytes = (size_t)count * (dtype.bits / 8u);
  uint8_t *data = (uint8_t *)malloc(bytes > 0 ? bytes : 1);
  if (data == NULL) abort();
  for (size_t i = 0; i < bytes; ++i) data[i] = (uint8_t)(i * 37u + 11u);
  return data;
}

// Those of rows that are there, and one that is not among many.
static void *indices(int64_t rows, int64_t columns) {
  int64_t *data = (int64_t *)malloc((size_t)(rows > 0 ? rows : 1) * 8);
  if (data == NULL) abort();
  for (int64_t k = 0; k < rows; ++k)
    data[k] = columns == 300 && k == 1 ? rows : (k * 7 + 1) % rows;
  return data;
}

static int64_t count_of(const og_tensor *t) {
  int64_t count = 1;
  for (int32_t k = 0; k < t->ndim; ++k) count *= t->shape[k];
  return count;
}

static void run(opgraft_frame *frame) {
  opgraft_error error = {0};
  og_tensor *fresh = &frame->fresh[0];
  // A rule may ask for more than a fuzzer should spend time on.
  if (fresh->ndim > 4 || count_of(fresh) > 4096) return;
  void *out = exact(count_of(fresh), fresh->dtype);
  fresh->data = out;
  if (opgraft_frame_run(frame, &error) != OG_OK) fuzz_check_error(&error);
  free(out);
}

static void call(const opgraft_op *op, int64_t rows, int64_t columns,
                 og_dtype dtype, bool transposed) {
  int64_t shape[2] = {rows, columns}, strides[2] = {columns, 1};
  int64_t y_shape[1] = {columns}, y_strides[1] = {1};
  if (transposed) {
    strides[0] = 1;
    strides[1] = rows;
  }
  const og_tensor x = {.data = exact(rows * columns, dtype),
                       .device = {OG_CPU, 0},
                       .ndim = 2,
                       .dtype = dtype,
                       .shape = shape,
                       .strides = strides};
  const og_tensor y = {.data = exact(columns, types[0]),
                       .device = {OG_CPU, 0},
                       .ndim = 1,
                       .dtype = types[0],
                       .shape = y_shape,
                       .strides = y_strides};
  opgraft_frame *frame = (opgraft_frame *)calloc(1, sizeof *frame);
  if (frame == NULL) abort();
  opgraft_frame_init(frame, op);
  opgraft_error error = {0};
  int64_t rows_of_x[1] = {rows}, one[1] = {1};
  const og_tensor i = {.data = indices(rows, columns),
                       .device = {OG_CPU, 0},
                       .ndim = 1,
                       .dtype = {OG_CODE_INT, 64, 1},
                       .shape = rows_of_x,
                       .strides = one};
  frame->in[0] = &x;
  frame->in[1] = &y;
  frame->in[2] = &i;
  frame->attr[0] = (og_attr){.kind = OG_ATTR_FLOAT, .f = 0.5};
  frame->attr[1] = (og_attr){.kind = OG_ATTR_INT, .i = -3};
  if (opgraft_frame_infer(frame, &error) == OG_OK)
    run(frame);
  else
    fuzz_check_error(&error);
  opgraft_frame_reset(frame);
  free(frame);
  free(x.data);
  free(y.data);
  free(i.data);
}

static void visit(const opgraft_op *op) {
  for (int i = 0; i < 3; ++i) {
    call(op, 3, 5, types[i], i == 1);
    call(op, i, 300, types[i], i == 2);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *line[2];
  char *text = fuzz_lines(data, size, line, 2);
  const og_op op = {
      // Every tensor has dims in the rule.
      .schema =
          line[1] != NULL && strstr(line[1], "i[") != NULL
              ? "f(Tensor x, Tensor y, Tensor i, float a=1.0, int n=2) -> "
                "Tensor"
              : "f(Tensor x, Tensor y, float a=1.0, int n=2) -> Tensor",
      .row = line[0],
      .shape = line[1]};
  fuzz_record(&op, 1, visit);
  free(text);
  return 0;
}
