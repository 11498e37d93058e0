// SPDX-License-Identifier: Apache-2.0
// Moving elements: joining, splitting, permuting, slicing, padding, tiling.

#include "common.h"

// --- Joining and splitting ---------------------------------------------------

// Copies `count` entries of each line, between tensors equal in other dims.
static void copy_lines(og_tensor *to, int64_t to_first, const og_tensor *from,
                       int64_t from_first, int64_t dim, int64_t count) {
  const lines a = lines_of(to, dim), b = lines_of(from, dim);
  for (int64_t j = 0; j < a.count; ++j)
    for (int64_t i = 0; i < count; ++i)
      move(to, line_begin(&a, j) + (to_first + i) * a.step, from,
           line_begin(&b, j) + (from_first + i) * b.step);
}

static int64_t length_along(const og_tensor *t, int64_t dim) {
  return t->shape[dim < 0 ? dim + t->ndim : dim];
}

static og_status cat(const og_call *call) {
  const og_tensor_list *xs = &call->in_list[0];
  const int64_t dim = call->attr[0].i;
  int64_t first = 0;
  for (int64_t n = 0; n < xs->count; ++n) {
    const int64_t count = length_along(xs->tensors[n], dim);
    copy_lines(call->out[0], first, xs->tensors[n], 0, dim, count);
    first += count;
  }
  return OG_OK;
}

// in: what is split; the results' own sizes say where.
static og_status split(const og_call *call, int64_t dim) {
  const og_tensor_list *parts = &call->out_list[0];
  int64_t first = 0;
  for (int64_t n = 0; n < parts->count; ++n) {
    const int64_t count = length_along(parts->tensors[n], dim);
    copy_lines(parts->tensors[n], 0, call->in[0], first, dim, count);
    first += count;
  }
  return OG_OK;
}

static og_status cat_backward(const og_call *call) {
  return split(call, call->attr[0].i);
}

static og_status split_with_sizes(const og_call *call) {
  return split(call, call->attr[1].i);
}

static og_status stack(const og_call *call) {
  const og_tensor_list *xs = &call->in_list[0];
  const lines l = lines_of(call->out[0], call->attr[0].i);
  for (int64_t n = 0; n < xs->count; ++n)
    for (int64_t j = 0; j < l.count; ++j)
      move(call->out[0], line_begin(&l, j) + n * l.step, xs->tensors[n],
           at(xs->tensors[n], j));
  return OG_OK;
}

// in: the gradient of the stack.
static og_status stack_backward(const og_call *call) {
  const og_tensor_list *parts = &call->out_list[0];
  const lines l = lines_of(call->in[0], call->attr[0].i);
  for (int64_t n = 0; n < parts->count; ++n)
    for (int64_t j = 0; j < l.count; ++j)
      move(parts->tensors[n], j, call->in[0], line_begin(&l, j) + n * l.step);
  return OG_OK;
}

// --- One element from one place ----------------------------------------------

static int32_t dim_of(int64_t dim, int32_t rank) {
  return (int32_t)(dim < 0 ? dim + rank : dim);
}

// The element of x that element i of `out` is, where dim k of out is dim
// dims[k] of x.
static int64_t permuted(const og_tensor *x, const og_tensor *out,
                        const og_attr *dims, int64_t i) {
  int64_t from = 0;
  for (int32_t d = out->ndim - 1; d >= 0; --d) {
    from += i % out->shape[d] * x->strides[dim_of(dims->ints[d], x->ndim)];
    i /= out->shape[d];
  }
  return from;
}

static og_status permute(const og_call *call) {
  og_tensor *out = call->out[0];
  for (int64_t i = 0; i < og_numel(out); ++i)
    move(out, i, call->in[0], permuted(call->in[0], out, &call->attr[0], i));
  return OG_OK;
}

