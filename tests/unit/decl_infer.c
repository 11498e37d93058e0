// SPDX-License-Identifier: Apache-2.0
// Inference: the short and the general way agree, the operator's own callback,
// lists and their memory, arguments that a host filled wrongly.

#include "decl/decl.h"
#include "decl/infer/infer.h"
#include "decl/infer/quick.h"
#include "unit/test.h"

enum { TENSORS_MAX = 4, RANK_MAX = 4 };

typedef struct sample {
  og_tensor tensor[TENSORS_MAX];
  int64_t shape[TENSORS_MAX][RANK_MAX];
  int64_t strides[TENSORS_MAX][RANK_MAX];
} sample;

static og_status run_nothing(const og_call *call) {
  (void)call;
  return OG_OK;
}

static const og_kernel any_kernel[] = {{.device = OG_CPU, .run = run_nothing}};

static void frame_init(opgraft_frame *frame) {
  memset(frame, 0, sizeof *frame);
  frame->call.threads = 1;
}

static void frame_reset(opgraft_frame *frame) {
  og_frame_block *block = frame->heap;
  while (block != NULL) {
    og_frame_block *next = block->next;
    og_free(block);
    block = next;
  }
  frame->heap = NULL;
}

static void set_tensor(sample *s, int t, og_dtype dtype, int32_t rank,
                       const int64_t *shape) {
  int64_t stride = 1;
  for (int32_t k = rank - 1; k >= 0; --k) {
    s->shape[t][k] = shape[k];
    s->strides[t][k] = stride;
    stride = shape[k] < 1000 ? stride * shape[k] : stride;
  }
  s->tensor[t] = (og_tensor){.device = {OG_CPU, 0},
                             .ndim = rank,
                             .dtype = dtype,
                             .shape = s->shape[t],
                             .strides = s->strides[t]};
}

// --- The two ways ------------------------------------------------------------

static const struct {
  const char *schema, *shape, *where, *dtype;
} quick_rules[] = {
    {"f(Tensor x, Tensor y) -> Tensor", "x[*N], y[*N] -> [*N]", NULL, NULL},
    {"f(Tensor x, Tensor y) -> Tensor", "x[*A], y[*B] -> [*broadcast(A, B)]",
     NULL, "x: any, y: any -> promote(x, y)"},
    {"f(Tensor x, Tensor y, Tensor? z) -> Tensor",
     "x[*N, I], y[O, I], z?[O] -> [*N, O]", "I > 0",
     "x: f32|f64, y: x, z: x -> x"},
    {"f(Tensor x, Tensor? y) -> (Tensor, Tensor)", "x[N, *M] -> [*M, N], []",
     NULL, "x: f32|i64, y: any -> f64, x"},
    {"f(Tensor(a!) x, Tensor y) -> (Tensor(a!), Tensor)",
     "x[A, B], y[*C] -> [A * B - 2, *C]", "A >= B, B % 2 == 1 or A // B == 1",
     NULL},
    {"f(Tensor x, Tensor y, Tensor? z) -> Tensor", "x[*N], z?[*M] -> [*N]",
     "prod(M) == 0 or prod(M) > 1", NULL},
};
enum { QUICK_RULES = sizeof quick_rules / sizeof *quick_rules };

// A small number from a sequence that is the same in every run.
static uint32_t draw(uint64_t *state, uint32_t limit) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33) % limit;
}

static void draw_tensor(sample *s, int t, uint64_t *state) {
  static const og_dtype dtypes[] = {{OG_CODE_FLOAT, 32, 1},
                                    {OG_CODE_FLOAT, 32, 1},
                                    {OG_CODE_FLOAT, 32, 1},
                                    {OG_CODE_INT, 64, 1},
                                    {OG_CODE_COMPLEX, 64, 1}};
  int64_t shape[RANK_MAX];
  const int32_t rank = (int32_t)draw(state, RANK_MAX);
  for (int32_t k = 0; k < rank; ++k) shape[k] = 1 + draw(state, 2);
  if (rank > 0 && draw(state, 40) == 0) shape[0] = INT64_MAX / 2;
  set_tensor(s, t, dtypes[draw(state, 5)], rank, shape);
  if (draw(state, 20) == 0) s->tensor[t].device.id = 1;
  // Often the same as the one before, so that calls fit.
  if (t > 0 && draw(state, 2) == 0) s->tensor[t] = s->tensor[t - 1];
}

static void check_same_tensor(const og_tensor *a, const og_tensor *b) {
  CHECK_EQ(a->ndim, b->ndim);
  CHECK(og_dtype_equal(a->dtype, b->dtype));
  CHECK(a->data == NULL && b->data == NULL);
  CHECK_EQ(a->device.id, b->device.id);
  for (int32_t k = 0; k < a->ndim; ++k) {
    CHECK_EQ(a->shape[k], b->shape[k]);
    CHECK_EQ(a->strides[k], b->strides[k]);
  }
}

