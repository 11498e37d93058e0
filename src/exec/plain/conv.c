// SPDX-License-Identifier: Apache-2.0
// Reference convolutions of 1 to 3 spatial dims, plain and transposed, and
// their gradients, in double: one walk over pairs of positions.

#include <string.h>

#include "exec/step/convolution.h"

typedef struct conv {
  og_operands io;
  og_convolution of;
  double *x, *w, *y, *bias;  // operand, weight, result (or its gradient)
  double *grad_x, *grad_w;
  int64_t x_count, w_count, y_count, bias_count;
} conv;

// One pair of elements and the weight between them.
typedef void (*pair_fn)(const conv *s, int64_t small, int64_t large,
                        int64_t weight);

static void split(int64_t index, const int64_t *sizes, int64_t *out) {
  for (int d = OG_CONV_SPACE - 1; d >= 0; --d) {
    out[d] = index % sizes[d];
    index /= sizes[d];
  }
}

// The large position of a small one and a tap; -1 in the padding.
static int64_t large_of(const conv *s, const int64_t *small,
                        const int64_t *tap) {
  int64_t at = 0;
  for (int d = 0; d < OG_CONV_SPACE; ++d) {
    const int64_t x = small[d] * s->of.stride[d] - s->of.padding[d] +
                      tap[d] * s->of.dilation[d];
    if (x < 0 || x >= s->of.large[d]) return -1;
    at = at * s->of.large[d] + x;
  }
  return at;
}

// All channel pairs of one spatial pair. The weight is [small channels, large
// channels of a group, taps], groups counted in the small ones.
static void channels_walk(const conv *s, int64_t image, int64_t small,
                          int64_t large, int64_t tap, pair_fn fn) {
  const int64_t small_size = og_conv_points(s->of.small);
  const int64_t large_size = og_conv_points(s->of.large),
                taps = og_conv_points(s->of.taps);
  for (int64_t g = 0; g < s->of.groups; ++g)
    for (int64_t a = 0; a < s->of.small_channels; ++a)
      for (int64_t b = 0; b < s->of.large_channels; ++b) {
        const int64_t from = g * s->of.small_channels + a;
        const int64_t to = g * s->of.large_channels + b;
        fn(s,
           (image * s->of.groups * s->of.small_channels + from) * small_size +
               small,
           (image * s->of.groups * s->of.large_channels + to) * large_size +
               large,
           (from * s->of.large_channels + b) * taps + tap);
      }
}

static void walk(const conv *s, pair_fn fn) {
  int64_t small[OG_CONV_SPACE], tap[OG_CONV_SPACE];
  for (int64_t n = 0; n < s->of.batch; ++n)
    for (int64_t i = 0; i < og_conv_points(s->of.small); ++i)
      for (int64_t t = 0; t < og_conv_points(s->of.taps); ++t) {
        split(i, s->of.small, small);
        split(t, s->of.taps, tap);
        const int64_t large = large_of(s, small, tap);
        if (large >= 0) channels_walk(s, n, i, large, t, fn);
      }
}

static void pair_forward(const conv *s, int64_t small, int64_t large,
                         int64_t weight) {
  s->y[small] += s->x[large] * s->w[weight];
}

static void pair_transposed(const conv *s, int64_t small, int64_t large,
                            int64_t weight) {
  s->y[large] += s->x[small] * s->w[weight];
}

static void pair_backward(const conv *s, int64_t small, int64_t large,
                          int64_t weight) {
  s->grad_x[large] += s->y[small] * s->w[weight];
  s->grad_w[weight] += s->y[small] * s->x[large];
}

static void pair_transposed_backward(const conv *s, int64_t small,
                                     int64_t large, int64_t weight) {
  s->grad_x[small] += s->y[large] * s->w[weight];
  s->grad_w[weight] += s->y[large] * s->x[small];
}

