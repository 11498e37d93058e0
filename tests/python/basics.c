// SPDX-License-Identifier: Apache-2.0
// Small operators, one for each thing that the PyTorch host must carry.

#include "../modules/operators.h"

// scale_add: x + a * y, with an in-place form and a gradient.
static og_status scale_add_f32(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const float *y = og_f32(call->in[1]);
  float *out = og_f32_mut(call->out[0]);
  const float a = (float)call->attr[0].f;
  for (int64_t i = 0; i < call->dim[0]; ++i) out[i] = x[i] + a * y[i];
  return OG_OK;
}

static og_status scale_add_f64(const og_call *call) {
  const double *x = og_f64(call->in[0]);
  const double *y = og_f64(call->in[1]);
  double *out = og_f64_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[0]; ++i)
    out[i] = x[i] + call->attr[0].f * y[i];
  return OG_OK;
}

static og_status scale_add_backward_f32(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  float *dx = og_f32_mut(call->out[0]);
  float *dy = og_f32_mut(call->out[1]);
  const float a = (float)call->attr[0].f;
  for (int64_t i = 0; i < call->dim[0]; ++i) {
    dx[i] = grad[i];
    dy[i] = a * grad[i];
  }
  return OG_OK;
}

static og_status scale_add_backward_f64(const og_call *call) {
  const double *grad = og_f64(call->in[0]);
  for (int64_t i = 0; i < call->dim[0]; ++i) {
    og_f64_mut(call->out[0])[i] = grad[i];
    og_f64_mut(call->out[1])[i] = call->attr[0].f * grad[i];
  }
  return OG_OK;
}

// add_to_: writes its first argument and returns it.
static og_status add_to_f32(const og_call *call) {
  float *x = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[0]; ++i) x[i] += (float)call->attr[0].f;
  return OG_OK;
}

// two_writes: two mutated arguments and a fresh result.
static og_status two_writes_f32(const og_call *call) {
  float *a = og_f32_mut(call->out[0]);
  float *b = og_f32_mut(call->out[1]);
  float *sum = og_f32_mut(call->out[2]);
  for (int64_t i = 0; i < call->dim[0]; ++i) {
    a[i] += 1;
    b[i] *= 2;
    sum[i] = a[i] + b[i];
  }
  return OG_OK;
}

// every_kind: folds one argument of each kind into one number.
static og_status every_kind_f32(const og_call *call) {
  const og_attr *attr = call->attr;
  double total = og_f32(call->in[0])[0];
  if (call->in[1] != NULL) total += og_f32(call->in[1])[0];
  for (int64_t i = 0; i < call->in_list[2].count; ++i)
    total += og_f32(call->in_list[2].tensors[i])[0];
  total += (double)attr[0].i * 2 + (attr[1].i ? 10 : 0);
  for (int64_t i = 0; i < attr[2].count; ++i) total += (double)attr[2].ints[i];
  for (int64_t i = 0; i < attr[3].count; ++i) total += attr[3].floats[i];
  if (attr[4].kind == OG_ATTR_STR) {
    if (strcmp(attr[4].s, "minus") == 0)
      total = -total;
    else if (strcmp(attr[4].s, "plus") != 0)
      return og_fail(call, OG_INVALID,
                     "mode is neither \"plus\" nor \"minus\"");
  }
  if (attr[5].kind == OG_ATTR_INT) total += (double)attr[5].i * 1000;
  if (attr[6].kind == OG_ATTR_DTYPE) total += attr[6].dtype.bits;
  if (attr[7].kind == OG_ATTR_DEVICE) total += attr[7].device.type == OG_CPU;
  og_f32_mut(call->out[0])[0] = (float)total;
  return OG_OK;
}

// scalar_mul: a Scalar keeps its own kind.
static og_status scalar_mul_f32(const og_call *call) {
  const og_attr *s = &call->attr[0];
  const float scale = s->kind == OG_ATTR_FLOAT ? (float)s->f : (float)s->i;
  for (int64_t i = 0; i < call->dim[0]; ++i)
    og_f32_mut(call->out[0])[i] = og_f32(call->in[0])[i] * scale;
  return OG_OK;
}

// iota: no tensor argument.
static og_status iota(const og_call *call) {
  const int64_t n = call->attr[0].i;
  for (int64_t i = 0; i < n; ++i) og_f32_mut(call->out[0])[i] = (float)i;
  return OG_OK;
}

// positives: a data-dependent result.
static og_status positives_f32(const og_call *call) {
  int64_t count = 0;
  for (int64_t i = 0; i < call->dim[0]; ++i)
    if (og_f32(call->in[0])[i] > 0) og_i64_mut(call->out[0])[count++] = i;
  og_set_dim(call, 1, count);
  return OG_OK;
}

// halves: a list result.
static og_status halves_f32(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  for (int64_t i = 0; i < call->out_list[0].count; ++i) {
    og_tensor *part = call->out_list[0].tensors[i];
    const int64_t size = part->shape[0];
    memcpy(og_data(part), x, (size_t)size * sizeof(float));
    x += size;
  }
  return OG_OK;
}

// strided_sum: takes any strides.
static og_status strided_sum_f32(const og_call *call) {
  const og_tensor *x = call->in[0];
  const float *data = og_f32(x);
  float sum = 0;
  for (int64_t i = 0; i < x->shape[0]; ++i)
    for (int64_t j = 0; j < x->shape[1]; ++j)
      sum += data[i * x->strides[0] + j * x->strides[1]];
  og_f32_mut(call->out[0])[0] = sum;
  return OG_OK;
}

