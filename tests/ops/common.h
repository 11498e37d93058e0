// SPDX-License-Identifier: Apache-2.0
// What the operators of this folder share: values of any type by position, and
// walks over dims. Written to be read, not to be fast: one kernel serves every
// type, and computes in double or int64_t.

#ifndef TESTS_OPS_COMMON_H
#define TESTS_OPS_COMMON_H

#include <math.h>
#include <opgraft/op.h>
#include <string.h>

#define FLOATS "f16|bf16|f32|f64"
#define INTS "u8|i8|i16|i32|i64"
#define NUMBERS FLOATS "|" INTS
#define REALS NUMBERS "|bool"

// One kernel for every type that the dtype rule names.
#define RUN(function)                                                  \
  .kernels = (const og_kernel[]){{.device = OG_CPU, .run = function}}, \
  .kernel_count = 1, .kernel_size = (uint32_t)sizeof(og_kernel)

enum { RANK_MAX = 64 };

// --- Values ------------------------------------------------------------------

static inline int is_float(const og_tensor *t) {
  return t->dtype.code == OG_CODE_FLOAT || t->dtype.code == OG_CODE_BFLOAT;
}

static inline size_t item_bytes(const og_tensor *t) {
  return t->dtype.bits / 8u;
}

static inline int64_t get_int(const og_tensor *t, int64_t at) {
  if (t->dtype.code != OG_CODE_INT) return og_u8(t)[at];
  switch (t->dtype.bits) {
    case 8:
      return og_i8(t)[at];
    case 16:
      return og_i16(t)[at];
    case 32:
      return og_i32(t)[at];
    default:
      return og_i64(t)[at];
  }
}

// Wraps around, as PyTorch's integers do; a bool is whether it is not 0.
static inline void put_int(og_tensor *t, int64_t at, int64_t value) {
  if (t->dtype.code == OG_CODE_BOOL) {
    og_bool_mut(t)[at] = value != 0;
    return;
  }
  switch (t->dtype.bits) {
    case 8:
      og_u8_mut(t)[at] = (uint8_t)value;
      break;
    case 16:
      og_i16_mut(t)[at] = (int16_t)value;
      break;
    case 32:
      og_i32_mut(t)[at] = (int32_t)value;
      break;
    default:
      og_i64_mut(t)[at] = value;
  }
}

static inline double get(const og_tensor *t, int64_t at) {
  if (t->dtype.code == OG_CODE_BFLOAT)
    return (double)og_bfloat_to_float(og_bf16(t)[at]);
  if (t->dtype.code != OG_CODE_FLOAT) return (double)get_int(t, at);
  switch (t->dtype.bits) {
    case 16:
      return (double)og_half_to_float(og_f16(t)[at]);
    case 32:
      return (double)og_f32(t)[at];
    default:
      return og_f64(t)[at];
  }
}

// A double as an integer; what does not fit is the lowest, as on x86.
static inline int64_t to_int(double value) {
  return value >= -0x1p63 && value < 0x1p63 ? (int64_t)value : INT64_MIN;
}

static inline int64_t get_as_int(const og_tensor *t, int64_t at) {
  return is_float(t) ? to_int(get(t, at)) : get_int(t, at);
}

static inline void put(og_tensor *t, int64_t at, double value) {
  if (t->dtype.code == OG_CODE_BFLOAT) {
    og_bf16_mut(t)[at] = og_bfloat_from_float((float)value);
    return;
  }
  if (t->dtype.code == OG_CODE_BOOL) {
    og_bool_mut(t)[at] = value != 0;
    return;
  }
  if (t->dtype.code != OG_CODE_FLOAT) {
    put_int(t, at, to_int(value));
    return;
  }
  switch (t->dtype.bits) {
    case 16:
      og_f16_mut(t)[at] = og_half_from_float((float)value);
      break;
    case 32:
      og_f32_mut(t)[at] = (float)value;
      break;
    default:
      og_f64_mut(t)[at] = value;
  }
}

// Copies one element between tensors of one type; it may be the same one.
static inline void move(og_tensor *to, int64_t to_at, const og_tensor *from,
                        int64_t from_at) {
  const size_t bytes = item_bytes(to);
  memmove((char *)og_data(to) + (size_t)to_at * bytes,
          (const char *)og_data(from) + (size_t)from_at * bytes, bytes);
}

static inline double number(const og_attr *attr) {
  return attr->kind == OG_ATTR_FLOAT ? attr->f : (double)attr->i;
}

static inline int64_t integer(const og_attr *attr) {
  return attr->kind == OG_ATTR_FLOAT ? (int64_t)attr->f : attr->i;
}

static inline int is_given(const og_attr *attr) {
  return attr->kind != OG_ATTR_NONE;
}

static inline void put_attr(og_tensor *t, int64_t at, const og_attr *attr) {
  if (attr->kind == OG_ATTR_FLOAT)
    put(t, at, attr->f);
  else if (is_float(t))
    put(t, at, (double)attr->i);
  else
    put_int(t, at, attr->i);
}

// --- Places: offsets in elements ---------------------------------------------

// Where `t`, which broadcasts to the dims of `full`, holds element i of it.
static inline int64_t place(const og_tensor *t, const og_tensor *full,
                            int64_t i) {
  int64_t at = 0;
  for (int32_t d = full->ndim - 1; d >= 0; --d) {
    const int64_t k = i % full->shape[d];
    const int32_t own = d - (full->ndim - t->ndim);
    i /= full->shape[d];
    if (own >= 0 && t->shape[own] != 1) at += k * t->strides[own];
  }
  return at;
}

