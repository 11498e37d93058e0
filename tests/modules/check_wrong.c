// SPDX-License-Identifier: Apache-2.0
// One operator for each kind of finding; an operator's name is the kind that
// check must name. All but one line of each would be right.

#include <fenv.h>
#include <stdlib.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "operators.h"

enum { N, K };

static const float *x_of(const og_call *call) { return og_f32(call->in[0]); }
static float *y_of(const og_call *call) { return og_f32_mut(call->out[0]); }

static og_status copy_count(const og_call *call, int64_t count) {
  const float *x = x_of(call);
  float *y = y_of(call);
  for (int64_t i = 0; i < count; ++i) y[i] = x[i];
  return OG_OK;
}

static og_status copy(const og_call *call) {
  return copy_count(call, call->dim[N]);
}

static og_status writes_past(const og_call *call) {
  y_of(call)[call->dim[N]] = 0;
  return copy(call);
}

static og_status reads_past(const og_call *call) {
  const float *x = x_of(call);
  for (int64_t i = 0; i < call->dim[N]; ++i) y_of(call)[i] = x[i + 1];
  return OG_OK;
}

static og_status writes_argument(const og_call *call) {
  float *x = (float *)og_data(call->in[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) x[i] = 1;
  return copy(call);
}

static og_status leaves_last(const og_call *call) {
  return copy_count(call, call->dim[N] - 1);
}

static og_status adds_to_result(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i) y_of(call)[i] += x_of(call)[i];
  return OG_OK;
}

static og_status moves_result(const og_call *call) {
  call->out[0]->data = call->in[0]->data;
  return OG_OK;
}

static og_status keeps_pointer(const og_call *call) {
  static const float *first;
  if (first == NULL) first = x_of(call);
  for (int64_t i = 0; i < call->dim[N]; ++i) y_of(call)[i] = first[0];
  return OG_OK;
}

typedef float four __attribute__((vector_size(16)));

static og_status wants_alignment(const og_call *call) {
  int64_t i = 0;
  for (; i + 4 <= call->dim[N]; i += 4)
    *(four *)(void *)(y_of(call) + i) =
        *(const four *)(const void *)(x_of(call) + i);
  for (; i < call->dim[N]; ++i) y_of(call)[i] = x_of(call)[i];
  return OG_OK;
}

static og_status scales_by_threads(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y_of(call)[i] = x_of(call)[i] * (float)call->threads;
  return OG_OK;
}

static void running_sum(const og_call *call, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    y_of(call)[i] = x_of(call)[i] + (i > begin ? y_of(call)[i - 1] : 0);
}

static og_status sums_by_share(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 1, running_sum);
}

static void copy_and_next(const og_call *call, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) y_of(call)[i] = x_of(call)[i];
  if (end < call->dim[N]) y_of(call)[end] = 3;
}

static og_status shares_overlap(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 1, copy_and_next);
}

static og_status counts_calls(const og_call *call) {
  static float calls;
  calls += 1;
  for (int64_t i = 0; i < call->dim[N]; ++i) y_of(call)[i] = calls;
  return OG_OK;
}

__attribute__((noinline)) static void take(float *to, const float *from) {
  *to = *from;
}

static og_status reads_stack(const og_call *call) {
  float scratch[8];
  __asm__ volatile("" : : "r"(scratch) : "memory");
  for (int64_t i = 0; i < call->dim[N]; ++i)
    take(&y_of(call)[i], &scratch[i % 8]);
  return OG_OK;
}

static og_status sums_in_workspace(const og_call *call) {
  float *sum = (float *)call->workspace;
  for (int64_t i = 0; i < call->dim[N]; ++i) sum[0] += x_of(call)[i];
  for (int64_t i = 0; i < call->dim[N]; ++i) y_of(call)[i] = sum[0];
  return OG_OK;
}

static og_status fills_workspace(const og_call *call) {
  float *w = (float *)call->workspace;
  for (int64_t i = 0; i < call->dim[N]; ++i) w[i] = x_of(call)[i];
  memcpy(y_of(call), w, (size_t)call->dim[N] * sizeof *w);
  return OG_OK;
}

static og_status finds_too_many(const og_call *call) {
  copy(call);
  og_set_dim(call, K, call->dim[N] + 1);
  return OG_OK;
}

static og_status square(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y_of(call)[i] = x_of(call)[i] * x_of(call)[i];
  return OG_OK;
}

static og_status flush(const og_call *call) {
#if defined(__SSE__)
  _mm_setcsr(_mm_getcsr() | 0x8000);
#else
  fesetround(FE_UPWARD);
#endif
  return copy(call);
}