static void compare_ways(const og_decl *decl, const sample *s, uint32_t given,
                         int *taken) {
  static opgraft_frame quick, general;
  opgraft_error error;
  frame_init(&quick);
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    quick.in[t] = given >> t & 1u ? &s->tensor[t] : NULL;
  memcpy(&general, &quick, sizeof general);
  const bool fits = og_quick_infer(decl, &quick);
  const og_status status = og_infer_general(decl, &general, &error);
  if (!fits) return;
  ++*taken;
  CHECK_EQ(status, OG_OK);
  CHECK_EQ(quick.sizes_used, general.sizes_used);
  CHECK_EQ(quick.fresh_count, general.fresh_count);
  for (int32_t d = 0; d < decl->dim_count; ++d)
    CHECK_EQ(quick.dim[d], general.dim[d]);
  for (int32_t j = 0; j < decl->mutated_count; ++j)
    CHECK(quick.out[j] == general.out[j]);
  for (int32_t i = 0; i < decl->fresh_count; ++i) {
    CHECK(quick.out[decl->mutated_count + i] == &quick.fresh[i]);
    check_same_tensor(&quick.fresh[i], &general.fresh[i]);
  }
}

TEST(ways_agree) {
  uint64_t state = 1;
  og_decl *decl = NULL;
  for (int r = 0; r < QUICK_RULES; ++r) {
    opgraft_error error;
    int taken = 0;
    const og_op op = {.schema = quick_rules[r].schema,
                      .shape = quick_rules[r].shape,
                      .where = quick_rules[r].where,
                      .dtype = quick_rules[r].dtype,
                      .kernels = OG_KERNELS(any_kernel)};
    REQUIRE(og_decl_create(&op, sizeof op, &decl, &error) == OG_OK);
    REQUIRE(decl->quick != NULL);
    for (int n = 0; n < 10000; ++n) {
      sample s;
      for (int t = 0; t < decl->tensor_count; ++t) draw_tensor(&s, t, &state);
      compare_ways(decl, &s, draw(&state, 4) == 0 ? draw(&state, 8) : 7,
                   &taken);
    }
    // Where calls fit, the short way is the one taken.
    CHECK(taken > 30);
    og_decl_destroy(decl);
    decl = NULL;
  }
done:
  og_decl_destroy(decl);
}

// --- A callback --------------------------------------------------------------

static og_status infer_twice(const og_infer_call *call) {
  if (call->attr[0].i == 1) return OG_SHAPE;
  call->ndim[0] = (int32_t)call->attr[0].i;
  for (int32_t k = 0; k < call->ndim[0] && k < 64; ++k)
    call->shape[0][k] = call->in[0]->shape[0] * 2;
  call->ndim[1] = 0;
  if (call->attr[0].i == 3) call->shape[0][1] = -1;
  return OG_OK;
}

TEST(callback) {
  opgraft_error error;
  og_decl *decl = NULL;
  static opgraft_frame frame;
  sample s;
  const og_op op = {.schema = "f(Tensor x, int n) -> (Tensor, Tensor)",
                    .shape = "x[N]",
                    .where = "N > 1",
                    .infer = infer_twice,
                    .kernels = OG_KERNELS(any_kernel)};
  REQUIRE(og_decl_create(&op, sizeof op, &decl, &error) == OG_OK);
  CHECK_EQ(decl->shapes[0].kind, OG_SHAPE_CALLBACK);
  frame_init(&frame);
  const int64_t five = 5, one = 1;
  set_tensor(&s, 0, (og_dtype){OG_CODE_FLOAT, 32, 1}, 1, &five);
  frame.in[0] = &s.tensor[0];
  frame.attr[0] = (og_attr){.kind = OG_ATTR_INT, .i = 2};
  REQUIRE(og_infer(decl, &frame, &error) == OG_OK);
  CHECK_EQ(frame.fresh[0].ndim, 2);
  CHECK_EQ(frame.fresh[0].shape[1], 10);
  CHECK_EQ(frame.fresh[0].strides[0], 10);
  CHECK_EQ(frame.fresh[1].ndim, 0);
  static const int64_t refused[] = {1, 3, 65, -1};
  for (int i = 0; i < 4; ++i) {
    frame.attr[0].i = refused[i];
    CHECK_EQ(og_infer(decl, &frame, &error), OG_SHAPE);
    CHECK_STR(error.argument, "infer");
  }
  frame.attr[0].i = 2;
  set_tensor(&s, 0, (og_dtype){OG_CODE_FLOAT, 32, 1}, 1, &one);
  CHECK_EQ(og_infer(decl, &frame, &error), OG_SHAPE);
done:
  og_decl_destroy(decl);
}

