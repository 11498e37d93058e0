// SPDX-License-Identifier: Apache-2.0
// The sampler: what it draws is allowed, varied, and the same for one seed.

#include "check/sample/sample.h"

#include <opgraft/sample.h>

#include "check/run/array.h"
#include "check/run/fill.h"
#include "check/sample/describe.h"
#include "check/sample/draw.h"
#include "check/sample/offsets.h"
#include "check/sample/randomize.h"
#include "check/sample/shrink.h"
#include "check/sample/types.h"
#include "check/sample/valid.h"
#include "test.h"

static og_status nothing(const og_call *call) {
  (void)call;
  return OG_OK;
}
static const og_kernel kernels[] = {{.device = OG_CPU, .run = nothing}};

#define OP(name, arguments, ...)                \
  {                                             \
    .schema = name "(" arguments ") -> Tensor", \
    .kernels = OG_KERNELS(kernels), __VA_ARGS__ \
  }

// Each asks something else of the solver.
static const og_op ops[] = {
    OP("linear", "Tensor x, Tensor w, Tensor? b=None",
       .shape = "x[*N, I], w[O, I], b?[O] -> [*N, O]", .where = "I > 0",
       .dtype = "x: f32|f64, w: x, b: x -> x"),
    OP("groups", "Tensor x, Tensor w, int groups",
       .shape = "x[N, C], w[O, C // groups] -> [N, O]",
       .where = "groups > 0, C % groups == 0, O % groups == 0",
       .dtype = "x: f32, w: x -> x"),
    OP("axis", "Tensor x, int dim", .shape = "x[*A, D@dim, *B] -> [*A, *B]",
       .where = "D > 1", .dtype = "x: f32 -> x"),
    OP("join", "Tensor[] xs, int dim",
       .shape = "xs[][*A, D~@dim, *B] -> [*A, sum(D~), *B]",
       .dtype = "xs: f32 -> xs"),
    OP("view", "Tensor x, int[] sizes", .shape = "x[*N] -> [*sizes]",
       .where = "prod(sizes) == prod(N)", .dtype = "x: f32 -> x"),
    OP("share", "Tensor x, float p, float q", .shape = "x[N] -> [N]",
       .where = "p > 0.25 and p <= 0.5, q == -3 or q >= 1000",
       .dtype = "x: f32 -> x"),
    OP("turn", "Tensor x, int[] dims", .shape = "x[*N] -> [*permute(N, dims)]",
       .where = "rank(N) > 1", .dtype = "x: f32 -> x"),
    OP("window", "Tensor x, int k, int stride=1, int pad=0",
       .shape = "x[*N, L] -> [*N, (L + 2 * pad - k) // stride + 1]",
       .where = "k > 0, stride > 0, pad >= 0, 2 * pad <= k, L + 2 * pad >= k",
       .dtype = "x: f32 -> x"),
    OP("added", "Tensor x, Tensor y",
       .shape = "x[*A], y[*B] -> [*broadcast(A, B)]",
       .dtype = "x: f32, y: x -> x"),
    OP("tight", "Tensor x, int n", .shape = "x[N, M] -> [n]",
       .where = "n == N * M + 1, N < M, N + M == 9", .dtype = "x: f32 -> x"),
    OP("last", "Tensor x, int[] sizes", .shape = "x[*N, D] -> [*sizes]",
       .where = "len(sizes) == 2, sum(sizes) == D, D > 3",
       .dtype = "x: f32 -> x"),
};

// What it says of its own samples: `code` is as long as x has elements, and
// counts down from a number that the seed chose.
static og_status countdown_sample(const og_sample_call *call) {
  enum { N, D, P };
  if (call->struct_size < sizeof *call || call->in[2] != NULL)
    return OG_INTERNAL;
  if (call->step == OG_SAMPLE_SIZES) {
    if (call->dim[N] % 2 != 0) return OG_SHAPE;
    call->dim[P] = call->dim[N] * call->dim[D];
    call->attr[0].i = (int64_t)(call->seed % 1000);
    return call->in[0]->data == NULL ? OG_OK : OG_INTERNAL;
  }
  for (int64_t i = 0; i < og_numel(call->in[1]); ++i)
    og_i64_mut(call->in[1])[i] = call->attr[0].i - i;
  return OG_OK;
}
static const og_op offering[] = {
    OP("countdown", "Tensor x, Tensor code, Tensor[] more, *, int from_",
       .shape = "x[N, D], code[P] -> [N]", .where = "N > 0",
       .dtype = "x: f32, code: i64, more: f32 -> x",
       .sample = countdown_sample),
};
static const og_module offering_record = {
    sizeof(og_module), OG_ABI_VERSION, "offering", offering, 1, sizeof(og_op)};

