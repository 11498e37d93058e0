// SPDX-License-Identifier: Apache-2.0
// Operators of each kind that hosts pass differently: types, writes,
// lists, optionals, several results, other arguments, refusals.

#include "../modules/operators.h"

// --- affine: x + a * y, in each floating-point type --------------------------

enum { N, D };

static og_status affine_f32(const og_call *call) {
  const float a = (float)call->attr[0].f;
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_f32_mut(call->out[0])[i] =
        og_f32(call->in[0])[i] + a * og_f32(call->in[1])[i];
  return OG_OK;
}

static og_status affine_f64(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_f64_mut(call->out[0])[i] =
        og_f64(call->in[0])[i] + call->attr[0].f * og_f64(call->in[1])[i];
  return OG_OK;
}

static og_status affine_f16(const og_call *call) {
  const float a = (float)call->attr[0].f;
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_f16_mut(call->out[0])[i] =
        og_half_from_float(og_half_to_float(og_f16(call->in[0])[i]) +
                           a * og_half_to_float(og_f16(call->in[1])[i]));
  return OG_OK;
}

static og_status affine_bf16(const og_call *call) {
  const float a = (float)call->attr[0].f;
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_bf16_mut(call->out[0])[i] =
        og_bfloat_from_float(og_bfloat_to_float(og_bf16(call->in[0])[i]) +
                             a * og_bfloat_to_float(og_bf16(call->in[1])[i]));
  return OG_OK;
}

// --- twice: x + x in each integer type; flip: not x --------------------------

#define TWICE(name, type)                              \
  static og_status twice_##name(const og_call *call) { \
    const type *x = og_##name(call->in[0]);            \
    type *y = og_##name##_mut(call->out[0]);           \
    for (int64_t i = 0; i < call->dim[N]; ++i)         \
      y[i] = (type)((uint64_t)x[i] + (uint64_t)x[i]);  \
    return OG_OK;                                      \
  }
TWICE(i8, int8_t)
TWICE(i16, int16_t)
TWICE(i32, int32_t)
TWICE(i64, int64_t)
TWICE(u8, uint8_t)

static og_status flip_bool(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_bool_mut(call->out[0])[i] = !og_bool(call->in[0])[i];
  return OG_OK;
}

// --- put_rows_: writes an argument, returns nothing --------------------------

enum { CACHE_T, CACHE_D, CACHE_R };

static og_status put_rows_f32(const og_call *call) {
  const int64_t at = call->attr[0].i, width = call->dim[CACHE_D];
  for (int64_t i = 0; i < call->dim[CACHE_R] * width; ++i)
    og_f32_mut(call->out[0])[at * width + i] = og_f32(call->in[1])[i];
  return OG_OK;
}

// --- maybe: optional tensors, one absent between two -------------------------

static og_status maybe_f32(const og_call *call) {
  const og_tensor *bias = call->in[1], *scale = call->in[2];
  const int64_t width = call->dim[D];
  for (int64_t i = 0; i < call->dim[N] * width; ++i) {
    float y = og_f32(call->in[0])[i];
    if (scale != NULL) y *= og_f32(scale)[i % width];
    if (bias != NULL) y += og_f32(bias)[i % width];
    og_f32_mut(call->out[0])[i] = y;
  }
  return OG_OK;
}

// --- spread: two results -----------------------------------------------------

static og_status spread_f32(const og_call *call) {
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const float *x = og_f32(call->in[0]) + r * width;
    float least = x[0], most = x[0];
    for (int64_t i = 1; i < width; ++i) {
      least = x[i] < least ? x[i] : least;
      most = x[i] > most ? x[i] : most;
    }
    og_f32_mut(call->out[0])[r] = least;
    og_f32_mut(call->out[1])[r] = most;
  }
  return OG_OK;
}

// --- total: the sum of a list ------------------------------------------------

