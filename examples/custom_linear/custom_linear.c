// SPDX-License-Identifier: Apache-2.0
// custom_linear: y = x weight^T + bias over the last axis, with its gradient
// and the gradient of that.
//
// One file is the whole operator: PyTorch's eager mode, autograd, vmap,
// torch.compile and torch.export follow from the declarations at the end.

#include <opgraft/op.h>

// Partial sums: LANES of them fill a vector register, and BLOCK rows at once
// use what was loaded that often.
enum { LANES = 8, BLOCK = 4 };

// A clone of the function for machines that have AVX2 or AVX-512, chosen when
// the module is loaded.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES
#endif

// Elements are read as float (double for f64) and rounded once, at the end.
static inline float load_f32(float value) { return value; }
static inline float store_f32(float value) { return value; }
static inline double load_f64(double value) { return value; }
static inline double store_f64(double value) { return value; }
static inline float load_bf16(og_bfloat value) {
  return og_bfloat_to_float(value);
}
static inline og_bfloat store_bf16(float value) {
  return og_bfloat_from_float(value);
}

// The contractions that a linear layer needs, for one element type. Each writes
// the rows [begin, end) of its result.
//   rows_times_rows:    c[r, j] = sum_k a[r, k] b[j, k] + bias[j]
//   rows_times_matrix:  c[r, j] = sum_k a[r, k] b[k, j]
//   columns_times_rows: c[r, j] = sum_k a[k, r] b[k, j]
//   column_sums:        c[j]    = sum_k a[k, j]
// The last two are one loop: `step` and `stride` say where a's elements lie.
#define CONTRACTIONS(name, type, real)                                        \
  CLONES static void rows_times_rows_##name(                                  \
      const type *a, const type *b, const type *bias, type *c, int64_t begin, \
      int64_t end, int64_t inner, int64_t columns) {                          \
    for (int64_t r = begin; r < end; ++r)                                     \
      for (int64_t j = 0; j < columns; ++j) {                                 \
        const type *a_row = a + r * inner, *b_row = b + j * inner;            \
        real sum[LANES] = {0};                                                \
        int64_t k = 0;                                                        \
        for (; k + LANES <= inner; k += LANES)                                \
          for (int l = 0; l < LANES; ++l)                                     \
            sum[l] += load_##name(a_row[k + l]) * load_##name(b_row[k + l]);  \
        real total = bias ? load_##name(bias[j]) : 0;                         \
        for (; k < inner; ++k)                                                \
          total += load_##name(a_row[k]) * load_##name(b_row[k]);             \
        for (int l = 0; l < LANES; ++l) total += sum[l];                      \
        c[r * columns + j] = store_##name(total);                             \
      }                                                                       \
  }                                                                           \
  CLONES static void times_matrix_##name(                                     \
      const type *a, int64_t step, int64_t stride, const type *b, type *c,    \
      int64_t begin, int64_t end, int64_t inner, int64_t columns) {           \
    for (int64_t r0 = begin; r0 < end; r0 += BLOCK)                           \
      for (int64_t j0 = 0; j0 < columns; j0 += LANES) {                       \
        const int64_t rows = end - r0 < BLOCK ? end - r0 : BLOCK;             \
        const int64_t width = columns - j0 < LANES ? columns - j0 : LANES;    \
        real sum[BLOCK][LANES] = {{0}}, line[LANES] = {0};                    \
        for (int64_t k = 0; k < inner; ++k) {                                 \
          const type *b_row = b + k * columns + j0;                           \
          if (width == LANES)                                                 \
            for (int l = 0; l < LANES; ++l) line[l] = load_##name(b_row[l]);  \
          else                                                                \
            for (int64_t l = 0; l < width; ++l)                               \
              line[l] = load_##name(b_row[l]);                                \
          for (int64_t r = 0; r < BLOCK; ++r) {                               \
            const int64_t row = r < rows ? r0 + r : r0;                       \
            const real scale = load_##name(a[row * step + k * stride]);       \
            for (int l = 0; l < LANES; ++l) sum[r][l] += scale * line[l];     \
          }                                                                   \
        }                                                                     \
        for (int64_t r = 0; r < rows; ++r)                                    \
          for (int64_t l = 0; l < width; ++l)                                 \
            c[(r0 + r) * columns + j0 + l] = store_##name(sum[r][l]);         \
      }                                                                       \
  }                                                                           \
  static void rows_times_matrix_##name(const type *a, const type *b, type *c, \
                                       int64_t begin, int64_t end,            \
                                       int64_t inner, int64_t columns) {      \
    times_matrix_##name(a, inner, 1, b, c, begin, end, inner, columns);       \
  }                                                                           \
  static void columns_times_rows_##name(                                      \
      const type *a, const type *b, type *c, int64_t begin, int64_t end,      \
      int64_t inner, int64_t rows, int64_t columns) {                         \
    times_matrix_##name(a, 1, rows, b, c, begin, end, inner, columns);        \
  }                                                                           \
  static void column_sums_##name(const type *a, type *c, int64_t inner,       \
                                 int64_t columns) {                           \
    for (int64_t j = 0; j < columns; ++j) {                                   \
      real sum = 0;                                                           \
      for (int64_t k = 0; k < inner; ++k)                                     \
        sum += load_##name(a[k * columns + j]);                               \
      c[j] = store_##name(sum);                                               \
    }                                                                         \
  }

