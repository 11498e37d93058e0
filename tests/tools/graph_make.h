// SPDX-License-Identifier: Apache-2.0
// Random graphs as text: the IR's operators over random shapes, types, views
// and writes. For programs of one file: all of it is static.

#ifndef OG_TESTS_GRAPH_MAKE_H
#define OG_TESTS_GRAPH_MAKE_H

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "scalar/element.h"

enum {
  RANK_MAX = 3,
  VALUES_MAX = 64,
  NODES_MAX = 24,
  INPUTS_MAX = 5,
  OUTPUTS_MAX = 8,
};

typedef struct made_size {
  int64_t number;
  bool is_symbol;  // s0, which has this number
} made_size;

typedef struct made_value {
  og_dtype dtype;
  int32_t ndim;
  made_size shape[RANK_MAX];
  int64_t strides[RANK_MAX];
  int64_t offset;
  bool is_dense;  // row-major from its storage's start
  bool is_gone;   // overwritten: what replaced it is to be read
  int32_t root;   // the value whose storage it lies in
  int32_t input;  // position, or -1
  double bound;   // of an exact graph: no element is larger
} made_value;

typedef struct maker {
  uint64_t state;
  og_text text;
  made_value values[VALUES_MAX];
  int32_t count;
  int32_t inputs[INPUTS_MAX];
  int32_t input_count;
  int64_t symbol;
  // Whole numbers, and operators that give whole numbers of them, all small
  // enough for their types: whatever the numbers are computed in, no result is
  // rounded. Set before graph_make.
  bool is_exact;
} maker;

// --- Chance ------------------------------------------------------------------

// xorshift64*, Vigna 2016.
static uint64_t next(maker *m) {
  m->state ^= m->state >> 12;
  m->state ^= m->state << 25;
  m->state ^= m->state >> 27;
  return m->state * 0x2545f4914f6cdd1dULL;
}

static int64_t below(maker *m, int64_t limit) {
  return (int64_t)((next(m) >> 11) % (uint64_t)limit);
}

static bool chance(maker *m, int64_t of) { return below(m, of) == 0; }

static const og_dtype dtypes[] = {
    {OG_CODE_FLOAT, 32, 1}, {OG_CODE_FLOAT, 32, 1},  {OG_CODE_FLOAT, 64, 1},
    {OG_CODE_FLOAT, 16, 1}, {OG_CODE_BFLOAT, 16, 1}, {OG_CODE_INT, 64, 1},
    {OG_CODE_INT, 32, 1},   {OG_CODE_INT, 8, 1},     {OG_CODE_UINT, 8, 1},
    {OG_CODE_BOOL, 8, 1},
};

static og_dtype any_dtype(maker *m) {
  return dtypes[below(m, (int64_t)(sizeof dtypes / sizeof *dtypes))];
}

static bool is_float(og_dtype dtype) {
  return og_dtype_class(dtype) != OG_CLASS_I64;
}

// --- Values ------------------------------------------------------------------

static void type_add(maker *m, const made_value *v) {
  og_text *out = &m->text;
  og_text_addf(out, "%s[", og_dtype_name(v->dtype));
  for (int32_t d = 0; d < v->ndim; ++d) {
    if (d > 0) og_text_add(out, ", ");
    if (v->shape[d].is_symbol)
      og_text_add(out, "s0");
    else
      og_text_addf(out, "%" PRId64, v->shape[d].number);
  }
  og_text_add(out, "]");
}

static void strides_add(maker *m, const made_value *v) {
  og_text_add(&m->text, "{");
  for (int32_t d = 0; d < v->ndim; ++d)
    og_text_addf(&m->text, "%s%" PRId64, d > 0 ? ", " : "", v->strides[d]);
  og_text_addf(&m->text, "}+(%" PRId64 ")", v->offset);
}

static void dense_set(made_value *v) {
  int64_t stride = 1;
  for (int32_t d = v->ndim - 1; d >= 0; --d) {
    v->strides[d] = stride;
    stride *= v->shape[d].number > 0 ? v->shape[d].number : 1;
  }
  v->is_dense = true;
  v->offset = 0;
}