static og_status total_f32(const og_call *call) {
  const og_tensor_list *xs = &call->in_list[0];
  float *sum = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    sum[i] = og_f32(xs->tensors[0])[i];
    for (int64_t k = 1; k < xs->count; ++k) sum[i] += og_f32(xs->tensors[k])[i];
  }
  return OG_OK;
}

// --- digest: one number that every other argument is in ----------------------

enum { DIGESTS_MAX = 1 << 20 };  // a fuzzer asks for more

static og_status digest_f32(const og_call *call) {
  if (og_numel(call->out[0]) > DIGESTS_MAX)
    return og_fail(call, OG_INVALID, "too many elements");
  const og_attr *attr = call->attr;
  double sum = (double)attr[2].i;
  for (int64_t i = 0; i < attr[0].count; ++i) sum += (double)attr[0].ints[i];
  for (int64_t i = 0; i < attr[1].count; ++i) sum += attr[1].floats[i];
  for (int64_t i = 0; i < attr[3].count; ++i) sum = 3 * sum + attr[3].s[i];
  if (attr[4].kind == OG_ATTR_DTYPE) sum = 2 * sum + attr[4].dtype.bits;
  if (attr[5].kind == OG_ATTR_INT) sum = 5 * sum + (double)attr[5].i;
  if (attr[6].kind == OG_ATTR_FLOAT) sum += attr[6].f / 4;
  if (attr[6].kind == OG_ATTR_INT) sum += (double)attr[6].i * 8;
  if (attr[6].kind == OG_ATTR_BOOL) sum += attr[6].i ? 77 : 78;
  for (int64_t i = 0; i < og_numel(call->out[0]); ++i)
    og_f32_mut(call->out[0])[i] = (float)sum;
  return OG_OK;
}

// --- pairs: two lists of each kind -------------------------------------------

static og_status pairs_f32(const og_call *call) {
  double sum = 0;
  for (int32_t a = 0; a < 6; ++a)
    for (int64_t i = 0; i < call->attr[a].count; ++i)
      sum = 3 * sum + (call->attr[a].kind == OG_ATTR_FLOATS
                           ? call->attr[a].floats[i]
                           : (double)call->attr[a].ints[i]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_f32_mut(call->out[0])[i] = og_f32(call->in[0])[i] + (float)sum;
  return OG_OK;
}

// --- refuse: a kernel that fails where it is told to -------------------------

static og_status refuse_f32(const og_call *call) {
  if (call->attr[0].i > 3)
    return og_fail(call, OG_INVALID, "level is above 3, expected 0 to 3");
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_f32_mut(call->out[0])[i] = og_f32(call->in[0])[i];
  return OG_OK;
}

// --- What only the fuzzers of adapters call ----------------------------------

#ifdef MORE_KINDS
enum { FOUND_K = 1 };

// A list result.
static og_status cut_f32(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const og_tensor_list *parts = &call->out_list[0];
  for (int64_t k = 0; k < parts->count; ++k) {
    const int64_t count = og_numel(parts->tensors[k]);
    for (int64_t i = 0; i < count; ++i) og_f32_mut(parts->tensors[k])[i] = *x++;
  }
  return OG_OK;
}

// A size that values decide.
static og_status positive_f32(const og_call *call) {
  int64_t count = 0;
  for (int64_t i = 0; i < call->dim[N]; ++i)
    if (og_f32(call->in[0])[i] > 0)
      og_f32_mut(call->out[0])[count++] = og_f32(call->in[0])[i];
  og_set_dim(call, FOUND_K, count);
  return OG_OK;
}

// Entries that are absent.
static og_status join_f32(const og_call *call) {
  const og_tensor_list *xs = &call->in_list[0];
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    float sum = og_f32(call->in[1])[i];
    for (int64_t k = 0; k < xs->count; ++k)
      if (xs->tensors[k] != NULL) sum += og_f32(xs->tensors[k])[i];
    og_f32_mut(call->out[0])[i] = sum;
  }
  return OG_OK;
}

