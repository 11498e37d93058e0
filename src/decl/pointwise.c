// SPDX-License-Identifier: Apache-2.0
// A kernel that computes any pointwise expression, in blocks over f64 values.
//
// Invariants: shapes broadcast to the result's (the shape rule said so). Values
// are computed in f64 whatever the types are: integers beyond 2^53 are rounded.

#include "decl/pointwise.h"

#include <math.h>
#include <stddef.h>

#include "base/grain.h"
#include "decl/decl.h"

enum { BLOCK = OG_SCALAR_BLOCK, OPERANDS_MAX = 9 };

// Dims that all tensors walk alike are merged; the innermost is last.
typedef struct walk {
  const og_call *call;
  const og_pointwise *pointwise;
  int32_t rank;
  int64_t size[OPGRAFT_RANK_MAX];
  // Of the inputs and, last, of the result; 0 where a tensor is broadcast.
  int64_t stride[OPERANDS_MAX][OPGRAFT_RANK_MAX];
  const og_tensor *tensor[OPERANDS_MAX];
} walk;

// --- Elements ----------------------------------------------------------------

#define LOAD_LOOP(type, expression)                 \
  do {                                              \
    const type *from = (const type *)data + offset; \
    for (int64_t i = 0; i < n; ++i) {               \
      const type v = from[i * stride];              \
      to[i] = (double)(expression);                 \
    }                                               \
  } while (0)

static void load(const og_tensor *t, int64_t offset, int64_t stride, int64_t n,
                 double *to) {
  const void *data = og_data(t);
  switch (t->dtype.code << 8 | t->dtype.bits) {
    case OG_CODE_FLOAT << 8 | 16:
      LOAD_LOOP(og_half, og_half_to_float(v));
      break;
    case OG_CODE_BFLOAT << 8 | 16:
      LOAD_LOOP(og_bfloat, og_bfloat_to_float(v));
      break;
    case OG_CODE_FLOAT << 8 | 32:
      LOAD_LOOP(float, v);
      break;
    case OG_CODE_FLOAT << 8 | 64:
      LOAD_LOOP(double, v);
      break;
    case OG_CODE_INT << 8 | 8:
      LOAD_LOOP(int8_t, v);
      break;
    case OG_CODE_INT << 8 | 16:
      LOAD_LOOP(int16_t, v);
      break;
    case OG_CODE_INT << 8 | 32:
      LOAD_LOOP(int32_t, v);
      break;
    case OG_CODE_INT << 8 | 64:
      LOAD_LOOP(int64_t, v);
      break;
    case OG_CODE_UINT << 8 | 16:
      LOAD_LOOP(uint16_t, v);
      break;
    case OG_CODE_UINT << 8 | 32:
      LOAD_LOOP(uint32_t, v);
      break;
    case OG_CODE_UINT << 8 | 64:
      LOAD_LOOP(uint64_t, v);
      break;
    default:  // u8 and bool
      LOAD_LOOP(uint8_t, v);
  }
}

// Cut to the type's range, which a plain cast leaves undefined; a NaN is 0.
static int64_t to_signed(double v, int bits) {
  const double limit = ldexp(1, bits - 1);
  if (!(v == v)) return 0;
  if (v >= limit) return INT64_MAX >> (64 - bits);
  if (v < -limit) return INT64_MIN >> (64 - bits);
  return (int64_t)v;
}

static uint64_t to_unsigned(double v, int bits) {
  if (!(v > 0)) return 0;
  if (v >= ldexp(1, bits)) return UINT64_MAX >> (64 - bits);
  return (uint64_t)v;
}

#define STORE_LOOP(type, expression)  \
  do {                                \
    type *to = (type *)data + offset; \
    for (int64_t i = 0; i < n; ++i) { \
      const double v = from[i];       \
      to[i * stride] = (expression);  \
    }                                 \
  } while (0)

