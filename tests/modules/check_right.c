// SPDX-License-Identifier: Apache-2.0
// Right operators of kinds that a checker could take for wrong ones.

#include "operators.h"

// --- Sums of shares, joined in any order -------------------------------------

enum { SUM_N };

static void sum_share(void *state, int64_t begin, int64_t end, int32_t worker) {
  const og_call *call = (const og_call *)state;
  double *sums = (double *)call->workspace;
  for (int64_t i = begin; i < end; ++i)
    sums[worker] += (double)og_f32(call->in[0])[i];
}

static og_status sum(const og_call *call) {
  double *sums = (double *)call->workspace;
  for (int32_t w = 0; w < call->threads; ++w) sums[w] = 0;
  const og_status status = og_parallel_tasks(call, call->dim[SUM_N], 4,
                                             sum_share, (void *)(size_t)call);
  double all = 0;
  for (int32_t w = 0; w < call->threads; ++w) all += sums[w];
  og_f32_mut(call->out[0])[0] = (float)all;
  return status;
}

static og_status sum_backward(const og_call *call) {
  for (int64_t i = 0; i < og_numel(call->out[0]); ++i)
    og_f32_mut(call->out[0])[i] = og_f32(call->in[0])[0];
  return OG_OK;
}

// --- Strides, and a kink -----------------------------------------------------

static og_status relu(const og_call *call) {
  const og_tensor *x = call->in[0];
  for (int64_t i = 0; i < x->shape[0]; ++i)
    for (int64_t j = 0; j < x->shape[1]; ++j) {
      const float v = og_f32(x)[i * x->strides[0] + j * x->strides[1]];
      og_f32_mut(call->out[0])[i * x->shape[1] + j] = v > 0 ? v : 0;
    }
  return OG_OK;
}

static og_status relu_backward(const og_call *call) {
  const float *y = og_f32(call->in[1]);
  for (int64_t i = 0; i < og_numel(call->out[0]); ++i)
    og_f32_mut(call->out[0])[i] = y[i] > 0 ? og_f32(call->in[0])[i] : 0;
  return OG_OK;
}

// --- The last of several writes to a row stays -------------------------------

enum { PUT_ROWS, PUT_D, PUT_N };

static void put_rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t width = call->dim[PUT_D];
  float *out = og_f32_mut(call->out[0]);
  for (int64_t i = begin; i < end; ++i)
    memcpy(out + og_i64(call->in[1])[i] * width,
           og_f32(call->in[2]) + i * width, (size_t)width * sizeof *out);
}

static og_status put(const og_call *call) {
  const int64_t *index = og_i64(call->in[1]);
  for (int64_t i = 0; i < call->dim[PUT_N]; ++i)
    if (index[i] < 0 || index[i] >= call->dim[PUT_ROWS])
      return og_fail(call, OG_INVALID, "an index is out of range");
  return og_parallel_for(call, call->dim[PUT_N], 1, put_rows);
}

// --- A size that the kernel finds --------------------------------------------

enum { FIND_N, FIND_K };

static og_status positive(const og_call *call) {
  int64_t count = 0;
  for (int64_t i = 0; i < call->dim[FIND_N]; ++i)
    if (og_f32(call->in[0])[i] > 0) og_i64_mut(call->out[0])[count++] = i;
  og_set_dim(call, FIND_K, count);
  return OG_OK;
}

// --- Lists, an axis, an optional ---------------------------------------------

enum { CAT_A, CAT_D, CAT_B };

static og_status cat(const og_call *call) {
  const og_tensor_list *xs = &call->in_list[0];
  const size_t item = call->out[0]->dtype.bits / 8u;
  const size_t inner = (size_t)call->dim[CAT_B] * item;
  char *to = (char *)og_data(call->out[0]);
  for (int64_t a = 0; a < call->dim[CAT_A]; ++a)
    for (int64_t t = 0; t < xs->count; ++t) {
      const og_tensor *x = xs->tensors[t];
      const int64_t axis =
          call->attr[0].i < 0 ? call->attr[0].i + x->ndim : call->attr[0].i;
      const size_t bytes = (size_t)x->shape[axis] * inner;
      memcpy(to, (char *)og_data(x) + (size_t)a * bytes, bytes);
      to += bytes;
    }
  return OG_OK;
}