static made_value fresh(og_dtype dtype, int32_t ndim, const made_size *shape) {
  made_value v = {.dtype = dtype, .ndim = ndim, .root = -1, .input = -1};
  for (int32_t d = 0; d < ndim; ++d) v.shape[d] = shape[d];
  dense_set(&v);
  return v;
}

static int32_t keep(maker *m, made_value v) {
  if (v.root < 0) v.root = m->count;
  m->values[m->count] = v;
  return m->count++;
}

static bool has_dims(const made_value *v) {
  for (int32_t d = 0; d < v->ndim; ++d)
    if (v->shape[d].number == 0) return false;
  return v->ndim > 0;
}
static bool has_symbol(const made_value *v) {
  for (int32_t d = 0; d < v->ndim; ++d)
    if (v->shape[d].is_symbol) return true;
  return false;
}

// Column-major, now and then, and says so.
static void layout_draw(maker *m, made_value *v, int64_t of) {
  int64_t stride = 1;
  if (v->ndim < 2 || has_symbol(v) || !has_dims(v) || !chance(m, of)) return;
  for (int32_t d = 0; d < v->ndim; ++d) {
    v->strides[d] = stride;
    stride *= v->shape[d].number;
    og_text_addf(&m->text, "%s%" PRId64, d == 0 ? "{" : ", ", v->strides[d]);
  }
  og_text_add(&m->text, "}");
  v->is_dense = false;
}

// "  %vN: type"; the value is kept by the caller afterwards.
static void view_begin(maker *m, const made_value *v) {
  og_text_addf(&m->text, "  %%v%d: ", (int)m->count);
  type_add(m, v);
}

// And in a layout of its own.
static void result_begin(maker *m, made_value *v) {
  view_begin(m, v);
  layout_draw(m, v, 8);
}

static int32_t result_end(maker *m, made_value v) {
  og_text_add(&m->text, "\n");
  return keep(m, v);
}

// A value that may be read; -1 where none fits.
typedef bool (*fits_fn)(const made_value *v);
static int32_t pick(maker *m, fits_fn fits) {
  for (int tries = 0; tries < 12; ++tries) {
    const int32_t i = (int32_t)below(m, m->count);
    if (!m->values[i].is_gone && (fits == NULL || fits(&m->values[i])))
      return i;
  }
  return -1;
}

static bool is_real(const made_value *v) {
  return has_dims(v) && is_float(v->dtype);
}
static bool is_matrix(const made_value *v) {
  return v->ndim >= 2 && has_dims(v) && v->dtype.code != OG_CODE_BOOL;
}
static bool is_dense_value(const made_value *v) { return v->is_dense; }
static bool is_number(const made_value *v) {
  return has_dims(v) && v->dtype.code != OG_CODE_BOOL;
}

// --- Operators ---------------------------------------------------------------