static og_status permute_backward(const og_call *call) {
  const og_tensor *grad = call->in[0];
  og_tensor *out = call->out[0];
  for (int64_t i = 0; i < og_numel(grad); ++i)
    move(out, permuted(out, grad, &call->attr[0], i), grad, at(grad, i));
  return OG_OK;
}

static og_status transpose(const og_call *call) {
  const og_tensor *x = call->in[0];
  og_tensor *out = call->out[0];
  const int64_t rows = out->shape[out->ndim - 2];
  const int64_t columns = out->shape[out->ndim - 1];
  for (int64_t i = 0; i < og_numel(out); ++i) {
    const int64_t matrix = i / (rows * columns);
    const int64_t r = i / columns % rows, c = i % columns;
    move(out, i, x, at(x, (matrix * columns + c) * rows + r));
  }
  return OG_OK;
}

static og_status expand(const og_call *call) {
  const og_tensor *x = call->in[0];
  og_tensor *out = call->out[0];
  if (!broadcasts_to(x, out))
    return og_fail(call, OG_SHAPE, "expand: x does not broadcast to size");
  for (int64_t i = 0; i < og_numel(out); ++i) move(out, i, x, place(x, out, i));
  return OG_OK;
}

static og_status expand_backward(const og_call *call) {
  const og_tensor *grad = call->in[0];
  double *sums = call->workspace;
  SUM_TO(call->out[0], grad, sums, get(grad, at(grad, i)));
  return OG_OK;
}

// The clamped start of slice_copy; its rule computes the same.
static int64_t slice_start(const og_attr *start, int64_t length) {
  int64_t first = is_given(start) ? start->i : 0;
  if (first < 0) first += length;
  return first < 0 ? 0 : first > length ? length : first;
}

static og_status slice(const og_call *call) {
  const og_tensor *x = call->in[0];
  og_tensor *out = call->out[0];
  const lines from = lines_of(x, call->attr[0].i);
  const lines to = lines_of(out, call->attr[0].i);
  const int64_t first = slice_start(&call->attr[1], from.length);
  for (int64_t j = 0; j < to.count; ++j)
    for (int64_t i = 0; i < to.length; ++i)
      move(out, line_begin(&to, j) + i * to.step, x,
           line_begin(&from, j) + (first + i * call->attr[3].i) * from.step);
  return OG_OK;
}

// in: grad, x.
static og_status slice_backward(const og_call *call) {
  const og_tensor *grad = call->in[0];
  og_tensor *out = call->out[0];
  const lines from = lines_of(grad, call->attr[0].i);
  const lines to = lines_of(out, call->attr[0].i);
  const int64_t first = slice_start(&call->attr[1], to.length);
  memset(og_data(out), 0, (size_t)og_numel(out) * item_bytes(out));
  for (int64_t j = 0; j < from.count; ++j)
    for (int64_t i = 0; i < from.length; ++i)
      move(out, line_begin(&to, j) + (first + i * call->attr[3].i) * to.step,
           grad, line_begin(&from, j) + i * from.step);
  return OG_OK;
}

static og_status repeat_interleave(const og_call *call) {
  const og_tensor *x = call->in[0];
  og_tensor *out = call->out[0];
  const lines from = lines_of(x, call->attr[1].i);
  const lines to = lines_of(out, call->attr[1].i);
  for (int64_t j = 0; j < to.count; ++j)
    for (int64_t i = 0; i < to.length; ++i)
      move(out, line_begin(&to, j) + i * to.step, x,
           line_begin(&from, j) + i / call->attr[0].i * from.step);
  return OG_OK;
}

static og_status repeat_interleave_backward(const og_call *call) {
  const og_tensor *grad = call->in[0];
  const int64_t repeats = call->attr[0].i;
  og_tensor *out = call->out[0];
  const lines from = lines_of(grad, call->attr[1].i);
  const lines to = lines_of(out, call->attr[1].i);
  for (int64_t j = 0; j < to.count; ++j)
    for (int64_t i = 0; i < to.length; ++i) {
      double sum = 0;
      for (int64_t k = 0; k < repeats; ++k)
        sum += get(grad, line_begin(&from, j) + (i * repeats + k) * from.step);
      put(out, line_begin(&to, j) + i * to.step, sum);
    }
  return OG_OK;
}

