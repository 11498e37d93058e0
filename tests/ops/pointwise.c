// SPDX-License-Identifier: Apache-2.0
// Element by element: broadcasting, promotion, Scalars and optional Scalars.

#include "common.h"

// --- Two tensors -------------------------------------------------------------

// Products wrap around, which only unsigned types may.
static int64_t multiply(int64_t x, int64_t y) {
  return (int64_t)((uint64_t)x * (uint64_t)y);
}

// The sign of the divisor, as in Python.
static double remainder_of(double x, double y) {
  const double r = fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static int64_t int_remainder_of(int64_t x, int64_t y) {
  const int64_t r = y == -1 ? 0 : x % y;
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

BINARY(add, x + number(call->attr) * y,
       (int64_t)((uint64_t)x + (uint64_t)multiply(integer(call->attr), y)))
BINARY(mul, x *y, multiply(x, y))
BINARY(divide, x / y, y == 0 ? 0 : x / y)
BINARY(remainder_kernel, remainder_of(x, y), int_remainder_of(x, y))
BINARY(heaviside, isnan(x) ? x : x == 0 ? y : x > 0, x == 0 ? y : x > 0)

static og_status python_remainder(const og_call *call) {
  const og_tensor *y = call->in[1];
  const int64_t count =
      is_float(y) || og_numel(call->out[0]) == 0 ? 0 : og_numel(y);
  for (int64_t i = 0; i < count && !is_float(call->out[0]); ++i)
    if (get_int(y, at(y, i)) == 0)
      return og_fail(call, OG_INVALID, "remainder: an integer divided by zero");
  return remainder_kernel(call);
}

// The gradients of two broadcast arguments, each summed back to its shape.
#define BINARY_BACKWARD(name, x_grad, y_grad)                                 \
  static double name##_value(const og_call *call, int k, double g, double x,  \
                             double y) {                                      \
    (void)call, (void)x, (void)y;                                             \
    return k == 0 ? (x_grad) : (y_grad);                                      \
  }                                                                           \
  static og_status name(const og_call *call) {                                \
    const og_tensor *grad = call->in[0], *x = call->in[1], *y = call->in[2];  \
    double *sums = call->workspace;                                           \
    for (int k = 0; k < 2; ++k)                                               \
      SUM_TO(call->out[k], grad, sums,                                        \
             name##_value(call, k, spread(grad, grad, i), spread(x, grad, i), \
                          spread(y, grad, i)));                               \
    return OG_OK;                                                             \
  }
BINARY_BACKWARD(add_backward, g, g *number(call->attr))
BINARY_BACKWARD(mul_backward, g *y, g *x)
BINARY_BACKWARD(div_backward, g / y, -g *x / (y * y))

// --- Three tensors -----------------------------------------------------------

static og_status where(const og_call *call) {
  og_tensor *out = call->out[0];
  for (int64_t i = 0; i < og_numel(out); ++i) {
    const int yes = og_bool(call->in[0])[place(call->in[0], out, i)];
    const og_tensor *from = call->in[yes ? 1 : 2];
    const int64_t from_at = place(from, out, i);
    if (is_float(out))
      put(out, at(out, i), get(from, from_at));
    else
      put_int(out, at(out, i), get_int(from, from_at));
  }
  return OG_OK;
}

static og_status where_backward(const og_call *call) {
  const og_tensor *grad = call->in[0], *condition = call->in[1];
  double *sums = call->workspace;
  for (int k = 0; k < 2; ++k)
    SUM_TO(call->out[k], grad, sums,
           (og_bool(condition)[place(condition, grad, i)] != 0) == (k == 0)
               ? spread(grad, grad, i)
               : 0);
  return OG_OK;
}

// --- One tensor --------------------------------------------------------------

static double sigmoid_of(double x) { return 1 / (1 + exp(-x)); }

static double normal_cdf(double x) {
  return 0.5 * erfc(-x * 0.70710678118654752);
}

static const double gelu_scale = 0.79788456080286536;  // sqrt(2 / pi)