enum { BIAS_N, BIAS_D };

static og_status add_bias(const og_call *call) {
  const double *b = call->in[1] != NULL ? og_f64(call->in[1]) : NULL;
  const int64_t width = call->dim[BIAS_D];
  for (int64_t i = 0; i < call->dim[BIAS_N] * width; ++i)
    og_f64_mut(call->out[0])[i] =
        og_f64(call->in[0])[i] + (b != NULL ? b[i % width] : 0);
  return OG_OK;
}

// --- Random by seed, and an index that is the answer -------------------------

static og_status noise(const og_call *call) {
  uint64_t state = (uint64_t)call->attr[0].i;
  for (int64_t i = 0; i < og_numel(call->out[0]); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    og_f32_mut(call->out[0])[i] =
        og_f32(call->in[0])[i] + (float)(state >> 40) * 0x1p-24f;
  }
  return OG_OK;
}

enum { MAX_N, MAX_D };

static og_status argmax(const og_call *call) {
  for (int64_t r = 0; r < call->dim[MAX_N]; ++r) {
    const float *row = og_f32(call->in[0]) + r * call->dim[MAX_D];
    int64_t best = 0;
    for (int64_t i = 1; i < call->dim[MAX_D]; ++i)
      if (row[i] > row[best]) best = i;
    og_f32_mut(call->out[0])[r] = row[best];
    og_i64_mut(call->out[1])[r] = best;
  }
  return OG_OK;
}

static og_status argmax_backward(const og_call *call) {
  const int64_t width = call->in[2]->shape[call->in[2]->ndim - 1];
  float *out = og_f32_mut(call->out[0]);
  memset(out, 0, (size_t)og_numel(call->out[0]) * sizeof *out);
  for (int64_t r = 0; r < og_numel(call->in[0]); ++r)
    out[r * width + og_i64(call->in[1])[r]] = og_f32(call->in[0])[r];
  return OG_OK;
}

// --- Half precision, and a table that is made once ---------------------------

static og_status swish(const og_call *call) {
  static float half;  // set once, to one value
  if (half == 0) half = 0.5f;
  for (int64_t i = 0; i < og_numel(call->out[0]); ++i) {
    const float x = og_bfloat_to_float(og_bf16(call->in[0])[i]);
    og_bf16_mut(call->out[0])[i] =
        og_bfloat_from_float(x * (half + half * tanhf(half * x)));
  }
  return OG_OK;
}

static og_status square(const og_call *call) {
  for (int64_t i = 0; i < og_numel(call->out[0]); ++i)
    og_f32_mut(call->out[0])[i] =
        og_f32(call->in[0])[i] * og_f32(call->in[0])[i];
  return OG_OK;
}

static og_status swish_f32(const og_call *call) {
  for (int64_t i = 0; i < og_numel(call->out[0]); ++i) {
    const float x = og_f32(call->in[0])[i];
    og_f32_mut(call->out[0])[i] = x / (1 + expf(-x));
  }
  return OG_OK;
}

// Takes no table but one that ends where x does.
static og_status segment_sum(const og_call *call) {
  enum { N, D, T };
  const float *x = og_f32(call->in[0]);
  const int32_t *end = og_i32(call->in[1]);
  const int64_t width = call->dim[D], segments = call->dim[T];
  for (int64_t i = 0; i < segments; ++i)
    if (end[i] < (i > 0 ? end[i - 1] : 0) ||
        (i + 1 == segments && end[i] != call->dim[N]))
      return og_fail(call, OG_INVALID, "end does not cut x into segments");
  for (int64_t i = 0; i < segments; ++i)
    for (int64_t d = 0; d < width; ++d) {
      float sum = 0;
      for (int64_t n = i > 0 ? end[i - 1] : 0; n < end[i]; ++n)
        sum += x[n * width + d];
      og_f32_mut(call->out[0])[i * width + d] = sum;
    }
  return OG_OK;
}

static og_status segment_sample(const og_sample_call *call) {
  enum { N, D, T };
  const int64_t segments = 1 + (int64_t)(call->seed % 3);
  if (call->step == OG_SAMPLE_SIZES) {
    call->dim[T] = segments;
    return OG_OK;
  }
  for (int64_t i = 0; i < segments; ++i)
    og_i32_mut(call->in[1])[i] = (int32_t)(call->dim[N] * (i + 1) / segments);
  return OG_OK;
}

