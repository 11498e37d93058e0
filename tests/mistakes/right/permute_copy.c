// SPDX-License-Identifier: Apache-2.0
// A permuted copy of a tensor with any strides.

#include "../../modules/operators.h"

static int64_t axis(const og_attr *dims, int32_t i, int32_t rank) {
  return dims->ints[i] < 0 ? dims->ints[i] + rank : dims->ints[i];
}

static og_status forward(const og_call *call) {
  const og_tensor *from = call->in[0], *to = call->out[0];
  const float *x = og_f32(from);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < og_numel(to); ++i) {
    int64_t rest = i, at = 0;
    for (int32_t d = to->ndim - 1; d >= 0; --d) {
      at += rest % to->shape[d] *
            from->strides[axis(&call->attr[0], d, to->ndim)];
      rest /= to->shape[d];
    }
    y[i] = x[at];
  }
  return OG_OK;
}

static int is_permuted(const og_tensor *grad, const og_tensor *x,
                       const og_attr *dims) {
  uint64_t seen = 0;
  for (int32_t d = 0; d < x->ndim; ++d) {
    const int64_t a = axis(dims, d, x->ndim);
    if (a < 0 || a >= x->ndim || seen >> a & 1) return 0;
    if (grad->shape[d] != x->shape[a]) return 0;
    seen |= (uint64_t)1 << a;
  }
  return 1;
}

static og_status backward(const og_call *call) {
  const og_tensor *from = call->in[0], *to = call->out[0];
  const float *grad = og_f32(from);
  float *dx = og_f32_mut(call->out[0]);
  if (!is_permuted(from, call->in[1], &call->attr[0]))
    return og_fail(call, OG_SHAPE,
                   "permute_copy_backward: grad is not x permuted by dims");
  for (int64_t i = 0; i < og_numel(from); ++i) {
    int64_t rest = i, at = 0;
    for (int32_t d = from->ndim - 1; d >= 0; --d) {
      at += rest % from->shape[d] *
            to->strides[axis(&call->attr[0], d, from->ndim)];
      rest /= from->shape[d];
    }
    dx[at] = grad[i];
  }
  return OG_OK;
}

MODULE(permute_copy,
       {.schema = "permute_copy(Tensor x, int[] dims) -> Tensor",
        .shape = "x[*N] -> [*permute(N, dims)]",
        .where = "len(dims) == rank(N)",
        .backward = "permute_copy_backward(grad, x, dims) -> x",
        .strides = "x: any",
        RUN("f32", forward),
        .flags = OG_BATCH_LOOP},
       {.schema = "permute_copy_backward(Tensor grad, Tensor x, int[] dims) -> "
                  "Tensor",
        .shape = "grad[*G], x[*N] -> [*N]",
        .where = "len(dims) == rank(N), rank(G) == rank(N)",
        RUN("f32", backward),
        .flags = OG_BATCH_LOOP})