TEST(callback_with_a_rule) {
  static const struct {
    const char *schema, *shape;
  } rows[] = {{"f(Tensor x) -> Tensor", "x[N] -> [N]"},
              {"f(Tensor x) -> Tensor[]", NULL},
              {"f(Tensor x) -> (Tensor, int)", NULL}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    opgraft_error error;
    og_decl *decl;
    const og_op op = {.schema = rows[i].schema,
                      .shape = rows[i].shape,
                      .infer = infer_twice,
                      .kernels = OG_KERNELS(any_kernel)};
    const og_status status = og_decl_create(&op, sizeof op, &decl, &error);
    CHECK(status == OG_INVALID || status == OG_MEMORY);
  }
}

// --- Lists -------------------------------------------------------------------

TEST(list_memory) {
  opgraft_error error;
  og_decl *decl = NULL;
  static opgraft_frame frame;
  sample s;
  const int64_t shape[] = {4, 3};
  const og_op op = {.schema = "f(Tensor x, int n, int m) -> (Tensor[], Tensor)",
                    .shape = "x[A, B] -> {i < n: [A + i, B - m]}, [A]",
                    .kernels = OG_KERNELS(any_kernel)};
  frame_init(&frame);
  REQUIRE(og_decl_create(&op, sizeof op, &decl, &error) == OG_OK);
  set_tensor(&s, 0, (og_dtype){OG_CODE_FLOAT, 32, 1}, 2, shape);
  frame.in[0] = &s.tensor[0];
  frame.attr[0] = (og_attr){.kind = OG_ATTR_INT, .i = 3};
  frame.attr[1] = (og_attr){.kind = OG_ATTR_INT, .i = 1};
  // A second inference on the same frame adds a block; both are freed.
  REQUIRE(og_infer(decl, &frame, &error) == OG_OK);
  REQUIRE(og_infer(decl, &frame, &error) == OG_OK);
  REQUIRE(frame.fresh_list[0].count == 3);
  CHECK(frame.out[0] == NULL && frame.out[1] == &frame.fresh[1]);
  CHECK(frame.out_list[0].tensors == frame.fresh_list[0].tensors);
  for (int i = 0; i < 3; ++i) {
    const og_tensor *t = frame.fresh_list[0].tensors[i];
    CHECK_EQ(t->shape[0], 4 + i);
    CHECK_EQ(t->shape[1], 2);
    CHECK_EQ(t->strides[0], 2);
  }
  frame.attr[0].i = 0;
  CHECK_EQ(og_infer(decl, &frame, &error), OG_OK);
  CHECK_EQ(frame.fresh_list[0].count, 0);
  frame.attr[0].i = -1;
  CHECK_EQ(og_infer(decl, &frame, &error), OG_SHAPE);
  frame.attr[0].i = INT64_MAX;
  CHECK_EQ(og_infer(decl, &frame, &error), OG_SHAPE);
  frame.attr[0].i = 2;
  frame.attr[1].i = 4;
  CHECK_EQ(og_infer(decl, &frame, &error), OG_SHAPE);
done:
  frame_reset(&frame);
  og_decl_destroy(decl);
}

// --- Wrongly filled frames ---------------------------------------------------

TEST(attributes_of_another_kind) {
  static const char *const shapes[] = {
      "x[N] -> [n]",          "x[N] -> [sizes[0]]",
      "x[N] -> [*sizes]",     "x[N] -> [prod(sizes)]",
      "x[*A, D@n, *B] -> []", "x[*A] -> [*drop(A, n)]"};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    opgraft_error error;
    og_decl *decl;
    static opgraft_frame frame;
    sample s;
    const int64_t shape[] = {4};
    const og_op op = {.schema = "f(Tensor x, int n, int[] sizes) -> Tensor",
                      .shape = shapes[i],
                      .kernels = OG_KERNELS(any_kernel)};
    if (og_decl_create(&op, sizeof op, &decl, &error) != OG_OK) continue;
    frame_init(&frame);
    set_tensor(&s, 0, (og_dtype){OG_CODE_FLOAT, 32, 1}, 1, shape);
    frame.in[0] = &s.tensor[0];
    frame.attr[0] = (og_attr){.kind = OG_ATTR_FLOAT, .f = 1};
    frame.attr[1] = (og_attr){.kind = OG_ATTR_STR, .s = "x", .count = 1};
    CHECK_EQ(og_infer(decl, &frame, &error), OG_INVALID);
    CHECK_STR(error.text, "f: n: found float, expected int");
    // The general way reads nothing that is not there, either.
    CHECK_EQ(og_infer_general(decl, &frame, &error), OG_SHAPE);
    frame.attr[0] = (og_attr){.kind = OG_ATTR_BOOL, .i = 0};
    CHECK_EQ(og_infer(decl, &frame, &error), OG_INVALID);
    CHECK_STR(error.text, "f: sizes: found str, expected int[]");
    frame.attr[0].kind = 77;
    CHECK_EQ(og_infer(decl, &frame, &error), OG_INVALID);
    og_decl_destroy(decl);
  }
}

TEST_MAIN("decl_infer", CASE_NO_FAULTS(ways_agree), CASE(callback),
          CASE(callback_with_a_rule), CASE(list_memory),
          CASE(attributes_of_another_kind))
