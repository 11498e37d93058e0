// SPDX-License-Identifier: Apache-2.0
// Along dims: sums, extremes, scans, softmax, norms, and counting.

#include "common.h"

// --- Over a list of dims -----------------------------------------------------

static double total_of(const og_tensor *x, const groups *g, int64_t j) {
  const int64_t base = offset(g, REST, j);
  double total = 0;
  for (int64_t r = 0; r < g->count[PICKED]; ++r)
    total += get(x, base + offset(g, PICKED, r));
  return total;
}

// Elements become integers before they are added.
static int64_t int_total_of(const og_tensor *x, const groups *g, int64_t j) {
  const int64_t base = offset(g, REST, j);
  uint64_t total = 0;
  for (int64_t r = 0; r < g->count[PICKED]; ++r)
    total += (uint64_t)get_as_int(x, base + offset(g, PICKED, r));
  return (int64_t)total;
}

static og_status sum(const og_call *call) {
  const og_tensor *x = call->in[0];
  og_tensor *out = call->out[0];
  const groups g = group_reduced(x, &call->attr[0]);
  for (int64_t j = 0; j < g.count[REST]; ++j) {
    if (is_float(out))
      put(out, j, total_of(x, &g, j));
    else
      put_int(out, j, int_total_of(x, &g, j));
  }
  return OG_OK;
}

static og_status mean(const og_call *call) {
  const og_tensor *x = call->in[0];
  og_tensor *out = call->out[0];
  const groups g = group_reduced(x, &call->attr[0]);
  for (int64_t j = 0; j < g.count[REST]; ++j)
    put(out, j, total_of(x, &g, j) / (double)g.count[PICKED]);
  return OG_OK;
}

// in: grad, x; every element of x gets the gradient of its sum, times `scale`.
static og_status spread_grad(const og_call *call, double scale) {
  const og_tensor *grad = call->in[0];
  og_tensor *out = call->out[0];
  const groups g = group_reduced(out, &call->attr[0]);
  for (int64_t j = 0; j < g.count[REST]; ++j)
    for (int64_t r = 0; r < g.count[PICKED]; ++r)
      put(out, offset(&g, REST, j) + offset(&g, PICKED, r),
          get(grad, j) * scale);
  return OG_OK;
}

static og_status sum_backward(const og_call *call) {
  return spread_grad(call, 1);
}

static og_status mean_backward(const og_call *call) {
  const groups g = group_reduced(call->out[0], &call->attr[0]);
  return spread_grad(call, 1 / (double)g.count[PICKED]);
}

static og_status amax(const og_call *call) {
  const og_tensor *x = call->in[0];
  og_tensor *out = call->out[0];
  const groups g = group_reduced(x, &call->attr[0]);
  if (g.count[PICKED] == 0 && g.count[REST] > 0)
    return og_fail(call, OG_SHAPE, "amax: no elements to choose from");
  for (int64_t j = 0; j < g.count[REST]; ++j) {
    int64_t best = offset(&g, REST, j);
    const int64_t base = best;
    for (int64_t r = 1; r < g.count[PICKED] && !isnan(get(x, best)); ++r) {
      const int64_t here = base + offset(&g, PICKED, r);
      if (!(get(x, here) <= get(x, best))) best = here;
    }
    move(out, j, x, best);
  }
  return OG_OK;
}

// in: grad, x, result; equal largest elements share the gradient.
static og_status amax_backward(const og_call *call) {
  const og_tensor *x = call->in[1];
  og_tensor *out = call->out[0];
  const groups g = group_reduced(x, &call->attr[0]);
  for (int64_t j = 0; j < g.count[REST]; ++j) {
    const double largest = get(call->in[2], j);
    double ties = 0;
    for (int64_t r = 0; r < g.count[PICKED]; ++r)
      ties += get(x, offset(&g, REST, j) + offset(&g, PICKED, r)) == largest;
    for (int64_t r = 0; r < g.count[PICKED]; ++r) {
      const int64_t here = offset(&g, REST, j) + offset(&g, PICKED, r);
      put(out, here, get(x, here) == largest ? get(call->in[0], j) / ties : 0);
    }
  }
  return OG_OK;
}