enum { N, I, O };  // dims of the shape rules, in order of first appearance

// y[*N, O] = x[*N, I] weight[O, I]^T + bias[O]
#define LINEAR(name, type)                                                 \
  static void linear_rows_##name(const og_call *call, int64_t begin,       \
                                 int64_t end) {                            \
    const og_tensor *bias = call->in[2];                                   \
    rows_times_rows_##name(og_##name(call->in[0]), og_##name(call->in[1]), \
                           bias ? og_##name(bias) : NULL,                  \
                           og_##name##_mut(call->out[0]), begin, end,      \
                           call->dim[I], call->dim[O]);                    \
  }                                                                        \
  static og_status linear_##name(const og_call *call) {                    \
    return og_parallel_for(call, call->dim[N], 16, linear_rows_##name);    \
  }

// dx = grad weight; dweight = grad^T x; dbias = the column sums of grad
#define BACKWARD(name, type)                                                  \
  static void dx_rows_##name(const og_call *call, int64_t begin,              \
                             int64_t end) {                                   \
    rows_times_matrix_##name(og_##name(call->in[0]), og_##name(call->in[2]),  \
                             og_##name##_mut(call->out[0]), begin, end,       \
                             call->dim[BO], call->dim[BI]);                   \
  }                                                                           \
  static void dweight_rows_##name(const og_call *call, int64_t begin,         \
                                  int64_t end) {                              \
    columns_times_rows_##name(og_##name(call->in[0]), og_##name(call->in[1]), \
                              og_##name##_mut(call->out[1]), begin, end,      \
                              call->dim[N], call->dim[BO], call->dim[BI]);    \
  }                                                                           \
  static og_status backward_##name(const og_call *call) {                     \
    og_status status =                                                        \
        og_parallel_for(call, call->dim[N], 16, dx_rows_##name);              \
    if (status != OG_OK) return status;                                       \
    status = og_parallel_for(call, call->dim[BO], 4, dweight_rows_##name);    \
    column_sums_##name(og_##name(call->in[0]), og_##name##_mut(call->out[2]), \
                       call->dim[N], call->dim[BO]);                          \
    return status;                                                            \
  }

enum { BO = 1, BI = 2 };  // of the backward rules: grad[*N, O], x[*N, I], ...