// Two arguments that are written, and a result.
static og_status swap_f32(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    const float x = og_f32(call->out[0])[i];
    og_f32_mut(call->out[0])[i] = og_f32(call->out[1])[i];
    og_f32_mut(call->out[1])[i] = x;
    og_f32_mut(call->out[2])[i] = x;
  }
  return OG_OK;
}

static og_status bump_f32(const og_call *call) {
  const og_tensor_list *xs = &call->out_list[0];
  for (int64_t k = 0; k < xs->count; ++k)
    for (int64_t i = 0; i < call->dim[N]; ++i)
      og_f32_mut(xs->tensors[k])[i] += 1;
  return OG_OK;
}

static og_status touch_f32(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    og_f32_mut(call->out[1])[i] = og_f32(call->in[0])[i];
    if (call->out[0] != NULL) og_f32_mut(call->out[0])[i] += 1;
  }
  return OG_OK;
}

// Every optional argument, and a list of texts.
static og_status marks_f32(const og_call *call) {
  const og_attr *attr = call->attr;
  double sum = 0;
  for (int64_t k = 0; k < attr[0].count; ++k)
    for (const char *c = attr[0].strs[k]; *c != '\0'; ++c) sum += *c;
  if (attr[1].kind == OG_ATTR_FLOAT) sum += attr[1].f;
  if (attr[2].kind == OG_ATTR_BOOL) sum += (double)attr[2].i;
  for (int64_t i = 0; i < attr[3].count; ++i) sum += attr[3].s[i];
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_f32_mut(call->out[0])[i] = og_f32(call->in[0])[i] + (float)sum;
  return OG_OK;
}

static og_status notes_f32(const og_call *call) {
  const og_attr *attr = call->attr;
  double sum = 0;
  if (attr[0].kind == OG_ATTR_FLOAT) sum += attr[0].f;
  if (attr[1].kind == OG_ATTR_BOOL) sum += (double)attr[1].i;
  for (int64_t i = 0; i < attr[2].count; ++i) sum += attr[2].s[i];
  if (attr[3].kind == OG_ATTR_DTYPE) sum += attr[3].dtype.bits;
  if (attr[4].kind == OG_ATTR_INT) sum += (double)attr[4].i;
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_f32_mut(call->out[0])[i] = og_f32(call->in[0])[i] + (float)sum;
  return OG_OK;
}

#endif

