// SPDX-License-Identifier: Apache-2.0
// graph_random [--count=N] [--seed=N] [--print]: random graphs from the IR's
// operators, shapes and types. Each runs without passes, without sharing
// memory and on one thread; what it gives then must be, bit for bit, what it
// gives with random passes, with shared memory, with threads and with lanes,
// twice, and with all of them. A graph that differs is printed with its seed.

#include <inttypes.h>
#include <opgraft/graph_file.h>
#include <string.h>

#include "base/text.h"
#include "graph/element.h"
#include "tools/tool.h"

enum {
  RANK_MAX = 3,
  VALUES_MAX = 64,
  NODES_MAX = 24,
  INPUTS_MAX = 5,
  OUTPUTS_MAX = 8,
  MEMORY_BYTES = 4096,
};

typedef struct size {
  int64_t number;
  bool is_symbol;  // s0, which has this number
} size;

typedef struct value {
  og_dtype dtype;
  int32_t ndim;
  size shape[RANK_MAX];
  int64_t strides[RANK_MAX];
  int64_t offset;
  bool is_dense;  // row-major from its storage's start
  bool is_gone;   // overwritten: what replaced it is to be read
  int32_t root;   // the value whose storage it lies in
  int32_t input;  // position, or -1
} value;

typedef struct maker {
  uint64_t state;
  og_text text;
  value values[VALUES_MAX];
  int32_t count;
  int32_t inputs[INPUTS_MAX];
  int32_t input_count;
  int64_t symbol;
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

static void type_add(maker *m, const value *v) {
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

static void strides_add(maker *m, const value *v) {
  og_text_add(&m->text, "{");
  for (int32_t d = 0; d < v->ndim; ++d)
    og_text_addf(&m->text, "%s%" PRId64, d > 0 ? ", " : "", v->strides[d]);
  og_text_addf(&m->text, "}+(%" PRId64 ")", v->offset);
}

static void dense_set(value *v) {
  int64_t stride = 1;
  for (int32_t d = v->ndim - 1; d >= 0; --d) {
    v->strides[d] = stride;
    stride *= v->shape[d].number > 0 ? v->shape[d].number : 1;
  }
  v->is_dense = true;
  v->offset = 0;
}

static value fresh(og_dtype dtype, int32_t ndim, const size *shape) {
  value v = {.dtype = dtype, .ndim = ndim, .root = -1, .input = -1};
  for (int32_t d = 0; d < ndim; ++d) v.shape[d] = shape[d];
  dense_set(&v);
  return v;
}

static int32_t keep(maker *m, value v) {
  if (v.root < 0) v.root = m->count;
  m->values[m->count] = v;
  return m->count++;
}

// "  %vN: type = "; the value is kept by the caller afterwards.
static void result_begin(maker *m, const value *v) {
  og_text_addf(&m->text, "  %%v%d: ", (int)m->count);
  type_add(m, v);
}

static int32_t result_end(maker *m, value v) {
  og_text_add(&m->text, "\n");
  return keep(m, v);
}

// A value that may be read; -1 where none fits.
typedef bool (*fits_fn)(const value *v);
static int32_t pick(maker *m, fits_fn fits) {
  for (int tries = 0; tries < 12; ++tries) {
    const int32_t i = (int32_t)below(m, m->count);
    if (!m->values[i].is_gone && (fits == NULL || fits(&m->values[i])))
      return i;
  }
  return -1;
}

static bool has_dims(const value *v) {
  for (int32_t d = 0; d < v->ndim; ++d)
    if (v->shape[d].number == 0) return false;
  return v->ndim > 0;
}
static bool is_real(const value *v) {
  return has_dims(v) && is_float(v->dtype);
}
static bool is_matrix(const value *v) {
  return v->ndim >= 2 && has_dims(v) && v->dtype.code != OG_CODE_BOOL;
}
static bool is_dense_value(const value *v) { return v->is_dense; }
static bool is_number(const value *v) {
  return has_dims(v) && v->dtype.code != OG_CODE_BOOL;
}

// --- Operators ---------------------------------------------------------------

#define OG_OP(id, in_min, in_max, outs, flags, attrs, kernel)
#define OG_PW(id, arity, flags, rule, on_float, on_int) {#id, arity, 1, 1},
#define OG_PW_FLOAT(id, arity, flags, rule, on_float) {#id, arity, 1, 0},
#define OG_PW_INT(id, arity, flags, rule, on_int) {#id, arity, 0, 1},
static const struct {
  const char *name;
  int arity;
  bool has_float, has_int;
} pointwise[] = {
#include "graph/ops.def"
};
#undef OG_OP
#undef OG_PW

static void literal_add(maker *m) {
  static const char *const literals[] = {"0",   "1",    "2",    "-3",   "0.5",
                                         "1.0", "-2.5", "true", "1e-3", "7"};
  og_text_add(&m->text, literals[below(m, 10)]);
}

// An operand that broadcasts to `shape`: a value, or a number.
static void operand_add(maker *m, const value *to) {
  for (int tries = 0; tries < 8; ++tries) {
    const int32_t i = (int32_t)below(m, m->count);
    const value *v = &m->values[i];
    bool fits = !v->is_gone && v->ndim <= to->ndim;
    for (int32_t d = 0; fits && d < v->ndim; ++d) {
      const size *wanted = &to->shape[to->ndim - v->ndim + d];
      fits = (v->shape[d].number == 1 && !v->shape[d].is_symbol) ||
             (v->shape[d].number == wanted->number &&
              v->shape[d].is_symbol == wanted->is_symbol);
    }
    if (!fits) continue;
    og_text_addf(&m->text, "%%v%d", (int)i);
    return;
  }
  literal_add(m);
}

static void add_pointwise(maker *m) {
  const int64_t at = below(m, (int64_t)(sizeof pointwise / sizeof *pointwise));
  const int32_t like = pick(m, NULL);
  if (like < 0) return;
  const value v = fresh(chance(m, 3) ? any_dtype(m) : m->values[like].dtype,
                        m->values[like].ndim, m->values[like].shape);
  // Its rows say which types an operator has; those that compare have both.
  if (!(is_float(v.dtype) ? pointwise[at].has_float : pointwise[at].has_int))
    return;
  result_begin(m, &v);
  og_text_addf(&m->text, " = %s(%%v%d", pointwise[at].name, (int)like);
  for (int i = 1; i < pointwise[at].arity; ++i) {
    og_text_add(&m->text, ", ");
    operand_add(m, &v);
  }
  og_text_add(&m->text, ")");
  result_end(m, v);
}

static void add_reduction(maker *m) {
  static const char *const names[] = {"sum",  "mean", "prod", "amax",
                                      "amin", "any",  "all",  "var"};
  const int64_t at = below(m, 8);
  const int32_t from = pick(m, is_number);
  if (from < 0) return;
  const value *x = &m->values[from];
  const bool is_mean = at == 1 || at == 7;
  if (is_mean && !is_float(x->dtype)) return;
  const int32_t dim = (int32_t)below(m, x->ndim);
  value v = fresh(x->dtype, x->ndim, x->shape);
  if (at == 5 || at == 6) v.dtype = (og_dtype){OG_CODE_BOOL, 8, 1};
  if (chance(m, 2)) {  // the dim stays, as one
    v.shape[dim] = (size){1, false};
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

static void add_along_dim(maker *m) {
  static const char *const names[] = {"softmax", "log_softmax", "cumsum",
                                      "cumprod"};
  const int64_t at = below(m, 4);
  const int32_t from = pick(m, at < 2 ? is_real : is_number);
  if (from < 0) return;
  const value v =
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
  const value *x = &m->values[a];
  value t = *x;
  const int32_t i = t.ndim - 2, j = t.ndim - 1;
  const size n = t.shape[i];
  const int64_t stride = t.strides[i];
  t.shape[i] = t.shape[j];
  t.strides[i] = t.strides[j];
  t.shape[j] = n;
  t.strides[j] = stride;
  t.is_dense = false;
  for (int32_t d = 0; d < t.ndim; ++d)
    if (t.shape[d].is_symbol) return;  // its strides would need s0
  result_begin(m, &t);
  strides_add(m, &t);
  og_text_addf(&m->text, " = view(%%v%d)", (int)a);
  const int32_t b = result_end(m, t);
  x = &m->values[a];
  value v = fresh(x->dtype, x->ndim, x->shape);
  v.shape[v.ndim - 1] = x->shape[x->ndim - 2];
  dense_set(&v);
  result_begin(m, &v);
  og_text_addf(&m->text, " = matmul(%%v%d, %%v%d)", (int)a, (int)b);
  result_end(m, v);
}

static bool has_symbol(const value *v) {
  for (int32_t d = 0; d < v->ndim; ++d)
    if (v->shape[d].is_symbol) return true;
  return false;
}

// A permuted, cut, repeated or flattened view.
static void add_view(maker *m) {
  const int32_t from = pick(m, has_dims);
  if (from < 0 || has_symbol(&m->values[from])) return;
  value v = m->values[from];
  v.input = -1;
  const int32_t i = (int32_t)below(m, v.ndim), j = (int32_t)below(m, v.ndim);
  switch (below(m, 4)) {
    case 0: {
      const value old = v;
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
  result_begin(m, &v);
  strides_add(m, &v);
  og_text_addf(&m->text, " = view(%%v%d)", (int)from);
  result_end(m, v);
}

static void add_cat(maker *m) {
  const int32_t from = pick(m, has_dims);
  if (from < 0 || has_symbol(&m->values[from])) return;
  value v =
      fresh(m->values[from].dtype, m->values[from].ndim, m->values[from].shape);
  const int32_t dim = (int32_t)below(m, v.ndim);
  v.shape[dim].number *= 2;
  dense_set(&v);
  result_begin(m, &v);
  og_text_addf(&m->text, " = cat(%%v%d, %%v%d; dim=%d)", (int)from, (int)from,
               (int)dim);
  result_end(m, v);
}

static void add_move(maker *m) {
  const int32_t from = pick(m, has_dims);
  if (from < 0) return;
  const value v =
      fresh(m->values[from].dtype, m->values[from].ndim, m->values[from].shape);
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
  const value x = m->values[from];
  const int32_t dim = (int32_t)below(m, x.ndim);
  const size count = {1 + below(m, x.shape[dim].number), false};
  const value index = fresh((og_dtype){OG_CODE_INT, 64, 1}, 1, &count);
  result_begin(m, &index);
  og_text_add(&m->text, " = iota(; start=0, step=1)");
  const int32_t i = result_end(m, index);
  value part = fresh(x.dtype, x.ndim, x.shape);
  part.shape[dim] = count;
  dense_set(&part);
  result_begin(m, &part);
  og_text_addf(&m->text, " = index_select(%%v%d, %%v%d; dim=%d)", (int)from,
               (int)i, (int)dim);
  const int32_t rows = result_end(m, part);
  if (chance(m, 2)) return;
  const value sum = fresh(x.dtype, x.ndim, x.shape);
  result_begin(m, &sum);
  og_text_addf(&m->text, " = index_add(%%v%d, %%v%d, %%v%d; dim=%d, alpha=2)",
               (int)from, (int)i, (int)rows, (int)dim);
  result_end(m, sum);
}

// A part of a value written: the result starts as the value.
static void add_update(maker *m) {
  const int32_t to = pick(m, is_dense_value);
  if (to < 0 || has_symbol(&m->values[to]) || !has_dims(&m->values[to])) return;
  const value x = m->values[to];
  size shape[RANK_MAX];
  int64_t offset = 0;
  for (int32_t d = 0; d < x.ndim; ++d) {
    const int64_t begin = below(m, x.shape[d].number);
    shape[d] = (size){1 + below(m, x.shape[d].number - begin), false};
    offset += begin * x.strides[d];
  }
  const value part = fresh(x.dtype, x.ndim, shape);
  result_begin(m, &part);
  og_text_add(&m->text, " = copy(");
  operand_add(m, &part);
  og_text_add(&m->text, ")");
  const int32_t p = result_end(m, part);
  const value v = fresh(x.dtype, x.ndim, x.shape);
  result_begin(m, &v);
  og_text_addf(&m->text,
               " = scatter_view(%%v%d, %%v%d; offset=%" PRId64 ", strides=[",
               (int)to, (int)p, offset);
  for (int32_t d = 0; d < x.ndim; ++d)
    og_text_addf(&m->text, "%s%" PRId64, d > 0 ? ", " : "", x.strides[d]);
  og_text_add(&m->text, "])");
  result_end(m, v);
}

static void add_norm(maker *m) {
  const int32_t from = pick(m, is_real);
  if (from < 0 || m->count + 3 > VALUES_MAX) return;
  const value x = m->values[from];
  const value y = fresh(x.dtype, x.ndim, x.shape);
  value mean = fresh(x.dtype, x.ndim, x.shape);
  mean.shape[x.ndim - 1] = (size){1, false};
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
  const value x = m->values[input];
  if (x.is_gone) return;
  value v = x;
  v.input = -1;
  v.root = x.root;
  for (int32_t i = 0; i < m->count; ++i) {
    const value *y = &m->values[i];
    bool same =
        !y->is_gone && i != input && y->ndim == x.ndim && y->root != x.root;
    for (int32_t d = 0; same && d < x.ndim; ++d)
      same = y->shape[d].number == x.shape[d].number &&
             y->shape[d].is_symbol == x.shape[d].is_symbol;
    if (!same || !og_dtype_equal(y->dtype, x.dtype) || chance(m, 3)) continue;
    result_begin(m, &v);
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
    size shape[RANK_MAX];
    const int32_t ndim = (int32_t)below(m, RANK_MAX + 1);
    for (int32_t d = 0; d < ndim; ++d)
      shape[d] = (size){chance(m, 40) ? 0 : 1 + below(m, 5), false};
    // s0 is the first dim: strides of the others do not need it.
    if (has_s0 && ndim > 0 && !chance(m, 3)) shape[0] = (size){m->symbol, true};
    value v = fresh(any_dtype(m), ndim, shape);
    v.input = i;
    const bool is_turned =
        ndim >= 2 && !has_symbol(&v) && has_dims(&v) && chance(m, 3);
    if (is_turned) {  // column-major
      int64_t stride = 1;
      for (int32_t d = 0; d < ndim; ++d) {
        v.strides[d] = stride;
        stride *= v.shape[d].number;
      }
      v.is_dense = false;
    }
    og_text_addf(&m->text, "%s%%v%d: ", i > 0 ? ", " : "", (int)m->count);
    type_add(m, &v);
    for (int32_t d = 0; is_turned && d < ndim; ++d)
      og_text_addf(&m->text, "%s%" PRId64 "%s", d == 0 ? "{" : ", ",
                   v.strides[d], d + 1 == ndim ? "}" : "");
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

static void graph_make(maker *m, uint64_t seed) {
  static void (*const kinds[])(maker *) = {
      add_pointwise, add_pointwise, add_pointwise, add_pointwise, add_reduction,
      add_along_dim, add_matmul,    add_view,      add_view,      add_cat,
      add_move,      add_indexed,   add_update,    add_update,    add_norm,
  };
  m->state = seed * 0x9e3779b97f4a7c15ULL + 0x1234567;
  for (int i = 0; i < 4; ++i) next(m);
  og_text_addf(&m->text, "graph r%" PRIu64 "(", seed);
  inputs_add(m);
  og_text_add(&m->text, ") {\n");
  const int64_t nodes = 1 + below(m, NODES_MAX);
  for (int64_t n = 0; n < nodes && m->count + 4 < VALUES_MAX; ++n)
    kinds[below(m, (int64_t)(sizeof kinds / sizeof *kinds))](m);
  while (m->count < VALUES_MAX - 1 && chance(m, 2)) add_write_back(m);
  return_add(m);
}

// --- Running -----------------------------------------------------------------

typedef struct outcome {
  og_status status;
  opgraft_error error;
  og_text bytes;  // of outputs and inputs, one after the other
} outcome;

typedef struct tensor_memory {
  og_tensor tensor;
  int64_t shape[RANK_MAX], strides[RANK_MAX];
  char *bytes;
} tensor_memory;

// Numbers that stay small, with the odd zero, one and infinity.
static void element_fill(maker *m, og_dtype dtype, void *at) {
  static const double special[] = {0, 1, -1, 0.5, 1e30, -0.0};
  if (dtype.code == OG_CODE_BOOL)
    og_element_set_int(dtype, at, below(m, 2));
  else if (!is_float(dtype))
    og_element_set_int(dtype, at, below(m, 20) - 5);
  else if (chance(m, 6))
    og_element_set_double(dtype, at, special[below(m, 6)]);
  else
    og_element_set_double(dtype, at, (double)below(m, 4001) / 1000 - 2);
}

static void inputs_fill(maker *m, tensor_memory *inputs) {
  for (int32_t i = 0; i < m->input_count; ++i) {
    const value *v = &m->values[m->inputs[i]];
    tensor_memory *to = &inputs[i];
    int64_t count = 1;
    for (int32_t d = 0; d < v->ndim; ++d) {
      to->shape[d] = v->shape[d].number;
      to->strides[d] = v->strides[d];
      count *= to->shape[d];
    }
    for (int64_t e = 0; e < count; ++e)
      element_fill(m, v->dtype,
                   to->bytes + (size_t)e * og_dtype_bytes(v->dtype));
    to->tensor = (og_tensor){.data = to->bytes,
                             .device = {OG_CPU, 0},
                             .ndim = v->ndim,
                             .dtype = v->dtype,
                             .shape = to->shape,
                             .strides = to->strides};
  }
}

// What a call has let go is kept aside until its results are recorded, and
// overwritten.
typedef struct holding {
  const opgraft_call *call;
  tensor_memory *inputs;
  void **storages;
  char let_go[INPUTS_MAX][MEMORY_BYTES];
  bool is_gone[INPUTS_MAX];
} holding;

static void *storage_make(const opgraft_call *call, int32_t index) {
  const size_t bytes = call->storages[index].size_bytes + 64;
  void *memory = malloc(bytes);
  if (memory == NULL) abort();
  return memset(memory, 0xa5, bytes);
}

static og_status hold(void *call_context, const int32_t *inputs,
                      int32_t input_count, const int32_t *storages,
                      int32_t storage_count, void **out_data,
                      opgraft_error *error) {
  holding *held = call_context;
  (void)error;
  for (int32_t i = 0; i < input_count; ++i) {
    char *bytes = held->inputs[inputs[i]].bytes;
    memcpy(held->let_go[inputs[i]], bytes, MEMORY_BYTES);
    memset(bytes, 0x5a, MEMORY_BYTES);
    held->is_gone[inputs[i]] = true;
  }
  for (int32_t k = 0; k < storage_count; ++k)
    out_data[k] = held->storages[storages[k]] =
        storage_make(held->call, storages[k]);
  return OG_OK;
}

// Element by element, a NaN as one pattern: which NaN an operation gives is
// not said.
static void tensor_record(const og_tensor *tensor, og_text *out) {
  const size_t item = og_dtype_bytes(tensor->dtype);
  const char *base = (const char *)tensor->data + tensor->byte_offset;
  for (int64_t i = 0; i < og_numel(tensor); ++i) {
    int64_t at = 0, rest = i;
    for (int32_t d = tensor->ndim - 1; d >= 0; --d) {
      at += rest % tensor->shape[d] * tensor->strides[d];
      rest /= tensor->shape[d];
    }
    const char *element = base + at * (int64_t)item;
    const double number = og_element_double(tensor->dtype, element);
    if (number != number)
      og_text_add_n(out, "nan.....", item);
    else
      og_text_add_n(out, element, item);
  }
}

static void results_record(const opgraft_call *call, void *const *storages,
                           const maker *m, const tensor_memory *inputs,
                           og_text *out) {
  for (int32_t i = 0; i < call->output_count; ++i) {
    og_tensor tensor = call->outputs[i].tensor;
    const int32_t kind = call->outputs[i].kind;
    if (kind == OPGRAFT_OUTPUT_STORAGE)
      tensor.data = storages[call->outputs[i].index];
    else if (kind == OPGRAFT_OUTPUT_INPUT)
      tensor.data = inputs[call->outputs[i].index].bytes;
    else if (kind != OPGRAFT_OUTPUT_CONSTANT)
      continue;
    tensor_record(&tensor, out);
  }
  for (int32_t i = 0; i < m->input_count; ++i)
    tensor_record(&inputs[i].tensor, out);
}

static og_status call_once(opgraft_executable *executable, maker *m,
                           uint64_t seed, outcome *out) {
  tensor_memory inputs[INPUTS_MAX];
  const og_tensor *in[INPUTS_MAX];
  void *storages[OUTPUTS_MAX + 1] = {NULL};
  static holding held;
  static char memory[INPUTS_MAX][MEMORY_BYTES];
  opgraft_call call;
  m->state = seed + 99;
  for (int32_t i = 0; i < m->input_count; ++i) {
    inputs[i].bytes = memory[i];
    in[i] = &inputs[i].tensor;
  }
  inputs_fill(m, inputs);
  og_status status = opgraft_executable_begin(
      executable, in, NULL, m->input_count, &call, &out->error);
  if (status != OG_OK) return status;
  for (int32_t i = 0; i < call.storage_count; ++i)
    if (!call.given[i].is_late) storages[i] = storage_make(&call, i);
  memset(&held, 0, sizeof held);
  held.call = &call;
  held.inputs = inputs;
  held.storages = storages;
  call.context = &held;
  status = opgraft_call_run(&call, storages, &out->error);
  for (int32_t i = 0; i < m->input_count; ++i)
    if (held.is_gone[i]) memcpy(inputs[i].bytes, held.let_go[i], MEMORY_BYTES);
  if (status == OG_OK) results_record(&call, storages, m, inputs, &out->bytes);
  for (int32_t i = 0; i < call.storage_count; ++i) free(storages[i]);
  opgraft_call_end(&call);
  return status;
}

// The second call, with other numbers, finds the memory as the first left it.
static void graph_run(maker *m, uint64_t seed, const char *disable,
                      uint32_t flags, int32_t threads, outcome *out) {
  opgraft_graph *graph;
  opgraft_executable *executable = NULL;
  const opgraft_options options = {.struct_size = sizeof options,
                                   .disable = disable};
  const opgraft_host host = {
      .struct_size = sizeof host,
      .flags = flags,
      .threads = threads,
      .hold = (flags & OPGRAFT_HOST_ANY_SIZE) != 0 ? hold : NULL};
  *out = (outcome){0};
  out->status =
      opgraft_graph_parse(m->text.data, m->text.length, &graph, &out->error);
  if (out->status != OG_OK) return;
  out->status = opgraft_graph_finish(graph, &options, &out->error);
  if (out->status == OG_OK)
    out->status =
        opgraft_executable_create(graph, &host, &executable, &out->error);
  for (uint64_t call = 0; call < 2 && out->status == OG_OK; ++call)
    out->status = call_once(executable, m, seed + call * 7919, out);
  opgraft_executable_release(executable);
  opgraft_graph_release(graph);
}

static bool same(const outcome *a, const outcome *b) {
  return a->status == b->status && a->bytes.length == b->bytes.length &&
         (a->bytes.length == 0 ||
          memcmp(a->bytes.data, b->bytes.data, a->bytes.length) == 0);
}

// --- One graph ---------------------------------------------------------------

typedef struct tally {
  int64_t right, wrong, refused;
} tally;

static void passes_without(maker *m, og_text *out) {
  for (int32_t i = 0; opgraft_pass_name(i) != NULL; ++i)
    if (chance(m, 2)) og_text_addf(out, "%s ", opgraft_pass_name(i));
}

enum { FORMS = 6 };  // in which a graph is run

static void graph_try(uint64_t seed, bool prints, tally *count) {
  static maker m;
  og_text all = {0}, some = {0};
  outcome wanted, found[FORMS];
  memset(&m, 0, sizeof m);
  graph_make(&m, seed);
  if (m.text.failed) {
    og_text_reset(&m.text);
    ++count->wrong;
    return;
  }
  if (prints) fputs(m.text.data, stdout);
  for (int32_t i = 0; opgraft_pass_name(i) != NULL; ++i)
    og_text_addf(&all, "%s ", opgraft_pass_name(i));
  passes_without(&m, &some);
  og_text_add(&some, "");
  graph_run(&m, seed, all.data, OPGRAFT_HOST_UNSHARED, 1, &wanted);
  graph_run(&m, seed, "", 0, 1, &found[0]);
  graph_run(&m, seed, some.data, 0, 2, &found[1]);
  graph_run(&m, seed, "", 0, 2, &found[2]);
  graph_run(&m, seed, some.data, OPGRAFT_HOST_LANES_NOW, 3, &found[3]);
  graph_run(&m, seed, "", OPGRAFT_HOST_ANY_SIZE, 1, &found[4]);
  graph_run(&m, seed, some.data, OPGRAFT_HOST_ANY_SIZE | OPGRAFT_HOST_LANES_NOW,
            3, &found[5]);
  bool is_right = true;
  for (int i = 0; i < FORMS; ++i) {
    // What the passes remove cannot fail any more.
    const bool fits = wanted.status != OG_OK || same(&wanted, &found[i]);
    if (!fits)
      printf("seed %" PRIu64 ", %s: differs (%s)\n%s", seed,
             i == 0              ? "all passes"
             : i == 2            ? "threads"
             : i == 3            ? "lanes"
             : i == 4            ? "let go"
             : i == 5            ? "let go, lanes"
             : some.data != NULL ? some.data
                                 : "",
             found[i].status != OG_OK ? found[i].error.text : "numbers",
             m.text.data);
    is_right &= fits;
    og_text_reset(&found[i].bytes);
  }
  if (wanted.status == OG_INVALID || wanted.status == OG_INTERNAL) {
    printf("seed %" PRIu64 ": %s\n%s", seed, wanted.error.text, m.text.data);
    is_right = false;
  } else if (wanted.status != OG_OK) {
    ++count->refused;
    if (prints) printf("refused: %s\n", wanted.error.text);
  }
  ++*(is_right ? &count->right : &count->wrong);
  og_text_reset(&wanted.bytes);
  og_text_reset(&all);
  og_text_reset(&some);
  og_text_reset(&m.text);
}

static int work(int64_t count, uint64_t seed, bool prints) {
  tally total = {0};
  for (int64_t i = 0; i < count && total.wrong < 5; ++i)
    graph_try(seed + (uint64_t)i, prints, &total);
  const bool are_tried = total.refused * 20 <= total.right + total.wrong;
  if (!are_tried) printf("too many graphs are refused\n");
  printf("%" PRId64 " refused; %" PRId64 " passed, %" PRId64 " failed\n",
         total.refused, total.right, total.wrong + !are_tried);
  return total.wrong > 0 || !are_tried;
}

int main(int argc, char **argv) {
  int64_t count = 200;
  uint64_t seed = 1;
  bool prints = false;
  for (int i = 1; i < argc; ++i) {
    if (strncmp(argv[i], "--count=", 8) == 0)
      count = strtoll(argv[i] + 8, NULL, 10);
    if (strncmp(argv[i], "--seed=", 7) == 0)
      seed = (uint64_t)strtoll(argv[i] + 7, NULL, 10);
    if (strcmp(argv[i], "--print") == 0) prints = true;
  }
  tool_begin();
  return tool_end(work(count, seed, prints));
}