// row_sums: shares its rows out among threads, with scratch for each.
typedef struct row_state {
  const og_call *call;
} row_state;

static void row_sums_task(void *state, int64_t begin, int64_t end,
                          int32_t worker) {
  const og_call *call = ((const row_state *)state)->call;
  const int64_t width = call->dim[1];
  float *scratch = (float *)call->workspace + worker * width;
  for (int64_t r = begin; r < end; ++r) {
    float sum = 0;
    memcpy(scratch, og_f32(call->in[0]) + r * width,
           (size_t)width * sizeof(float));
    for (int64_t i = 0; i < width; ++i) sum += scratch[i];
    og_f32_mut(call->out[0])[r] = sum;
  }
}

static og_status row_sums_f32(const og_call *call) {
  row_state state = {call};
  return og_parallel_tasks(call, call->dim[0], 1, row_sums_task, &state);
}

// no_gradient has none; zero_gradient says that it is zero.
static og_status double_f32(const og_call *call) {
  for (int64_t i = 0; i < call->dim[0]; ++i)
    og_f32_mut(call->out[0])[i] = og_f32(call->in[0])[i] * 2;
  return OG_OK;
}

#define F32(name)                             \
  static const og_kernel name##_kernels[] = { \
      {.device = OG_CPU, .run = name##_f32}};
F32(add_to)
F32(two_writes)
F32(every_kind)
F32(scalar_mul)
F32(positives)
F32(halves)
F32(strided_sum)
F32(row_sums)
F32(double)

MODULE(
    basics,
    {.schema = "scale_add(Tensor x, Tensor y, float a=0.5) -> Tensor",
     .shape = "x[*N], y[*N] -> [*N]",
     .dtype = "x: f32|f64, y: x -> x",
     .backward = "scale_add_backward(grad, a) -> x, y",
     .inplace = "x",
     .kernels =
         KERNELS({.device = OG_CPU, .dtypes = "f32", .run = scale_add_f32},
                 {.device = OG_CPU, .dtypes = "f64", .run = scale_add_f64})},
    {.schema = "scale_add_backward(Tensor grad, float a) "
               "-> (Tensor dx, Tensor dy)",
     .shape = "grad[*N] -> [*N], [*N]",
     .dtype = "grad: f32|f64 -> grad, grad",
     .backward = "scale_add(grad_dx, grad_dy, a) -> grad",
     .kernels = KERNELS(
         {.device = OG_CPU, .dtypes = "f32", .run = scale_add_backward_f32},
         {.device = OG_CPU, .dtypes = "f64", .run = scale_add_backward_f64})},
    {.schema = "add_to_(Tensor(a!) x, float value) -> Tensor(a!)",
     .shape = "x[*N]",
     .dtype = "x: f32",
     .kernels = OG_KERNELS(add_to_kernels)},
    {.schema = "two_writes(Tensor(a!) a, Tensor(b!) b) -> (Tensor sum)",
     .shape = "a[*N], b[*N] -> [*N]",
     .dtype = "a: f32, b: a -> a",
     .kernels = OG_KERNELS(two_writes_kernels)},
    {.schema = "every_kind(Tensor x, Tensor? y, Tensor[] zs, int n, bool "
               "flag, int[] ints, float[] floats, str mode=\"plus\", *, "
               "int? more=None, ScalarType? dtype=None, Device? "
               "device=None) -> Tensor",
     .shape = "x[*N], y?[*N], zs[][*N] -> [1]",
     .where = "prod(N) > 0",
     .dtype = "x: f32, y: x, zs: x -> x",
     .backward = "none",
     .kernels = OG_KERNELS(every_kind_kernels)},
    {.schema = "scalar_mul(Tensor x, Scalar s) -> Tensor",
     .shape = "x[*N] -> [*N]",
     .dtype = "x: f32 -> x",
     .backward = "none",
     .kernels = OG_KERNELS(scalar_mul_kernels)},
    {.schema = "iota(SymInt n) -> Tensor",
     .shape = "-> [n]",
     .where = "n >= 0",
     .dtype = "-> f32",
     RUN(NULL, iota)},
    {.schema = "positives(Tensor x) -> Tensor",
     .shape = "x[N] -> [K <= N]",
     .dtype = "x: f32 -> i64",
     .backward = "none",
     .kernels = OG_KERNELS(positives_kernels)},
    {.schema = "halves(Tensor x, int size) -> Tensor[]",
     .shape = "x[N] -> {i < ceildiv(N, size): [min(size, N - i * size)]}",
     .where = "size > 0",
     .dtype = "x: f32 -> x",
     .backward = "none",
     .kernels = OG_KERNELS(halves_kernels)},
    {.schema = "strided_sum(Tensor x) -> Tensor",
     .shape = "x[R, C] -> []",
     .dtype = "x: f32 -> x",
     .strides = "any",
     .backward = "none",
     .kernels = OG_KERNELS(strided_sum_kernels)},
    {.schema = "row_sums(Tensor x) -> Tensor",
     .shape = "x[*N, C] -> [*N]",
     .dtype = "x: f32 -> x",
     .workspace = "threads * C * 4",
     .backward = "none",
     .kernels = OG_KERNELS(row_sums_kernels)},
    {.schema = "no_gradient(Tensor x) -> Tensor",
     .shape = "x[*N] -> [*N]",
     .dtype = "x: f32 -> x",
     .kernels = OG_KERNELS(double_kernels)},
    {.schema = "zero_gradient(Tensor x) -> Tensor",
     .shape = "x[*N] -> [*N]",
     .dtype = "x: f32 -> x",
     .backward = "none",
     .kernels = OG_KERNELS(double_kernels)})
