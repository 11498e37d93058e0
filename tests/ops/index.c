// SPDX-License-Identifier: Apache-2.0
// Reading and writing by index: selection, gathering, embedding, ordering.

#include "common.h"

#include <stdlib.h>

static og_status out_of_range(const og_call *call) {
  return og_fail(call, OG_INVALID, "an index is out of range");
}

// --- index_select, and its gradient ------------------------------------------

// `x` and `y` are the lines of one dim; entry i of y belongs to entry index[i]
// of x. Without `adds`, y is read from x; with it, y is added to x.
static og_status select_lines(const og_call *call, const og_tensor *x,
                              og_tensor *out, const og_tensor *index,
                              int adds) {
  const int64_t dim = call->attr[0].i;
  const lines large = lines_of(adds ? out : x, dim);
  const lines small = lines_of(adds ? x : out, dim);
  for (int64_t i = 0; i < small.length; ++i) {
    const int64_t chosen = get_int(index, at(index, i));
    if (chosen < 0 || chosen >= large.length) return out_of_range(call);
    for (int64_t j = 0; j < large.count; ++j) {
      const int64_t a = line_begin(&large, j) + chosen * large.step;
      const int64_t b = line_begin(&small, j) + i * small.step;
      if (adds)
        put(out, a, get(out, a) + get(x, b));
      else
        move(out, b, x, a);
    }
  }
  return OG_OK;
}

static og_status index_select(const og_call *call) {
  return select_lines(call, call->in[0], call->out[0], call->in[1], 0);
}

static void clear(og_tensor *t) {
  memset(og_data(t), 0, (size_t)og_numel(t) * item_bytes(t));
}

static og_status index_select_backward(const og_call *call) {
  clear(call->out[0]);
  return select_lines(call, call->in[0], call->out[0], call->in[2], 1);
}

// --- gather, and its gradient ------------------------------------------------

// The place in `x` of element i of `index` along dim; -1 if it is out of range.
static int64_t gathered(const og_tensor *x, const og_tensor *index, int64_t dim,
                        int64_t i) {
  const int64_t chosen = get_int(index, at(index, i));
  int64_t place_in_x = 0;
  if (dim < 0) dim += x->ndim;
  for (int32_t d = x->ndim - 1; d >= 0; --d) {
    const int64_t k = d == dim ? chosen : i % index->shape[d];
    i /= index->shape[d];
    if (k < 0 || k >= x->shape[d]) return -1;
    place_in_x += k * x->strides[d];
  }
  return place_in_x;
}

static og_status gather(const og_call *call) {
  const og_tensor *x = call->in[0], *index = call->in[1];
  for (int64_t i = 0; i < og_numel(index); ++i) {
    const int64_t from = gathered(x, index, call->attr[0].i, i);
    if (from < 0) return out_of_range(call);
    move(call->out[0], i, x, from);
  }
  return OG_OK;
}

// in: grad, x, index.
static og_status gather_backward(const og_call *call) {
  const og_tensor *grad = call->in[0], *index = call->in[2];
  og_tensor *out = call->out[0];
  clear(out);
  for (int64_t i = 0; i < og_numel(index); ++i) {
    const int64_t to = gathered(out, index, call->attr[0].i, i);
    if (to < 0) return out_of_range(call);
    put(out, to, get(out, to) + get(grad, i));
  }
  return OG_OK;
}

// --- embedding ---------------------------------------------------------------

enum { VOCABULARY, WIDTH };

static og_status embedding(const og_call *call) {
  const og_tensor *weight = call->in[0], *indices = call->in[1];
  const size_t bytes = (size_t)call->dim[WIDTH] * item_bytes(weight);
  char *out = og_data(call->out[0]);
  for (int64_t i = 0; i < og_numel(indices); ++i) {
    const int64_t row = get_int(indices, i);
    if (row < 0 || row >= call->dim[VOCABULARY]) return out_of_range(call);
    memcpy(out + (size_t)i * bytes,
           (const char *)og_data(weight) + (size_t)row * bytes, bytes);
  }
  return OG_OK;
}