static og_status run_convolution(void *state, const og_run *run) {
  const conv *s = state;
  (void)run;
  og_get_all(s->io.in[0], s->x);
  og_get_all(s->io.in[1], s->w);
  memset(s->y, 0, (size_t)s->y_count * sizeof(double));
  walk(s, s->of.transposed ? pair_transposed : pair_forward);
  if (s->io.in[2] != NULL) {
    og_get_all(s->io.in[2], s->bias);
    const int64_t size = s->y_count / (s->of.batch * s->bias_count);
    for (int64_t i = 0; i < s->y_count; ++i)
      s->y[i] += s->bias[i / size % s->bias_count];
  }
  og_put_all(s->io.out[0], s->y);
  return OG_OK;
}

static og_status run_convolution_backward(void *state, const og_run *run) {
  const conv *s = state;
  (void)run;
  og_get_all(s->io.in[0], s->y);
  og_get_all(s->io.in[1], s->x);
  og_get_all(s->io.in[2], s->w);
  memset(s->grad_x, 0, (size_t)s->x_count * sizeof(double));
  memset(s->grad_w, 0, (size_t)s->w_count * sizeof(double));
  memset(s->bias, 0, (size_t)s->bias_count * sizeof(double));
  walk(s, s->of.transposed ? pair_transposed_backward : pair_backward);
  const int64_t size = s->y_count / (s->of.batch * s->bias_count);
  for (int64_t i = 0; i < s->y_count; ++i)
    s->bias[i / size % s->bias_count] += s->y[i];
  if (s->io.out[0] != NULL) og_put_all(s->io.out[0], s->grad_x);
  if (s->io.out[1] != NULL) og_put_all(s->io.out[1], s->grad_w);
  if (s->io.out[2] != NULL) og_put_all(s->io.out[2], s->bias);
  return OG_OK;
}

// --- Preparing ---------------------------------------------------------------

static og_status memory_take(og_prep *prep, conv *s, const og_tensor *x,
                             const og_tensor *w, const og_tensor *y) {
  const og_tensor *small = s->of.transposed ? x : y;
  s->x_count = og_numel(x);
  s->w_count = og_numel(w);
  s->y_count = og_numel(y);
  s->bias_count = y->shape[1];
  const int64_t spatial =
      s->of.small_channels > 0 ? og_numel(small) / small->shape[1] : 0;
  og_prep_work(prep, spatial, s->w_count);
  s->x = og_prep_doubles(
      prep, 2 * (s->x_count + s->w_count) + s->y_count + s->bias_count);
  if (s->x == NULL) return og_prep_memory(prep);
  s->grad_x = s->x + s->x_count;
  s->w = s->grad_x + s->x_count;
  s->grad_w = s->w + s->w_count;
  s->y = s->grad_w + s->w_count;
  s->bias = s->y + s->y_count;
  return OG_OK;
}

og_status og_prepare_convolution(og_prep *prep) {
  conv *s = og_state_begin(prep, sizeof *s, run_convolution);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_convolution_read(prep, prep->in[0], prep->in[1], prep->out[0],
                             &s->of));
  OG_TRY(memory_take(prep, s, prep->in[0], prep->in[1], prep->out[0]));
  if (s->y_count == 0) prep->step.run = NULL;
  return og_convolution_bias(prep, prep->in[2], s->bias_count);
}

og_status og_prepare_convolution_backward(og_prep *prep) {
  conv *s = og_state_begin(prep, sizeof *s, run_convolution_backward);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(
      og_convolution_read(prep, prep->in[1], prep->in[2], prep->in[0], &s->of));
  OG_TRY(memory_take(prep, s, prep->in[1], prep->in[2], prep->in[0]));
  for (int32_t r = 0; r < 2; ++r)
    if (prep->out[r] != NULL &&
        (!og_same_shape(prep->out[r], prep->in[r + 1]) ||
         !og_is_float(prep->out[r])))
      return og_prep_wrong(prep, "a gradient's shape differs from its input's");
  if (s->bias_count == 0 || s->of.batch == 0)
    return og_prep_wrong(prep, "it has no gradient of an empty tensor");
  return og_convolution_bias(prep, prep->out[2], s->bias_count);
}