// The gradient of the backward operator. With u, v, w the gradients of dx,
// dweight and dbias:
//   of grad: u weight^T + x v^T + w;  of x: grad v;  of weight: grad^T u
#define DOUBLE_BACKWARD(name, type)                                            \
  static void dgrad_rows_##name(const og_call *call, int64_t begin,            \
                                int64_t end) {                                 \
    type *out = og_##name##_mut(call->out[0]);                                 \
    const int64_t columns = call->dim[DO], inner = call->dim[DI];              \
    const type *u = og_##name(call->in[0]), *v = og_##name(call->in[1]);       \
    const type *x = og_##name(call->in[4]);                                    \
    const type *weight = og_##name(call->in[5]);                               \
    rows_times_rows_##name(u, weight, og_##name(call->in[2]), out, begin, end, \
                           inner, columns);                                    \
    for (int64_t r = begin; r < end; ++r)                                      \
      for (int64_t j = 0; j < columns; ++j) {                                  \
        type sum;                                                              \
        rows_times_rows_##name(x + r * inner, v + j * inner,                   \
                               out + r * columns + j, &sum, 0, 1, inner, 1);   \
        out[r * columns + j] = sum;                                            \
      }                                                                        \
    rows_times_matrix_##name(og_##name(call->in[3]), v,                        \
                             og_##name##_mut(call->out[1]), begin, end,        \
                             columns, inner);                                  \
  }                                                                            \
  static og_status double_backward_##name(const og_call *call) {               \
    columns_times_rows_##name(og_##name(call->in[3]), og_##name(call->in[0]),  \
                              og_##name##_mut(call->out[2]), 0, call->dim[DO], \
                              call->dim[N], call->dim[DO], call->dim[DI]);     \
    return og_parallel_for(call, call->dim[N], 16, dgrad_rows_##name);         \
  }

enum { DI = 1, DO = 2 };  // of the double backward rule: u[*N, I], v[O, I], ...

#define OPERATOR(name, type, real) \
  CONTRACTIONS(name, type, real)   \
  LINEAR(name, type)               \
  BACKWARD(name, type)             \
  DOUBLE_BACKWARD(name, type)
OPERATOR(f32, float, float)
OPERATOR(f64, double, double)
OPERATOR(bf16, og_bfloat, float)

#define KERNELS(run_prefix)                                             \
  {                                                                     \
    {.device = OG_CPU, .dtypes = "f32", .run = run_prefix##_f32},       \
        {.device = OG_CPU, .dtypes = "f64", .run = run_prefix##_f64},   \
        {.device = OG_CPU, .dtypes = "bf16", .run = run_prefix##_bf16}, \
  }
static const og_kernel linear_kernels[] = KERNELS(linear);
static const og_kernel backward_kernels[] = KERNELS(backward);
static const og_kernel double_backward_kernels[] = KERNELS(double_backward);

static const og_op ops[] = {
    {
        .schema = "custom_linear(Tensor x, Tensor weight, Tensor? bias=None) "
                  "-> Tensor",
        .shape = "x[*N, I], weight[O, I], bias?[O] -> [*N, O]",
        .dtype = "x: f32|f64|bf16, weight: x, bias: x -> x",
        .backward = "custom_linear_backward(grad, x, weight) "
                    "-> x, weight, bias",
        .kernels = OG_KERNELS(linear_kernels),
        .flags = OG_DETERMINISTIC,
    },
    {
        .schema = "custom_linear_backward(Tensor grad, Tensor x, Tensor "
                  "weight) -> (Tensor dx, Tensor dweight, Tensor dbias)",
        .shape = "grad[*N, O], x[*N, I], weight[O, I] -> [*N, I], [O, I], [O]",
        .dtype = "grad: f32|f64|bf16, x: grad, weight: grad "
                 "-> grad, grad, grad",
        .backward = "custom_linear_double_backward(grad_dx, grad_dweight, "
                    "grad_dbias, grad, x, weight) -> grad, x, weight",
        .kernels = OG_KERNELS(backward_kernels),
        .flags = OG_DETERMINISTIC,
    },
    {
        .schema = "custom_linear_double_backward(Tensor u, Tensor v, Tensor w, "
                  "Tensor grad, Tensor x, Tensor weight) -> (Tensor dgrad, "
                  "Tensor dx, Tensor dweight)",
        .shape = "u[*N, I], v[O, I], w[O], grad[*N, O], x[*N, I], "
                 "weight[O, I] -> [*N, O], [*N, I], [O, I]",
        .dtype = "u: f32|f64|bf16, v: u, w: u, grad: u, x: u, weight: u "
                 "-> u, u, u",
        .kernels = OG_KERNELS(double_backward_kernels),
        .flags = OG_DETERMINISTIC,
    },
};
OG_MODULE(custom_linear, ops)
