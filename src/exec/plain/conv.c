// SPDX-License-Identifier: Apache-2.0
// Reference convolutions of 1 to 3 spatial dims, plain and transposed, and
// their gradients, in double.
//
// Both directions are one walk: a pair (small, large) of spatial positions is
// tied by  large = small * stride - padding + tap * dilation.  A convolution
// sums over `large` into `small`; a transposed one, and the gradient of the
// operand, the other way round.

#include <string.h>

#include "exec/step/operands.h"

enum { SPACE = 3 };

typedef struct conv {
  og_operands io;
  int64_t stride[SPACE], padding[SPACE], dilation[SPACE];
  int64_t small[SPACE], large[SPACE], taps[SPACE];
  int64_t batch, groups;
  int64_t small_channels, large_channels;  // of one group
  bool transposed;
  double *x, *w, *y, *bias;  // operand, weight, result (or its gradient)
  double *grad_x, *grad_w;
  int64_t x_count, w_count, y_count, bias_count;
} conv;

// One pair of elements and the weight between them.
typedef void (*pair_fn)(const conv *s, int64_t small, int64_t large,
                        int64_t weight);

static int64_t product(const int64_t *sizes) {
  return sizes[0] * sizes[1] * sizes[2];
}

static void split(int64_t index, const int64_t *sizes, int64_t *out) {
  for (int d = SPACE - 1; d >= 0; --d) {
    out[d] = index % sizes[d];
    index /= sizes[d];
  }
}

// The large position of a small one and a tap; -1 in the padding.
static int64_t large_of(const conv *s, const int64_t *small,
                        const int64_t *tap) {
  int64_t at = 0;
  for (int d = 0; d < SPACE; ++d) {
    const int64_t x =
        small[d] * s->stride[d] - s->padding[d] + tap[d] * s->dilation[d];
    if (x < 0 || x >= s->large[d]) return -1;
    at = at * s->large[d] + x;
  }
  return at;
}

// All channel pairs of one spatial pair. The weight is [small channels, large
// channels of a group, taps], groups counted in the small ones.
static void channels_walk(const conv *s, int64_t image, int64_t small,
                          int64_t large, int64_t tap, pair_fn fn) {
  const int64_t small_size = product(s->small);
  const int64_t large_size = product(s->large), taps = product(s->taps);
  for (int64_t g = 0; g < s->groups; ++g)
    for (int64_t a = 0; a < s->small_channels; ++a)
      for (int64_t b = 0; b < s->large_channels; ++b) {
        const int64_t from = g * s->small_channels + a;
        const int64_t to = g * s->large_channels + b;
        fn(s,
           (image * s->groups * s->small_channels + from) * small_size + small,
           (image * s->groups * s->large_channels + to) * large_size + large,
           (from * s->large_channels + b) * taps + tap);
      }
}