static void store(og_tensor *t, int64_t offset, int64_t stride, int64_t n,
                  const double *from) {
  void *data = og_data(t);
  switch (t->dtype.code << 8 | t->dtype.bits) {
    case OG_CODE_FLOAT << 8 | 16:
      STORE_LOOP(og_half, og_half_from_float((float)v));
      break;
    case OG_CODE_BFLOAT << 8 | 16:
      STORE_LOOP(og_bfloat, og_bfloat_from_float((float)v));
      break;
    case OG_CODE_FLOAT << 8 | 32:
      STORE_LOOP(float, (float)v);
      break;
    case OG_CODE_FLOAT << 8 | 64:
      STORE_LOOP(double, v);
      break;
    case OG_CODE_INT << 8 | 8:
      STORE_LOOP(int8_t, (int8_t)to_signed(v, 8));
      break;
    case OG_CODE_INT << 8 | 16:
      STORE_LOOP(int16_t, (int16_t)to_signed(v, 16));
      break;
    case OG_CODE_INT << 8 | 32:
      STORE_LOOP(int32_t, (int32_t)to_signed(v, 32));
      break;
    case OG_CODE_INT << 8 | 64:
      STORE_LOOP(int64_t, to_signed(v, 64));
      break;
    case OG_CODE_UINT << 8 | 8:
      STORE_LOOP(uint8_t, (uint8_t)to_unsigned(v, 8));
      break;
    case OG_CODE_UINT << 8 | 16:
      STORE_LOOP(uint16_t, (uint16_t)to_unsigned(v, 16));
      break;
    case OG_CODE_UINT << 8 | 32:
      STORE_LOOP(uint32_t, (uint32_t)to_unsigned(v, 32));
      break;
    case OG_CODE_UINT << 8 | 64:
      STORE_LOOP(uint64_t, to_unsigned(v, 64));
      break;
    default:  // bool
      STORE_LOOP(uint8_t, v != 0);
  }
}

static double number(const og_attr *attr) {
  return attr->kind == OG_ATTR_FLOAT ? attr->f : (double)attr->i;
}

// --- Blocks ------------------------------------------------------------------

// Where a block begins: the index of each dim.
typedef struct place {
  int64_t index[OPGRAFT_RANK_MAX];
} place;

static void place_at(const walk *w, int64_t element, place *out) {
  for (int32_t d = w->rank - 1; d >= 0; --d) {
    out->index[d] = element % w->size[d];
    element /= w->size[d];
  }
}

static int64_t offset_of(const walk *w, int32_t operand, const place *at) {
  int64_t offset = 0;
  for (int32_t d = 0; d < w->rank; ++d)
    offset += at->index[d] * w->stride[operand][d];
  return offset;
}

// Goes on by `run` elements, which end within the innermost dim or at its end.
static void advance(const walk *w, int64_t run, place *at) {
  int32_t d = w->rank - 1;
  at->index[d] += run;
  while (d > 0 && at->index[d] == w->size[d]) {
    at->index[d] = 0;
    ++at->index[--d];
  }
}

// Loads (or, with `from`, stores) n elements of an operand from `begin` on.
static void transfer(const walk *w, int32_t operand, place at, int64_t n,
                     double *to, const double *from) {
  const int32_t inner = w->rank - 1;
  const int64_t stride = w->stride[operand][inner];
  for (int64_t done = 0; done < n;) {
    const int64_t left = w->size[inner] - at.index[inner];
    const int64_t run = left < n - done ? left : n - done;
    const int64_t offset = offset_of(w, operand, &at);
    if (from != NULL)
      store(w->call->out[0], offset, stride, run, from + done);
    else
      load(w->tensor[operand], offset, stride, run, to + done);
    advance(w, run, &at);
    done += run;
  }
}

// A block, and where it begins.
typedef struct block {
  const walk *walk;
  const place *at;
} block;

static void operand_load(void *state, const og_scalar_instruction *code,
                         int64_t n, void *to) {
  const block *b = state;
  double *values = to;
  if (code->op == OG_SCALAR_load) {
    transfer(b->walk, code->slot, *b->at, n, values, NULL);
    return;
  }
  const double value = number(&b->walk->call->attr[code->slot]);
  for (int64_t i = 0; i < n; ++i) values[i] = value;
}