static og_status doubled(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i) y_of(call)[i] = 2 * x_of(call)[i];
  return OG_OK;
}

static og_status twice_product(const og_call *call) {
  const float *b = og_f32(call->in[1]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y_of(call)[i] = 2 * x_of(call)[i] * b[i];
  return OG_OK;
}

static og_status multiply(const og_call *call) {
  const float *b = og_f32(call->in[1]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y_of(call)[i] = x_of(call)[i] * b[i];
  return OG_OK;
}

static og_status subtracts_mean(const og_call *call) {
  float sum = 0;
  for (int64_t i = 0; i < call->dim[N]; ++i) sum += x_of(call)[i];
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y_of(call)[i] = x_of(call)[i] - sum;
  return OG_OK;
}

static og_status adds_modulo(const og_call *call) {
  const int64_t count = og_numel(call->out[0]);
  const float *b = og_f32(call->in[1]);
  for (int64_t i = 0; i < count; ++i)
    y_of(call)[i] =
        x_of(call)[i % og_numel(call->in[0])] + b[i % og_numel(call->in[1])];
  return OG_OK;
}

static og_status copy_f64_badly(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_f64_mut(call->out[0])[i] = og_f64(call->in[0])[i] * 2;
  return OG_OK;
}

static og_status copy_negated(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i) y_of(call)[i] = -x_of(call)[i];
  return OG_OK;
}

static og_status reverses(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y_of(call)[i] = x_of(call)[call->dim[N] - 1 - i];
  return OG_OK;
}

static og_status aborts_when_empty(const og_call *call) {
  if (call->dim[N] == 0) abort();
  return copy(call);
}

static og_status loops(const og_call *call) {
  volatile int64_t i = call->dim[N];
  while (i > 4) i = call->dim[N];
  return copy(call);
}

static og_status allocates_all(const og_call *call) {
  for (;;) {
    void *volatile block = malloc(1 << 20);
    if (block == NULL) return og_fail(call, OG_MEMORY, "no memory");
    memset(block, 1, 1 << 20);
  }
}

static og_status leaks(const og_call *call) {
  void *volatile block = malloc(100);
  return block != NULL ? copy(call) : OG_MEMORY;
}

static og_status returns_length(const og_call *call) {
  copy(call);
  return call->dim[N] > 3 ? (og_status)(100 + call->dim[N]) : OG_OK;
}

static og_status refuses(const og_call *call) {
  return og_fail(call, OG_UNSUPPORTED, "not today");
}

#define SIMPLE(name, function)                                   \
  .schema = name "(Tensor x) -> Tensor", .shape = "x[N] -> [N]", \
  .dtype = "x: f32 -> x", RUN(NULL, function)

// The mean of what the mask lets through: 0 / 0 where that is nothing.
static og_status masked_mean(const og_call *call) {
  enum { ROWS, WIDTH };
  const int64_t width = call->dim[WIDTH];
  for (int64_t r = 0; r < call->dim[ROWS]; ++r) {
    float sum = 0, count = 0;
    for (int64_t i = r * width; i < (r + 1) * width; ++i)
      if (og_bool(call->in[1])[i]) sum += x_of(call)[i], ++count;
    y_of(call)[r] = sum / count;
  }
  return OG_OK;
}

// The integer kernel does not look at what is below zero.
static og_status magnitude(const og_call *call) {
  const int is_float = og_is(call->in[0], OG_CODE_FLOAT, 32);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    if (is_float)
      y_of(call)[i] = fabsf(x_of(call)[i]);
    else
      og_i32_mut(call->out[0])[i] = og_i32(call->in[0])[i];
  return OG_OK;
}

// Bytes from 128 on become negative.
static og_status widen(const og_call *call) {
  const int is_byte = og_is(call->in[0], OG_CODE_UINT, 8);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_i64_mut(call->out[0])[i] =
        is_byte ? og_i8(call->in[0])[i] : og_i64(call->in[0])[i];
  return OG_OK;
}

static og_status first_wins(const og_call *call) {
  static float offset;
  if (offset == 0 && call->dim[N] > 0) offset = 1 + fabsf(x_of(call)[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y_of(call)[i] = x_of(call)[i] + offset;
  return OG_OK;
}

// Written row by row, wherever the strides of the result lead.
static og_status like_row_major(const og_call *call) {
  const int64_t *step = call->in[0]->strides, *shape = call->in[0]->shape;
  for (int64_t i = 0; i < shape[0] * shape[1]; ++i)
    y_of(call)[i] =
        -x_of(call)[i / shape[1] * step[0] + i % shape[1] * step[1]];
  return OG_OK;
}

static og_status first_count(const og_call *call) {
  og_i64_mut(call->out[0])[0] = og_numel(call->in_list[0].tensors[0]);
  return OG_OK;
}

static og_status sum_entries(const og_call *call) {
  float sum = 0;
  for (int64_t k = 0; k < call->in_list[0].count; ++k)
    if (og_numel(call->in_list[0].tensors[k]) > 0)
      sum += og_f32(call->in_list[0].tensors[k])[0];
  y_of(call)[0] = sum;
  return OG_OK;
}

static og_status copies_any(const og_call *call) {
  const og_tensor *x = call->in[0];
  memcpy(og_data(call->out[0]), og_data(x),
         (size_t)og_numel(x) * (x->dtype.bits / 8));
  return OG_OK;
}

static og_status scales(const og_call *call) {
  const float scale = (float)call->attr[0].f;
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y_of(call)[i] = scale * x_of(call)[i];
  return OG_OK;
}

static og_status add_twice_(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y_of(call)[i] += 2 * og_f32(call->in[1])[i];
  return OG_OK;
}

// Says that y is added once.
static og_status add_twice_backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_f32_mut(call->out[0])[i] = og_f32_mut(call->out[1])[i] = grad[i];
  return OG_OK;
}

// The loop ends one element too early.
static og_status sum_short(const og_call *call) {
  float sum = 0;
  for (int64_t i = 0; i < call->dim[0] - 1; ++i) sum += og_f32(call->in[0])[i];
  og_f32_mut(call->out[0])[0] = sum;
  return OG_OK;
}

// The rule says [C, R]; rows are written one after the other.
static og_status row_by_row(const og_call *call) {
  for (int64_t i = 0; i < og_numel(call->in[0]); ++i)
    og_f32_mut(call->out[0])[i] = 2 * og_f32(call->in[0])[i];
  return OG_OK;
}

// Declares that it writes x, and writes nothing.
static og_status untouched(const og_call *call) {
  (void)call;
  return OG_OK;
}

// The operator has one argument that is not a tensor, and the list has `count`
// entries.
static og_status read_second(const og_call *call) {
  for (int64_t i = 0; i < call->dim[0]; ++i)
    og_f32_mut(call->out[0])[i] =
        og_f32(call->in[0])[i] * (float)call->attr[1].f;
  return OG_OK;
}

static og_status sum_past_list(const og_call *call) {
  int64_t sum = 0;
  for (int64_t i = 0; i <= call->attr[0].count; ++i)
    sum += call->attr[0].ints[i];
  for (int64_t i = 0; i < call->dim[0]; ++i)
    og_f32_mut(call->out[0])[i] = og_f32(call->in[0])[i] + (float)sum;
  return OG_OK;
}

// Adds y[0] everywhere.
static og_status add_first(const og_call *call) {
  for (int64_t i = 0; i < call->dim[0]; ++i)
    og_f32_mut(call->out[0])[i] =
        og_f32(call->in[0])[i] + og_f32(call->in[1])[0];
  return OG_OK;
}

// Neither the operator nor its backward operator looks at `scale`.
static og_status identity(const og_call *call) {
  for (int64_t i = 0; i < call->dim[0]; ++i)
    og_f32_mut(call->out[0])[i] = og_f32(call->in[0])[i];
  return OG_OK;
}

MODULE(
    check_wrong, {SIMPLE("out_of_bounds_write", writes_past)},
    {SIMPLE("out_of_bounds_read", reads_past)},
    {SIMPLE("undeclared_mutation", writes_argument)},
    {SIMPLE("output_not_written", leaves_last)},
    {SIMPLE("output_read", adds_to_result)},
    {SIMPLE("output_alias", moves_result)},
    {SIMPLE("kept_pointer", keeps_pointer)},
    {SIMPLE("layout_dependent", copy), .strides = "any"},
    {SIMPLE("alignment_assumed", wants_alignment)},
    {SIMPLE("thread_dependent", scales_by_threads)},
    {SIMPLE("chunk_order_dependent", sums_by_share)},
    {SIMPLE("data_race", shares_overlap)},
    {SIMPLE("not_repeatable", counts_calls)},
    {SIMPLE("uninitialised", reads_stack)},
    {SIMPLE("workspace_uninitialised", sums_in_workspace), .workspace = "4"},
    {SIMPLE("workspace_overrun", fills_workspace),
     .workspace = "max(N, 1) * 2"},
    {.schema = "bound_exceeded(Tensor x) -> Tensor",
     .shape = "x[N] -> [K <= N]",
     .dtype = "x: f32 -> x",
     RUN(NULL, finds_too_many)},
    {SIMPLE("wrong_gradient", square),
     .backward = "multiply_backward(grad, x) -> x"},
    {.schema = "multiply_backward(Tensor grad, Tensor x) -> Tensor",
     .shape = "grad[N], x[N] -> [N]",
     .dtype = "grad: f32, x: grad -> x",
     RUN(NULL, multiply)},
    {.schema = "gradient_shape(Tensor x, Tensor y) -> Tensor",
     .shape = "x[N], y[*M] -> [N]",
     .dtype = "x: f32, y: x -> x",
     .backward = "pass_backward(grad) -> y",
     RUN(NULL, copy)},
    {SIMPLE("pass_backward", copy)},
    {.schema = "missing_gradient(Tensor x, Tensor y) -> Tensor",
     .shape = "x[N], y[N] -> [N]",
     .dtype = "x: f32, y: x -> x",
     .backward = "multiply_backward(grad, y) -> x",
     RUN(NULL, multiply)},
    {.schema = "wrong_batch_rule(Tensor x) -> Tensor",
     .shape = "x[*N] -> [*N]",
     .dtype = "x: f32 -> x",
     RUN(NULL, subtracts_mean)},
    {.schema = "wrong_broadcast(Tensor x, Tensor y) -> Tensor",
     .shape = "x[*A], y[*B] -> [*broadcast(A, B)]",
     .dtype = "x: f32, y: x -> x",
     RUN(NULL, adds_modulo)},
    {.schema = "wrong_values_across_dtypes(Tensor x) -> Tensor",
     .shape = "x[N] -> [N]",
     .dtype = "x: f32|f64 -> x",
     .kernels =
         KERNELS({.device = OG_CPU, .dtypes = "f32", .run = copy},
                 {.device = OG_CPU, .dtypes = "f64", .run = copy_f64_badly})},
    {.schema = "wrong_values_across_kernels(Tensor x) -> Tensor",
     .shape = "x[N] -> [N]",
     .dtype = "x: f32 -> x",
     .kernels = KERNELS({.device = OG_CPU, .run = copy},
                        {.device = OG_CPU, .run = copy_negated})},
    {SIMPLE("wrong_formula", square), .row = "x * x * x"},
    {SIMPLE("wrong_in_place", reverses), .inplace = "x"},
    {SIMPLE("crash", aborts_when_empty)}, {SIMPLE("timeout", loops)},
    {SIMPLE("memory_limit", allocates_all)}, {SIMPLE("memory_leak", leaks)},
    {SIMPLE("bad_status", returns_length)}, {SIMPLE("never_ran", refuses)},
    {SIMPLE("not_sampled", copy), .where = "N > 3, N < 3"},
    {.schema = "not_finite(Tensor x, Tensor mask) -> Tensor",
     .shape = "x[R, D], mask[R, D] -> [R]",
     .dtype = "x: f32, mask: bool -> x",
     RUN(NULL, masked_mean)},
    {.schema = "unused_argument(Tensor x, float scale=1.0) -> Tensor",
     .shape = "x[N] -> [N]",
     .dtype = "x: f32 -> x",
     RUN(NULL, copy)},
    {.schema = "unused_end(Tensor x) -> Tensor",
     .shape = "x[N] -> []",
     .dtype = "x: f32 -> x",
     RUN("f32", sum_short)},
    {.schema = "wrong_order(Tensor x) -> Tensor",
     .shape = "x[R, C] -> [C, R]",
     .dtype = "x: f32 -> x",
     RUN(NULL, row_by_row)},
    {.schema = "never_mutated(Tensor(a!) x) -> Tensor(a!)",
     .shape = "x[N]",
     .dtype = "x: f32",
     RUN(NULL, untouched)},
    {SIMPLE("float_environment", flush)},
    // Found as what the table in unit/check_seen.h says.
    {.schema = "read_second(Tensor x, float scale) -> Tensor",
     .shape = "x[N] -> [N]",
     .dtype = "x: f32 -> x",
     RUN(NULL, read_second)},
    {.schema = "sum_past_list(Tensor x, int[] terms) -> Tensor",
     .shape = "x[N] -> [N]",
     .dtype = "x: f32 -> x",
     RUN(NULL, sum_past_list)},
    {.schema = "add_first(Tensor x, Tensor y) -> Tensor",
     .shape = "x[N], y[N] -> [N]",
     .dtype = "x: f32, y: x -> x",
     RUN(NULL, add_first)},
    {.schema = "unscaled(Tensor x, float scale) -> Tensor",
     .shape = "x[N] -> [N]",
     .dtype = "x: f32 -> x",
     .backward = "unscaled_backward(grad, scale) -> x",
     RUN(NULL, identity)},
    {.schema = "unscaled_backward(Tensor grad, float scale) -> Tensor",
     .shape = "grad[N] -> [N]",
     .dtype = "grad: f32 -> grad",
     RUN(NULL, identity)},
    {.schema = "magnitude(Tensor x) -> Tensor",
     .shape = "x[N] -> [N]",
     .dtype = "x: f32|i32 -> x",
     RUN(NULL, magnitude)},
    {.schema = "widen(Tensor x) -> Tensor",
     .shape = "x[N] -> [N]",
     .dtype = "x: u8|i64 -> i64",
     RUN(NULL, widen)},
    {SIMPLE("first_wins", first_wins)},
    {.schema = "like_row_major(Tensor x) -> Tensor",
     .shape = "x[R, C] -> like x",
     .dtype = "x: f32 -> x",
     .strides = "any",
     RUN(NULL, like_row_major)},
    {SIMPLE("claims_zero", square), .backward = "none"},
    {.schema = "first_count(Tensor[] xs) -> Tensor",
     .shape = "-> [1]",
     .dtype = "xs: f32 -> i64",
     RUN(NULL, first_count)},
    {.schema = "sum_entries(Tensor?[] xs) -> Tensor",
     .shape = "-> []",
     .dtype = "xs: f32 -> f32",
     RUN(NULL, sum_entries)},
    {.schema = "add_twice_(Tensor(a!) x, Tensor y) -> Tensor(a!)",
     .shape = "x[N], y[N]",
     .dtype = "x: f32, y: x",
     .backward = "add_twice_backward(grad) -> x, y",
     RUN(NULL, add_twice_)},
    {.schema = "add_twice_backward(Tensor grad) -> (Tensor, Tensor)",
     .shape = "grad[N] -> [N], [N]",
     .dtype = "grad: f32 -> grad, grad",
     RUN(NULL, add_twice_backward)},
    {SIMPLE("doubled", doubled), .backward = "doubled_backward(grad) -> x"},
    {.schema = "doubled_backward(Tensor outer) -> Tensor",
     .shape = "outer[N] -> [N]",
     .dtype = "outer: f32 -> outer",
     .backward = "doubled(outer) -> outer",
     RUN(NULL, doubled)},
    {SIMPLE("claims_zero_twice", square),
     .backward = "claims_zero_twice_backward(grad, x) -> x"},
    {.schema = "claims_zero_twice_backward(Tensor outer, Tensor x) -> Tensor",
     .shape = "outer[N], x[N] -> [N]",
     .dtype = "outer: f32, x: outer -> outer",
     .backward = "none",
     RUN(NULL, twice_product)},
    // Right, but for what `expect` says of them.
    {SIMPLE("untrue_expect", copy), .expect = "unused: x"},
    {.schema = "read_unused(Tensor x, float scale) -> Tensor",
     .shape = "x[N] -> [N]",
     .dtype = "x: f32 -> x",
     .expect = "unused: scale",
     RUN(NULL, scales)},
    {SIMPLE("whole_end", copy), .expect = "unused_end: x"},
    {.schema = "added_(Tensor(a!) x, Tensor y) -> Tensor(a!)",
     .shape = "x[N], y[N]",
     .dtype = "x: f32, y: x",
     .expect = "unmutated: x",
     RUN(NULL, add_twice_)},
    {SIMPLE("twice", doubled), .backward = "twice_backward(grad) -> x",
     .expect = "no_gradient: x, result"},
    {SIMPLE("twice_backward", doubled)},
    {.schema = "without_nan(Tensor x, Tensor mask) -> Tensor",
     .shape = "x[R, D], mask[R, D] -> [R, D]",
     .dtype = "x: f32, mask: bool -> x",
     .expect = "nan: result",
     RUN(NULL, copies_any)},
    {.schema = "of_no_type(Tensor x) -> Tensor",
     .shape = "x[N] -> [N]",
     .dtype = "x: f32|f64 -> x",
     .expect = "type_dependent: result",
     RUN(NULL, copies_any)})