// Offsets by their shape, of both forms; `places` has no such shape.
static const og_op counting[] = {
    OP("sums", "Tensor x, Tensor indptr, Tensor places",
       .shape = "x[N, D], indptr[B1], places[P] -> [B1 - 1, D]",
       .where = "B1 > 0", .dtype = "x: f32, indptr: i32, places: i64 -> x"),
    OP("spread", "Tensor value, Tensor indptr, Tensor x",
       .shape = "value[B], indptr[B + 1], x[N] -> [N]",
       .dtype = "value: f32, indptr: i64, x: value -> value"),
};
static const og_module counting_record = {
    sizeof(og_module), OG_ABI_VERSION, "counting", counting, 2, sizeof(og_op)};

// Roles that `where` says; names mean nothing.
static const og_op saying[] = {
    OP("place", "Tensor x, Tensor slots, Tensor begins, Tensor indptr",
       .shape = "x[C, D], slots[N], begins[B], indptr[I] -> [N, D]",
       .where = "B > 0, slots in [-1, C), begins in offsets(C + D)",
       .dtype = "x: f32, slots: i64, begins: i32, indptr: i64 -> x"),
};
static const og_module saying_record = {
    sizeof(og_module), OG_ABI_VERSION, "saying", saying, 1, sizeof(og_op)};

static const og_module record = {
    sizeof(og_module),        OG_ABI_VERSION, "samples", ops,
    sizeof ops / sizeof *ops, sizeof(og_op)};

static const og_profile profiles[] = {
    OG_PROFILE_TINY, OG_PROFILE_MIXED, OG_PROFILE_ZERO,  OG_PROFILE_ONES,
    OG_PROFILE_EDGE, OG_PROFILE_LARGE, OG_PROFILE_SMOOTH};
enum { PROFILES = sizeof profiles / sizeof *profiles };

static int32_t draw_all(const opgraft_op *op, og_sample *sample) {
  int32_t types[4][OG_VARIABLE_MAX];
  int32_t drawn = 0;
  opgraft_error error = {.code = OG_OK};
  if (og_sample_types(op, 4, types) < 1) return 0;
  for (int32_t p = 0; p < PROFILES; ++p)
    for (uint64_t seed = 0; seed < 6; ++seed)
      drawn += og_sample_draw(op, profiles[p], types[0], seed, sample, &error);
  if (drawn < 6 * PROFILES && test_now.fault < 0)
    printf("%s: %s\n", opgraft_op_name(op), error.text);
  return drawn;
}

TEST(draws_what_the_rules_allow) {
  opgraft_module *module = NULL;
  opgraft_error error;
  og_sample *sample = og_alloc(sizeof *sample);
  REQUIRE(sample != NULL);
  REQUIRE(opgraft_module_wrap(&record, &module, &error) == OG_OK);
  for (int32_t i = 0; i < opgraft_module_op_count(module); ++i)
    CHECK_EQ(draw_all(opgraft_module_op(module, i), sample), 6 * PROFILES);
done:
  if (module != NULL) opgraft_module_release(module);
  og_free(sample);
}

TEST(draws_the_same_for_one_seed) {
  opgraft_module *module = NULL;
  opgraft_error error;
  og_text a = {0}, b = {0}, c = {0};
  int32_t types[4][OG_VARIABLE_MAX] = {{0}};
  og_sample *sample = og_alloc(sizeof *sample);
  REQUIRE(sample != NULL);
  REQUIRE(opgraft_module_wrap(&record, &module, &error) == OG_OK);
  const opgraft_op *op = opgraft_module_find_op(module, "linear");
  CHECK_EQ(og_sample_types(op, 4, types), 2);
  const uint64_t seeds[] = {5, 5, 6};
  og_text *const texts[] = {&a, &b, &c};
  for (int32_t i = 0; i < 3; ++i) {
    REQUIRE(og_sample_draw(op, OG_PROFILE_MIXED, types[1], seeds[i], sample,
                           &error));
    og_sample_describe(sample, texts[i]);
  }
  CHECK_STR(a.data, b.data);
  CHECK(a.data != NULL && c.data != NULL && strcmp(a.data, c.data) != 0);
  CHECK(a.data != NULL && strstr(a.data, "f64") != NULL);
done:
  if (module != NULL) opgraft_module_release(module);
  og_text_reset(&a);
  og_text_reset(&b);
  og_text_reset(&c);
  og_free(sample);
}