static inline int64_t at(const og_tensor *t, int64_t i) {
  return place(t, t, i);
}

// Element i of t's value, read through a broadcast to `full`.
static inline double spread(const og_tensor *t, const og_tensor *full,
                            int64_t i) {
  return get(t, place(t, full, i));
}

// Whether `t` broadcasts to the dims of `full`.
static inline int broadcasts_to(const og_tensor *t, const og_tensor *full) {
  const int32_t missing = full->ndim - t->ndim;
  for (int32_t d = 0; d < t->ndim; ++d)
    if (missing < 0 ||
        (t->shape[d] != 1 && t->shape[d] != full->shape[d + missing]))
      return 0;
  return missing >= 0;
}

// A tensor's dims in two groups: those picked, and the rest.
enum { REST, PICKED };
typedef struct groups {
  int32_t rank[2];
  int64_t count[2];
  int64_t shape[2][RANK_MAX];
  int64_t stride[2][RANK_MAX];
} groups;

static inline int is_picked(int32_t d, int32_t rank, const int64_t *dims,
                            int64_t count) {
  for (int64_t k = 0; k < count; ++k)
    if (dims[k] == d || dims[k] + rank == d) return 1;
  return 0;
}

static inline groups group_dims(const og_tensor *t, const int64_t *dims,
                                int64_t dim_count) {
  groups g = {.count = {1, 1}};
  for (int32_t d = 0; d < t->ndim; ++d) {
    const int which = is_picked(d, t->ndim, dims, dim_count);
    const int32_t k = g.rank[which]++;
    g.shape[which][k] = t->shape[d];
    g.stride[which][k] = t->strides[d];
    g.count[which] *= t->shape[d];
  }
  return g;
}

// The dims of an int[] argument; all of them where it is empty or None.
static inline groups group_reduced(const og_tensor *t, const og_attr *dims) {
  int64_t all[RANK_MAX];
  if (is_given(dims) && dims->count > 0)
    return group_dims(t, dims->ints, dims->count);
  for (int32_t d = 0; d < t->ndim; ++d) all[d] = d;
  return group_dims(t, all, t->ndim);
}

static inline int64_t offset(const groups *g, int which, int64_t i) {
  int64_t sum = 0;
  for (int32_t k = g->rank[which] - 1; k >= 0; --k) {
    sum += i % g->shape[which][k] * g->stride[which][k];
    i /= g->shape[which][k];
  }
  return sum;
}

// The lines along one dim: where line i begins, its step from entry to entry,
// and its length. A tensor without dims is one line of one.
typedef struct lines {
  groups g;
  int64_t count;
  int64_t length;
  int64_t step;
} lines;

static inline lines lines_of(const og_tensor *t, int64_t dim) {
  lines l = {.g = group_dims(t, &dim, 1)};
  l.count = l.g.count[REST];
  l.length = l.g.count[PICKED];
  l.step = l.g.rank[PICKED] > 0 ? l.g.stride[PICKED][0] : 1;
  return l;
}

static inline int64_t line_begin(const lines *l, int64_t i) {
  return offset(&l->g, REST, i);
}

// --- Loops -------------------------------------------------------------------

// Adds `value`, which may use i, over the elements of `full` that broadcasting
// gave to each element of `to`. `sums` has room for a double for each.
#define SUM_TO(to, full, sums, value)                                   \
  do {                                                                  \
    const int64_t to_count = og_numel(to), full_count = og_numel(full); \
    for (int64_t s = 0; s < to_count; ++s) (sums)[s] = 0;               \
    for (int64_t i = 0; i < full_count; ++i)                            \
      (sums)[place(to, full, i)] += (value);                            \
    for (int64_t s = 0; s < to_count; ++s) put(to, s, (sums)[s]);       \
  } while (0)

// out[i] = value, where x is in[0]'s element i.
#define UNARY(name, value)                                                    \
  static void name##_range(const og_call *call, int64_t begin, int64_t end) { \
    og_tensor *out = call->out[0];                                            \
    for (int64_t i = begin; i < end; ++i) {                                   \
      const double x = get(call->in[0], at(call->in[0], i));                  \
      put(out, at(out, i), value);                                            \
    }                                                                         \
  }                                                                           \
  static og_status name(const og_call *call) {                                \
    return og_parallel_for(call, og_numel(call->out[0]), 4096, name##_range); \
  }

// out[i] = value of x and y, elements of in[0] and in[1] as they broadcast;
// in integers where the result is of such.
#define BINARY(name, value, int_value)                                        \
  static void name##_range(const og_call *call, int64_t begin, int64_t end) { \
    const og_tensor *a = call->in[0], *b = call->in[1];                       \
    og_tensor *out = call->out[0];                                            \
    for (int64_t i = begin; i < end; ++i) {                                   \
      const int64_t a_at = place(a, out, i), b_at = place(b, out, i);         \
      if (is_float(out)) {                                                    \
        const double x = get(a, a_at), y = get(b, b_at);                      \
        put(out, at(out, i), value);                                          \
      } else {                                                                \
        const int64_t x = get_int(a, a_at), y = get_int(b, b_at);             \
        put_int(out, at(out, i), int_value);                                  \
      }                                                                       \
    }                                                                         \
  }                                                                           \
  static og_status name(const og_call *call) {                                \
    return og_parallel_for(call, og_numel(call->out[0]), 4096, name##_range); \
  }

#endif  // TESTS_OPS_COMMON_H
