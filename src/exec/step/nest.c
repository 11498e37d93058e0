// SPDX-License-Identifier: Apache-2.0
// Strided iteration, and element types to and from what is computed in.

#include "exec/step/nest.h"

#include <string.h>

#include "base/loops.h"
#include "base/text.h"

static int64_t operand_stride(const og_tensor *tensor, int32_t ndim,
                              int32_t dim, int64_t size, bool *ok) {
  const int32_t own = dim - (ndim - tensor->ndim);
  if (own < 0) return 0;
  if (tensor->shape[own] == size)
    return tensor->strides[own] * (int64_t)og_dtype_bytes(tensor->dtype);
  *ok &= tensor->shape[own] == 1;
  return 0;
}

static int64_t magnitude(int64_t stride) {
  return stride < 0 ? -stride : stride;
}

// Operand 0's larger strides outside, so that it is written in order.
static void nest_sort(og_nest *nest) {
  for (int32_t i = 1; i < nest->ndim; ++i)
    for (int32_t j = i; j > 0 && magnitude(nest->stride[0][j - 1]) <
                                     magnitude(nest->stride[0][j]);
         --j) {
      const int64_t size = nest->size[j];
      nest->size[j] = nest->size[j - 1];
      nest->size[j - 1] = size;
      for (int32_t k = 0; k < nest->operands; ++k) {
        const int64_t stride = nest->stride[k][j];
        nest->stride[k][j] = nest->stride[k][j - 1];
        nest->stride[k][j - 1] = stride;
      }
    }
}

static void nest_join(og_nest *nest) {
  int32_t last = 0;
  for (int32_t d = 1; d < nest->ndim; ++d) {
    bool is_run = true;
    for (int32_t k = 0; k < nest->operands; ++k)
      is_run &= nest->stride[k][last] == nest->stride[k][d] * nest->size[d];
    if (is_run) {
      nest->size[last] *= nest->size[d];
    } else {
      nest->size[++last] = nest->size[d];
    }
    for (int32_t k = 0; k < nest->operands; ++k)
      nest->stride[k][last] = nest->stride[k][d];
  }
  if (nest->ndim > 0) nest->ndim = last + 1;
}

bool og_nest_init(og_nest *nest, int32_t ndim, const int64_t *shape,
                  const og_tensor *const *tensors, int32_t count) {
  bool ok = true;
  nest->ndim = 0;
  nest->operands = count;
  for (int32_t k = 0; k < count; ++k) ok &= tensors[k]->ndim <= ndim;
  for (int32_t d = 0; ok && d < ndim; ++d) {
    for (int32_t k = 0; k < count; ++k)
      nest->stride[k][nest->ndim] =
          operand_stride(tensors[k], ndim, d, shape[d], &ok);
    nest->size[nest->ndim] = shape[d];
    nest->ndim += shape[d] != 1;
  }
  if (!ok) return false;
  nest_sort(nest);
  nest_join(nest);
  return true;
}

int64_t og_nest_rows(const og_nest *nest) {
  int64_t rows = 1;
  for (int32_t d = 0; d + 1 < nest->ndim; ++d) rows *= nest->size[d];
  return rows;
}

int64_t og_nest_width(const og_nest *nest) {
  return nest->ndim > 0 ? nest->size[nest->ndim - 1] : 1;
}

// Those of a point of the dims up to `last`.
static void offsets_find(const og_nest *nest, int32_t last, int64_t index,
                         int64_t *out_offsets) {
  for (int32_t k = 0; k < nest->operands; ++k) out_offsets[k] = 0;
  for (int32_t d = last; d >= 0; --d) {
    const int64_t at = index % nest->size[d];
    index /= nest->size[d];
    for (int32_t k = 0; k < nest->operands; ++k)
      out_offsets[k] += at * nest->stride[k][d];
  }
}

void og_nest_offsets(const og_nest *nest, int64_t row, int64_t *out_offsets) {
  offsets_find(nest, nest->ndim - 2, row, out_offsets);
}

void og_nest_point(const og_nest *nest, int64_t index, int64_t *out_offsets) {
  offsets_find(nest, nest->ndim - 1, index, out_offsets);
}

size_t og_class_bytes(og_class of) { return of == OG_CLASS_F32 ? 4 : 8; }

// --- Conversions -------------------------------------------------------------

#define FROM_PLAIN(x) (x)
#define FROM_BOOL(x) ((x) != 0)
#define TO_PLAIN(type, x) ((type)(x))
#define TO_BOOL(type, x) ((type)((x) != 0))
#define TO_INT(type, x) ((type)og_double_to_int((double)(x)))
#define TO_BF16(type, x) og_bfloat_from_float((float)(x))
#define TO_F16(type, x) og_half_from_float((float)(x))

