// SPDX-License-Identifier: Apache-2.0
// custom_linear: y = x weight^T + bias over the last axis, with its gradient
// and the gradient of that.
//
// One file is the whole operator: PyTorch's eager mode, autograd, vmap,
// torch.compile and torch.export follow from the declarations at the end. All
// three kernels are products of matrices, so one product makes all three fast.
// Source: packed panels as in GotoBLAS (Goto and van de Geijn, 2008).

#include <opgraft/op.h>

// A block of the product stays in registers: ROWS rows, one vector each, which
// the compiler splits into as many registers as the machine wants for it.
enum { ROWS = 6, VECTOR_BYTES = 64 };

// Multiply-adds that are worth a thread of their own.
enum { SHARE = 1 << 18 };

// Clones of a function for machines with AVX-512 and AVX2; which of them runs
// is decided when the module is loaded.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES
#endif
#define INLINE static inline __attribute__((always_inline))

// A matrix in memory: (row, column) is element row * down + column * across.
typedef struct matrix {
  const void *data;
  int64_t down, across;
} matrix;

// out[r, c] = plus[r, c] + sum_k a[r, k] b[k, c]; plus.data may be NULL, and
// plus.across is 1.
typedef struct product {
  const og_call *call;
  matrix a, b, plus;
  void *out;  // row-major; may be plus
  int64_t rows, inner, columns;
} product;

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

// Packs columns [c, c + width) of b side by side, zeros after the last.
#define PACK(name, type, real)                                                 \
  INLINE void pack_##name(matrix b, int64_t c, int64_t width, int64_t inner,   \
                          int64_t lanes, real *panel) {                        \
    const type *from = (const type *)b.data + c * b.across;                    \
    for (int64_t i = 0; width < lanes && i < inner * lanes; ++i) panel[i] = 0; \
    for (int64_t k = 0; b.across == 1 && k < inner; ++k)                       \
      for (int64_t l = 0; l < width; ++l)                                      \
        panel[k * lanes + l] = load_##name(from[k * b.down + l]);              \
    for (int64_t l = 0; b.across != 1 && l < width; ++l)                       \
      for (int64_t k = 0; k < inner; ++k)                                      \
        panel[k * lanes + l] = load_##name(from[k * b.down + l * b.across]);   \
  }

// Rows [begin, end) of a product, one vector of columns after another: b's are
// packed in the workspace, and every block of rows reads them from there. In a
// block that reaches past the end the last row stands in for those that are
// not.
#define PRODUCT(name, type, real)                                              \
  CLONES static void product_##name(void *state, int64_t begin, int64_t end,   \
                                    int32_t worker) {                          \
    typedef real vector __attribute__((vector_size(VECTOR_BYTES)));            \
    enum { LANES = VECTOR_BYTES / sizeof(real) };                              \
    const product *p = state;                                                  \
    const matrix a = p->a, plus = p->plus;                                     \
    vector *panel = (vector *)p->call->workspace + worker * p->inner;          \
    for (int64_t c = 0; c < p->columns; c += LANES) {                          \
      const int64_t left = p->columns - c,                                     \
                    width = left < LANES ? left : LANES;                       \
      pack_##name(p->b, c, width, p->inner, LANES, (real *)panel);             \
      for (int64_t r = begin; r < end; r += ROWS) {                            \
        const type *row[ROWS];                                                 \
        vector sum[ROWS] = {{0}};                                              \
        for (int64_t i = 0; i < ROWS; ++i)                                     \
          row[i] =                                                             \
              (const type *)a.data + (r + i < end ? r + i : end - 1) * a.down; \
        for (int64_t k = 0; k < p->inner; ++k)                                 \
          for (int i = 0; i < ROWS; ++i)                                       \
            sum[i] += load_##name(row[i][k * a.across]) * panel[k];            \
        for (int64_t i = 0; i < ROWS && r + i < end; ++i) {                    \
          type *to = (type *)p->out + (r + i) * p->columns + c;                \
          const type *more = plus.data;                                        \
          if (more) more += (r + i) * plus.down + c;                           \
          for (int64_t l = 0; l < width; ++l)                                  \
            to[l] =                                                            \
                store_##name(sum[i][l] + (more ? load_##name(more[l]) : 0));   \
        }                                                                      \
      }                                                                        \
    }                                                                          \
  }