// Some sample of every kind that matters comes up.
TEST(reaches_the_edges) {
  opgraft_module *module = NULL;
  opgraft_error error;
  int32_t types[4][OG_VARIABLE_MAX];
  int32_t empty = 0, absent = 0, large = 0, negative = 0;
  og_sample *s = og_alloc(sizeof *s);
  REQUIRE(s != NULL);
  REQUIRE(opgraft_module_wrap(&record, &module, &error) == OG_OK);
  const opgraft_op *linear = opgraft_module_find_op(module, "linear");
  const opgraft_op *axis = opgraft_module_find_op(module, "axis");
  REQUIRE(og_sample_types(linear, 4, types) > 0);
  for (uint64_t seed = 0; seed < 40; ++seed) {
    REQUIRE(og_sample_draw(linear, profiles[seed % PROFILES], types[0], seed, s,
                           &error));
    empty += og_sample_numel(s) == 0 || s->dim[2] == 0;
    absent += !s->is_given[2];
    large += og_sample_numel(s) > 256;
  }
  REQUIRE(og_sample_types(axis, 4, types) > 0);
  for (uint64_t seed = 0; seed < 40; ++seed) {
    REQUIRE(og_sample_draw(axis, OG_PROFILE_MIXED, types[0], seed, s, &error));
    negative += s->attr[0].i < 0;
  }
  CHECK(empty > 0);
  CHECK(absent > 5 && absent < 35);
  CHECK(large > 2);
  CHECK(negative > 5 && negative < 35);
done:
  if (module != NULL) opgraft_module_release(module);
  og_free(s);
}

static bool counts_down(const og_array *code, int64_t from) {
  for (int64_t i = 0; i < code->count; ++i)
    if (((const int64_t *)(const void *)code->data)[i] != from - i)
      return false;
  return code->data != NULL;
}

// An operator's own sample function sets sizes and values, and refuses sizes.
TEST(takes_what_the_operator_offers) {
  opgraft_module *module = NULL;
  opgraft_error error;
  int32_t types[4][OG_VARIABLE_MAX] = {{0}};
  og_sample *s = og_alloc(sizeof *s), *smaller = og_alloc(sizeof *s);
  og_inputs *inputs = og_alloc_zeroed(1, sizeof *inputs);
  REQUIRE(s != NULL && smaller != NULL && inputs != NULL);
  REQUIRE(opgraft_module_wrap(&offering_record, &module, &error) == OG_OK);
  const opgraft_op *op = opgraft_module_find_op(module, "countdown");
  for (uint64_t seed = 0; seed < 20; ++seed) {
    REQUIRE(og_sample_draw(op, profiles[seed % PROFILES], types[0], seed, s,
                           &error));
    CHECK(s->dim[0] > 0 && s->dim[0] % 2 == 0);
    CHECK_EQ(s->shape[1][0].size[0], s->dim[0] * s->dim[1]);
    REQUIRE(og_inputs_fill(inputs, s));
    CHECK(counts_down(&inputs->tensor[1][0], s->attr[0].i));
    og_inputs_reset(inputs);
    // What follows from a smaller size follows again.
    REQUIRE(og_sample_shrink(s, 7, smaller));
    if (og_sample_is_valid(smaller, INT64_MAX, &error))
      CHECK_EQ(smaller->dim[2], smaller->dim[0] * smaller->dim[1]);
  }
done:
  if (module != NULL) opgraft_module_release(module);
  og_free(inputs);
  og_free(smaller);
  og_free(s);
}

static int64_t element(const og_array *a, int64_t i) {
  return a->type.bits == 32 ? ((const int32_t *)(const void *)a->data)[i]
                            : ((const int64_t *)(const void *)a->data)[i];
}

static bool are_offsets(const og_array *a, int64_t total) {
  bool ok = element(a, 0) == 0 &&
            (a->count == 1 || element(a, a->count - 1) == total);
  for (int64_t i = 1; i < a->count; ++i)
    ok = ok && element(a, i) >= element(a, i - 1);
  return ok;
}

// Offsets fit the rows that they count, for every kind of index values that
// means these rows, and are not all alike.
TEST(draws_offsets) {
  static const char *const names[] = {"sums", "spread"};
  opgraft_module *module = NULL;
  opgraft_error error;
  int32_t types[4][OG_VARIABLE_MAX] = {{0}}, uneven = 0;
  og_sample *s = og_alloc(sizeof *s);
  og_inputs *inputs = og_alloc_zeroed(1, sizeof *inputs);
  REQUIRE(s != NULL && inputs != NULL);
  REQUIRE(opgraft_module_wrap(&counting_record, &module, &error) == OG_OK);
  for (int32_t k = 0; k < 2; ++k) {
    const opgraft_op *op = opgraft_module_find_op(module, names[k]);
    REQUIRE(og_sample_types(op, 4, types) > 0);
    CHECK(og_is_offsets_argument(op->decl, 1));
    CHECK(!og_is_offsets_argument(op->decl, 0));
    CHECK(!og_is_offsets_argument(op->decl, 2));
    for (uint64_t seed = 0; seed < 60; ++seed) {
      REQUIRE(og_sample_draw(op, profiles[seed % PROFILES], types[0], seed, s,
                             &error));
      s->index_values = (og_index_values)(seed % 2);
      REQUIRE(og_inputs_fill(inputs, s));
      const og_array *indptr = &inputs->tensor[1][0];
      const int64_t rows = s->shape[k == 0 ? 0 : 2][0].size[0];
      CHECK(are_offsets(indptr, rows));
      uneven += indptr->count > 2 && 2 * element(indptr, 1) != rows;
      og_inputs_reset(inputs);
    }
  }
  CHECK(uneven > 20);
done:
  if (module != NULL) opgraft_module_release(module);
  og_free(inputs);
  og_free(s);
}

