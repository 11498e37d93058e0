// SPDX-License-Identifier: Apache-2.0
// Reference pooling over the last two dims, and its gradients. The dims before
// them count as one.

#include <math.h>
#include <string.h>

#include "exec/step/operands.h"
#include "graph/op.h"

typedef struct pool {
  og_operands io;
  int64_t planes, in_size[2], out_size[2];
  int64_t kernel[2], stride[2], padding[2], dilation[2];
  bool adaptive, counts_padding;
  int64_t divisor;  // 0: the count of elements
  double *in, *out;
} pool;

// The window of one output position along one dim: [begin, end) in steps of
// the dilation; `span` counts positions in the padding too.
typedef struct window {
  int64_t begin, end, step, span;
} window;

static window window_of(const pool *s, int d, int64_t at) {
  const int64_t n = s->in_size[d];
  if (s->adaptive) {
    const int64_t begin = at * n / s->out_size[d];
    const int64_t end = ((at + 1) * n + s->out_size[d] - 1) / s->out_size[d];
    return (window){begin, end, 1, end - begin};
  }
  const int64_t step = s->dilation[d];
  int64_t begin = at * s->stride[d] - s->padding[d];
  int64_t end = begin + (s->kernel[d] - 1) * step + 1;
  const int64_t padded = end < n + s->padding[d] ? end : n + s->padding[d];
  const int64_t span = padded - begin;
  if (begin < 0) begin += (step - 1 - begin) / step * step;
  if (end > n) end = n;
  return (window){begin, end, step, span};
}

// What small element i of the average is made of: a window of one plane, and
// what its sum is divided by.
typedef struct patch {
  window y, x;
  double *plane;
  double area;
} patch;

static patch patch_of(const pool *s, int64_t i) {
  const int64_t area_out = s->out_size[0] * s->out_size[1];
  const window y = window_of(s, 0, i % area_out / s->out_size[1]);
  const window x = window_of(s, 1, i % s->out_size[1]);
  const int64_t inside = (y.end - y.begin) * (x.end - x.begin);
  return (patch){
      .y = y,
      .x = x,
      .plane = s->in + i / area_out * s->in_size[0] * s->in_size[1],
      .area = (double)(s->divisor != 0     ? s->divisor
                       : s->counts_padding ? y.span * x.span
                                           : inside),
  };
}

// --- Largest -----------------------------------------------------------------

static og_status run_max(void *state, const og_run *run) {
  const pool *s = state;
  const int64_t area_in = s->in_size[0] * s->in_size[1];
  const int64_t area_out = s->out_size[0] * s->out_size[1];
  double *index = s->out + s->planes * area_out;
  (void)run;
  og_get_all(s->io.in[0], s->in);
  for (int64_t i = 0; i < s->planes * area_out; ++i) {
    const window y = window_of(s, 0, i % area_out / s->out_size[1]);
    const window x = window_of(s, 1, i % s->out_size[1]);
    const double *plane = s->in + i / area_out * area_in;
    int64_t best = y.begin * s->in_size[1] + x.begin;
    double top = -INFINITY;
    for (int64_t r = y.begin; r < y.end; r += y.step)
      for (int64_t c = x.begin; c < x.end; c += x.step) {
        const double value = plane[r * s->in_size[1] + c];
        if (value > top || value != value) {
          top = value;
          best = r * s->in_size[1] + c;
        }
      }
    s->out[i] = top;
    index[i] = (double)best;
  }
  og_put_all(s->io.out[0], s->out);
  if (s->io.out[1] != NULL) og_put_all(s->io.out[1], index);
  return OG_OK;
}

// Operands: gradient and indices.
static og_status run_max_backward(void *state, const og_run *run) {
  const pool *s = state;
  const int64_t area_in = s->in_size[0] * s->in_size[1];
  const int64_t area_out = s->out_size[0] * s->out_size[1];
  const int64_t total = s->planes * area_in;
  double *index = s->in + total;
  og_get_all(s->io.in[0], s->out);
  og_get_all(s->io.in[1], index);
  memset(s->in, 0, (size_t)total * sizeof(double));
  for (int64_t i = 0; i < s->planes * area_out; ++i) {
    const int64_t at = og_double_to_int(index[i]);
    if (at < 0 || at >= area_in)
      return og_run_fail(run, OG_INVALID,
                         "an index of the pooling is out of "
                         "range");
    s->in[i / area_out * area_in + at] += s->out[i];
  }
  og_put_all(s->io.out[0], s->in);
  return OG_OK;
}

// --- Average -----------------------------------------------------------------

static og_status run_average(void *state, const og_run *run) {
  const pool *s = state;
  const int64_t count = s->planes * s->out_size[0] * s->out_size[1];
  (void)run;
  og_get_all(s->io.in[0], s->in);
  for (int64_t i = 0; i < count; ++i) {
    const patch p = patch_of(s, i);
    double sum = 0;
    for (int64_t r = p.y.begin; r < p.y.end; ++r)
      for (int64_t c = p.x.begin; c < p.x.end; ++c)
        sum += p.plane[r * s->in_size[1] + c];
    s->out[i] = sum / p.area;
  }
  og_put_all(s->io.out[0], s->out);
  return OG_OK;
}

