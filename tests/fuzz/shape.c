// SPDX-License-Identifier: Apache-2.0
// Any bytes as a shape rule, `where` and `workspace`, one a line, of one of a
// few schemas; where they parse, shapes are inferred for a few calls. The
// first byte picks the schema.

#include "declare.h"

typedef struct subject {
  const char *schema;
  int tensors;  // plain ones come first
  int is_list;  // the first tensor argument is a list
} subject;

static const subject subjects[] = {
    {"f(Tensor x, Tensor weight, Tensor? bias=None, int n=2, "
     "int[] sizes=[2, 3], bool flag=True) -> Tensor",
     3, 0},
    {"f(Tensor[] xs, int dim=0, int n=1) -> Tensor", 1, 1},
    {"f(Tensor x, int[] dims=[0], int count=2, int? m=None) -> Tensor[]", 1, 0},
    {"f(Tensor x, Tensor y, SymInt n=3) -> (Tensor a, Tensor b)", 2, 0},
    {"f(Tensor(a!) x, Tensor y) -> ()", 2, 0},
};

static const subject *chosen;

// The attributes of every subject, by what its schema says.
static void fill_attributes(opgraft_frame *frame) {
  static const int64_t sizes[] = {2, 3};
  static const int64_t dims[] = {0};
  const og_attr two = {.kind = OG_ATTR_INT, .i = 2};
  const og_attr zero = {.kind = OG_ATTR_INT, .i = 0};
  const og_attr yes = {.kind = OG_ATTR_BOOL, .i = 1};
  const og_attr sizes_attr = {.kind = OG_ATTR_INTS, .count = 2, .ints = sizes};
  const og_attr dims_attr = {.kind = OG_ATTR_INTS, .count = 1, .ints = dims};
  const og_attr all[][3] = {
      {two, sizes_attr, yes},
      {zero, two, {.kind = OG_ATTR_NONE}},
      {dims_attr, two, {.kind = OG_ATTR_NONE}},
      {two, {.kind = OG_ATTR_NONE}, {.kind = OG_ATTR_NONE}},
      {{.kind = OG_ATTR_NONE}, {.kind = OG_ATTR_NONE}, {.kind = OG_ATTR_NONE}},
  };
  memcpy(frame->attr, all[chosen - subjects], sizeof all[0]);
}

// Shapes of the sampled calls; the last one overflows when multiplied.
static const int64_t samples[][4] = {
    {2, 3, 4, 5}, {0, 1, 1, 0}, {3, 3, 3, 3}, {INT64_MAX / 4, 8, 2, 1}};

static void infer(const opgraft_op *op, const int64_t *sizes, int rank,
                  bool has_optional) {
  int64_t shape[4], strides[4];
  int64_t step = 1;
  for (int i = rank - 1; i >= 0; --i) {
    shape[i] = sizes[i];
    strides[i] = step;
    step = shape[i] > 0 && step < 1000 ? step * (shape[i] % 1000) : step;
  }
  const og_tensor tensor = {.device = {OG_CPU, 0},
                            .ndim = rank,
                            .dtype = {OG_CODE_FLOAT, 32, 1},
                            .shape = shape,
                            .strides = strides};
  const og_tensor other = {.device = {OG_CPU, 0},
                           .ndim = rank > 1 ? rank - 1 : rank,
                           .dtype = {OG_CODE_FLOAT, 32, 1},
                           .shape = shape + (rank > 1),
                           .strides = strides + (rank > 1)};
  og_tensor copies[2] = {tensor, tensor};
  og_tensor *const list[2] = {&copies[0], &copies[1]};
  opgraft_frame *frame = (opgraft_frame *)calloc(1, sizeof *frame);
  if (frame == NULL) abort();
  opgraft_frame_init(frame, op);
  for (int i = 0; i < chosen->tensors; ++i)
    frame->in[i] = i == 0 ? &tensor : &other;
  if (!has_optional) frame->in[2] = NULL;
  if (chosen->is_list) {
    frame->in[0] = NULL;
    frame->in_list[0] = (og_tensor_list){2, list};
  }
  fill_attributes(frame);
  opgraft_error error = {0};
  if (opgraft_frame_infer(frame, &error) != OG_OK) fuzz_check_error(&error);
  opgraft_frame_reset(frame);
  free(frame);
}

static void visit(const opgraft_op *op) {
  for (size_t i = 0; i < sizeof samples / sizeof *samples; ++i)
    for (int rank = 0; rank <= 4; ++rank)
      infer(op, samples[i], rank, i % 2 == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  chosen = &subjects[data[0] % (sizeof subjects / sizeof *subjects)];
  const char *line[3];
  char *text = fuzz_lines(data + 1, size - 1, line, 3);
  const og_op op = {.schema = chosen->schema,
                    .shape = line[0],
                    .where = line[1],
                    .workspace = line[2],
                    .kernels = fuzz_kernels,
                    .kernel_count = 1,
                    .kernel_size = sizeof(og_kernel)};
  fuzz_record(&op, 1, visit);
  free(text);
  return 0;
}