// --- Along one dim -----------------------------------------------------------

static og_status cumsum(const og_call *call) {
  const og_tensor *x = call->in[0];
  og_tensor *out = call->out[0];
  const lines from = lines_of(x, call->attr[0].i);
  const lines to = lines_of(out, call->attr[0].i);
  for (int64_t j = 0; j < from.count; ++j) {
    int64_t x_at = line_begin(&from, j), out_at = line_begin(&to, j);
    double total = 0;
    uint64_t int_total = 0;
    for (int64_t i = 0; i < from.length; ++i) {
      if (is_float(out))
        put(out, out_at, total += get(x, x_at));
      else
        put_int(out, out_at,
                (int64_t)(int_total += (uint64_t)get_as_int(x, x_at)));
      x_at += from.step;
      out_at += to.step;
    }
  }
  return OG_OK;
}

static og_status cumsum_backward(const og_call *call) {
  const og_tensor *grad = call->in[0];
  og_tensor *out = call->out[0];
  const lines l = lines_of(grad, call->attr[0].i);
  for (int64_t j = 0; j < l.count; ++j) {
    double total = 0;
    for (int64_t i = l.length - 1; i >= 0; --i) {
      const int64_t here = line_begin(&l, j) + i * l.step;
      put(out, here, total += get(grad, here));
    }
  }
  return OG_OK;
}

// Writes f(x - max, log of the sum of exp(x - max)) along each line.
static og_status each_softmax(const og_call *call,
                              double (*f)(double x, double log_sum)) {
  const og_tensor *x = call->in[0];
  og_tensor *out = call->out[0];
  const lines l = lines_of(x, call->attr[0].i);
  for (int64_t j = 0; j < l.count; ++j) {
    const int64_t begin = line_begin(&l, j);
    double largest = -INFINITY, total = 0;
    for (int64_t i = 0; i < l.length; ++i)
      largest = fmax(largest, get(x, begin + i * l.step));
    for (int64_t i = 0; i < l.length; ++i)
      total += exp(get(x, begin + i * l.step) - largest);
    for (int64_t i = 0; i < l.length; ++i)
      put(out, begin + i * l.step,
          f(get(x, begin + i * l.step) - largest, log(total)));
  }
  return OG_OK;
}

static double softmax_of(double x, double log_sum) { return exp(x - log_sum); }
static double log_softmax_of(double x, double log_sum) { return x - log_sum; }

static og_status softmax(const og_call *call) {
  return each_softmax(call, softmax_of);
}

static og_status log_softmax(const og_call *call) {
  return each_softmax(call, log_softmax_of);
}

// in: grad, y. softmax: (g - sum(g y)) y. log_softmax: g - sum(g) exp(y).
static og_status each_softmax_backward(const og_call *call, int is_log) {
  const og_tensor *grad = call->in[0], *y = call->in[1];
  og_tensor *out = call->out[0];
  const lines l = lines_of(grad, call->attr[0].i);
  for (int64_t j = 0; j < l.count; ++j) {
    const int64_t begin = line_begin(&l, j);
    double total = 0;
    for (int64_t i = 0; i < l.length; ++i) {
      const int64_t here = begin + i * l.step;
      total += get(grad, here) * (is_log ? 1 : get(y, here));
    }
    for (int64_t i = 0; i < l.length; ++i) {
      const int64_t here = begin + i * l.step;
      const double g = get(grad, here), value = get(y, here);
      put(out, here, is_log ? g - total * exp(value) : (g - total) * value);
    }
  }
  return OG_OK;
}

static og_status softmax_backward(const og_call *call) {
  return each_softmax_backward(call, 0);
}

static og_status log_softmax_backward(const og_call *call) {
  return each_softmax_backward(call, 1);
}

// --- Norms: over the last dims, which `normalized_shape` names ---------------

static int64_t width_of(const og_attr *normalized_shape) {
  int64_t width = 1;
  for (int64_t i = 0; i < normalized_shape->count; ++i)
    width *= normalized_shape->ints[i];
  return width;
}