static og_status run_average_backward(void *state, const og_run *run) {
  const pool *s = state;
  const int64_t area_in = s->in_size[0] * s->in_size[1];
  const int64_t count = s->planes * s->out_size[0] * s->out_size[1];
  (void)run;
  og_get_all(s->io.in[0], s->out);
  memset(s->in, 0, (size_t)(s->planes * area_in) * sizeof(double));
  for (int64_t i = 0; i < count; ++i) {
    const patch p = patch_of(s, i);
    const double share = s->out[i] / p.area;
    for (int64_t r = p.y.begin; r < p.y.end; ++r)
      for (int64_t c = p.x.begin; c < p.x.end; ++c)
        p.plane[r * s->in_size[1] + c] += share;
  }
  og_put_all(s->io.out[0], s->in);
  return OG_OK;
}

// --- Preparing ---------------------------------------------------------------

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

// `large` is the pooled tensor, or its gradient; `small` the result, or its.
static og_status shapes_read(og_prep *prep, pool *s, const og_tensor *large,
                             const og_tensor *small) {
  OG_TRY(og_need_float(prep, large));
  OG_TRY(og_need_float(prep, small));
  const int32_t rank = large->ndim;
  bool fits = rank >= 2 && small->ndim == rank;
  s->planes = 1;
  for (int32_t d = 0; fits && d < rank - 2; ++d) {
    fits = large->shape[d] == small->shape[d];
    s->planes *= large->shape[d];
  }
  if (!fits) return og_prep_wrong(prep, "the shapes do not fit");
  for (int d = 0; d < 2; ++d) {
    s->in_size[d] = large->shape[rank - 2 + d];
    s->out_size[d] = small->shape[rank - 2 + d];
  }
  if (og_numel(large) == 0 && og_numel(small) > 0)
    return og_prep_wrong(prep, "there is nothing to pool");
  s->in = og_prep_doubles(prep, og_numel(large) + 3 * og_numel(small));
  if (s->in == NULL) return og_prep_memory(prep);
  s->out = s->in + og_numel(large) + og_numel(small);
  return OG_OK;
}

// Every window must begin inside the operand or its padding.
static og_status windows_read(og_prep *prep, pool *s) {
  int64_t area = 1;
  OG_TRY(pair_read(prep, 0, 1, 1, s->kernel));
  OG_TRY(pair_read(prep, 1, s->kernel[0], 1, s->stride));
  if (og_node_attr(prep->node, 1)->count == 0) s->stride[1] = s->kernel[1];
  OG_TRY(pair_read(prep, 2, 0, 0, s->padding));
  for (int d = 0; d < 2; ++d) {
    const int64_t last = (s->out_size[d] - 1) * s->stride[d] - s->padding[d];
    if (s->out_size[d] > 0 &&
        (last >= s->in_size[d] + s->padding[d] ||
         s->padding[d] > s->kernel[d] * s->dilation[d] / 2))
      return og_prep_wrong(prep, "its windows leave the operand");
    area *= s->kernel[d] < s->in_size[d] ? s->kernel[d] : s->in_size[d];
  }
  og_prep_work(prep, s->planes * s->out_size[0] * s->out_size[1], area);
  return OG_OK;
}

og_status og_prepare_max_pool2d(og_prep *prep) {
  pool *s = og_state_begin(prep, sizeof *s, run_max);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(shapes_read(prep, s, prep->in[0], prep->out[0]));
  OG_TRY(pair_read(prep, 3, 1, 1, s->dilation));
  if (prep->out[1] != NULL) {
    OG_TRY(og_need_int(prep, prep->out[1]));
    if (!og_same_shape(prep->out[1], prep->out[0]))
      return og_prep_wrong(prep, "the shapes do not fit");
  }
  return windows_read(prep, s);
}

og_status og_prepare_max_pool2d_backward(og_prep *prep) {
  pool *s = og_state_begin(prep, sizeof *s, run_max_backward);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(shapes_read(prep, s, prep->out[0], prep->in[0]));
  OG_TRY(og_need_int(prep, prep->in[1]));
  return og_same_shape(prep->in[1], prep->in[0])
             ? OG_OK
             : og_prep_wrong(prep, "the shapes do not fit");
}

static og_status average_prepare(og_prep *prep, og_step_fn run,
                                 bool is_backward, bool adaptive) {
  int64_t counts = 1;
  pool *s = og_state_begin(prep, sizeof *s, run);
  if (s == NULL) return OG_MEMORY;
  s->adaptive = adaptive;
  s->dilation[0] = s->dilation[1] = 1;
  OG_TRY(shapes_read(prep, s, is_backward ? prep->out[0] : prep->in[0],
                     is_backward ? prep->in[0] : prep->out[0]));
  if (adaptive) {
    // A window is at most one longer than its share, at both ends.
    og_prep_work(prep, s->planes * s->out_size[0] * s->out_size[1], 9);
    og_prep_work(prep, s->planes * s->in_size[0] * s->in_size[1], 9);
    return OG_OK;
  }
  OG_TRY(og_prep_int(prep, 3, 1, &counts));
  s->counts_padding = counts != 0;
  OG_TRY(og_prep_int(prep, 4, 0, &s->divisor));
  return windows_read(prep, s);
}

og_status og_prepare_avg_pool2d(og_prep *prep) {
  return average_prepare(prep, run_average, false, false);
}
og_status og_prepare_avg_pool2d_backward(og_prep *prep) {
  return average_prepare(prep, run_average_backward, true, false);
}
og_status og_prepare_adaptive_avg_pool2d(og_prep *prep) {
  return average_prepare(prep, run_average, false, true);
}
og_status og_prepare_adaptive_avg_pool2d_backward(og_prep *prep) {
  return average_prepare(prep, run_average_backward, true, true);
}
