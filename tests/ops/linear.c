// SPDX-License-Identifier: Apache-2.0
// Products of matrices, convolution and pooling.

#include "common.h"

// --- Products ----------------------------------------------------------------

static og_status outer(const og_call *call) {
  const og_tensor *x = call->in[0], *y = call->in[1];
  og_tensor *out = call->out[0];
  for (int64_t i = 0; i < og_numel(out); ++i) {
    const int64_t x_at = i / y->shape[0] * x->strides[0];
    const int64_t y_at = i % y->shape[0] * y->strides[0];
    if (is_float(out))
      put(out, i, get(x, x_at) * get(y, y_at));
    else
      put_int(out, i, get_int(x, x_at) * get_int(y, y_at));
  }
  return OG_OK;
}

// in: grad[N, M], x[N], y[M].
static og_status outer_backward(const og_call *call) {
  const og_tensor *grad = call->in[0];
  for (int k = 0; k < 2; ++k) {
    const og_tensor *other = call->in[2 - k];
    og_tensor *out = call->out[k];
    for (int64_t i = 0; i < out->shape[0]; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < other->shape[0]; ++j)
        sum += get(other, j) * get(grad, k == 0 ? i * other->shape[0] + j
                                                : j * out->shape[0] + i);
      put(out, i, sum);
    }
  }
  return OG_OK;
}

// A matrix of a tensor's last two dims, maybe transposed.
typedef struct matrix {
  const og_tensor *t;
  int64_t begin;
  int64_t row_step;
  int64_t column_step;
} matrix;

static matrix matrix_of(const og_tensor *t, int64_t batch, int is_transposed) {
  const int64_t *steps = t->strides + t->ndim - 2;
  return (matrix){t, t->ndim > 2 ? batch * t->strides[0] : 0,
                  steps[is_transposed], steps[!is_transposed]};
}

// out[r, c] = beta * start[r, c] + alpha * sum_k a[r, k] b[k, c], for one of a
// batch of row-major results; `start` may be NULL and broadcasts.
static void product(og_tensor *out, int64_t batch, matrix a, matrix b,
                    int64_t inner, const og_tensor *start, double beta,
                    double alpha) {
  const int64_t rows = out->shape[out->ndim - 2];
  const int64_t columns = out->shape[out->ndim - 1];
  for (int64_t i = 0; i < rows * columns; ++i) {
    const int64_t r = i / columns, c = i % columns;
    double sum = 0;
    for (int64_t k = 0; k < inner; ++k)
      sum += get(a.t, a.begin + r * a.row_step + k * a.column_step) *
             get(b.t, b.begin + k * b.row_step + c * b.column_step);
    sum *= alpha;
    if (start != NULL && beta != 0)
      sum += beta * get(start, place(start, out, i));
    put(out, batch * rows * columns + i, sum);
  }
}

static og_status mm(const og_call *call) {
  const og_tensor *a = call->in[0], *b = call->in[1];
  product(call->out[0], 0, matrix_of(a, 0, 0), matrix_of(b, 0, 0), a->shape[1],
          NULL, 0, 1);
  return OG_OK;
}

static og_status bmm(const og_call *call) {
  const og_tensor *a = call->in[0], *b = call->in[1];
  for (int64_t n = 0; n < a->shape[0]; ++n)
    product(call->out[0], n, matrix_of(a, n, 0), matrix_of(b, n, 0),
            a->shape[2], NULL, 0, 1);
  return OG_OK;
}

// in: grad, a, b, each [R, C] or [B, R, C]: of a grad b^T, of b a^T grad.
static og_status mm_backward(const og_call *call) {
  const og_tensor *grad = call->in[0], *a = call->in[1], *b = call->in[2];
  const int64_t batches = grad->ndim > 2 ? grad->shape[0] : 1;
  for (int64_t n = 0; n < batches; ++n) {
    const matrix g = matrix_of(grad, n, 0);
    product(call->out[0], n, g, matrix_of(b, n, 1), b->shape[b->ndim - 1], NULL,
            0, 1);
    product(call->out[1], n, matrix_of(a, n, 1), g, a->shape[a->ndim - 2], NULL,
            0, 1);
  }
  return OG_OK;
}