static og_status flip(const og_call *call) {
  const og_tensor *x = call->in[0];
  const og_attr *dims = &call->attr[0];
  og_tensor *out = call->out[0];
  for (int64_t i = 0; i < og_numel(out); ++i) {
    int64_t rest = i, from = 0;
    for (int32_t d = x->ndim - 1; d >= 0; --d) {
      const int64_t k = rest % x->shape[d];
      const int flips = is_picked(d, x->ndim, dims->ints, dims->count);
      from += (flips ? x->shape[d] - 1 - k : k) * x->strides[d];
      rest /= x->shape[d];
    }
    move(out, i, x, from);
  }
  return OG_OK;
}

// out[i + shift] = x[i] along each dim; without dims over the flat tensor.
static og_status roll_by(const og_call *call, int sign) {
  const og_tensor *x = call->in[0];
  const og_attr *shifts = &call->attr[0], *dims = &call->attr[1];
  og_tensor *out = call->out[0];
  const int64_t count = og_numel(out);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, from = 0;
    if (dims->count == 0) {
      const int64_t shift = sign * shifts->ints[0] % count;
      move(out, i, x, at(x, (i - shift + count) % count));
      continue;
    }
    for (int32_t d = x->ndim - 1; d >= 0; --d) {
      const int64_t length = x->shape[d];
      int64_t k = rest % length;
      for (int64_t n = 0; n < dims->count; ++n)
        if (dim_of(dims->ints[n], x->ndim) == d)
          k = (k - sign * shifts->ints[n] % length + length) % length;
      from += k * x->strides[d];
      rest /= length;
    }
    move(out, i, x, from);
  }
  return OG_OK;
}

static og_status roll(const og_call *call) { return roll_by(call, 1); }
static og_status roll_backward(const og_call *call) {
  return roll_by(call, -1);
}

// --- Matrices ----------------------------------------------------------------

static og_status tril(const og_call *call) {
  const og_tensor *x = call->in[0];
  og_tensor *out = call->out[0];
  for (int64_t i = 0; i < og_numel(out); ++i) {
    const int64_t columns = out->shape[out->ndim - 1];
    const int64_t r = i / columns % out->shape[out->ndim - 2], c = i % columns;
    if (c - r <= call->attr[0].i)
      move(out, at(out, i), x, at(x, i));
    else
      memset((char *)og_data(out) + (size_t)at(out, i) * item_bytes(out), 0,
             item_bytes(out));
  }
  return OG_OK;
}

enum { LEADING, ROWS, COLUMNS };

static og_status diagonal(const og_call *call) {
  const int64_t shift = call->attr[0].i;
  const int64_t count = call->out[0]->shape[call->out[0]->ndim - 1];
  const int64_t rows = call->dim[ROWS], columns = call->dim[COLUMNS];
  for (int64_t i = 0; i < call->dim[LEADING] * count; ++i) {
    const int64_t r = i % count - (shift < 0 ? shift : 0);
    const int64_t c = i % count + (shift > 0 ? shift : 0);
    move(call->out[0], i, call->in[0],
         i / count * rows * columns + r * columns + c);
  }
  return OG_OK;
}

static og_status diag_embed(const og_call *call) {
  const og_tensor *x = call->in[0];
  og_tensor *out = call->out[0];
  const int64_t shift = call->attr[0].i, width = out->shape[out->ndim - 1];
  const int64_t count = x->shape[x->ndim - 1];
  memset(og_data(out), 0, (size_t)og_numel(out) * item_bytes(out));
  for (int64_t i = 0; i < og_numel(x); ++i) {
    const int64_t r = i % count - (shift < 0 ? shift : 0);
    const int64_t c = i % count + (shift > 0 ? shift : 0);
    move(out, i / count * width * width + r * width + c, x, i);
  }
  return OG_OK;
}