// PyTorch's default eps of rms_norm: the type's own.
static double rms_eps(const og_attr *eps, const og_tensor *x) {
  if (is_given(eps)) return eps->f;
  return x->dtype.bits == 64 ? 0x1p-52 : 0x1p-23;
}

// The row's mean (0 where it is not subtracted), and 1 / its deviation.
typedef struct moments {
  double mean;
  double scale;
} moments;

static moments row_moments(const og_tensor *x, int64_t begin, int64_t width,
                           double eps, int subtracts_mean) {
  moments m = {0, 0};
  double squares = 0;
  for (int64_t i = 0; i < width && subtracts_mean; ++i)
    m.mean += get(x, begin + i) / (double)width;
  for (int64_t i = 0; i < width; ++i) {
    const double value = get(x, begin + i) - m.mean;
    squares += value * value;
  }
  m.scale = 1 / sqrt(squares / (double)width + eps);
  return m;
}

static og_status norm(const og_call *call, const og_tensor *bias, double eps,
                      int subtracts_mean) {
  const og_tensor *x = call->in[0], *weight = call->in[1];
  const int64_t width = width_of(&call->attr[0]);
  for (int64_t r = 0; r < call->dim[0]; ++r) {
    const moments m = row_moments(x, r * width, width, eps, subtracts_mean);
    for (int64_t i = 0; i < width; ++i) {
      const double value = (get(x, r * width + i) - m.mean) * m.scale;
      put(call->out[0], r * width + i,
          value * (weight ? get(weight, i) : 1) + (bias ? get(bias, i) : 0));
    }
  }
  return OG_OK;
}

static og_status layer_norm(const og_call *call) {
  return norm(call, call->in[2], call->attr[1].f, 1);
}

static og_status rms_norm(const og_call *call) {
  return norm(call, NULL, rms_eps(&call->attr[1], call->in[0]), 0);
}

// in: grad, x, weight; out: of x, of weight, and of a bias where there is one.
// With u = grad weight and n the normed row:
//   dx = scale (u - mean(u) - n mean(u n)), without mean(u) for rms_norm.
static og_status norm_backward(const og_call *call, double eps,
                               int subtracts_mean) {
  const og_tensor *grad = call->in[0], *x = call->in[1], *weight = call->in[2];
  const int64_t width = width_of(&call->attr[0]);
  double *weight_sum = call->workspace, *bias_sum = weight_sum + width;
  for (int64_t i = 0; i < width; ++i) weight_sum[i] = bias_sum[i] = 0;
  for (int64_t r = 0; r < call->dim[0]; ++r) {
    const int64_t begin = r * width;
    const moments m = row_moments(x, begin, width, eps, subtracts_mean);
    double sum_u = 0, sum_un = 0;
    for (int64_t i = 0; i < width; ++i) {
      const double g = get(grad, begin + i);
      const double n = (get(x, begin + i) - m.mean) * m.scale;
      sum_u += g * (weight ? get(weight, i) : 1);
      sum_un += g * (weight ? get(weight, i) : 1) * n;
      weight_sum[i] += g * n;
      bias_sum[i] += g;
    }
    for (int64_t i = 0; i < width; ++i) {
      const double u = get(grad, begin + i) * (weight ? get(weight, i) : 1);
      const double n = (get(x, begin + i) - m.mean) * m.scale;
      const double shift = subtracts_mean ? sum_u : 0;
      put(call->out[0], begin + i,
          m.scale * (u - (shift + n * sum_un) / (double)width));
    }
  }
  for (int64_t i = 0; i < width; ++i) {
    put(call->out[1], i, weight_sum[i]);
    if (subtracts_mean) put(call->out[2], i, bias_sum[i]);
  }
  return OG_OK;
}

static og_status layer_norm_backward(const og_call *call) {
  return norm_backward(call, call->attr[1].f, 1);
}

static og_status rms_norm_backward(const og_call *call) {
  return norm_backward(call, rms_eps(&call->attr[1], call->in[1]), 0);
}

// --- Counting: the size of the result depends on the values ------------------

enum { BINCOUNT_N, BINCOUNT_K };