// in: grad, weight, indices; nothing flows to the padding row.
static og_status embedding_backward(const og_call *call) {
  const og_tensor *grad = call->in[0], *indices = call->in[2];
  og_tensor *out = call->out[0];
  const int64_t width = out->shape[1], padding = call->attr[0].i;
  clear(out);
  for (int64_t i = 0; i < og_numel(indices); ++i) {
    const int64_t row = get_int(indices, i);
    if (row < 0 || row >= out->shape[0]) return out_of_range(call);
    if (row == padding) continue;
    for (int64_t d = 0; d < width; ++d)
      put(out, row * width + d,
          get(out, row * width + d) + get(grad, i * width + d));
  }
  return OG_OK;
}

// --- sort and topk -----------------------------------------------------------

typedef struct entry {
  double value;
  int64_t index;
} entry;

// NaN is the largest; equal values keep their order.
static int rises(const void *a, const void *b) {
  const entry *x = a, *y = b;
  if (isnan(x->value) != isnan(y->value)) return isnan(x->value) ? 1 : -1;
  if (x->value < y->value) return -1;
  if (x->value > y->value) return 1;
  return (x->index > y->index) - (x->index < y->index);
}

static int falls(const void *a, const void *b) {
  const entry *x = a, *y = b;
  if (isnan(x->value) != isnan(y->value)) return isnan(x->value) ? -1 : 1;
  if (x->value > y->value) return -1;
  if (x->value < y->value) return 1;
  return (x->index > y->index) - (x->index < y->index);
}

// Writes the first entries of each sorted line, as many as the results have.
static og_status sort_lines(const og_call *call, int64_t dim, int descends) {
  const og_tensor *x = call->in[0];
  const lines from = lines_of(x, dim), to = lines_of(call->out[0], dim);
  entry *entries = call->workspace;
  for (int64_t j = 0; j < from.count; ++j) {
    const int64_t x_at = line_begin(&from, j), out_at = line_begin(&to, j);
    for (int64_t i = 0; i < from.length; ++i)
      entries[i] = (entry){get(x, x_at + i * from.step), i};
    qsort(entries, (size_t)from.length, sizeof *entries,
          descends ? falls : rises);
    for (int64_t i = 0; i < to.length; ++i) {
      move(call->out[0], out_at + i * to.step, x,
           x_at + entries[i].index * from.step);
      og_i64_mut(call->out[1])[out_at + i * to.step] = entries[i].index;
    }
  }
  return OG_OK;
}

static og_status sort(const og_call *call) {
  return sort_lines(call, call->attr[0].i, call->attr[1].i != 0);
}

static og_status topk(const og_call *call) {
  return sort_lines(call, call->attr[1].i, call->attr[2].i != 0);
}

// --- Writing at indices ------------------------------------------------------

// The place in x of element i of `values`, by one index tensor for each of the
// first dims of x; -1 if one is out of range. `full` has the broadcast of the
// indices' dims, then the dims of x that have none.
static int64_t indexed(const og_tensor *x, const og_tensor_list *indices,
                       const og_tensor *full, int64_t i) {
  const int32_t count = (int32_t)indices->count;
  const int32_t rest = x->ndim - count;
  og_tensor front = *full;
  int64_t inner = 1, place_in_x = 0;
  front.ndim = full->ndim - rest;
  for (int32_t d = x->ndim - 1; d >= count; --d) {
    place_in_x += i / inner % x->shape[d] * x->strides[d];
    inner *= x->shape[d];
  }
  for (int32_t d = 0; d < count; ++d) {
    const og_tensor *index = indices->tensors[d];
    int64_t k = get_int(index, place(index, &front, i / inner));
    if (k < 0) k += x->shape[d];
    if (k < 0 || k >= x->shape[d]) return -1;
    place_in_x += k * x->strides[d];
  }
  return place_in_x;
}

