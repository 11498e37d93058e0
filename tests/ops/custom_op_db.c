// SPDX-License-Identifier: Apache-2.0
// The operators of torch.testing._internal.custom_op_db, which are written
// there in NumPy, with their gradients.

#include "common.h"

#include <stdlib.h>

// --- Arithmetic --------------------------------------------------------------

static og_status cube(const og_call *call) {
  const og_tensor *x = call->in[0];
  og_tensor *y = call->out[0], *slope = call->out[1];
  for (int64_t i = 0; i < og_numel(x); ++i) {
    if (is_float(x)) {
      const double v = get(x, i);
      put(y, i, v * v * v);
      put(slope, i, 3 * v * v);
    } else {
      const uint64_t v = (uint64_t)get_int(x, i);
      put_int(y, i, (int64_t)(v * v * v));
      put_int(slope, i, (int64_t)(3 * v * v));
    }
  }
  return OG_OK;
}

// in: grad_cube, grad_dx, x, dx.
static og_status cube_backward(const og_call *call) {
  const og_tensor *const *in = call->in;
  for (int64_t i = 0; i < og_numel(call->out[0]); ++i)
    put(call->out[0], i,
        get(in[0], i) * get(in[3], i) + 6 * get(in[1], i) * get(in[2], i));
  return OG_OK;
}

// in: grad, then cube_backward's; the derivative by each of the four.
static og_status cube_double_backward(const og_call *call) {
  for (int64_t i = 0; i < og_numel(call->out[0]); ++i) {
    const double g = get(call->in[0], i);
    put(call->out[0], i, g * get(call->in[4], i));
    put(call->out[1], i, 6 * g * get(call->in[3], i));
    put(call->out[2], i, 6 * g * get(call->in[2], i));
    put(call->out[3], i, g * get(call->in[1], i));
  }
  return OG_OK;
}

BINARY(mul, x *y, (int64_t)((uint64_t)x *(uint64_t)y))

// in: grad, x, y.
static og_status mul_backward(const og_call *call) {
  const og_tensor *grad = call->in[0];
  double *sums = call->workspace;
  for (int k = 0; k < 2; ++k)
    SUM_TO(call->out[k], grad, sums,
           get(grad, i) * spread(call->in[2 - k], grad, i));
  return OG_OK;
}

// in: u, v (of dx, dy), grad, x, y.
static og_status mul_double_backward(const og_call *call) {
  const og_tensor *u = call->in[0], *v = call->in[1], *grad = call->in[2];
  const og_tensor *x = call->in[3], *y = call->in[4];
  double *sums = call->workspace;
  for (int64_t i = 0; i < og_numel(grad); ++i)
    put(call->out[0], i,
        spread(u, grad, i) * spread(y, grad, i) +
            spread(v, grad, i) * spread(x, grad, i));
  SUM_TO(call->out[1], grad, sums, get(grad, i) * spread(v, grad, i));
  SUM_TO(call->out[2], grad, sums, get(grad, i) * spread(u, grad, i));
  return OG_OK;
}

UNARY(mul_scalar, x * call->attr[0].f)

// --- Order -------------------------------------------------------------------

typedef struct entry {
  double value;
  int64_t index;
} entry;

