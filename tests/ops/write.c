// SPDX-License-Identifier: Apache-2.0
// Tensors from nothing, and tensors written in place.

#include "common.h"

// --- Without tensor arguments ------------------------------------------------

static og_status eye(const og_call *call) {
  og_tensor *out = call->out[0];
  for (int64_t i = 0; i < og_numel(out); ++i)
    put(out, i, i / out->shape[1] == i % out->shape[1]);
  return OG_OK;
}

static og_status full(const og_call *call) {
  og_tensor *out = call->out[0];
  for (int64_t i = 0; i < og_numel(out); ++i) put_attr(out, i, &call->attr[1]);
  return OG_OK;
}

static og_status arange(const og_call *call) {
  og_tensor *out = call->out[0];
  for (int64_t i = 0; i < out->shape[0]; ++i) {
    const int64_t value = call->attr[0].i + i * call->attr[2].i;
    if (is_float(out))
      put(out, i, (double)value);
    else
      put_int(out, i, value);
  }
  return OG_OK;
}

// --- In place ----------------------------------------------------------------

static og_status fill(const og_call *call) {
  og_tensor *x = call->out[0];
  for (int64_t i = 0; i < og_numel(x); ++i)
    put_attr(x, at(x, i), &call->attr[0]);
  return OG_OK;
}

static og_status copy(const og_call *call) {
  og_tensor *x = call->out[0];
  const og_tensor *from = call->in[1];
  if (!broadcasts_to(from, x))
    return og_fail(call, OG_SHAPE, "copy_: src does not broadcast to x");
  for (int64_t i = 0; i < og_numel(x); ++i) {
    if (is_float(from))
      put(x, at(x, i), spread(from, x, i));
    else if (is_float(x))
      put(x, at(x, i), (double)get_int(from, place(from, x, i)));
    else
      put_int(x, at(x, i), get_int(from, place(from, x, i)));
  }
  return OG_OK;
}

// momentum = mu * momentum + grad; parameter = parameter - lr * momentum.
static og_status sgd_step(const og_call *call) {
  og_tensor *parameter = call->out[0], *momentum = call->out[1];
  const double lr = call->attr[0].f, mu = call->attr[1].f;
  for (int64_t i = 0; i < og_numel(parameter); ++i) {
    const int64_t m = at(momentum, i), p = at(parameter, i);
    put(momentum, m,
        mu * get(momentum, m) + get(call->in[2], at(call->in[2], i)));
    put(parameter, p, get(parameter, p) - lr * get(momentum, m));
  }
  return OG_OK;
}

// Adds scale * ys[n] to xs[n]; the lists may hold any shapes, pair by pair.
static og_status foreach_add(const og_call *call) {
  const og_tensor_list *xs = &call->out_list[0], *ys = &call->in_list[1];
  for (int64_t n = 0; n < xs->count; ++n) {
    og_tensor *x = xs->tensors[n];
    const og_tensor *y = ys->tensors[n];
    if (og_numel(x) != og_numel(y) || x->ndim != y->ndim)
      return og_fail(call, OG_SHAPE, "foreach_add_: a pair differs in shape");
    for (int64_t i = 0; i < og_numel(x); ++i)
      put(x, at(x, i),
          get(x, at(x, i)) + number(&call->attr[0]) * get(y, at(y, i)));
  }
  return OG_OK;
}

// --- Declarations ------------------------------------------------------------

static const og_op ops[] = {
    {
        .schema = "eye(int n, int? m=None, *, ScalarType dtype=float32, "
                  "Device? device=None) -> Tensor",
        .shape = "-> [n, select(given(m), m, n)]",
        .where = "n >= 0, not given(m) or m >= 0",
        .dtype = "-> dtype",
        RUN(eye),
    },
    {
        .schema = "full(SymInt[] size, Scalar fill_value, *, "
                  "ScalarType dtype=float32) -> Tensor",
        .shape = "-> [*size]",
        .dtype = "-> dtype",
        RUN(full),
    },
    {
        .schema = "arange(int start, int end, int step=1, *, "
                  "ScalarType dtype=int64) -> Tensor",
        .shape = "-> [max(ceildiv(end - start, step), 0)]",
        .where = "step != 0",
        .dtype = "-> dtype",
        RUN(arange),
    },
    {
        .schema = "fill_(Tensor(a!) x, Scalar value) -> Tensor(a!)",
        .shape = "x[*N]",
        .dtype = "x: " REALS,
        .strides = "any",
        RUN(fill),
    },
    {
        .schema = "copy_(Tensor(a!) x, Tensor src) -> Tensor(a!)",
        .shape = "x[*N], src[*M]",
        .dtype = "x: " REALS ", src: " REALS,
        .strides = "any",
        RUN(copy),
    },
    {
        .schema = "sgd_step_(Tensor(a!) parameter, Tensor(b!) momentum, "
                  "Tensor grad, float lr, float mu=0.9) -> ()",
        .shape = "parameter[*N], momentum[*N], grad[*N]",
        .dtype = "parameter: " FLOATS ", momentum: parameter, grad: parameter",
        .strides = "any",
        RUN(sgd_step),
    },
    {
        .schema = "foreach_add_(Tensor(a!)[] xs, Tensor[] ys, Scalar scale=1)"
                  " -> ()",
        .where = "len(xs) == len(ys)",
        .dtype = "xs: " FLOATS ", ys: xs",
        .strides = "any",
        RUN(foreach_add),
    },
};
OG_MODULE(writes, ops)