static og_status addmm(const og_call *call) {
  const og_tensor *a = call->in[1], *b = call->in[2];
  product(call->out[0], 0, matrix_of(a, 0, 0), matrix_of(b, 0, 0), a->shape[1],
          call->in[0], number(&call->attr[0]), number(&call->attr[1]));
  return OG_OK;
}

// in: grad, start, a, b.
static og_status addmm_backward(const og_call *call) {
  const og_tensor *grad = call->in[0], *a = call->in[2], *b = call->in[3];
  const double beta = number(&call->attr[0]), alpha = number(&call->attr[1]);
  const matrix g = matrix_of(grad, 0, 0);
  double *sums = call->workspace;
  SUM_TO(call->out[0], grad, sums, beta * get(grad, i));
  product(call->out[1], 0, g, matrix_of(b, 0, 1), b->shape[1], NULL, 0, alpha);
  product(call->out[2], 0, matrix_of(a, 0, 1), g, a->shape[0], NULL, 0, alpha);
  return OG_OK;
}

// --- Convolution over the last dim -------------------------------------------

enum { CONV_N, CONV_C, CONV_L, CONV_O, CONV_I, CONV_K };

typedef struct convolution {
  int64_t batch, channels, length;  // of x
  int64_t outputs, inputs, width;   // of weight: [outputs, inputs, width]
  int64_t out_length;
  int64_t stride, padding, dilation, groups;
} convolution;

static convolution convolution_of(const og_call *call, int64_t out_length) {
  const og_attr *attr = call->attr;
  return (convolution){call->dim[CONV_N], call->dim[CONV_C], call->dim[CONV_L],
                       call->dim[CONV_O], call->dim[CONV_I], call->dim[CONV_K],
                       out_length,        attr[0].i,         attr[1].i,
                       attr[2].i,         attr[3].i};
}

// The places of the product that output (n, o, i) has for input channel c and
// tap k: of x in *out_x, or false where the tap is in the padding; of weight.
static int tap(const convolution *v, int64_t n, int64_t o, int64_t i, int64_t c,
               int64_t k, int64_t *out_x, int64_t *out_weight) {
  const int64_t group = o / (v->outputs / v->groups);
  const int64_t entry = i * v->stride - v->padding + k * v->dilation;
  *out_x = (n * v->channels + group * v->inputs + c) * v->length + entry;
  *out_weight = (o * v->inputs + c) * v->width + k;
  return entry >= 0 && entry < v->length;
}

static double convolved(const convolution *v, const og_tensor *x,
                        const og_tensor *weight, int64_t at_out) {
  const int64_t n = at_out / v->out_length / v->outputs;
  const int64_t o = at_out / v->out_length % v->outputs;
  const int64_t i = at_out % v->out_length;
  double sum = 0;
  int64_t x_at, weight_at;
  for (int64_t c = 0; c < v->inputs; ++c)
    for (int64_t k = 0; k < v->width; ++k)
      if (tap(v, n, o, i, c, k, &x_at, &weight_at))
        sum += get(x, x_at) * get(weight, weight_at);
  return sum;
}

static og_status conv1d(const og_call *call) {
  og_tensor *out = call->out[0];
  const og_tensor *bias = call->in[2];
  const convolution v = convolution_of(call, out->shape[out->ndim - 1]);
  for (int64_t i = 0; i < og_numel(out); ++i)
    put(out, i,
        convolved(&v, call->in[0], call->in[1], i) +
            (bias ? get(bias, i / v.out_length % v.outputs) : 0));
  return OG_OK;
}

// in: x, weight, grad; out: of x, weight, bias, summed in the workspace.
static og_status conv1d_backward(const og_call *call) {
  const og_tensor *x = call->in[0], *weight = call->in[1], *grad = call->in[2];
  const convolution v = convolution_of(call, grad->shape[grad->ndim - 1]);
  double *dx = call->workspace, *dweight = dx + og_numel(x);
  double *dbias = dweight + og_numel(weight);
  double *const sums[] = {dx, dweight, dbias};
  memset(dx, 0, call->workspace_bytes);
  for (int64_t at_out = 0; at_out < og_numel(grad); ++at_out) {
    const int64_t n = at_out / v.out_length / v.outputs;
    const int64_t o = at_out / v.out_length % v.outputs;
    const double g = get(grad, at_out);
    dbias[o] += g;
    for (int64_t ck = 0; ck < v.inputs * v.width; ++ck) {
      int64_t x_at, weight_at;
      if (!tap(&v, n, o, at_out % v.out_length, ck / v.width, ck % v.width,
               &x_at, &weight_at))
        continue;
      dx[x_at] += g * get(weight, weight_at);
      dweight[weight_at] += g * get(x, x_at);
    }
  }
  for (int k = 0; k < 3; ++k)
    for (int64_t i = 0; i < og_numel(call->out[k]); ++i)
      put(call->out[k], i, sums[k][i]);
  return OG_OK;
}