static const og_op ops[] = {
    {
        .schema = "affine(Tensor x, Tensor y, float a=0.5) -> Tensor",
        .shape = "x[*N], y[*N] -> [*N]",
        .dtype = "x: f32|f64|f16|bf16, y: x -> x",
        .kernels =
            KERNELS({.device = OG_CPU, .dtypes = "f32", .run = affine_f32},
                    {.device = OG_CPU, .dtypes = "f64", .run = affine_f64},
                    {.device = OG_CPU, .dtypes = "f16", .run = affine_f16},
                    {.device = OG_CPU, .dtypes = "bf16", .run = affine_bf16}),
    },
    {
        .schema = "twice(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: i8|i16|i32|i64|u8 -> x",
        .kernels =
            KERNELS({.device = OG_CPU, .dtypes = "i8", .run = twice_i8},
                    {.device = OG_CPU, .dtypes = "i16", .run = twice_i16},
                    {.device = OG_CPU, .dtypes = "i32", .run = twice_i32},
                    {.device = OG_CPU, .dtypes = "i64", .run = twice_i64},
                    {.device = OG_CPU, .dtypes = "u8", .run = twice_u8}),
    },
    {
        .schema = "flip(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: bool -> x",
        RUN("bool", flip_bool),
    },
    {
        .schema = "tilt(Tensor x, float a, float b=0.25) -> Tensor",
        .dtype = "x: f32 -> x",
        .row = "a * x + b",
        .inplace = "x",
    },
    {
        .schema = "put_rows_(Tensor(a!) cache, Tensor rows, int at) -> ()",
        .shape = "cache[T, W], rows[R, W]",
        .where = "at >= 0, at + R <= T",
        .dtype = "cache: f32, rows: cache",
        RUN("f32", put_rows_f32),
    },
    {
        .schema = "maybe(Tensor x, Tensor? bias=None, Tensor? scale=None) "
                  "-> Tensor",
        .shape = "x[*N, D], bias?[D], scale?[D] -> [*N, D]",
        .dtype = "x: f32, bias: x, scale: x -> x",
        RUN("f32", maybe_f32),
    },
    {
        .schema = "spread(Tensor x) -> (Tensor, Tensor)",
        .shape = "x[*N, D] -> [*N], [*N]",
        .where = "D > 0",
        .dtype = "x: f32 -> x, x",
        RUN("f32", spread_f32),
    },
    {
        .schema = "total(Tensor[] xs) -> Tensor",
        .shape = "xs[][*N] -> [*N]",
        .where = "len(xs) > 0",
        .dtype = "xs: f32 -> xs",
        RUN("f32", total_f32),
    },
    {
        .schema = "digest(Tensor x, int[] sizes, float[] factors, bool flag, "
                  "str text=\"ab\", ScalarType? kind=None, int? more=None, "
                  "Scalar s=2) -> Tensor",
        .shape = "x[*N] -> [*sizes]",
        .dtype = "x: f32 -> x",
        RUN("f32", digest_f32),
    },
    {
        .schema = "pairs(Tensor x, bool[] a, bool[] b, int[] c, int[] d, "
                  "float[] e, float[] f) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: f32 -> x",
        RUN("f32", pairs_f32),
    },
    {
        .schema = "refuse(Tensor x, int level=0) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: f32 -> x",
        RUN("f32", refuse_f32),
    },
#ifdef MORE_KINDS
    {
        .schema = "cut(Tensor x, int[] sizes) -> Tensor[]",
        .shape = "x[N, D] -> {i < len(sizes): [sizes[i], D]}",
        .where = "sum(sizes) <= N",
        .dtype = "x: f32 -> x",
        RUN(NULL, cut_f32),
    },
    {
        .schema = "positive(Tensor x) -> Tensor",
        .shape = "x[N] -> [K <= N]",
        .dtype = "x: f32 -> x",
        RUN(NULL, positive_f32),
    },
    {
        .schema = "join(Tensor?[] xs, Tensor x) -> Tensor",
        .shape = "xs[][*N], x[*N] -> [*N]",
        .dtype = "xs: f32, x: f32 -> x",
        RUN(NULL, join_f32),
    },
    {
        .schema = "swap_(Tensor(a!) x, Tensor(b!) y) -> Tensor",
        .shape = "x[*N], y[*N] -> [*N]",
        .dtype = "x: f32, y: f32 -> x",
        RUN(NULL, swap_f32),
    },
    {
        .schema = "bump_(Tensor(a!)[] xs) -> ()",
        .shape = "xs[][*N]",
        .dtype = "xs: f32",
        RUN(NULL, bump_f32),
    },
    {
        .schema = "touch(Tensor x, Tensor(a!)? y=None) -> Tensor",
        .shape = "x[*N], y?[*N] -> [*N]",
        .dtype = "x: f32, y: f32 -> x",
        RUN(NULL, touch_f32),
    },
    {
        .schema = "marks(Tensor x, str[] texts, float? f=None, bool? b=None, "
                  "str? s=None, Device? d=None) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: f32 -> x",
        RUN(NULL, marks_f32),
    },
    {
        .schema = "notes(Tensor x, float? f=None, bool? b=None, str? s=None, "
                  "ScalarType? kind=None, int? n=None) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: f32 -> x",
        RUN(NULL, notes_f32),
    },
#endif
};
OG_MODULE(kinds, ops)