// Values are in the range that `where` says, and reach both of its ends.
TEST(draws_what_where_says) {
  opgraft_module *module = NULL;
  opgraft_error error;
  int32_t types[4][OG_VARIABLE_MAX] = {{0}}, first = 0, last = 0;
  og_sample *s = og_alloc(sizeof *s);
  og_inputs *inputs = og_alloc_zeroed(1, sizeof *inputs);
  REQUIRE(s != NULL && inputs != NULL);
  REQUIRE(opgraft_module_wrap(&saying_record, &module, &error) == OG_OK);
  const opgraft_op *op = opgraft_module_find_op(module, "place");
  REQUIRE(og_sample_types(op, 4, types) > 0);
  CHECK(og_is_offsets_argument(op->decl, 2));
  CHECK(!og_is_offsets_argument(op->decl, 3));
  CHECK(!og_has_fitting_integers(op->decl, 1));
  CHECK(og_bounds_values(op->decl, 0) && !og_bounds_values(op->decl, 2));
  for (uint64_t seed = 0; seed < 60; ++seed) {
    REQUIRE(og_sample_draw(op, profiles[seed % PROFILES], types[0], seed, s,
                           &error));
    s->index_values = (og_index_values)(seed % OG_INDEX_COUNT);
    REQUIRE(og_inputs_fill(inputs, s));
    const int64_t rows = s->shape[0][0].size[0];
    const og_array *slots = &inputs->tensor[1][0];
    CHECK(are_offsets(&inputs->tensor[2][0], rows + s->shape[0][0].size[1]));
    for (int64_t i = 0; i < slots->count; ++i) {
      CHECK(element(slots, i) >= -1 && element(slots, i) < rows);
      first += element(slots, i) == -1;
      last += element(slots, i) == rows - 1;
    }
    og_inputs_reset(inputs);
  }
  CHECK(first > 5 && last > 5);
done:
  if (module != NULL) opgraft_module_release(module);
  og_free(inputs);
  og_free(s);
}

static void bind_countdown(const opgraft_sample *sample, const opgraft_op *op) {
  opgraft_frame frame;
  opgraft_frame_init(&frame, op);
  opgraft_sample_bind(sample, &frame);
  const og_tensor *code = frame.in[1];
  CHECK_EQ(code->shape[0], 8 * 6);
  CHECK_EQ(og_i64(code)[0], frame.attr[0].i);
  CHECK_EQ(og_i64(code)[47], frame.attr[0].i - 47);
  opgraft_frame_reset(&frame);
}

// So do samples of a given size, and a size that it refuses is an error.
TEST(offers_at_any_size) {
  opgraft_module *module = NULL;
  opgraft_sample *sample = NULL;
  opgraft_error error;
  static const char *const names[] = {"N", "D"};
  int64_t sizes[] = {8, 6};
  const opgraft_sample_options options = {.struct_size = sizeof options,
                                          .dim_names = names,
                                          .dim_sizes = sizes,
                                          .dim_count = 2};
  REQUIRE(opgraft_module_wrap(&offering_record, &module, &error) == OG_OK);
  const opgraft_op *op = opgraft_module_find_op(module, "countdown");
  REQUIRE(opgraft_sample_create(op, &options, &sample, &error) == OG_OK);
  bind_countdown(sample, op);
  opgraft_sample_refill(sample, OPGRAFT_INDEX_SORTED);
  bind_countdown(sample, op);
  opgraft_sample_destroy(sample);
  sizes[0] = 7;
  CHECK(opgraft_sample_create(op, &options, &sample, &error) == OG_SHAPE);
  CHECK(sample == NULL);
done:
  opgraft_sample_destroy(sample);
  if (module != NULL) opgraft_module_release(module);
}

TEST_MAIN("check_sample", CASE_NO_FAULTS(draws_what_the_rules_allow),
          CASE(draws_the_same_for_one_seed), CASE_NO_FAULTS(reaches_the_edges),
          CASE_NO_FAULTS(takes_what_the_operator_offers),
          CASE_NO_FAULTS(draws_offsets), CASE_NO_FAULTS(draws_what_where_says),
          CASE_NO_FAULTS(offers_at_any_size))