// --- Pooling over the last dim -----------------------------------------------

enum { POOL_N, POOL_L };

static og_status max_pool1d(const og_call *call) {
  const og_tensor *x = call->in[0];
  const og_attr *attr = call->attr;
  const int64_t length = call->dim[POOL_L], size = attr[0].i;
  const int64_t stride = is_given(&attr[1]) ? attr[1].i : size;
  const int64_t out_length = call->out[0]->shape[call->out[0]->ndim - 1];
  for (int64_t j = 0; j < call->dim[POOL_N] * out_length; ++j) {
    const int64_t row = j / out_length * length;
    int64_t best = -1;
    for (int64_t k = 0; k < size; ++k) {
      const int64_t i = j % out_length * stride - attr[2].i + k * attr[3].i;
      if (i < 0 || i >= length) continue;
      if (best < 0 || get(x, row + i) > get(x, row + best) ||
          isnan(get(x, row + i)))
        best = i;
    }
    if (best < 0)
      return og_fail(call, OG_SHAPE, "max_pool1d: a window holds no element");
    move(call->out[0], j, x, row + best);
    og_i64_mut(call->out[1])[j] = best;
  }
  return OG_OK;
}

// in: grad, x, indices.
static og_status max_pool1d_backward(const og_call *call) {
  const og_tensor *grad = call->in[0];
  og_tensor *out = call->out[0];
  const int64_t out_length = grad->shape[grad->ndim - 1];
  const int64_t length = out->shape[out->ndim - 1];
  memset(og_data(out), 0, (size_t)og_numel(out) * item_bytes(out));
  for (int64_t j = 0; j < og_numel(grad); ++j) {
    const int64_t to = j / out_length * length + og_i64(call->in[2])[j];
    put(out, to, get(out, to) + get(grad, j));
  }
  return OG_OK;
}

// --- Declarations ------------------------------------------------------------

// What the taps span, and the step of max_pool1d's windows.
#define POOL_STEP "select(given(stride), stride, kernel_size)"
#define POOL_ROOM "(L + 2 * padding - dilation * (kernel_size - 1) - 1)"

