// SPDX-License-Identifier: Apache-2.0

#include "exec/step/pool.h"

#include "graph/op.h"

og_window og_pool_adaptive_window(int64_t size, int64_t count, int64_t at) {
  const int64_t begin = at * size / count;
  const int64_t end = ((at + 1) * size + count - 1) / count;
  return (og_window){begin, end, 1, end - begin};
}

og_window og_pool_window(const og_pool *s, int d, int64_t at) {
  const int64_t n = s->in[d];
  if (s->adaptive) return og_pool_adaptive_window(n, s->out[d], at);
  const int64_t step = s->dilation[d];
  int64_t begin = at * s->stride[d] - s->padding[d];
  int64_t end = begin + (s->kernel[d] - 1) * step + 1;
  const int64_t padded = end < n + s->padding[d] ? end : n + s->padding[d];
  const int64_t span = padded - begin;
  if (begin < 0) begin += (step - 1 - begin) / step * step;
  if (end > n) end = n;
  return (og_window){begin, end, step, span};
}

static og_status pair_read(og_prep *prep, int32_t index, int64_t otherwise,
                           int64_t least, int64_t *out) {
  int32_t count;
  OG_TRY(og_prep_ints(prep, index, out, 2, &count));
  if (count == 0) out[0] = out[1] = otherwise;
  if (count == 1) out[1] = out[0];
  for (int d = 0; d < 2; ++d)
    if (out[d] < least || out[d] > INT32_MAX)
      return og_prep_wrong(prep, "a window's number is out of range");
  return OG_OK;
}

og_status og_pool_shapes(og_prep *prep, const og_tensor *large,
                         const og_tensor *small, int64_t dims, og_pool *out) {
  OG_TRY(og_need_float(prep, large));
  OG_TRY(og_need_float(prep, small));
  const int32_t rank = large->ndim;
  bool fits = (dims == 2 || dims == 3) && rank >= dims && small->ndim == rank;
  out->planes = 1;
  for (int32_t d = 0; fits && d < rank - (int32_t)dims; ++d) {
    fits = large->shape[d] == small->shape[d];
    out->planes *= large->shape[d];
  }
  if (!fits) return og_prep_misfit(prep);
  out->deep[0] = dims == 3 ? large->shape[rank - 3] : 1;
  out->deep[1] = dims == 3 ? small->shape[rank - 3] : 1;
  for (int d = 0; d < 2; ++d) {
    out->in[d] = large->shape[rank - 2 + d];
    out->out[d] = small->shape[rank - 2 + d];
  }
  if (og_numel(large) == 0 && og_numel(small) > 0)
    return og_prep_wrong(prep, "there is nothing to pool");
  return OG_OK;
}

og_status og_pool_windows(og_prep *prep, og_pool *out) {
  int64_t area = 1;
  OG_TRY(pair_read(prep, 0, 1, 1, out->kernel));
  OG_TRY(pair_read(prep, 1, out->kernel[0], 1, out->stride));
  if (og_node_attr(prep->node, 1)->count == 0) out->stride[1] = out->kernel[1];
  OG_TRY(pair_read(prep, 2, 0, 0, out->padding));
  for (int d = 0; d < 2; ++d) {
    const int64_t last = (out->out[d] - 1) * out->stride[d] - out->padding[d];
    if (out->out[d] > 0 &&
        (last >= out->in[d] + out->padding[d] ||
         out->padding[d] > out->kernel[d] * out->dilation[d] / 2))
      return og_prep_wrong(prep, "its windows leave the operand");
    area *= out->kernel[d] < out->in[d] ? out->kernel[d] : out->in[d];
  }
  og_prep_work(prep, out->planes * out->out[0] * out->out[1], area);
  return OG_OK;
}

og_status og_pool_max(og_prep *prep, og_pool *out) {
  OG_TRY(og_pool_shapes(prep, prep->in[0], prep->out[0], 2, out));
  OG_TRY(pair_read(prep, 3, 1, 1, out->dilation));
  if (prep->out[1] != NULL) {
    OG_TRY(og_need_int(prep, prep->out[1]));
    if (!og_same_shape(prep->out[1], prep->out[0])) return og_prep_misfit(prep);
  }
  return og_pool_windows(prep, out);
}