// The sizes are read by the shape rule only: the parts have them.
static og_status cut(const og_call *call) {
  const og_tensor_list *parts = &call->out_list[0];
  const float *x = og_f32(call->in[0]);
  for (int64_t p = 0; p < parts->count; ++p)
    for (int64_t i = 0; i < parts->tensors[p]->shape[0]; ++i)
      og_f32_mut(parts->tensors[p])[i] = *x++;
  return OG_OK;
}

// A result with a new dim, whose place is an argument.
static og_status spread(const og_call *call) {
  const og_tensor *y = call->out[0];
  const int64_t dim = call->attr[1].i;
  const int64_t at = dim < 0 ? dim + y->ndim : dim;
  int64_t inner = 1;
  for (int32_t d = (int32_t)at + 1; d < y->ndim; ++d) inner *= y->shape[d];
  const int64_t count = y->shape[at];
  for (int64_t i = 0; i < call->dim[0] * count; ++i)
    og_f32_mut(call->out[0])[i] =
        og_f32(call->in[0])[i / (inner * count) * inner + i % inner];
  return OG_OK;
}

static og_status transpose(const og_call *call) {
  enum { R, C };
  const int64_t rows = call->dim[R], columns = call->dim[C];
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      og_f32_mut(call->out[0])[c * rows + r] =
          og_f32(call->in[0])[r * columns + c];
  return OG_OK;
}

// What is behind `count` is padding.
static og_status sum_padded(const og_call *call) {
  float sum = 0;
  for (int64_t i = 0; i < call->attr[0].i; ++i) sum += og_f32(call->in[0])[i];
  og_f32_mut(call->out[0])[0] = sum;
  return OG_OK;
}

static og_status last_row(const og_call *call) {
  enum { R, C };
  const float *row = og_f32(call->in[0]) + (call->dim[R] - 1) * call->dim[C];
  for (int64_t c = 0; c < call->dim[C]; ++c)
    og_f32_mut(call->out[0])[c] = row[c];
  return OG_OK;
}

static og_status through(const og_call *call) {
  for (int64_t i = 0; i < call->dim[0]; ++i)
    og_f32_mut(call->out[0])[i] = og_f32(call->in[0])[i];
  return OG_OK;
}

static og_status scaled(const og_call *call) {
  for (int64_t i = 0; i < call->dim[0]; ++i)
    og_f32_mut(call->out[0])[i] =
        og_f32(call->in[0])[i] * (float)call->attr[0].f;
  return OG_OK;
}

static og_status look(const og_call *call) {
  (void)call;
  return OG_OK;
}