static void walk(const conv *s, pair_fn fn) {
  int64_t small[SPACE], tap[SPACE];
  for (int64_t n = 0; n < s->batch; ++n)
    for (int64_t i = 0; i < product(s->small); ++i)
      for (int64_t t = 0; t < product(s->taps); ++t) {
        split(i, s->small, small);
        split(t, s->taps, tap);
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
  walk(s, s->transposed ? pair_transposed : pair_forward);
  if (s->io.in[2] != NULL) {
    og_get_all(s->io.in[2], s->bias);
    const int64_t size = s->y_count / (s->batch * s->bias_count);
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
  walk(s, s->transposed ? pair_transposed_backward : pair_backward);
  const int64_t size = s->y_count / (s->batch * s->bias_count);
  for (int64_t i = 0; i < s->y_count; ++i)
    s->bias[i / size % s->bias_count] += s->y[i];
  if (s->io.out[0] != NULL) og_put_all(s->io.out[0], s->grad_x);
  if (s->io.out[1] != NULL) og_put_all(s->io.out[1], s->grad_w);
  if (s->io.out[2] != NULL) og_put_all(s->io.out[2], s->bias);
  return OG_OK;
}

// --- Preparing ---------------------------------------------------------------

// A list of one number for every spatial dim, or of one for all.
static og_status spatial_read(og_prep *prep, int32_t index, int32_t rank,
                              int64_t otherwise, int64_t *out) {
  int64_t list[OPGRAFT_RANK_MAX];
  int32_t count;
  OG_TRY(og_prep_ints(prep, index, list, OPGRAFT_RANK_MAX, &count));
  if (count != 0 && count != 1 && count != rank)
    return og_prep_wrong(prep,
                         "a list has not one number for each spatial "
                         "dim");
  for (int d = 0; d < SPACE; ++d) {
    const int own = d - (SPACE - rank);
    out[d] = own < 0 || count == 0 ? otherwise : list[count == 1 ? 0 : own];
  }
  return OG_OK;
}

static void spatial_sizes(const og_tensor *tensor, int64_t *out) {
  const int32_t rank = tensor->ndim - 2;
  for (int d = 0; d < SPACE; ++d)
    out[d] = d < SPACE - rank ? 1 : tensor->shape[2 + d - (SPACE - rank)];
}

static og_status numbers_read(og_prep *prep, conv *s, int32_t rank) {
  int64_t transposed;
  OG_TRY(spatial_read(prep, 0, rank, 1, s->stride));
  OG_TRY(spatial_read(prep, 1, rank, 0, s->padding));
  OG_TRY(spatial_read(prep, 2, rank, 1, s->dilation));
  for (int d = 0; d < SPACE - rank; ++d) s->padding[d] = 0;
  OG_TRY(og_prep_int(prep, 3, 0, &transposed));
  OG_TRY(og_prep_int(prep, 5, 1, &s->groups));
  s->transposed = transposed != 0;
  bool fits = s->groups > 0;
  for (int d = 0; d < SPACE; ++d)
    fits = fits && s->stride[d] > 0 && s->padding[d] >= 0 &&
           s->dilation[d] > 0 && s->stride[d] < INT32_MAX &&
           s->padding[d] < INT32_MAX && s->dilation[d] < INT32_MAX;
  return fits ? OG_OK
              : og_prep_wrong(prep,
                              "a stride, padding, dilation or "
                              "the groups are out of range");
}

// x, w and y are the operand, the weight and the result, or its gradient.
static og_status shapes_read(og_prep *prep, conv *s, const og_tensor *x,
                             const og_tensor *w, const og_tensor *y) {
  if (!x || !w || !y || x->ndim < 3 || x->ndim > SPACE + 2 ||
      w->ndim != x->ndim || y->ndim != x->ndim)
    return og_prep_wrong(prep, "it takes one to three spatial dims");
  OG_TRY(og_need_float(prep, x));
  OG_TRY(og_need_float(prep, w));
  OG_TRY(og_need_float(prep, y));
  OG_TRY(numbers_read(prep, s, x->ndim - 2));
  const og_tensor *small = s->transposed ? x : y;
  const og_tensor *large = s->transposed ? y : x;
  spatial_sizes(small, s->small);
  spatial_sizes(large, s->large);
  spatial_sizes(w, s->taps);
  s->batch = x->shape[0];
  s->small_channels = w->shape[0] / s->groups;
  s->large_channels = w->shape[1];
  const bool fits = y->shape[0] == s->batch &&
                    small->shape[1] == s->small_channels * s->groups &&
                    w->shape[0] == small->shape[1] &&
                    large->shape[1] == s->large_channels * s->groups;
  if (!fits) return og_prep_wrong(prep, "the shapes do not fit");
  s->x_count = og_numel(x);
  s->w_count = og_numel(w);
  s->y_count = og_numel(y);
  s->bias_count = y->shape[1];
  const int64_t spatial =
      s->small_channels > 0 ? og_numel(small) / small->shape[1] : 0;
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

static og_status vector_check(og_prep *prep, const og_tensor *tensor,
                              int64_t count) {
  if (tensor == NULL ||
      (og_is_float(tensor) && tensor->ndim == 1 && tensor->shape[0] == count))
    return OG_OK;
  return og_prep_wrong(prep, "its bias has not one element for each channel");
}

og_status og_prepare_convolution(og_prep *prep) {
  conv *s = og_state_begin(prep, sizeof *s, run_convolution);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(shapes_read(prep, s, prep->in[0], prep->in[1], prep->out[0]));
  if (s->y_count == 0) prep->step.run = NULL;
  return vector_check(prep, prep->in[2], s->bias_count);
}

og_status og_prepare_convolution_backward(og_prep *prep) {
  conv *s = og_state_begin(prep, sizeof *s, run_convolution_backward);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(shapes_read(prep, s, prep->in[1], prep->in[2], prep->in[0]));
  for (int32_t r = 0; r < 2; ++r)
    if (prep->out[r] != NULL &&
        (!og_same_shape(prep->out[r], prep->in[r + 1]) ||
         !og_is_float(prep->out[r])))
      return og_prep_wrong(prep, "a gradient's shape differs from its input's");
  if (s->bias_count == 0 || s->batch == 0)
    return og_prep_wrong(prep, "it has no gradient of an empty tensor");
  return vector_check(prep, prep->out[2], s->bias_count);
}