// The dims that values are spread to; 0 where the indices do not fit.
static int indexed_dims(const og_tensor *x, const og_tensor_list *indices,
                        og_tensor *full, int64_t *shape) {
  const int32_t count = (int32_t)indices->count;
  int32_t front = 0;
  if (count == 0 || count > x->ndim) return 0;
  for (int32_t d = 0; d < count; ++d)
    if (!indices->tensors[d])
      return 0;
    else if (indices->tensors[d]->ndim > front)
      front = indices->tensors[d]->ndim;
  for (int32_t d = 0; d < front; ++d) shape[d] = 1;
  for (int32_t n = 0; n < count; ++n) {
    const og_tensor *index = indices->tensors[n];
    for (int32_t d = 0; d < index->ndim; ++d) {
      int64_t *known = &shape[d + front - index->ndim];
      if (*known == 1) *known = index->shape[d];
      if (*known != index->shape[d] && index->shape[d] != 1) return 0;
    }
  }
  for (int32_t d = count; d < x->ndim; ++d) shape[front++] = x->shape[d];
  *full = (og_tensor){.ndim = front, .shape = shape};
  return 1;
}

static og_status index_put(const og_call *call) {
  og_tensor *x = call->out[0], full;
  const og_tensor_list *indices = &call->in_list[1];
  const og_tensor *values = call->in[2];
  int64_t shape[2 * RANK_MAX];
  if (!indexed_dims(x, indices, &full, shape))
    return og_fail(call, OG_SHAPE,
                   "index_put_: expected an index for each of the first dims, "
                   "all of shapes that broadcast");
  if (!broadcasts_to(values, &full))
    return og_fail(call, OG_SHAPE,
                   "index_put_: values have a shape that does "
                   "not broadcast to what is written");
  for (int64_t i = 0; i < og_numel(&full); ++i) {
    const int64_t to = indexed(x, indices, &full, i);
    const int64_t from = place(values, &full, i);
    if (to < 0) return out_of_range(call);
    if (!call->attr[0].i)
      move(x, to, values, from);
    else if (is_float(x))
      put(x, to, get(x, to) + get(values, from));
    else
      put_int(x, to, get_int(x, to) + get_int(values, from));
  }
  return OG_OK;
}

// New keys and values go behind what the caches hold: lengths[b] entries.
enum { BATCH, HEADS, CAPACITY, KEY_WIDTH, NEW };

static void write_cache(const og_call *call, og_tensor *cache,
                        const og_tensor *fresh) {
  const int64_t width = call->dim[KEY_WIDTH], count = call->dim[NEW];
  for (int64_t b = 0; b < call->dim[BATCH]; ++b)
    for (int64_t h = 0; h < call->dim[HEADS]; ++h)
      for (int64_t i = 0; i < count * width; ++i) {
        const int64_t to =
            b * cache->strides[0] + h * cache->strides[1] +
            (call->attr[0].ints[b] + i / width) * cache->strides[2] +
            i % width * cache->strides[3];
        const int64_t row = b * call->dim[HEADS] + h;
        move(cache, to, fresh, row * count * width + i);
      }
}

static og_status kv_write(const og_call *call) {
  const og_attr *lengths = &call->attr[0];
  for (int64_t b = 0; b < lengths->count; ++b)
    if (lengths->ints[b] < 0 ||
        lengths->ints[b] > call->dim[CAPACITY] - call->dim[NEW])
      return og_fail(call, OG_INVALID, "kv_write_: a cache has no room");
  write_cache(call, call->out[0], call->in[2]);
  write_cache(call, call->out[1], call->in[3]);
  return OG_OK;
}

// --- Declarations ------------------------------------------------------------