MODULE(
    check_right,
    {.schema = "sum(Tensor x) -> Tensor",
     .shape = "x[*N] -> []",
     .dtype = "x: f32 -> x",
     .workspace = "threads * 8",
     .backward = "sum_backward(grad, x) -> x",
     RUN(NULL, sum)},
    {.schema = "sum_backward(Tensor grad, Tensor x) -> Tensor",
     .shape = "grad[], x[*N] -> [*N]",
     .dtype = "grad: f32, x: grad -> x",
     .flags = OG_BATCH_LOOP,
     RUN(NULL, sum_backward)},
    {.schema = "relu(Tensor x) -> Tensor",
     .shape = "x[N, D] -> [N, D]",
     .dtype = "x: f32 -> x",
     .strides = "any",
     .backward = "relu_backward(grad, result) -> x",
     RUN(NULL, relu)},
    {.schema = "relu_backward(Tensor grad, Tensor y) -> Tensor",
     .shape = "grad[*N], y[*N] -> [*N]",
     .dtype = "grad: f32, y: grad -> grad",
     .inplace = "grad",
     .flags = OG_DETERMINISTIC,
     RUN(NULL, relu_backward)},
    {.schema = "put(Tensor(a!) x, Tensor index, Tensor rows) -> ()",
     .shape = "x[R, D], index[N], rows[N, D]",
     .dtype = "x: f32, index: i64, rows: x",
     RUN(NULL, put)},
    {.schema = "positive(Tensor x) -> Tensor",
     .shape = "x[N] -> [K <= N]",
     .dtype = "x: f32 -> i64",
     RUN(NULL, positive)},
    {.schema = "cat(Tensor[] xs, int dim) -> Tensor",
     .shape = "xs[][*A, D~@dim, *B] -> [*A, sum(D~), *B]",
     .dtype = "xs: f32|i64|bf16 -> xs",
     RUN(NULL, cat)},
    {.schema = "add_bias(Tensor x, Tensor? bias=None) -> Tensor",
     .shape = "x[*N, D], bias?[D] -> [*N, D]",
     .dtype = "x: f64, bias: x -> x",
     .inplace = "x",
     RUN(NULL, add_bias)},
    {.schema = "noise(Tensor x, int seed) -> Tensor",
     .shape = "x[*N] -> [*N]",
     .dtype = "x: f32 -> x",
     .flags = OG_RANDOM,
     RUN(NULL, noise)},
    {.schema = "argmax(Tensor x) -> (Tensor value, Tensor index)",
     .shape = "x[*N, D] -> [*N], [*N]",
     .where = "D > 0",
     .dtype = "x: f32 -> x, i64",
     .backward = "argmax_backward(grad_value, index, x) -> x",
     RUN(NULL, argmax)},
    {.schema = "argmax_backward(Tensor grad, Tensor index, Tensor x) -> Tensor",
     .shape = "grad[*N], index[*N], x[*N, D] -> [*N, D]",
     .dtype = "grad: f32, index: i64, x: grad -> x",
     RUN(NULL, argmax_backward)},
    {.schema = "segment_sum(Tensor x, Tensor end) -> Tensor",
     .shape = "x[N, D], end[T] -> [T, D]",
     .dtype = "x: f32, end: i32 -> x",
     RUN(NULL, segment_sum),
     .sample = segment_sample},
    {.schema = "square(Tensor x) -> Tensor",
     .shape = "x[*N] -> [*N]",
     .dtype = "x: f32 -> x",
     .row = "x * x",
     RUN(NULL, square)},
    {.schema = "swish(Tensor x) -> Tensor",
     .shape = "x[*N] -> [*N]",
     .dtype = "x: bf16|f32 -> x",
     .kernels = KERNELS({.device = OG_CPU, .dtypes = "bf16", .run = swish},
                        {.device = OG_CPU, .dtypes = "f32", .run = swish_f32})},
    {.schema = "cut(Tensor x, int[] sizes) -> Tensor[]",
     .shape = "x[N] -> {i < len(sizes): [sizes[i]]}",
     .where = "sum(sizes) == N",
     .dtype = "x: f32 -> x",
     RUN("f32", cut)},
    {.schema = "spread(Tensor x, int count, int dim) -> Tensor",
     .shape = "x[*N] -> [*insert(N, dim, count)]",
     .dtype = "x: f32 -> x",
     RUN("f32", spread)},
    {.schema = "transpose(Tensor x) -> Tensor",
     .shape = "x[R, C] -> [C, R]",
     .dtype = "x: f32 -> x",
     RUN(NULL, transpose)},
    {.schema = "sum_padded(Tensor x, int count) -> Tensor",
     .shape = "x[P, 16] -> []",
     .where = "count >= 0, P == ceildiv(count, 16)",
     .dtype = "x: f32 -> x",
     RUN(NULL, sum_padded)},
    {.schema = "last_row(Tensor x) -> Tensor",
     .shape = "x[R, C] -> [C]",
     .where = "R > 0",
     .dtype = "x: f32 -> x",
     RUN(NULL, last_row)},
    // What the forward operator does not look at, the gradient does.
    {.schema = "through(Tensor x, float scale) -> Tensor",
     .shape = "x[N] -> [N]",
     .dtype = "x: f32 -> x",
     .backward = "through_backward(grad, scale) -> x",
     .expect = "no_gradient: x",  // what comes back is scaled
     RUN(NULL, through)},
    {.schema = "through_backward(Tensor grad, float scale) -> Tensor",
     .shape = "grad[N] -> [N]",
     .dtype = "grad: f32 -> grad",
     RUN(NULL, scaled)},
    {.schema = "look(Tensor(a!) x) -> Tensor(a!)",
     .shape = "x[N]",
     .dtype = "x: f32",
     .doc = "A place to stop at.",
     .expect = "unmutated: x",
     RUN(NULL, look)})