#define OG_OP(id, in_min, in_max, outs, flags, attrs, plain, fast)
#define OG_PW(id, arity, flags, rule, classes, expression)     \
  {#id, arity, (OG_CLASSES_##classes & OG_CLASSES_FLOAT) != 0, \
   (OG_CLASSES_##classes & OG_CLASSES_INT) != 0},
static const struct {
  const char *name;
  int arity;
  bool has_float, has_int;
} pointwise[] = {
#include "graph/ops.def"
};
#undef OG_OP
#undef OG_PW

enum { LITERAL_BOUND = 7, INPUT_BOUND = 3 };

static void literal_add(maker *m) {
  static const char *const literals[] = {"0",    "1", "2",   "-3",   "1.0",
                                         "true", "7", "0.5", "-2.5", "1e-3"};
  og_text_add(&m->text, literals[below(m, m->is_exact ? 7 : 10)]);
}

// An operand that broadcasts to `shape`: a value, or a number. Returns its
// bound.
static double operand_add(maker *m, const made_value *to) {
  for (int tries = 0; tries < 8; ++tries) {
    const int32_t i = (int32_t)below(m, m->count);
    const made_value *v = &m->values[i];
    bool fits = !v->is_gone && v->ndim <= to->ndim;
    for (int32_t d = 0; fits && d < v->ndim; ++d) {
      const made_size *wanted = &to->shape[to->ndim - v->ndim + d];
      fits = (v->shape[d].number == 1 && !v->shape[d].is_symbol) ||
             (v->shape[d].number == wanted->number &&
              v->shape[d].is_symbol == wanted->is_symbol);
    }
    if (!fits) continue;
    og_text_addf(&m->text, "%%v%d", (int)i);
    return v->bound;
  }
  literal_add(m);
  return LITERAL_BOUND;
}

// Whether numbers of this size are exact in a type, and in all that a row
// program may compute them in.
static bool is_exact_in(og_dtype dtype, double bound) {
  if (dtype.code == OG_CODE_BFLOAT) return bound <= 128;
  if (dtype.code == OG_CODE_FLOAT && dtype.bits == 16) return bound <= 1024;
  return bound <= 1 << 20;
}

// What an integer of the type wraps to is no larger than this.
static double bound_in(og_dtype dtype, double bound) {
  if (dtype.code == OG_CODE_BOOL) return 1;
  return !is_float(dtype) && dtype.bits == 8 && bound > 255 ? 255 : bound;
}

// Pointwise operators of exact graphs, and what their results are bounded by.
typedef enum made_bound { BY_ONE, BY_MOST, BY_SUM, BY_PRODUCT } made_bound;
static const struct {
  const char *name;
  int arity;
  made_bound by;
} exact[] = {
    {"copy", 1, BY_MOST},       {"neg", 1, BY_MOST},
    {"abs", 1, BY_MOST},        {"sign", 1, BY_ONE},
    {"relu", 1, BY_MOST},       {"floor", 1, BY_MOST},
    {"logical_not", 1, BY_ONE}, {"add", 2, BY_SUM},
    {"sub", 2, BY_SUM},         {"mul", 2, BY_PRODUCT},
    {"maximum", 2, BY_MOST},    {"minimum", 2, BY_MOST},
    {"eq", 2, BY_ONE},          {"lt", 2, BY_ONE},
    {"ge", 2, BY_ONE},          {"logical_and", 2, BY_ONE},
    {"logical_or", 2, BY_ONE},  {"where", 3, BY_MOST},
    {"clamp", 3, BY_MOST},      {"add_scaled", 3, BY_PRODUCT},
    {"addcmul", 4, BY_PRODUCT},
};

// Leaves the graph as it was where a number could be rounded.
static void add_exact(maker *m) {
  const int64_t at = below(m, (int64_t)(sizeof exact / sizeof *exact));
  const int32_t like = pick(m, NULL);
  if (like < 0) return;
  made_value v = fresh(chance(m, 4) ? any_dtype(m) : m->values[like].dtype,
                       m->values[like].ndim, m->values[like].shape);
  if (exact[at].by == BY_ONE && chance(m, 2))
    v.dtype = (og_dtype){OG_CODE_BOOL, 8, 1};
  const size_t before = m->text.length;
  double bound = m->values[like].bound, sum = bound, product = bound;
  result_begin(m, &v);
  og_text_addf(&m->text, " = %s(%%v%d", exact[at].name, (int)like);
  for (int i = 1; i < exact[at].arity; ++i) {
    og_text_add(&m->text, ", ");
    const double own = operand_add(m, &v);
    bound = own > bound ? own : bound;
    sum += own;
    product = product * own + own;
  }
  const double bounds[] = {1, bound, sum, product + sum};
  v.bound = bound_in(v.dtype, bounds[exact[at].by]);
  if (!is_exact_in(v.dtype, v.bound)) {
    m->text.length = before;
    return;
  }
  og_text_add(&m->text, ")");
  result_end(m, v);
}

// Those that raise where an integer is divided by 0.
static bool divides(const char *name) {
  static const char *const names[] = {"div", "floor_div", "trunc_div",
                                      "remainder", "fmod"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (strcmp(name, names[i]) == 0) return true;
  return false;
}

static void add_pointwise(maker *m) {
  if (m->is_exact) {
    add_exact(m);
    return;
  }
  const int64_t at = below(m, (int64_t)(sizeof pointwise / sizeof *pointwise));
  const int32_t like = pick(m, NULL);
  if (like < 0) return;
  made_value v = fresh(chance(m, 3) ? any_dtype(m) : m->values[like].dtype,
                       m->values[like].ndim, m->values[like].shape);
  // Its rows say which types an operator has; those that compare have both.
  if (!(is_float(v.dtype) ? pointwise[at].has_float : pointwise[at].has_int))
    return;
  result_begin(m, &v);
  og_text_addf(&m->text, " = %s(%%v%d", pointwise[at].name, (int)like);
  for (int i = 1; i < pointwise[at].arity; ++i) {
    og_text_add(&m->text, ", ");
    if (!is_float(v.dtype) && divides(pointwise[at].name))
      og_text_add(&m->text, chance(m, 2) ? "-3" : "7");
    else
      operand_add(m, &v);
  }
  og_text_add(&m->text, ")");
  result_end(m, v);
}

static void add_reduction(maker *m) {
  static const char *const names[] = {"sum",  "mean", "prod", "amax",
                                      "amin", "any",  "all",  "var"};
  static const int64_t exact_names[] = {0, 4, 3};
  const int64_t at = m->is_exact ? exact_names[below(m, 3)] : below(m, 8);
  const int32_t from = pick(m, is_number);
  if (from < 0) return;
  const made_value *x = &m->values[from];
  const bool is_mean = at == 1 || at == 7;
  if (is_mean && !is_float(x->dtype)) return;
  const int32_t dim = (int32_t)below(m, x->ndim);
  made_value v = fresh(x->dtype, x->ndim, x->shape);
  v.bound = bound_in(
      x->dtype, at == 0 ? x->bound * (double)x->shape[dim].number : x->bound);
  if (m->is_exact && !is_exact_in(v.dtype, v.bound)) return;
  if (at == 5 || at == 6) v.dtype = (og_dtype){OG_CODE_BOOL, 8, 1};
  if (chance(m, 2)) {  // the dim stays, as one
    v.shape[dim] = (made_size){1, false};
  } else {
    for (int32_t d = dim; d + 1 < v.ndim; ++d) v.shape[d] = v.shape[d + 1];
    --v.ndim;
  }
  dense_set(&v);
  result_begin(m, &v);
  og_text_addf(&m->text, " = %s(%%v%d; dims=[%d]%s)", names[at], (int)from,
               (int)dim, at == 7 ? ", correction=1" : "");
  result_end(m, v);
}

// Over the last two dims.
static void add_plane_reduction(maker *m) {
  static const char *const names[] = {"sum", "amax", "amin", "mean"};
  const int32_t from = pick(m, is_matrix);
  if (from < 0) return;
  const made_value *x = &m->values[from];
  const int64_t at = below(m, is_float(x->dtype) && !m->is_exact ? 4 : 3);
  made_value v = fresh(x->dtype, x->ndim, x->shape);
  v.bound = x->bound;
  for (int32_t d = v.ndim - 2; d < v.ndim; ++d) {
    if (at == 0) v.bound *= (double)v.shape[d].number;
    v.shape[d] = (made_size){1, false};
  }
  v.bound = bound_in(v.dtype, v.bound);
  if (m->is_exact && !is_exact_in(v.dtype, v.bound)) return;
  if (chance(m, 2)) v.ndim -= 2;
  dense_set(&v);
  result_begin(m, &v);
  og_text_addf(&m->text, " = %s(%%v%d; dims=[-1, -2])", names[at], (int)from);
  result_end(m, v);
}

static void add_along_dim(maker *m) {
  static const char *const names[] = {"softmax", "log_softmax", "cumsum",
                                      "cumprod"};
  const int64_t at = below(m, 4);
  const int32_t from = pick(m, at < 2 ? is_real : is_number);
  if (from < 0) return;
  made_value v =
      fresh(m->values[from].dtype, m->values[from].ndim, m->values[from].shape);
  result_begin(m, &v);
  og_text_addf(&m->text, " = %s(%%v%d; dim=%d)", names[at], (int)from,
               (int)below(m, v.ndim) - (chance(m, 2) ? v.ndim : 0));
  result_end(m, v);
}

static void add_matmul(maker *m) {
  const int32_t a = pick(m, is_matrix);
  if (a < 0) return;
  // The other operand is the same one, its last dims exchanged by a view.
  const made_value *x = &m->values[a];
  made_value t = *x;
  const int32_t i = t.ndim - 2, j = t.ndim - 1;
  const made_size n = t.shape[i];
  const int64_t stride = t.strides[i];
  t.shape[i] = t.shape[j];
  t.strides[i] = t.strides[j];
  t.shape[j] = n;
  t.strides[j] = stride;
  t.is_dense = false;
  for (int32_t d = 0; d < t.ndim; ++d)
    if (t.shape[d].is_symbol) return;  // its strides would need s0
  const double bound =
      bound_in(x->dtype, x->bound * x->bound * (double)x->shape[j].number);
  if (m->is_exact && !is_exact_in(x->dtype, bound)) return;
  view_begin(m, &t);
  strides_add(m, &t);
  og_text_addf(&m->text, " = view(%%v%d)", (int)a);
  const int32_t b = result_end(m, t);
  x = &m->values[a];
  made_value v = fresh(x->dtype, x->ndim, x->shape);
  v.shape[v.ndim - 1] = x->shape[x->ndim - 2];
  v.bound = bound;
  dense_set(&v);
  result_begin(m, &v);
  og_text_addf(&m->text, " = matmul(%%v%d, %%v%d)", (int)a, (int)b);
  result_end(m, v);
}

// A permuted, cut, repeated or flattened view.
static void add_view(maker *m) {
  const int32_t from = pick(m, has_dims);
  if (from < 0 || has_symbol(&m->values[from])) return;
  made_value v = m->values[from];
  v.input = -1;
  const int32_t i = (int32_t)below(m, v.ndim), j = (int32_t)below(m, v.ndim);
  switch (below(m, 4)) {
    case 0: {
      const made_value old = v;
      v.shape[i] = old.shape[j];
      v.strides[i] = old.strides[j];
      v.shape[j] = old.shape[i];
      v.strides[j] = old.strides[i];
      break;
    }
    case 1: {
      const int64_t begin = below(m, v.shape[i].number);
      v.offset += begin * v.strides[i];
      v.shape[i].number -= begin;
      break;
    }
    case 2:
      if (v.shape[i].number != 1) return;
      v.shape[i].number = 1 + below(m, 3);
      v.strides[i] = 0;
      break;
    default:
      if (!v.is_dense) return;
      for (int32_t d = 1; d < v.ndim; ++d)
        v.shape[0].number *= v.shape[d].number;
      v.ndim = 1;
      v.strides[0] = 1;
      break;
  }
  v.is_dense = false;
  view_begin(m, &v);
  strides_add(m, &v);
  og_text_addf(&m->text, " = view(%%v%d)", (int)from);
  result_end(m, v);
}

static void add_cat(maker *m) {
  const int32_t from = pick(m, has_dims);
  if (from < 0 || has_symbol(&m->values[from])) return;
  made_value v =
      fresh(m->values[from].dtype, m->values[from].ndim, m->values[from].shape);
  const int32_t dim = (int32_t)below(m, v.ndim);
  v.shape[dim].number *= 2;
  v.bound = m->values[from].bound;
  dense_set(&v);
  result_begin(m, &v);
  og_text_addf(&m->text, " = cat(%%v%d, %%v%d; dim=%d)", (int)from, (int)from,
               (int)dim);
  result_end(m, v);
}

static void add_move(maker *m) {
  const int32_t from = pick(m, has_dims);
  if (from < 0) return;
  made_value v =
      fresh(m->values[from].dtype, m->values[from].ndim, m->values[from].shape);
  v.bound = m->values[from].bound;
  const bool is_triangle = v.ndim >= 2 && chance(m, 2);
  result_begin(m, &v);
  if (is_triangle)
    og_text_addf(&m->text, " = triangle(%%v%d; upper=%s, diagonal=%d)",
                 (int)from, chance(m, 2) ? "true" : "false",
                 (int)below(m, 3) - 1);
  else
    og_text_addf(&m->text, " = flip(%%v%d; dims=[%d])", (int)from,
                 (int)below(m, v.ndim));
  result_end(m, v);
}

// Rows by index, read (index_select) or added to (index_add).
static void add_indexed(maker *m) {
  const int32_t from = pick(m, is_number);
  if (from < 0 || has_symbol(&m->values[from])) return;
  const made_value x = m->values[from];
  const int32_t dim = (int32_t)below(m, x.ndim);
  const made_size count = {1 + below(m, x.shape[dim].number), false};
  made_value index = fresh((og_dtype){OG_CODE_INT, 64, 1}, 1, &count);
  result_begin(m, &index);
  og_text_addf(&m->text, " = iota(; start=%d, step=1)",
               (int)below(m, x.shape[dim].number - count.number + 1));
  const int32_t i = result_end(m, index);
  made_value part = fresh(x.dtype, x.ndim, x.shape);
  part.shape[dim] = count;
  part.bound = x.bound;
  dense_set(&part);
  result_begin(m, &part);
  og_text_addf(&m->text, " = index_select(%%v%d, %%v%d; dim=%d)", (int)from,
               (int)i, (int)dim);
  const int32_t rows = result_end(m, part);
  made_value sum = fresh(x.dtype, x.ndim, x.shape);
  sum.bound = bound_in(x.dtype, 3 * x.bound);
  if (chance(m, 2) || (m->is_exact && !is_exact_in(x.dtype, sum.bound))) return;
  result_begin(m, &sum);
  og_text_addf(&m->text, " = index_add(%%v%d, %%v%d, %%v%d; dim=%d, alpha=%d)",
               (int)from, (int)i, (int)rows, (int)dim, (int)(1 + below(m, 2)));
  result_end(m, sum);
}

// A part of a value written: the result starts as the value.
static void add_update(maker *m) {
  const int32_t to = pick(m, is_dense_value);
  if (to < 0 || has_symbol(&m->values[to]) || !has_dims(&m->values[to])) return;
  const made_value x = m->values[to];
  made_size shape[RANK_MAX];
  int64_t offset = 0;
  for (int32_t d = 0; d < x.ndim; ++d) {
    const int64_t begin = below(m, x.shape[d].number);
    shape[d] = (made_size){1 + below(m, x.shape[d].number - begin), false};
    offset += begin * x.strides[d];
  }
  made_value part = fresh(x.dtype, x.ndim, shape);
  const size_t before = m->text.length;
  result_begin(m, &part);
  og_text_add(&m->text, " = copy(");
  part.bound = bound_in(part.dtype, operand_add(m, &part));
  if (m->is_exact && !is_exact_in(part.dtype, part.bound)) {
    m->text.length = before;
    return;
  }
  og_text_add(&m->text, ")");
  const int32_t p = result_end(m, part);
  made_value v = fresh(x.dtype, x.ndim, x.shape);
  v.bound = part.bound > x.bound ? part.bound : x.bound;
  result_begin(m, &v);
  og_text_addf(&m->text,
               " = scatter_view(%%v%d, %%v%d; offset=%" PRId64 ", strides=[",
               (int)to, (int)p, offset);
  for (int32_t d = 0; d < x.ndim; ++d)
    og_text_addf(&m->text, "%s%" PRId64, d > 0 ? ", " : "", x.strides[d]);
  og_text_add(&m->text, "])");
  result_end(m, v);
}

// Numbers that are counted, in any shape.
static int32_t add_counted(maker *m, og_dtype dtype, int32_t ndim,
                           const made_size *shape) {
  made_size count = {1, false};
  for (int32_t d = 0; d < ndim; ++d) count.number *= shape[d].number;
  const made_value all = fresh(dtype, 1, &count);
  view_begin(m, &all);
  og_text_add(&m->text, " = iota(; start=-3, step=1)");
  const int32_t from = result_end(m, all);
  made_value v = fresh(dtype, ndim, shape);
  v.root = from;
  v.bound = (double)(count.number + 3);
  view_begin(m, &v);
  og_text_addf(&m->text, " = view(%%v%d)", (int)from);
  return result_end(m, v);
}

// Zeros around the last dim; now and then the dims before it change places.
static int32_t add_padded(maker *m, int32_t from) {
  const made_value x = m->values[from];
  const int64_t before = below(m, 3);
  made_value v = fresh(x.dtype, x.ndim, x.shape);
  v.shape[x.ndim - 1].number += before + below(m, 3);
  dense_set(&v);
  view_begin(m, &v);
  og_text_add(&m->text, " = copy(0)");
  const int32_t zeros = result_end(m, v);
  int64_t strides[RANK_MAX];
  memcpy(strides, v.strides, sizeof strides);
  if (v.shape[0].number == v.shape[1].number && chance(m, 4)) {
    strides[0] = v.strides[1];
    strides[1] = v.strides[0];
  }
  v.bound = x.bound;
  view_begin(m, &v);
  og_text_addf(&m->text,
               " = scatter_view(%%v%d, %%v%d; offset=%" PRId64
               ", strides=[%" PRId64 ", %" PRId64 ", %" PRId64 "])",
               (int)zeros, (int)from, before, strides[0], strides[1],
               strides[2]);
  return result_end(m, v);
}

static bool is_rows(const made_value *v) {
  return is_real(v) && v->ndim == 3 && !has_symbol(v);
}

// Of rows, with zeros in front or without; transposed ones of long rows.
static void add_convolution(maker *m) {
  if (m->count + 8 > VALUES_MAX) return;
  const bool turns = chance(m, 3);
  int32_t x = pick(m, is_rows);
  if (x < 0) return;
  made_size *const rows = m->values[x].shape;
  if (turns) {
    const made_size long_rows[] = {rows[0], rows[1], {130 + below(m, 9), 0}};
    x = add_counted(m, m->values[x].dtype, 3, long_rows);
  }
  if (chance(m, 2)) x = add_padded(m, x);
  const made_value from = m->values[x];
  const int64_t length = from.shape[2].number, stride = 1 + below(m, 2),
                taps = 1 + below(m, length < 3 ? length : 3),
                padding = below(m, taps), more = turns ? below(m, stride) : 0;
  const made_size outer = {1 + below(m, 3), false},
                  shape[] = {turns ? from.shape[1] : outer,
                             turns ? outer : from.shape[1],
                             {taps, false}};
  const int32_t w = add_counted(m, from.dtype, 3, shape);
  made_value v = fresh(from.dtype, 3, from.shape);
  v.shape[1] = outer;
  v.shape[2].number = turns ? (length - 1) * stride - 2 * padding + taps + more
                            : (length + 2 * padding - taps) / stride + 1;
  v.bound =
      from.bound * m->values[w].bound * (double)(from.shape[1].number * taps);
  if (m->is_exact && !is_exact_in(v.dtype, v.bound)) return;
  dense_set(&v);
  result_begin(m, &v);
  og_text_addf(&m->text,
               " = convolution(%%v%d, %%v%d, none; stride=[%d], padding=[%d], "
               "dilation=[1], transposed=%s, output_padding=[%d], groups=1)",
               (int)x, (int)w, (int)stride, (int)padding,
               turns ? "true" : "false", (int)more);
  result_end(m, v);
}

static void add_norm(maker *m) {
  const int32_t from = pick(m, is_real);
  if (from < 0 || m->count + 3 > VALUES_MAX) return;
  const made_value x = m->values[from];
  const made_value y = fresh(x.dtype, x.ndim, x.shape);
  made_value mean = fresh(x.dtype, x.ndim, x.shape);
  mean.shape[x.ndim - 1] = (made_size){1, false};
  dense_set(&mean);
  og_text_addf(&m->text, "  %%v%d: ", (int)m->count);
  type_add(m, &y);
  for (int32_t r = 1; r < 3; ++r) {
    og_text_addf(&m->text, ", %%v%d: ", (int)(m->count + r));
    type_add(m, &mean);
  }
  og_text_addf(&m->text, " = layer_norm(%%v%d, none, none; rank=1, eps=1e-5)\n",
               (int)from);
  keep(m, y);
  keep(m, mean);
  keep(m, mean);
}

// The last thing that happens to an input: its new contents. Neither it nor a
// view of it is read afterwards.
static void add_write_back(maker *m) {
  const int32_t input = m->inputs[below(m, m->input_count)];
  const made_value x = m->values[input];
  if (x.is_gone) return;
  made_value v = x;
  v.input = -1;
  v.root = x.root;
  for (int32_t i = 0; i < m->count; ++i) {
    const made_value *y = &m->values[i];
    bool same =
        !y->is_gone && i != input && y->ndim == x.ndim && y->root != x.root;
    for (int32_t d = 0; same && d < x.ndim; ++d)
      same = y->shape[d].number == x.shape[d].number &&
             y->shape[d].is_symbol == x.shape[d].is_symbol;
    if (!same || !og_dtype_equal(y->dtype, x.dtype) || chance(m, 3)) continue;
    view_begin(m, &v);
    if (!x.is_dense) strides_add(m, &v);
    og_text_addf(&m->text, " in %%v%d = copy_to(%%v%d, %%v%d)", (int)x.root,
                 (int)input, (int)i);
    for (int32_t k = 0; k < m->count; ++k)
      if (m->values[k].root == x.root) m->values[k].is_gone = true;
    result_end(m, v);
    return;
  }
}

// --- Graphs ------------------------------------------------------------------

static void inputs_add(maker *m) {
  m->input_count = 1 + (int32_t)below(m, INPUTS_MAX - 1);
  const bool has_s0 = chance(m, 3);
  m->symbol = 1 + below(m, 5);
  for (int32_t i = 0; i < m->input_count; ++i) {
    made_size shape[RANK_MAX];
    const int32_t ndim = (int32_t)below(m, RANK_MAX + 1);
    for (int32_t d = 0; d < ndim; ++d)
      shape[d] = (made_size){chance(m, 40) ? 0 : 1 + below(m, 5), false};
    // s0 is the first dim: strides of the others do not need it.
    if (has_s0 && ndim > 0 && !chance(m, 3))
      shape[0] = (made_size){m->symbol, true};
    made_value v = fresh(any_dtype(m), ndim, shape);
    v.input = i;
    v.bound = INPUT_BOUND;
    og_text_addf(&m->text, "%s%%v%d: ", i > 0 ? ", " : "", (int)m->count);
    type_add(m, &v);
    layout_draw(m, &v, 3);
    if (chance(m, 4)) og_text_add(&m->text, " static");
    m->inputs[i] = keep(m, v);
  }
}

static void return_add(maker *m) {
  og_text_add(&m->text, "  return");
  const int64_t wanted = 1 + below(m, OUTPUTS_MAX);
  bool is_first = true;
  for (int64_t i = 0; i < wanted; ++i) {
    // The newest values are the likeliest: they have most behind them.
    int32_t v = m->count - 1 - (int32_t)below(m, i == 0 ? 1 : m->count);
    if (m->values[v].is_gone) continue;
    og_text_addf(&m->text, "%s%%v%d", is_first ? " " : ", ", (int)v);
    is_first = false;
  }
  og_text_add(&m->text, "\n}\n");
}

// Into m->text; `m` begins zeroed.
static void graph_make(maker *m, uint64_t seed) {
  static void (*const kinds[])(maker *) = {
      add_pointwise, add_pointwise, add_pointwise, add_pointwise,
      add_reduction, add_along_dim, add_matmul,    add_view,
      add_view,      add_cat,       add_move,      add_indexed,
      add_update,    add_update,    add_norm,      add_plane_reduction,
  };
  static void (*const exact_kinds[])(maker *) = {
      add_pointwise,   add_pointwise, add_pointwise,
      add_pointwise,   add_pointwise, add_reduction,
      add_reduction,   add_view,      add_view,
      add_cat,         add_move,      add_update,
      add_matmul,      add_indexed,   add_plane_reduction,
      add_convolution,
  };
  m->state = seed * 0x9e3779b97f4a7c15ULL + 0x1234567;
  for (int i = 0; i < 4; ++i) next(m);
  og_text_addf(&m->text, "graph r%" PRIu64 "(", seed);
  inputs_add(m);
  og_text_add(&m->text, ") {\n");
  const int64_t nodes = 1 + below(m, NODES_MAX);
  for (int64_t n = 0; n < nodes && m->count + 4 < VALUES_MAX; ++n)
    if (m->is_exact)
      exact_kinds[below(
          m, (int64_t)(sizeof exact_kinds / sizeof *exact_kinds))](m);
    else
      kinds[below(m, (int64_t)(sizeof kinds / sizeof *kinds))](m);
  while (m->count < VALUES_MAX - 1 && chance(m, 2)) add_write_back(m);
  return_add(m);
}

#endif  // OG_TESTS_GRAPH_MAKE_H