static double tanh_gelu(double x) {
  return 0.5 * x * (1 + tanh(gelu_scale * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x) {
  return normal_cdf(x) + x * exp(-x * x / 2) * gelu_scale / 2;
}

static double tanh_gelu_slope(double x) {
  const double t = tanh(gelu_scale * (x + 0.044715 * x * x * x));
  const double slope = gelu_scale * (1 + 3 * 0.044715 * x * x);
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope;
}

static int is_tanh(const og_call *call) {
  return strcmp(call->attr[0].s, "tanh") == 0;
}

static og_status check_gelu(const og_call *call) {
  if (is_tanh(call) || strcmp(call->attr[0].s, "none") == 0) return OG_OK;
  return og_fail(call, OG_INVALID,
                 "gelu: approximate is neither \"none\" nor \"tanh\"");
}

UNARY(exponential, exp(x))
UNARY(relu, x < 0 ? 0 : x)
UNARY(sigmoid, sigmoid_of(x))
UNARY(gelu_kernel, is_tanh(call) ? tanh_gelu(x) : x *normal_cdf(x))
UNARY(power, pow(x, number(call->attr)))
UNARY(logical_not, x == 0)

static og_status gelu(const og_call *call) {
  const og_status status = check_gelu(call);
  return status == OG_OK ? gelu_kernel(call) : status;
}

// out[i] = the gradient g of in[0] times a slope at y, in[1]: argument or
// result.
#define UNARY_BACKWARD(name, value)                          \
  static og_status name(const og_call *call) {               \
    og_tensor *out = call->out[0];                           \
    for (int64_t i = 0; i < og_numel(out); ++i) {            \
      const double g = get(call->in[0], at(call->in[0], i)); \
      const double y = get(call->in[1], at(call->in[1], i)); \
      put(out, at(out, i), value);                           \
    }                                                        \
    return OG_OK;                                            \
  }
UNARY_BACKWARD(relu_backward, y > 0 ? g : 0)
UNARY_BACKWARD(sigmoid_backward, g *y *(1 - y))
UNARY_BACKWARD(gelu_backward,
               g *(is_tanh(call) ? tanh_gelu_slope(y) : gelu_slope(y)))
UNARY_BACKWARD(pow_backward,
               number(call->attr) == 0
                   ? 0
                   : g * number(call->attr) * pow(y, number(call->attr) - 1))
UNARY_BACKWARD(nan_to_num_backward, isfinite(y) ? g : 0)

static int is_within(const og_call *call, double x) {
  const og_attr *low = &call->attr[0], *high = &call->attr[1];
  return !(is_given(low) && x < number(low)) &&
         !(is_given(high) && x > number(high)) && !isnan(x);
}
UNARY_BACKWARD(clamp_backward, is_within(call, y) ? g : 0)

// The upper bound wins where they cross; a NaN stays. Integers are compared as
// such, so that large ones keep their last digits.
static og_status clamp(const og_call *call) {
  const og_tensor *x = call->in[0];
  const og_attr *low = &call->attr[0], *high = &call->attr[1];
  og_tensor *out = call->out[0];
  for (int64_t i = 0; i < og_numel(out); ++i) {
    const int64_t from = at(x, i), to = at(out, i);
    const double value = get(x, from);
    if (is_given(high) && value > number(high)) {
      put_attr(out, to, high);
    } else if (is_given(low) && value < number(low)) {
      const int is_crossed = is_given(high) && number(low) > number(high);
      put_attr(out, to, is_crossed ? high : low);
    } else if (is_float(out)) {
      put(out, to, value);
    } else {
      put_int(out, to, get_int(x, from));
    }
  }
  return OG_OK;
}

static double largest(const og_tensor *t) {
  if (t->dtype.code == OG_CODE_BFLOAT) return 0x1.fep127;
  return t->dtype.bits == 64   ? 0x1.fffffffffffffp1023
         : t->dtype.bits == 32 ? 0x1.fffffep127
                               : 65504;
}

static double finite(const og_call *call, const og_tensor *x, double value) {
  const og_attr *attr = call->attr;
  if (isnan(value)) return is_given(&attr[0]) ? attr[0].f : 0;
  if (!isinf(value)) return value;
  if (value > 0) return is_given(&attr[1]) ? attr[1].f : largest(x);
  return is_given(&attr[2]) ? attr[2].f : -largest(x);
}
UNARY(nan_to_num, finite(call, call->in[0], x))

static og_status masked_fill(const og_call *call) {
  const og_tensor *x = call->in[0], *mask = call->in[1];
  og_tensor *out = call->out[0];
  for (int64_t i = 0; i < og_numel(out); ++i) {
    if (og_bool(mask)[place(mask, out, i)])
      put_attr(out, at(out, i), &call->attr[0]);
    else
      move(out, at(out, i), x, place(x, out, i));
  }
  return OG_OK;
}

static og_status masked_fill_backward(const og_call *call) {
  const og_tensor *grad = call->in[0], *mask = call->in[2];
  double *sums = call->workspace;
  SUM_TO(call->out[0], grad, sums,
         og_bool(mask)[place(mask, grad, i)] ? 0 : spread(grad, grad, i));
  return OG_OK;
}

// --- Declarations ------------------------------------------------------------

static const og_op ops[] = {
    {
        .schema = "add(Tensor x, Tensor y, *, Scalar alpha=1) -> Tensor",
        .shape = "x[*N], y[*M] -> [*broadcast(N, M)]",
        .dtype = "x: " REALS ", y: " REALS " -> promote(x, y)",
        .backward = "add_backward(grad, x, y, alpha) -> x, y",
        .strides = "any",
        .inplace = "x",
        RUN(add),
    },
    {
        .schema = "add_backward(Tensor grad, Tensor x, Tensor y, Scalar alpha)"
                  " -> (Tensor dx, Tensor dy)",
        .shape = "x[*N], y[*M], grad[*broadcast(N, M)] -> [*N], [*M]",
        .dtype = "grad: " FLOATS ", x: " REALS ", y: " REALS " -> x, y",
        .workspace = "8 * max(prod(N), prod(M))",
        .flags = OG_BATCH_LOOP,
        RUN(add_backward),
    },
    {
        .schema = "mul(Tensor x, Tensor y) -> Tensor",
        .shape = "x[*N], y[*M] -> [*broadcast(N, M)]",
        .dtype = "x: " REALS ", y: " REALS " -> promote(x, y)",
        .backward = "mul_backward(grad, x, y) -> x, y",
        .strides = "any",
        .inplace = "x",
        RUN(mul),
    },
    {
        .schema = "mul_backward(Tensor grad, Tensor x, Tensor y)"
                  " -> (Tensor dx, Tensor dy)",
        .shape = "x[*N], y[*M], grad[*broadcast(N, M)] -> [*N], [*M]",
        .dtype = "grad: " FLOATS ", x: " REALS ", y: " REALS " -> x, y",
        .workspace = "8 * max(prod(N), prod(M))",
        .flags = OG_BATCH_LOOP,
        RUN(mul_backward),
    },
    {
        .schema = "div(Tensor x, Tensor y) -> Tensor",
        .shape = "x[*N], y[*M] -> [*broadcast(N, M)]",
        .dtype = "x: " FLOATS ", y: " FLOATS " -> promote(x, y)",
        .backward = "div_backward(grad, x, y) -> x, y",
        .strides = "any",
        RUN(divide),
    },
    {
        .schema = "div_backward(Tensor grad, Tensor x, Tensor y)"
                  " -> (Tensor dx, Tensor dy)",
        .shape = "x[*N], y[*M], grad[*broadcast(N, M)] -> [*N], [*M]",
        .dtype = "grad: " FLOATS ", x: " FLOATS ", y: " FLOATS " -> x, y",
        .workspace = "8 * max(prod(N), prod(M))",
        .flags = OG_BATCH_LOOP,
        RUN(div_backward),
    },
    {
        .schema = "remainder(Tensor x, Tensor y) -> Tensor",
        .shape = "x[*N], y[*M] -> [*broadcast(N, M)]",
        .dtype = "x: " NUMBERS ", y: " NUMBERS " -> promote(x, y)",
        .strides = "any",
        RUN(python_remainder),
    },
    {
        .schema = "heaviside(Tensor x, Tensor values) -> Tensor",
        .shape = "x[*N], values[*M] -> [*broadcast(N, M)]",
        .dtype = "x: " REALS ", values: x -> x",
        .backward = "none",
        .strides = "any",
        RUN(heaviside),
    },
    {
        .schema = "where(Tensor condition, Tensor x, Tensor y) -> Tensor",
        .shape = "condition[*C], x[*N], y[*M] -> [*broadcast(C, N, M)]",
        .dtype = "condition: bool, x: " REALS ", y: " REALS " -> promote(x, y)",
        .backward = "where_backward(grad, condition, x, y) -> x, y",
        .strides = "any",
        RUN(where),
    },
    {
        .schema = "where_backward(Tensor grad, Tensor condition, Tensor x, "
                  "Tensor y) -> (Tensor dx, Tensor dy)",
        .shape = "condition[*C], x[*N], y[*M], "
                 "grad[*broadcast(C, N, M)] -> [*N], [*M]",
        .dtype = "grad: " FLOATS ", condition: bool, x: " REALS ", y: " REALS
                 " -> x, y",
        .workspace = "8 * max(prod(N), prod(M))",
        .flags = OG_BATCH_LOOP,
        RUN(where_backward),
    },
    {
        .schema = "clamp(Tensor x, Scalar? min=None, Scalar? max=None)"
                  " -> Tensor",
        .shape = "x[*N] -> like x",
        .where = "given(min) or given(max)",
        .dtype = "x: " NUMBERS " -> promote(x, min, max)",
        .backward = "clamp_backward(grad, x, min, max) -> x",
        .strides = "any",
        .inplace = "x",
        RUN(clamp),
    },
    {
        .schema = "clamp_backward(Tensor grad, Tensor x, Scalar? min, "
                  "Scalar? max) -> Tensor",
        .shape = "grad[*N], x[*N] -> [*N]",
        .dtype = "grad: " FLOATS ", x: " REALS " -> x",
        RUN(clamp_backward),
    },
    {
        .schema = "exp(Tensor x) -> Tensor",
        .shape = "x[*N] -> like x",
        .dtype = "x: " FLOATS " -> x",
        .backward = "mul(grad, result) -> x",
        .strides = "any",
        .inplace = "x",
        RUN(exponential),
    },
    {
        .schema = "relu(Tensor x) -> Tensor",
        .shape = "x[*N] -> like x",
        .dtype = "x: " FLOATS " -> x",
        .backward = "relu_backward(grad, result) -> x",
        .strides = "any",
        .inplace = "x",
        RUN(relu),
    },
    {
        .schema = "relu_backward(Tensor g, Tensor y) -> Tensor",
        .shape = "g[*N], y[*N] -> [*N]",
        .dtype = "g: " FLOATS ", y: g -> g",
        .backward = "relu_backward(grad, y) -> g",
        .strides = "any",
        RUN(relu_backward),
    },
    {
        .schema = "sigmoid(Tensor x) -> Tensor",
        .shape = "x[*N] -> like x",
        .dtype = "x: " FLOATS " -> x",
        .backward = "sigmoid_backward(grad, result) -> x",
        .strides = "any",
        RUN(sigmoid),
    },
    {
        .schema = "sigmoid_backward(Tensor grad, Tensor y) -> Tensor",
        .shape = "grad[*N], y[*N] -> [*N]",
        .dtype = "grad: " FLOATS ", y: grad -> grad",
        .strides = "any",
        RUN(sigmoid_backward),
    },
    {
        .schema = "gelu(Tensor x, *, str approximate=\"none\") -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: " FLOATS " -> x",
        .backward = "gelu_backward(grad, x, approximate) -> x",
        RUN(gelu),
    },
    {
        .schema = "gelu_backward(Tensor grad, Tensor x, str approximate)"
                  " -> Tensor",
        .shape = "grad[*N], x[*N] -> [*N]",
        .dtype = "grad: " FLOATS ", x: grad -> grad",
        RUN(gelu_backward),
    },
    {
        .schema = "pow.Scalar(Tensor x, Scalar exponent) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: " FLOATS " -> promote(x, exponent)",
        .backward = "pow_backward(grad, x, exponent) -> x",
        .strides = "any",
        RUN(power),
    },
    {
        .schema = "pow_backward(Tensor grad, Tensor x, Scalar exponent)"
                  " -> Tensor",
        .shape = "grad[*N], x[*N] -> [*N]",
        .dtype = "grad: " FLOATS ", x: grad -> grad",
        .strides = "any",
        RUN(pow_backward),
    },
    {
        .schema = "logical_not(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: " REALS " -> bool",
        .backward = "none",
        .strides = "any",
        RUN(logical_not),
    },
    {
        .schema = "nan_to_num(Tensor x, float? nan=None, float? posinf=None, "
                  "float? neginf=None) -> Tensor",
        .shape = "x[*N] -> like x",
        .dtype = "x: " FLOATS " -> x",
        .backward = "nan_to_num_backward(grad, x) -> x",
        .strides = "any",
        .inplace = "x",
        RUN(nan_to_num),
    },
    {
        .schema = "nan_to_num_backward(Tensor grad, Tensor x) -> Tensor",
        .shape = "grad[*N], x[*N] -> [*N]",
        .dtype = "grad: " FLOATS ", x: grad -> grad",
        .strides = "any",
        RUN(nan_to_num_backward),
    },
    {
        .schema = "masked_fill(Tensor x, Tensor mask, Scalar value) -> Tensor",
        .shape = "x[*N], mask[*M] -> [*broadcast(N, M)]",
        .dtype = "x: " REALS ", mask: bool -> x",
        .backward = "masked_fill_backward(grad, x, mask) -> x",
        .strides = "any",
        .inplace = "x",
        RUN(masked_fill),
    },
    {
        .schema = "masked_fill_backward(Tensor grad, Tensor x, Tensor mask)"
                  " -> Tensor",
        .shape = "x[*N], mask[*M], grad[*broadcast(N, M)] -> [*N]",
        .dtype = "grad: " FLOATS ", x: grad, mask: bool -> grad",
        .workspace = "8 * prod(N)",
        .flags = OG_BATCH_LOOP,
        RUN(masked_fill_backward),
    },
};
OG_MODULE(pointwise, ops)