// --- Windows and blocks ------------------------------------------------------

// Element (line, window, k) of the windows is entry window * step + k of a
// line.
static int64_t window_entry(const og_call *call, const og_tensor *windows,
                            const lines *l, int64_t dim, int64_t i) {
  const int64_t size = call->attr[1].i, step = call->attr[2].i;
  const int32_t d = dim_of(dim, windows->ndim - 1);
  int64_t line = 0, scale = 1, rest = i / size;
  int64_t window = 0;
  for (int32_t k = windows->ndim - 2; k >= 0; --k) {
    const int64_t index = rest % windows->shape[k];
    rest /= windows->shape[k];
    if (k == d) {
      window = index;
    } else {
      line += index * scale;
      scale *= windows->shape[k];
    }
  }
  return line_begin(l, line) + (window * step + i % size) * l->step;
}

static og_status unfold(const og_call *call) {
  const og_tensor *x = call->in[0];
  const int64_t dim = call->attr[0].i;
  const lines l = lines_of(x, dim);
  for (int64_t i = 0; i < og_numel(call->out[0]); ++i)
    move(call->out[0], i, x, window_entry(call, call->out[0], &l, dim, i));
  return OG_OK;
}

// in: grad, x.
static og_status unfold_backward(const og_call *call) {
  og_tensor *out = call->out[0];
  const int64_t dim = call->attr[0].i;
  const lines l = lines_of(out, dim);
  memset(og_data(out), 0, (size_t)og_numel(out) * item_bytes(out));
  for (int64_t i = 0; i < og_numel(call->in[0]); ++i) {
    const int64_t to = window_entry(call, call->in[0], &l, dim, i);
    put(out, to, get(out, to) + get(call->in[0], i));
  }
  return OG_OK;
}

// Each element of a [N, C r r, H, W] tensor has its place in [N, C, H r, W r].
static og_status shuffle(const og_call *call, int inverse) {
  const og_tensor *deep = inverse ? call->out[0] : call->in[0];
  const int64_t r = call->attr[0].i;
  const int64_t w = deep->shape[deep->ndim - 1],
                h = deep->shape[deep->ndim - 2];
  const int64_t count = og_numel(deep);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t channel = i / (h * w), y = i / w % h, x = i % w;
    const int64_t row = y * r + channel / r % r, column = x * r + channel % r;
    const int64_t j = (channel / (r * r) * h * r + row) * w * r + column;
    move(call->out[0], inverse ? i : j, call->in[0], inverse ? j : i);
  }
  return OG_OK;
}

static og_status pixel_shuffle(const og_call *call) { return shuffle(call, 0); }
static og_status pixel_unshuffle(const og_call *call) {
  return shuffle(call, 1);
}

// --- Declarations ------------------------------------------------------------

#define SLICE_START                                                            \
  "select(given(start), select(start < 0, max(start + D, 0), min(start, D)), " \
  "0)"
#define SLICE_END \
  "select(given(end), select(end < 0, max(end + D, 0), min(end, D)), D)"
#define SLICE_SIZE "ceildiv(max(" SLICE_END " - " SLICE_START ", 0), step)"