static const og_op ops[] = {
    {
        .schema = "outer(Tensor x, Tensor y) -> Tensor",
        .shape = "x[N], y[M] -> [N, M]",
        .dtype = "x: " REALS ", y: " REALS " -> promote(x, y)",
        .backward = "outer_backward(grad, x, y) -> x, y",
        .strides = "any",
        RUN(outer),
    },
    {
        .schema = "outer_backward(Tensor grad, Tensor x, Tensor y)"
                  " -> (Tensor dx, Tensor dy)",
        .shape = "grad[N, M], x[N], y[M] -> [N], [M]",
        .dtype = "grad: " FLOATS ", x: " REALS ", y: " REALS " -> x, y",
        RUN(outer_backward),
    },
    {
        .schema = "mm(Tensor a, Tensor b) -> Tensor",
        .shape = "a[N, K], b[K, M] -> [N, M]",
        .dtype = "a: " FLOATS ", b: a -> a",
        .backward = "mm_backward(grad, a, b) -> a, b",
        .strides = "any",
        RUN(mm),
    },
    {
        .schema = "bmm(Tensor a, Tensor b) -> Tensor",
        .shape = "a[B, N, K], b[B, K, M] -> [B, N, M]",
        .dtype = "a: " FLOATS ", b: a -> a",
        .backward = "mm_backward(grad, a, b) -> a, b",
        .strides = "any",
        RUN(bmm),
    },
    {
        .schema = "mm_backward(Tensor grad, Tensor a, Tensor b)"
                  " -> (Tensor da, Tensor db)",
        .shape = "grad[*B, N, M], a[*B, N, K], b[*B, K, M]"
                 " -> [*B, N, K], [*B, K, M]",
        .where = "rank(B) <= 1",
        .dtype = "grad: " FLOATS ", a: grad, b: grad -> grad, grad",
        .strides = "any",
        RUN(mm_backward),
    },
    {
        .schema = "addmm(Tensor start, Tensor a, Tensor b, *, Scalar beta=1, "
                  "Scalar alpha=1) -> Tensor",
        .shape = "start[*S], a[N, K], b[K, M] -> [N, M]",
        .where = "rank(S) <= 2, rank(S) < 1 or S[-1] == 1 or S[-1] == M, "
                 "rank(S) < 2 or S[0] == 1 or S[0] == N",
        .dtype = "start: " FLOATS ", a: start, b: start -> start",
        .backward = "addmm_backward(grad, start, a, b, beta, alpha)"
                    " -> start, a, b",
        .strides = "any",
        RUN(addmm),
    },
    {
        .schema = "addmm_backward(Tensor grad, Tensor start, Tensor a, "
                  "Tensor b, Scalar beta, Scalar alpha)"
                  " -> (Tensor dstart, Tensor da, Tensor db)",
        .shape = "grad[N, M], start[*S], a[N, K], b[K, M]"
                 " -> [*S], [N, K], [K, M]",
        .dtype = "grad: " FLOATS ", start: grad, a: grad, b: grad"
                 " -> grad, grad, grad",
        .workspace = "8 * prod(S)",
        RUN(addmm_backward),
    },
    {
        .schema = "conv1d(Tensor x, Tensor weight, Tensor? bias=None, "
                  "int stride=1, int padding=0, int dilation=1, int groups=1)"
                  " -> Tensor",
        .shape = "x[*N, C, L], weight[O, I, K], bias?[O] -> [*N, O, "
                 "(L + 2 * padding - dilation * (K - 1) - 1) // stride + 1]",
        .where = "stride > 0, dilation > 0, padding >= 0, groups > 0, "
                 "C == I * groups, O % groups == 0, "
                 "L + 2 * padding >= dilation * (K - 1) + 1",
        .dtype = "x: " FLOATS ", weight: x, bias: x -> x",
        .backward = "conv1d_backward(x, weight, grad, stride, padding, "
                    "dilation, groups) -> x, weight, bias",
        RUN(conv1d),
    },
    {
        .schema = "conv1d_backward(Tensor x, Tensor weight, Tensor grad, "
                  "int stride, int padding, int dilation, int groups)"
                  " -> (Tensor dx, Tensor dweight, Tensor dbias)",
        .shape = "x[*N, C, L], weight[O, I, K], grad[*N, O, M]"
                 " -> [*N, C, L], [O, I, K], [O]",
        .where = "stride > 0, dilation > 0, padding >= 0, groups > 0, "
                 "C == I * groups, O % groups == 0, "
                 "M == (L + 2 * padding - dilation * (K - 1) - 1) // stride "
                 "+ 1",
        .dtype = "x: " FLOATS ", weight: x, grad: x -> x, x, x",
        .workspace = "8 * (prod(N) * C * L + O * I * K + O)",
        RUN(conv1d_backward),
    },
    {
        .schema = "max_pool1d(Tensor x, int kernel_size, int? stride=None, "
                  "int padding=0, int dilation=1)"
                  " -> (Tensor values, Tensor indices)",
        .shape = "x[*N, L] -> [*N, " POOL_ROOM " // " POOL_STEP " + 1], "
                 "[*N, " POOL_ROOM " // " POOL_STEP " + 1]",
        .where = "kernel_size > 0, " POOL_STEP " > 0, dilation > 0, "
                 "0 <= padding, 2 * padding <= kernel_size, " POOL_ROOM " >= 0",
        .dtype = "x: " FLOATS " -> x, i64",
        .backward = "max_pool1d_backward(grad_values, x, indices) -> x",
        RUN(max_pool1d),
    },
    {
        .schema = "max_pool1d_backward(Tensor grad, Tensor x, Tensor indices)"
                  " -> Tensor",
        .shape = "grad[*N, M], x[*N, L], indices[*N, M] -> [*N, L]",
        .dtype = "grad: " FLOATS ", x: grad, indices: i64 -> grad",
        RUN(max_pool1d_backward),
    },
};
OG_MODULE(linear_ops, ops)