// The sum of each column, collected in the workspace.
#define COLUMN_SUMS(name, type, real)                                         \
  CLONES static void column_sums_##name(const og_call *call,                  \
                                        const og_tensor *from, og_tensor *to, \
                                        int64_t rows, int64_t columns) {      \
    const type *row = og_##name(from);                                        \
    type *out = og_##name##_mut(to);                                          \
    real *sum = call->workspace;                                              \
    for (int64_t c = 0; c < columns; ++c) sum[c] = 0;                         \
    for (int64_t r = 0; r < rows; ++r, row += columns)                        \
      for (int64_t c = 0; c < columns; ++c) sum[c] += load_##name(row[c]);    \
    for (int64_t c = 0; c < columns; ++c) out[c] = store_##name(sum[c]);      \
  }

// What an element type needs: a few functions, the rest is the same for all.
typedef struct element_type {
  og_task_fn product;
  void (*column_sums)(const og_call *call, const og_tensor *from, og_tensor *to,
                      int64_t rows, int64_t columns);
} element_type;
#define ELEMENT_TYPE(name, type, real) \
  PACK(name, type, real)               \
  PRODUCT(name, type, real)            \
  COLUMN_SUMS(name, type, real)        \
  static const element_type name = {product_##name, column_sums_##name};
ELEMENT_TYPE(f32, float, float)
ELEMENT_TYPE(f64, double, double)
ELEMENT_TYPE(bf16, og_bfloat, float)

static const element_type *element_of(const og_call *call) {
  const og_tensor *out = call->out[0];
  if (og_is(out, OG_CODE_FLOAT, 32)) return &f32;
  return og_is(out, OG_CODE_FLOAT, 64) ? &f64 : &bf16;
}

static og_status product_run(product p) {
  const int64_t grain = 1 + SHARE / (1 + p.inner * p.columns);
  return og_parallel_tasks(p.call, p.rows, grain, element_of(p.call)->product,
                           &p);
}

// A tensor that is row-major with so many columns, and its transpose.
static matrix by_rows(const og_tensor *t, int64_t columns) {
  return (matrix){og_data(t), columns, 1};
}
static matrix by_columns(const og_tensor *t, int64_t columns) {
  return (matrix){og_data(t), 1, columns};
}

// y[*N, O] = x[*N, I] weight[O, I]^T + bias[O]
static og_status linear(const og_call *call) {
  enum { N, I, O };  // dims of the shape rule, in order of first appearance
  const int64_t rows = call->dim[N], in = call->dim[I], out = call->dim[O];
  const og_tensor *bias = call->in[2];
  return product_run((product){.call = call,
                               .a = by_rows(call->in[0], in),
                               .b = by_columns(call->in[1], in),
                               .plus = {bias ? og_data(bias) : NULL, 0, 1},
                               .out = og_data(call->out[0]),
                               .rows = rows,
                               .inner = in,
                               .columns = out});
}

// dx = grad weight, zero where nobody asks for it (a product over nothing);
// dweight = grad^T x; dbias = the column sums of grad
static og_status linear_backward(const og_call *call) {
  enum { N, O, I };
  const int64_t rows = call->dim[N], in = call->dim[I], out = call->dim[O];
  const og_tensor *grad = call->in[0], *x = call->in[1], *weight = call->in[2];
  const int64_t needs_x = call->attr[0].i;
  og_status status = product_run((product){.call = call,
                                           .a = by_rows(grad, out),
                                           .b = by_rows(weight, in),
                                           .out = og_data(call->out[0]),
                                           .rows = rows,
                                           .inner = needs_x ? out : 0,
                                           .columns = in});
  if (status != OG_OK) return status;
  status = product_run((product){.call = call,
                                 .a = by_columns(grad, out),
                                 .b = by_rows(x, in),
                                 .out = og_data(call->out[1]),
                                 .rows = out,
                                 .inner = rows,
                                 .columns = in});
  element_of(call)->column_sums(call, grad, call->out[2], rows, out);
  return status;
}

// The gradient of the backward operator. With u, v, w the gradients of dx,
// dweight and dbias, and u zero where dx was not asked for:
//   of grad: u weight^T + x v^T + w;  of x: grad v;  of weight: grad^T u
static og_status linear_double_backward(const og_call *call) {
  enum { N, I, O };
  const int64_t rows = call->dim[N], in = call->dim[I], out = call->dim[O];
  const og_tensor *u = call->in[0], *v = call->in[1], *w = call->in[2];
  const og_tensor *grad = call->in[3], *x = call->in[4], *weight = call->in[5];
  const og_tensor *dgrad = call->out[0];
  const int64_t needs_x = call->attr[0].i;
  const product all[] = {
      {call,
       by_rows(u, in),
       by_columns(weight, in),
       {og_data(w), 0, 1},
       og_data(dgrad),
       rows,
       needs_x ? in : 0,
       out},
      {call, by_rows(x, in), by_columns(v, in), by_rows(dgrad, out),
       og_data(dgrad), rows, in, out},
      {call,
       by_rows(grad, out),
       by_rows(v, in),
       {NULL, 0, 0},
       og_data(call->out[1]),
       rows,
       out,
       in},
      {call,
       by_columns(grad, out),
       by_rows(u, in),
       {NULL, 0, 0},
       og_data(call->out[2]),
       out,
       needs_x ? rows : 0,
       in},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
    const og_status status = product_run(all[i]);
    if (status != OG_OK) return status;
  }
  return OG_OK;
}

static const og_kernel linear_kernels[] = {
    {.device = OG_CPU, .run = linear},
};
static const og_kernel backward_kernels[] = {
    {.device = OG_CPU, .run = linear_backward},
};
static const og_kernel double_backward_kernels[] = {
    {.device = OG_CPU, .run = linear_double_backward},
};

static const og_op ops[] = {
    {
        .schema = "custom_linear(Tensor x, Tensor weight, Tensor? bias=None) "
                  "-> Tensor",
        .shape = "x[*N, I], weight[O, I], bias?[O] -> [*N, O]",
        .dtype = "x: f32|f64|bf16, weight: x, bias: x -> x",
        .backward = "custom_linear_backward(grad, x, weight, needs(x)) "
                    "-> x, weight, bias",
        .workspace = "threads * I * 64",
        .kernels = OG_KERNELS(linear_kernels),
        .flags = OG_DETERMINISTIC,
    },
    {
        .schema = "custom_linear_backward(Tensor grad, Tensor x, Tensor "
                  "weight, bool needs_x=True) -> (Tensor dx, Tensor dweight, "
                  "Tensor dbias)",
        .shape = "grad[*N, O], x[*N, I], weight[O, I] -> [*N, I], [O, I], [O]",
        .dtype = "grad: f32|f64|bf16, x: grad, weight: grad "
                 "-> grad, grad, grad",
        .backward = "custom_linear_double_backward(grad_dx, grad_dweight, "
                    "grad_dbias, grad, x, weight, needs_x) -> grad, x, weight",
        .workspace = "threads * max(prod(N), O) * 64",
        .kernels = OG_KERNELS(backward_kernels),
        .flags = OG_DETERMINISTIC,
    },
    {
        .schema = "custom_linear_double_backward(Tensor u, Tensor v, Tensor w, "
                  "Tensor grad, Tensor x, Tensor weight, bool needs_x=True) "
                  "-> (Tensor dgrad, Tensor dx, Tensor dweight)",
        .shape = "u[*N, I], v[O, I], w[O], grad[*N, O], x[*N, I], "
                 "weight[O, I] -> [*N, O], [*N, I], [O, I]",
        .dtype = "u: f32|f64|bf16, v: u, w: u, grad: u, x: u, weight: u "
                 "-> u, u, u",
        .workspace = "threads * max(prod(N), I, O) * 64",
        .kernels = OG_KERNELS(double_backward_kernels),
        .flags = OG_DETERMINISTIC,
    },
};
OG_MODULE(custom_linear, ops)