static int compare(const void *a, const void *b) {
  const entry *x = a, *y = b;
  if (isnan(x->value) != isnan(y->value)) return isnan(x->value) ? 1 : -1;
  if (x->value != y->value && !isnan(x->value))
    return x->value < y->value ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

static og_status sort(const og_call *call) {
  const og_tensor *x = call->in[0];
  const lines l = lines_of(x, call->attr[0].i);
  entry *entries = call->workspace;
  for (int64_t j = 0; j < l.count; ++j) {
    const int64_t begin = line_begin(&l, j);
    for (int64_t i = 0; i < l.length; ++i)
      entries[i] = (entry){get(x, begin + i * l.step), i};
    qsort(entries, (size_t)l.length, sizeof *entries, compare);
    for (int64_t i = 0; i < l.length; ++i) {
      const int64_t from = entries[i].index;
      move(call->out[0], begin + i * l.step, x, begin + from * l.step);
      og_i64_mut(call->out[1])[begin + i * l.step] = from;
      og_i64_mut(call->out[2])[begin + from * l.step] = i;
    }
  }
  return OG_OK;
}

static og_status take(const og_call *call) {
  const og_tensor *x = call->in[0];
  const lines l = lines_of(x, call->attr[0].i);
  for (int64_t j = 0; j < l.count; ++j)
    for (int64_t i = 0; i < l.length; ++i) {
      const int64_t begin = line_begin(&l, j);
      int64_t from = og_i64(call->in[1])[begin + i * l.step];
      if (from < 0) from += l.length;
      if (from < 0 || from >= l.length)
        return og_fail(call, OG_INVALID,
                       "numpy_take: an index is out of range");
      move(call->out[0], begin + i * l.step, x, begin + from * l.step);
    }
  return OG_OK;
}

// numpy_take's gradient holds where ind_inv undoes ind: both turn each line.
static og_status take_sample(const og_sample_call *call) {
  if (call->step == OG_SAMPLE_SIZES) return OG_OK;
  const lines l = lines_of(call->in[1], call->attr[0].i);
  for (int64_t j = 0; j < l.count; ++j)
    for (int64_t i = 0; i < l.length; ++i) {
      const int64_t to = (i + (int64_t)(call->seed % 7)) % l.length;
      const int64_t begin = line_begin(&l, j);
      og_i64_mut(call->in[1])[begin + i * l.step] = to;
      og_i64_mut(call->in[2])[begin + to * l.step] = i;
    }
  return OG_OK;
}

// --- Results whose size the values decide ------------------------------------

enum { NONZERO_N, NONZERO_K };

static og_status nonzero(const og_call *call) {
  const og_tensor *x = call->in[0];
  int64_t *rows = og_i64_mut(call->out[0]);
  int64_t count = 0;
  for (int64_t i = 0; i < call->dim[NONZERO_N]; ++i) {
    int64_t rest = i;
    if (get(x, i) == 0) continue;
    for (int32_t d = x->ndim - 1; d >= 0; --d) {
      rows[count * x->ndim + d] = rest % x->shape[d];
      rest /= x->shape[d];
    }
    ++count;
  }
  og_set_dim(call, NONZERO_K, count);
  return OG_OK;
}

enum { NMS_N, NMS_K };

static double overlap(const og_tensor *boxes, int64_t a, int64_t b) {
  double area[2];
  const int64_t box[2] = {a * 4, b * 4};
  for (int k = 0; k < 2; ++k)
    area[k] = (get(boxes, box[k] + 2) - get(boxes, box[k]) + 1) *
              (get(boxes, box[k] + 3) - get(boxes, box[k] + 1) + 1);
  double common = 1;
  for (int axis = 0; axis < 2; ++axis) {
    const double low =
        fmax(get(boxes, box[0] + axis), get(boxes, box[1] + axis));
    const double high =
        fmin(get(boxes, box[0] + axis + 2), get(boxes, box[1] + axis + 2));
    common *= fmax(0, high - low + 1);
  }
  return common / (area[0] + area[1] - common);
}

// Boxes from the highest score down, but for those that overlap a kept one.
static og_status nms(const og_call *call) {
  const og_tensor *boxes = call->in[0];
  const int64_t count = call->dim[NMS_N];
  const double threshold = number(&call->attr[0]);
  int64_t *keep = og_i64_mut(call->out[0]);
  entry *entries = call->workspace;
  int64_t kept = 0;
  for (int64_t i = 0; i < count; ++i)
    entries[i] = (entry){get(call->in[1], i), i};
  qsort(entries, (size_t)count, sizeof *entries, compare);
  for (int64_t i = count - 1; i >= 0; --i) {
    int is_free = 1;
    for (int64_t k = 0; k < kept && is_free; ++k)
      is_free = overlap(boxes, keep[k], entries[i].index) <= threshold;
    if (is_free) keep[kept++] = entries[i].index;
  }
  og_set_dim(call, NMS_K, kept);
  return OG_OK;
}

// --- Copies ------------------------------------------------------------------

static og_status copy(const og_call *call) {
  memcpy(og_data(call->out[0]), og_data(call->in[0]),
         (size_t)og_numel(call->in[0]) * item_bytes(call->in[0]));
  return OG_OK;
}

// Copies `count` entries of each line, between tensors equal in other dims.
static void copy_lines(og_tensor *to, int64_t to_first, const og_tensor *from,
                       int64_t from_first, int64_t dim, int64_t count) {
  const lines a = lines_of(to, dim), b = lines_of(from, dim);
  for (int64_t j = 0; j < a.count; ++j)
    for (int64_t i = 0; i < count; ++i)
      move(to, line_begin(&a, j) + (to_first + i) * a.step, from,
           line_begin(&b, j) + (from_first + i) * b.step);
}

static og_status cat(const og_call *call) {
  const og_tensor_list *xs = &call->in_list[0];
  const int64_t dim = call->attr[0].i;
  int64_t first = 0;
  for (int64_t n = 0; n < xs->count; ++n) {
    const int64_t count = lines_of(xs->tensors[n], dim).length;
    copy_lines(call->out[0], first, xs->tensors[n], 0, dim, count);
    first += count;
  }
  return OG_OK;
}

static og_status cat_backward(const og_call *call) {
  const og_tensor_list *parts = &call->out_list[0];
  const int64_t dim = call->attr[0].i;
  int64_t first = 0;
  for (int64_t n = 0; n < parts->count; ++n) {
    const int64_t count = lines_of(parts->tensors[n], dim).length;
    copy_lines(parts->tensors[n], 0, call->in[0], first, dim, count);
    first += count;
  }
  return OG_OK;
}

// The entry at which part n begins; numpy.split's positions may count from the
// end, and stop there.
static int64_t split_at(const og_attr *splits, int64_t length, int64_t n) {
  if (n == 0) return 0;
  const int64_t split = splits->ints[n - 1];
  const int64_t position = split < 0 ? split + length : split;
  return position < 0 ? 0 : position > length ? length : position;
}

static og_status split(const og_call *call) {
  const og_tensor_list *parts = &call->out_list[0];
  const int64_t dim = call->attr[1].i;
  const int64_t length = lines_of(call->in[0], dim).length;
  for (int64_t n = 0; n < parts->count; ++n)
    copy_lines(parts->tensors[n], 0, call->in[0],
               split_at(&call->attr[0], length, n), dim,
               lines_of(parts->tensors[n], dim).length);
  return OG_OK;
}

// in: the parts' gradients, x. Parts overlap where the positions fall back.
static og_status split_backward(const og_call *call) {
  const og_tensor_list *grads = &call->in_list[0];
  og_tensor *out = call->out[0];
  const lines l = lines_of(out, call->attr[1].i);
  memset(og_data(out), 0, (size_t)og_numel(out) * item_bytes(out));
  for (int64_t n = 0; n < grads->count; ++n) {
    const lines part = lines_of(grads->tensors[n], call->attr[1].i);
    const int64_t first = split_at(&call->attr[0], l.length, n);
    if (first + part.length > l.length)
      return og_fail(call, OG_SHAPE, "a part is longer than its split");
    for (int64_t j = 0; j < part.count; ++j)
      for (int64_t i = 0; i < part.length; ++i) {
        const int64_t to = line_begin(&l, j) + (first + i) * l.step;
        const int64_t from = line_begin(&part, j) + i * part.step;
        put(out, to, get(out, to) + get(grads->tensors[n], from));
      }
  }
  return OG_OK;
}

// --- Declarations ------------------------------------------------------------

// Position number i of `splits`, in 0..D.
#define SPLIT(i)                                                       \
  "select(splits[" i "] < 0, max(splits[" i "] + D, 0), min(splits[" i \
  "], "                                                                \
  "D))"
#define PARTS                                                      \
  "{i < len(splits) + 1: [*A, max(select(i < len(splits), " SPLIT( \
      "i") ", D) - select(i > 0, " SPLIT("i - 1") ", 0), 0), *B]}"

static const og_op ops[] = {
    {
        .schema = "numpy_cube(Tensor x) -> (Tensor cube, Tensor dx)",
        .shape = "x[*N] -> [*N], [*N]",
        .dtype = "x: f16|f32|f64|" INTS " -> x, x",
        .backward = "numpy_cube_backward(grad_cube, grad_dx, x, dx) -> x",
        RUN(cube),
    },
    {
        .schema = "numpy_cube_backward(Tensor g, Tensor h, Tensor x, Tensor dx)"
                  " -> Tensor",
        .shape = "g[*N], h[*N], x[*N], dx[*N] -> [*N]",
        .dtype = "g: f16|f32|f64, h: g, x: g, dx: g -> g",
        .backward = "numpy_cube_double_backward(grad, g, h, x, dx)"
                    " -> g, h, x, dx",
        RUN(cube_backward),
    },
    {
        .schema = "numpy_cube_double_backward(Tensor grad, Tensor g, Tensor h, "
                  "Tensor x, Tensor dx)"
                  " -> (Tensor, Tensor, Tensor, Tensor)",
        .shape = "grad[*N], g[*N], h[*N], x[*N], dx[*N]"
                 " -> [*N], [*N], [*N], [*N]",
        .dtype = "grad: f16|f32|f64, g: grad, h: grad, x: grad, dx: grad"
                 " -> grad, grad, grad, grad",
        RUN(cube_double_backward),
    },
    {
        .schema = "numpy_mul(Tensor x, Tensor y) -> Tensor",
        .shape = "x[*N], y[*M] -> [*broadcast(N, M)]",
        .dtype = "x: f16|f32|f64|bool|" INTS ", y: x -> x",
        .backward = "numpy_mul_backward(grad, x, y) -> x, y",
        .strides = "any",
        RUN(mul),
    },
    {
        .schema = "numpy_mul_backward(Tensor grad, Tensor x, Tensor y)"
                  " -> (Tensor dx, Tensor dy)",
        .shape = "x[*N], y[*M], grad[*broadcast(N, M)] -> [*N], [*M]",
        .dtype = "grad: f16|f32|f64, x: grad, y: grad -> x, y",
        .backward = "numpy_mul_double_backward(grad_dx, grad_dy, grad, x, y)"
                    " -> grad, x, y",
        .workspace = "8 * max(prod(N), prod(M))",
        .flags = OG_BATCH_LOOP,
        RUN(mul_backward),
    },
    {
        .schema = "numpy_mul_double_backward(Tensor u, Tensor v, Tensor grad, "
                  "Tensor x, Tensor y) -> (Tensor, Tensor, Tensor)",
        .shape = "x[*N], y[*M], u[*N], v[*M], grad[*broadcast(N, M)]"
                 " -> [*broadcast(N, M)], [*N], [*M]",
        .dtype = "u: f16|f32|f64, v: u, grad: u, x: u, y: u -> u, u, u",
        .workspace = "8 * max(prod(N), prod(M))",
        .flags = OG_BATCH_LOOP,
        RUN(mul_double_backward),
    },
    {
        .schema = "numpy_mul_scalar(Tensor x, *, float scalar) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: f16|f32|f64 -> x",
        .backward = "numpy_mul_scalar(grad, scalar) -> x",
        RUN(mul_scalar),
    },
    {
        .schema = "numpy_sort(Tensor x, int dim)"
                  " -> (Tensor values, Tensor ind, Tensor ind_inv)",
        .shape = "x[*A, D@dim, *B] -> [*A, D, *B], [*A, D, *B], [*A, D, *B]",
        .dtype = "x: f16|f32|f64|bool|" INTS " -> x, i64, i64",
        .backward = "numpy_take(grad_values, ind_inv, ind, dim) -> x",
        .workspace = "16 * D",
        RUN(sort),
    },
    {
        .schema = "numpy_take(Tensor x, Tensor ind, Tensor ind_inv, int dim)"
                  " -> Tensor",
        .shape = "x[*A, D@dim, *B], ind[*A, D@dim, *B], ind_inv[*A, D@dim, *B]"
                 " -> [*A, D, *B]",
        .dtype = "x: any, ind: i64, ind_inv: i64 -> x",
        .backward = "numpy_take(grad, ind_inv, ind, dim) -> x",
        .sample = take_sample,
        RUN(take),
    },
    {
        .schema = "numpy_nonzero(Tensor x) -> Tensor",
        .shape = "x[*N] -> [K <= prod(N), rank(N)]",
        .dtype = "x: f16|f32|f64|bool|" INTS " -> i64",
        .backward = "none",
        RUN(nonzero),
    },
    {
        .schema = "numpy_nms(Tensor boxes, Tensor scores, Scalar iou_threshold)"
                  " -> Tensor",
        .shape = "boxes[N, 4], scores[N] -> [K <= N]",
        .dtype = "boxes: f32|f64, scores: boxes -> i64",
        .backward = "none",
        .workspace = "16 * N",
        RUN(nms),
    },
    {
        .schema = "numpy_view_copy(Tensor x, SymInt[] shape) -> Tensor",
        .shape = "x[*N] -> [*shape]",
        .where = "prod(shape) == prod(N)",
        .backward = "numpy_view_as(grad, x) -> x",
        RUN(copy),
    },
    {
        .schema = "numpy_view_as(Tensor g, Tensor x) -> Tensor",
        .shape = "g[*G], x[*N] -> [*N]",
        .where = "prod(G) == prod(N)",
        .backward = "numpy_view_as(grad, g) -> g",
        .flags = OG_BATCH_LOOP,
        RUN(copy),
    },
    {
        .schema = "numpy_cat(Tensor[] xs, int dim) -> Tensor",
        .shape = "xs[][*A, D~@dim, *B] -> [*A, sum(D~), *B]",
        .where = "len(xs) > 0",
        .backward = "numpy_cat_backward(grad, xs, dim) -> xs",
        .strides = "any",
        RUN(cat),
    },
    {
        .schema = "numpy_cat_backward(Tensor g, Tensor[] xs, int dim)"
                  " -> Tensor[]",
        .shape = "g[*A, S@dim, *B], xs[][*A, D~@dim, *B]"
                 " -> {i < len(xs): [*A, D~[i], *B]}",
        .where = "S == sum(D~)",
        .backward = "numpy_cat(grad, dim) -> g",
        RUN(cat_backward),
    },
    {
        .schema = "numpy_split_copy(Tensor x, int[] splits, int dim)"
                  " -> Tensor[]",
        .shape = "x[*A, D@dim, *B] -> " PARTS,
        .backward = "numpy_split_copy_backward(grad, x, splits, dim) -> x",
        .strides = "any",
        RUN(split),
    },
    {
        .schema = "numpy_split_copy_backward(Tensor[] grads, Tensor x, "
                  "int[] splits, int dim) -> Tensor",
        .shape = "x[*A, D@dim, *B], grads[][*A, E~@dim, *B] -> [*A, D, *B]",
        .where = "len(grads) == len(splits) + 1",
        .dtype = "grads: x, x: " FLOATS " -> x",
        .backward = "numpy_split_copy(grad, splits, dim) -> grads",
        RUN(split_backward),
    },
    {
        .schema = "numpy_split_copy_with_int(Tensor x, int[] splits, int dim)"
                  " -> (Tensor[] parts, int count)",
        .shape = "x[*A, D@dim, *B] -> " PARTS ", = len(splits)",
        .backward = "numpy_split_copy_backward(grad_parts, x, splits, "
                    "dim) -> x",
        .strides = "any",
        RUN(split),
    },
};
OG_MODULE(custom_op_db, ops)