static const og_op ops[] = {
    {
        .schema = "index_select(Tensor x, int dim, Tensor index) -> Tensor",
        .shape = "x[*A, D@dim, *B], index[K] -> [*A, K, *B]",
        .where = "index in [0, D)",
        .dtype = "x: any, index: i32|i64 -> x",
        .backward = "index_select_backward(grad, x, dim, index) -> x",
        .strides = "any",
        RUN(index_select),
    },
    {
        .schema = "index_select_backward(Tensor g, Tensor x, int dim, "
                  "Tensor index) -> Tensor",
        .shape = "g[*A, K@dim, *B], x[*A, D@dim, *B], index[K] -> [*A, D, *B]",
        .dtype = "g: " FLOATS ", x: g, index: i32|i64 -> g",
        .backward = "index_select(grad, dim, index) -> g",
        RUN(index_select_backward),
    },
    {
        .schema = "gather(Tensor x, int dim, Tensor index) -> Tensor",
        .shape = "x[*N], index[*M] -> [*M]",
        .where = "rank(N) == rank(M), -max(rank(N), 1) <= dim, "
                 "dim < max(rank(N), 1)",
        .dtype = "x: any, index: i32|i64 -> x",
        .backward = "gather_backward(grad, x, dim, index) -> x",
        RUN(gather),
    },
    {
        .schema = "gather_backward(Tensor g, Tensor x, int dim, Tensor index)"
                  " -> Tensor",
        .shape = "g[*M], x[*N], index[*M] -> [*N]",
        .where = "rank(N) == rank(M), -max(rank(N), 1) <= dim, "
                 "dim < max(rank(N), 1)",
        .dtype = "g: " FLOATS ", x: g, index: i32|i64 -> g",
        .backward = "gather(grad, dim, index) -> g",
        RUN(gather_backward),
    },
    {
        .schema = "embedding(Tensor weight, Tensor indices, "
                  "int padding_idx=-1) -> Tensor",
        .shape = "weight[V, D], indices[*N] -> [*N, D]",
        .where = "indices in [0, V)",
        .dtype = "weight: any, indices: i32|i64 -> weight",
        .backward = "embedding_backward(grad, weight, indices, padding_idx)"
                    " -> weight",
        .doc = "The row padding_idx of weight gets no gradient.",
        .expect = "no_gradient: weight",
        RUN(embedding),
    },
    {
        .schema = "embedding_backward(Tensor grad, Tensor weight, "
                  "Tensor indices, int padding_idx) -> Tensor",
        .shape = "grad[*N, D], weight[V, D], indices[*N] -> [V, D]",
        .dtype = "grad: " FLOATS ", weight: grad, indices: i32|i64 -> grad",
        RUN(embedding_backward),
    },
    {
        .schema = "sort(Tensor x, int dim=-1, bool descending=False)"
                  " -> (Tensor values, Tensor indices)",
        .shape = "x[*A, D@dim, *B] -> [*A, D, *B], [*A, D, *B]",
        .dtype = "x: " REALS " -> x, i64",
        .backward = "gather_backward(grad_values, x, dim, indices) -> x",
        .workspace = "16 * D",
        .strides = "any",
        RUN(sort),
    },
    {
        .schema = "topk(Tensor x, int k, int dim=-1, bool largest=True)"
                  " -> (Tensor values, Tensor indices)",
        .shape = "x[*A, D@dim, *B] -> [*A, k, *B], [*A, k, *B]",
        .where = "0 <= k, k <= D",
        .dtype = "x: " REALS " -> x, i64",
        .backward = "gather_backward(grad_values, x, dim, indices) -> x",
        .workspace = "16 * D",
        .strides = "any",
        RUN(topk),
    },
    {
        .schema = "index_put_(Tensor(a!) x, Tensor?[] indices, Tensor values, "
                  "bool accumulate=False) -> Tensor(a!)",
        .dtype = "x: " REALS ", indices: i64, values: x",
        .strides = "any",
        RUN(index_put),
    },
    {
        .schema = "kv_write_(Tensor(a!) keys, Tensor(b!) values, Tensor k, "
                  "Tensor v, int[] lengths) -> ()",
        .shape = "keys[B, H, L, D], values[B, H, L, D], k[B, H, S, D], "
                 "v[B, H, S, D]",
        .where = "len(lengths) == B, S <= L",
        .dtype = "keys: " FLOATS ", values: keys, k: keys, v: keys",
        .strides = "keys: any, values: any",
        RUN(kv_write),
    },
};
OG_MODULE(indexing, ops)