static const og_op ops[] = {
    {
        .schema = "cat(Tensor[] xs, int dim=0) -> Tensor",
        .shape = "xs[][*A, D~@dim, *B] -> [*A, sum(D~), *B]",
        .where = "len(xs) > 0",
        .backward = "cat_backward(grad, xs, dim) -> xs",
        .strides = "any",
        RUN(cat),
    },
    {
        .schema = "cat_backward(Tensor g, Tensor[] xs, int dim) -> Tensor[]",
        .shape = "g[*A, S@dim, *B], xs[][*A, D~@dim, *B]"
                 " -> {i < len(xs): [*A, D~[i], *B]}",
        .where = "S == sum(D~)",
        .backward = "cat(grad, dim) -> g",
        RUN(cat_backward),
    },
    {
        .schema = "stack(Tensor[] xs, int dim=0) -> Tensor",
        .shape = "xs[][*N] -> [*insert(N, dim, len(xs))]",
        .backward = "stack_backward(grad, dim) -> xs",
        .strides = "any",
        RUN(stack),
    },
    {
        .schema = "stack_backward(Tensor g, int dim) -> Tensor[]",
        .shape = "g[*A, D@dim, *B] -> {i < D: [*A, *B]}",
        .backward = "stack(grad, dim) -> g",
        RUN(stack_backward),
    },
    {
        .schema = "split_with_sizes(Tensor x, int[] sizes, int dim=0)"
                  " -> Tensor[]",
        .shape = "x[*A, D@dim, *B] -> {i < len(sizes): [*A, sizes[i], *B]}",
        .where = "sum(sizes) == D",
        .backward = "cat(grad, dim) -> x",
        .strides = "any",
        RUN(split_with_sizes),
    },
    {
        .schema = "permute(Tensor x, int[] dims) -> Tensor",
        .shape = "x[*N] -> [*permute(N, dims)]",
        .backward = "permute_backward(grad, x, dims) -> x",
        .strides = "any",
        RUN(permute),
    },
    {
        .schema = "permute_backward(Tensor g, Tensor x, int[] dims) -> Tensor",
        .shape = "x[*N], g[*permute(N, dims)] -> [*N]",
        .backward = "permute(grad, dims) -> g",
        .flags = OG_BATCH_LOOP,
        RUN(permute_backward),
    },
    {
        .schema = "mT(Tensor x) -> Tensor",
        .shape = "x[*N, R, C] -> [*N, C, R]",
        .backward = "mT(grad) -> x",
        .strides = "any",
        RUN(transpose),
    },
    {
        .schema = "expand(Tensor x, int[] size) -> Tensor",
        .shape = "x[*N] -> [*size]",
        .where = "rank(N) <= len(size)",
        .backward = "expand_backward(grad, x) -> x",
        .strides = "any",
        RUN(expand),
    },
    {
        .schema = "expand_backward(Tensor grad, Tensor x) -> Tensor",
        .shape = "grad[*G], x[*N] -> [*N]",
        .dtype = "grad: " FLOATS ", x: grad -> x",
        .workspace = "8 * prod(N)",
        .flags = OG_BATCH_LOOP,
        RUN(expand_backward),
    },
    {
        .schema = "slice(Tensor x, int dim=0, SymInt? start=None, "
                  "SymInt? end=None, SymInt step=1) -> Tensor",
        .shape = "x[*A, D@dim, *B] -> [*A, " SLICE_SIZE ", *B]",
        .where = "step > 0",
        .backward = "slice_backward(grad, x, dim, start, end, step) -> x",
        .strides = "any",
        RUN(slice),
    },
    {
        .schema = "slice_backward(Tensor g, Tensor x, int dim, SymInt? start, "
                  "SymInt? end, SymInt step) -> Tensor",
        .shape = "g[*A, K@dim, *B], x[*A, D@dim, *B] -> [*A, D, *B]",
        .where = "step > 0, K == " SLICE_SIZE,
        .backward = "slice(grad, dim, start, end, step) -> g",
        RUN(slice_backward),
    },
    {
        .schema = "repeat_interleave(Tensor x, int repeats, int dim) -> Tensor",
        .shape = "x[*A, D@dim, *B] -> [*A, D * repeats, *B]",
        .where = "repeats >= 0",
        .backward = "repeat_interleave_backward(grad, x, repeats, dim) -> x",
        .strides = "any",
        RUN(repeat_interleave),
    },
    {
        .schema = "repeat_interleave_backward(Tensor g, Tensor x, int repeats, "
                  "int dim) -> Tensor",
        .shape = "x[*A, D@dim, *B], g[*A, E@dim, *B] -> [*A, D, *B]",
        .where = "E == D * repeats",
        .dtype = "g: " FLOATS ", x: g -> g",
        .backward = "repeat_interleave(grad, repeats, dim) -> g",
        RUN(repeat_interleave_backward),
    },
    {
        .schema = "flip(Tensor x, int[] dims) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .backward = "flip(grad, dims) -> x",
        .strides = "any",
        .flags = OG_BATCH_LOOP,
        RUN(flip),
    },
    {
        .schema = "roll(Tensor x, int[] shifts, int[] dims=[]) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .where = "len(shifts) == max(len(dims), 1)",
        .backward = "roll_backward(grad, shifts, dims) -> x",
        .strides = "any",
        .flags = OG_BATCH_LOOP,
        RUN(roll),
    },
    {
        .schema = "roll_backward(Tensor g, int[] shifts, int[] dims) -> Tensor",
        .shape = "g[*N] -> [*N]",
        .where = "len(shifts) == max(len(dims), 1)",
        .backward = "roll(grad, shifts, dims) -> g",
        .flags = OG_BATCH_LOOP,
        RUN(roll_backward),
    },
    {
        .schema = "tril(Tensor x, int diagonal=0) -> Tensor",
        .shape = "x[*N, R, C] -> [*N, R, C]",
        .backward = "tril(grad, diagonal) -> x",
        .strides = "any",
        .inplace = "x",
        RUN(tril),
    },
    {
        .schema = "diagonal(Tensor x, int offset=0) -> Tensor",
        .shape = "x[*N, R, C] -> [*N, max(min(R + min(offset, 0), "
                 "C - max(offset, 0)), 0)]",
        RUN(diagonal),
    },
    {
        .schema = "diag_embed(Tensor x, int offset=0) -> Tensor",
        .shape = "x[*N, D] -> [*N, D + max(offset, -offset), "
                 "D + max(offset, -offset)]",
        .backward = "diagonal(grad, offset) -> x",
        RUN(diag_embed),
    },
    {
        .schema = "unfold(Tensor x, int dimension, int size, int step)"
                  " -> Tensor",
        .shape = "x[*A, D@dimension, *B] -> [*A, (D - size) // step + 1, *B, "
                 "size]",
        .where = "0 <= size, size <= D, step > 0",
        .backward = "unfold_backward(grad, x, dimension, size, step) -> x",
        .strides = "any",
        RUN(unfold),
    },
    {
        .schema = "unfold_backward(Tensor g, Tensor x, int dimension, "
                  "int size, int step) -> Tensor",
        .shape = "x[*A, D@dimension, *B], g[*A, K, *B, S] -> [*A, D, *B]",
        .where = "0 <= size, size <= D, step > 0, "
                 "K == (D - size) // step + 1, S == size",
        .dtype = "g: " FLOATS ", x: g -> g",
        .backward = "unfold(grad, dimension, size, step) -> g",
        .flags = OG_BATCH_LOOP,
        RUN(unfold_backward),
    },
    {
        .schema = "pixel_shuffle(Tensor x, int r) -> Tensor",
        .shape = "x[*N, C, H, W] -> [*N, C // (r * r), H * r, W * r]",
        .where = "r > 0, C % (r * r) == 0",
        .backward = "pixel_unshuffle(grad, r) -> x",
        RUN(pixel_shuffle),
    },
    {
        .schema = "pixel_unshuffle(Tensor x, int r) -> Tensor",
        .shape = "x[*N, C, H, W] -> [*N, C * r * r, H // r, W // r]",
        .where = "r > 0, H % r == 0, W % r == 0",
        .backward = "pixel_shuffle(grad, r) -> x",
        RUN(pixel_unshuffle),
    },
};
OG_MODULE(shapes, ops)
