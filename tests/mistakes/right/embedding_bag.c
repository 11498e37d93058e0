// SPDX-License-Identifier: Apache-2.0
// Sums or means of table rows in bags that start at host offsets, with the
// gradient of the table. Bad positions, offsets and modes are refused.

#include "../../modules/operators.h"

enum { V, D, L };

// Why these arguments are refused, or NULL.
static const char *find_fault(const og_call *call, const og_tensor *index,
                              int64_t rows) {
  const og_attr *offsets = &call->attr[0];
  const int64_t count = og_numel(index), *at = og_i64(index);
  if (strcmp(call->attr[1].s, "sum") != 0 &&
      strcmp(call->attr[1].s, "mean") != 0)
    return "embedding_bag: mode is neither sum nor mean";
  for (int64_t b = 0; b < offsets->count; ++b) {
    const int64_t before = b > 0 ? offsets->ints[b - 1] : 0;
    if (offsets->ints[b] < before || offsets->ints[b] > count)
      return "embedding_bag: offsets do not rise within the index";
  }
  for (int64_t i = 0; i < count; ++i)
    if (at[i] < 0 || at[i] >= rows)
      return "embedding_bag: index is outside of the table";
  return NULL;
}

static int64_t bag_end(const og_attr *offsets, int64_t bag, int64_t count) {
  return bag + 1 < offsets->count ? offsets->ints[bag + 1] : count;
}

static float bag_scale(const og_call *call, int64_t first, int64_t last) {
  return call->attr[1].s[0] == 'm' && last > first ? 1 / (float)(last - first)
                                                   : 1;
}

static og_status forward(const og_call *call) {
  const float *table = og_f32(call->in[0]);
  const int64_t *at = og_i64(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  const og_attr *offsets = &call->attr[0];
  const int64_t width = call->dim[D];
  const char *fault = find_fault(call, call->in[1], call->dim[V]);
  if (fault) return og_fail(call, OG_INVALID, fault);
  for (int64_t b = 0; b < offsets->count; ++b) {
    const int64_t first = offsets->ints[b],
                  last = bag_end(offsets, b, call->dim[L]);
    for (int64_t c = 0; c < width; ++c) {
      float sum = 0;
      for (int64_t i = first; i < last; ++i) sum += table[at[i] * width + c];
      y[b * width + c] = sum * bag_scale(call, first, last);
    }
  }
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  const int64_t *at = og_i64(call->in[2]);
  float *d = og_f32_mut(call->out[0]);
  const og_attr *offsets = &call->attr[0];
  const int64_t width = call->in[1]->shape[1], rows = call->in[1]->shape[0];
  const char *fault = find_fault(call, call->in[2], rows);
  if (fault) return og_fail(call, OG_INVALID, fault);
  for (int64_t i = 0; i < rows * width; ++i) d[i] = 0;
  for (int64_t b = 0; b < offsets->count; ++b) {
    const int64_t first = offsets->ints[b],
                  last = bag_end(offsets, b, og_numel(call->in[2]));
    for (int64_t i = first; i < last; ++i)
      for (int64_t c = 0; c < width; ++c)
        d[at[i] * width + c] +=
            grad[b * width + c] * bag_scale(call, first, last);
  }
  return OG_OK;
}

MODULE(embedding_bag,
       {.schema = "embedding_bag(Tensor table, Tensor index, int[] offsets, "
                  "str mode=\"sum\") -> Tensor",
        .shape = "table[V, D], index[L] -> [len(offsets), D]",
        .dtype = "table: f32, index: i64 -> table",
        .backward = "embedding_bag_backward(grad, table, index, offsets, mode) "
                    "-> table",
        RUN(NULL, forward)},
       {.schema = "embedding_bag_backward(Tensor grad, Tensor table, Tensor "
                  "index, int[] offsets, str mode) -> Tensor",
        .shape = "grad[B, D], table[V, D], index[L] -> [V, D]",
        .where = "B == len(offsets)",
        .dtype = "grad: f32, table: grad, index: i64 -> table",
        RUN(NULL, backward)})