#define LOAD(name, type, of, from_type)                                     \
  OG_LOOP_BODY void load_##name##_##of##_body(                              \
      int64_t n, void *to, const char *from, int64_t stride) {              \
    of##_type *out = to;                                                    \
    if (stride == (int64_t)sizeof(type)) {                                  \
      const type *in = (const type *)(const void *)from;                    \
      for (int64_t i = 0; i < n; ++i) out[i] = (of##_type)from_type(in[i]); \
      return;                                                               \
    }                                                                       \
    for (int64_t i = 0; i < n; ++i, from += stride)                         \
      out[i] = (of##_type)from_type(*(const type *)(const void *)from);     \
  }                                                                         \
  OG_LOOP_FORMS(load_##name##_##of,                                         \
                (int64_t n, void *to, const char *from, int64_t stride),    \
                (n, to, from, stride))
#define STORE(name, type, of, to_type)                                   \
  OG_LOOP_BODY void store_##name##_##of##_body(                          \
      int64_t n, char *to, int64_t stride, const void *from) {           \
    const of##_type *in = from;                                          \
    if (stride == (int64_t)sizeof(type)) {                               \
      type *out = (type *)(void *)to;                                    \
      for (int64_t i = 0; i < n; ++i) out[i] = to_type(type, in[i]);     \
      return;                                                            \
    }                                                                    \
    for (int64_t i = 0; i < n; ++i, to += stride)                        \
      *(type *)(void *)to = to_type(type, in[i]);                        \
  }                                                                      \
  OG_LOOP_FORMS(store_##name##_##of,                                     \
                (int64_t n, char *to, int64_t stride, const void *from), \
                (n, to, stride, from))

typedef float f32_type;
typedef double f64_type;
typedef int64_t i64_type;

// For each element type: how it is read, how a float and how an integer is
// written to it.
#define TYPES(X)                                                          \
  X(f32, float, FROM_PLAIN, FROM_REAL_INT, TO_PLAIN, TO_PLAIN)            \
  X(f64, double, FROM_PLAIN, FROM_REAL_INT, TO_PLAIN, TO_PLAIN)           \
  X(bf16, og_bfloat, og_bfloat_to_float, FROM_BF16_INT, TO_BF16, TO_BF16) \
  X(f16, og_half, og_half_to_float, FROM_F16_INT, TO_F16, TO_F16)         \
  X(i8, int8_t, FROM_PLAIN, FROM_PLAIN, TO_INT, TO_PLAIN)                 \
  X(i16, int16_t, FROM_PLAIN, FROM_PLAIN, TO_INT, TO_PLAIN)               \
  X(i32, int32_t, FROM_PLAIN, FROM_PLAIN, TO_INT, TO_PLAIN)               \
  X(i64, int64_t, FROM_PLAIN, FROM_PLAIN, TO_INT, TO_PLAIN)               \
  X(u8, uint8_t, FROM_PLAIN, FROM_PLAIN, TO_INT, TO_PLAIN)                \
  X(u16, uint16_t, FROM_PLAIN, FROM_PLAIN, TO_INT, TO_PLAIN)              \
  X(u32, uint32_t, FROM_PLAIN, FROM_PLAIN, TO_INT, TO_PLAIN)              \
  X(u64, uint64_t, FROM_PLAIN, FROM_PLAIN, TO_INT, TO_PLAIN)              \
  X(boolean, uint8_t, FROM_BOOL, FROM_BOOL, TO_BOOL, TO_BOOL)

// A float read as an integer goes through the saturating conversion.
#define FROM_REAL_INT(x) og_double_to_int((double)(x))
#define FROM_BF16_INT(x) og_double_to_int((double)og_bfloat_to_float(x))
#define FROM_F16_INT(x) og_double_to_int((double)og_half_to_float(x))
#define DEFINE(name, type, from, from_int, to_float, to_int) \
  LOAD(name, type, f32, from)                                \
  LOAD(name, type, f64, from)                                \
  LOAD(name, type, i64, from_int)                            \
  STORE(name, type, f32, to_float)                           \
  STORE(name, type, f64, to_float)                           \
  STORE(name, type, i64, to_int)
TYPES(DEFINE)

typedef struct converter {
  const char *name;
  og_load_fn load[OG_CLASS_NONE][OG_LOOP_SETS];
  og_store_fn store[OG_CLASS_NONE][OG_LOOP_SETS];
} converter;

#define ROW(name, type, from, from_int, to_float, to_int)             \
  {#name,                                                             \
   {OG_LOOP_ROW(load_##name##_f32), OG_LOOP_ROW(load_##name##_f64),   \
    OG_LOOP_ROW(load_##name##_i64)},                                  \
   {OG_LOOP_ROW(store_##name##_f32), OG_LOOP_ROW(store_##name##_f64), \
    OG_LOOP_ROW(store_##name##_i64)}},
static const converter converters[] = {TYPES(ROW)};

static const converter *converter_find(og_dtype dtype) {
  const char *name = og_dtype_name(dtype);
  for (size_t i = 0; i < sizeof converters / sizeof *converters; ++i)
    // "bool" is a macro, so its row is spelled out.
    if (strncmp(converters[i].name, name, strlen(name)) == 0)
      return &converters[i];
  return NULL;
}

og_load_fn og_load_find(og_dtype dtype, og_class of) {
  const converter *found = converter_find(dtype);
  return found != NULL && of < OG_CLASS_NONE ? found->load[of][og_loop_set()]
                                             : NULL;
}

og_store_fn og_store_find(og_dtype dtype, og_class of) {
  const converter *found = converter_find(dtype);
  return found != NULL && of < OG_CLASS_NONE ? found->store[of][og_loop_set()]
                                             : NULL;
}