static void run_block(const walk *w, const place *at, int64_t n) {
  double result[BLOCK];
  block b = {w, at};
  og_scalar_run_f64(&w->pointwise->program, n, operand_load, &b, result);
  transfer(w, w->pointwise->tensor_count, *at, n, NULL, result);
}

static void run_range(void *state, int64_t begin, int64_t end, int32_t worker) {
  const walk *w = state;
  place at;
  (void)worker;
  for (int64_t i = begin; i < end; i += BLOCK) {
    const int64_t n = end - i < BLOCK ? end - i : BLOCK;
    place_at(w, i, &at);
    run_block(w, &at, n);
  }
}

// --- The walk ----------------------------------------------------------------

// Dim d of the result, as a dim of a tensor that broadcasts to it.
static int64_t broadcast_stride(const og_tensor *t, int32_t d, int32_t rank) {
  const int32_t own = d - (rank - t->ndim);
  return own < 0 || t->shape[own] == 1 ? 0 : t->strides[own];
}

// Whether each input broadcasts to the result. The derived rule says so; a
// rule of the author's may say something else.
static bool broadcasts(const og_call *call, int32_t inputs) {
  const og_tensor *out = call->out[0];
  for (int32_t k = 0; k < inputs; ++k) {
    const og_tensor *t = call->in[k];
    const int32_t skip = out->ndim - t->ndim;
    if (skip < 0) return false;
    for (int32_t d = 0; d < t->ndim; ++d)
      if (t->shape[d] != 1 && t->shape[d] != out->shape[d + skip]) return false;
  }
  return true;
}

// Goes through the result's dims, dropping those of size 1 and merging what
// can be. Filled from the outermost on.
static void walk_init(walk *w, const og_call *call) {
  const og_tensor *out = call->out[0];
  const int32_t inputs = w->pointwise->tensor_count;
  w->call = call;
  w->rank = 0;
  for (int32_t k = 0; k < inputs; ++k) w->tensor[k] = call->in[k];
  w->tensor[inputs] = out;
  for (int32_t d = 0; d < out->ndim; ++d) {
    int64_t stride[OPERANDS_MAX];
    if (out->shape[d] == 1) continue;
    for (int32_t k = 0; k <= inputs; ++k)
      stride[k] = broadcast_stride(w->tensor[k], d, out->ndim);
    const int32_t last = w->rank - 1;
    bool merges = last >= 0;
    for (int32_t k = 0; k <= inputs && merges; ++k)
      merges = w->stride[k][last] == stride[k] * out->shape[d];
    const int32_t to = merges ? last : w->rank++;
    w->size[to] = merges ? w->size[to] * out->shape[d] : out->shape[d];
    for (int32_t k = 0; k <= inputs; ++k) w->stride[k][to] = stride[k];
  }
  if (w->rank > 0) return;
  w->rank = 1;
  w->size[0] = 1;
  for (int32_t k = 0; k <= inputs; ++k) w->stride[k][0] = 0;
}

og_status og_pointwise_run(const og_call *call) {
  walk w;
  if (call->struct_size < offsetof(og_call, derived) + sizeof(void *) ||
      call->derived == NULL)
    return og_fail(call, OG_INTERNAL,
                   "the host left out the expression (og_call.derived) of a "
                   "derived kernel");
  w.pointwise = call->derived;
  for (int32_t k = 0; k < w.pointwise->program.count; ++k) {
    const og_scalar_instruction *code = &w.pointwise->program.code[k];
    if (code->op == OG_SCALAR_number &&
        call->attr[code->slot].kind == OG_ATTR_COMPLEX)
      return og_fail(call, OG_UNSUPPORTED,
                     "a pointwise expression takes no complex number");
  }
  if (!broadcasts(call, w.pointwise->tensor_count))
    return og_fail(call, OG_SHAPE,
                   "a pointwise expression needs arguments that broadcast to "
                   "the shape of the result; mend the shape rule");
  walk_init(&w, call);
  return og_parallel_tasks(call, og_numel(call->out[0]), OG_GRAIN_MEDIUM,
                           run_range, &w);
}