static og_status bincount(const og_call *call) {
  const og_tensor *x = call->in[0], *weights = call->in[1];
  og_tensor *out = call->out[0];
  const int64_t bound = call->dim[BINCOUNT_K];
  int64_t bins = call->attr[0].i;
  for (int64_t i = 0; i < call->dim[BINCOUNT_N]; ++i) {
    const int64_t value = get_int(x, i);
    if (value < 0 || value >= bound)
      return og_fail(call, OG_INVALID, "bincount: a value is not in 0..limit");
    bins = value < bins ? bins : value + 1;
  }
  double *sums = og_f64_mut(out);
  for (int64_t b = 0; b < bins; ++b) sums[b] = 0;
  for (int64_t i = 0; i < call->dim[BINCOUNT_N]; ++i)
    sums[get_int(x, i)] += weights ? get(weights, i) : 1;
  og_set_dim(call, BINCOUNT_K, bins);
  return OG_OK;
}

// --- Declarations ------------------------------------------------------------

static const og_op ops[] = {
    {
        .schema = "sum(Tensor x, int[]? dim=None, *, ScalarType? dtype=None)"
                  " -> Tensor",
        .shape = "x[*N] -> [*drop(N, dim)]",
        .dtype = "x: " REALS " -> dtype or x",
        .backward = "sum_backward(grad, x, dim) -> x",
        .strides = "any",
        RUN(sum),
    },
    {
        .schema = "sum.keep(Tensor x, int[]? dim=None, *, "
                  "ScalarType? dtype=None) -> Tensor",
        .shape = "x[*N] -> [*keep(N, dim)]",
        .dtype = "x: " REALS " -> dtype or x",
        .backward = "sum_backward(grad, x, dim) -> x",
        .strides = "any",
        RUN(sum),
    },
    {
        .schema = "sum_backward(Tensor grad, Tensor x, int[]? dim) -> Tensor",
        .shape = "grad[*G], x[*N] -> [*N]",
        .dtype = "grad: " FLOATS ", x: " REALS " -> x",
        .flags = OG_BATCH_LOOP,
        RUN(sum_backward),
    },
    {
        .schema = "mean(Tensor x, int[]? dim=None) -> Tensor",
        .shape = "x[*N] -> [*drop(N, dim)]",
        .dtype = "x: " FLOATS " -> x",
        .backward = "mean_backward(grad, x, dim) -> x",
        .strides = "any",
        RUN(mean),
    },
    {
        .schema = "mean_backward(Tensor grad, Tensor x, int[]? dim) -> Tensor",
        .shape = "grad[*G], x[*N] -> [*N]",
        .dtype = "grad: " FLOATS ", x: grad -> x",
        .flags = OG_BATCH_LOOP,
        RUN(mean_backward),
    },
    {
        .schema = "amax(Tensor x, int[] dim=[]) -> Tensor",
        .shape = "x[*N] -> [*drop(N, dim)]",
        .dtype = "x: " REALS " -> x",
        .backward = "amax_backward(grad, x, result, dim) -> x",
        .strides = "any",
        RUN(amax),
    },
    {
        .schema = "amax_backward(Tensor grad, Tensor x, Tensor y, int[] dim)"
                  " -> Tensor",
        .shape = "grad[*G], x[*N], y[*G] -> [*N]",
        .dtype = "grad: " FLOATS ", x: grad, y: grad -> x",
        .flags = OG_BATCH_LOOP,
        RUN(amax_backward),
    },
    {
        .schema = "cumsum(Tensor x, int dim, *, ScalarType? dtype=None)"
                  " -> Tensor",
        .shape = "x[*A, D@dim, *B] -> [*A, D, *B]",
        .dtype = "x: " REALS " -> dtype or x",
        .backward = "cumsum_backward(grad, dim) -> x",
        .strides = "any",
        RUN(cumsum),
    },
    {
        .schema = "cumsum_backward(Tensor g, int dim) -> Tensor",
        .shape = "g[*A, D@dim, *B] -> [*A, D, *B]",
        .dtype = "g: " FLOATS " -> g",
        .backward = "cumsum(grad, dim) -> g",
        RUN(cumsum_backward),
    },
    {
        .schema = "softmax(Tensor x, int dim) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .where = "-max(rank(N), 1) <= dim, dim < max(rank(N), 1)",
        .dtype = "x: " FLOATS " -> x",
        .backward = "softmax_backward(grad, result, dim) -> x",
        RUN(softmax),
    },
    {
        .schema = "softmax_backward(Tensor grad, Tensor y, int dim) -> Tensor",
        .shape = "grad[*N], y[*N] -> [*N]",
        .dtype = "grad: " FLOATS ", y: grad -> grad",
        .flags = OG_BATCH_LOOP,
        RUN(softmax_backward),
    },
    {
        .schema = "log_softmax(Tensor x, int dim) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .where = "-max(rank(N), 1) <= dim, dim < max(rank(N), 1)",
        .dtype = "x: " FLOATS " -> x",
        .backward = "log_softmax_backward(grad, result, dim) -> x",
        RUN(log_softmax),
    },
    {
        .schema = "log_softmax_backward(Tensor grad, Tensor y, int dim)"
                  " -> Tensor",
        .shape = "grad[*N], y[*N] -> [*N]",
        .dtype = "grad: " FLOATS ", y: grad -> grad",
        .flags = OG_BATCH_LOOP,
        RUN(log_softmax_backward),
    },
    {
        .schema = "layer_norm(Tensor x, int[] normalized_shape, "
                  "Tensor? weight=None, Tensor? bias=None, float eps=1e-5)"
                  " -> Tensor",
        .shape = "x[*N, *normalized_shape], weight?[*normalized_shape], "
                 "bias?[*normalized_shape] -> [*N, *normalized_shape]",
        .dtype = "x: " FLOATS ", weight: x, bias: x -> x",
        .backward = "layer_norm_backward(grad, x, weight, normalized_shape, "
                    "eps) -> x, weight, bias",
        RUN(layer_norm),
    },
    {
        .schema = "layer_norm_backward(Tensor grad, Tensor x, Tensor? weight, "
                  "int[] normalized_shape, float eps) -> (Tensor dx, "
                  "Tensor dweight, Tensor dbias)",
        .shape = "x[*N, *normalized_shape], grad[*N, *normalized_shape], "
                 "weight?[*normalized_shape] -> [*N, *normalized_shape], "
                 "[*normalized_shape], [*normalized_shape]",
        .dtype = "grad: " FLOATS ", x: grad, weight: x -> x, x, x",
        .workspace = "16 * prod(normalized_shape)",
        RUN(layer_norm_backward),
    },
    {
        .schema = "rms_norm(Tensor x, int[] normalized_shape, "
                  "Tensor? weight=None, float? eps=None) -> Tensor",
        .shape = "x[*N, *normalized_shape], weight?[*normalized_shape]"
                 " -> [*N, *normalized_shape]",
        .dtype = "x: " FLOATS ", weight: x -> x",
        .backward = "rms_norm_backward(grad, x, weight, normalized_shape, eps)"
                    " -> x, weight",
        RUN(rms_norm),
    },
    {
        .schema = "rms_norm_backward(Tensor grad, Tensor x, Tensor? weight, "
                  "int[] normalized_shape, float? eps) -> (Tensor dx, "
                  "Tensor dweight)",
        .shape = "x[*N, *normalized_shape], grad[*N, *normalized_shape], "
                 "weight?[*normalized_shape] -> [*N, *normalized_shape], "
                 "[*normalized_shape]",
        .dtype = "grad: " FLOATS ", x: grad, weight: x -> x, x",
        .workspace = "16 * prod(normalized_shape)",
        RUN(rms_norm_backward),
    },
    {
        .schema = "bincount(Tensor x, Tensor? weights=None, int minlength=0, "
                  "int limit=1024) -> Tensor",
        .shape = "x[N], weights?[N] -> [K <= max(limit, minlength)]",
        .where = "minlength >= 0, limit >= 0, "
                 "x in [0, max(limit, minlength))",
        .dtype = "x: " INTS ", weights: " NUMBERS " -> f64",
        RUN(bincount),
    },
};
OG_MODULE(reduce, ops)
