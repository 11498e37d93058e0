// SPDX-License-Identifier: Apache-2.0
// The sizes of a convolution.

#include "exec/step/convolution.h"

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
  for (int d = 0; d < OG_CONV_SPACE; ++d) {
    const int own = d - (OG_CONV_SPACE - rank);
    out[d] = own < 0 || count == 0 ? otherwise : list[count == 1 ? 0 : own];
  }
  return OG_OK;
}

static void spatial_sizes(const og_tensor *tensor, int64_t *out) {
  const int32_t rank = tensor->ndim - 2;
  for (int d = 0; d < OG_CONV_SPACE; ++d)
    out[d] = d < OG_CONV_SPACE - rank
                 ? 1
                 : tensor->shape[2 + d - (OG_CONV_SPACE - rank)];
}

static og_status numbers_read(og_prep *prep, og_convolution *s, int32_t rank) {
  int64_t transposed;
  OG_TRY(spatial_read(prep, 0, rank, 1, s->stride));
  OG_TRY(spatial_read(prep, 1, rank, 0, s->padding));
  OG_TRY(spatial_read(prep, 2, rank, 1, s->dilation));
  for (int d = 0; d < OG_CONV_SPACE - rank; ++d) s->padding[d] = 0;
  OG_TRY(og_prep_int(prep, 3, 0, &transposed));
  OG_TRY(og_prep_int(prep, 5, 1, &s->groups));
  s->transposed = transposed != 0;
  bool fits = s->groups > 0;
  for (int d = 0; d < OG_CONV_SPACE; ++d)
    fits = fits && s->stride[d] > 0 && s->padding[d] >= 0 &&
           s->dilation[d] > 0 && s->stride[d] < INT32_MAX &&
           s->padding[d] < INT32_MAX && s->dilation[d] < INT32_MAX;
  return fits ? OG_OK
              : og_prep_wrong(prep,
                              "a stride, padding, dilation or "
                              "the groups are out of range");
}

og_status og_convolution_read(og_prep *prep, const og_tensor *x,
                              const og_tensor *w, const og_tensor *y,
                              og_convolution *s) {
  if (!x || !w || !y || x->ndim < 3 || x->ndim > OG_CONV_SPACE + 2 ||
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
  if (!fits) return og_prep_misfit(prep);
  return OG_OK;
}

og_status og_convolution_bias(og_prep *prep, const og_tensor *tensor,
                              int64_t count) {
  if (tensor == NULL ||
      (og_is_float(tensor) && tensor->ndim == 1 && tensor->shape[0] == count))
    return OG_OK;
  return og_prep_wrong(prep, "its bias has not one element for each channel");
}

// Whether dims from `first` on are one run.
static bool is_run_from(const og_tensor *t, int32_t first) {
  int64_t expected = 1;
  for (int32_t d = t->ndim - 1; d >= first; --d) {
    if (t->shape[d] > 1 && t->strides[d] != expected) return false;
    expected *= t->shape[d];
  }
  return true;
}

// Whether each image is a matrix of pixels, with channels side by side.
static bool is_pixels(const og_tensor *t) {
  int64_t expected = t->strides[t->ndim - 1];
  for (int32_t d = t->ndim - 1; d >= 2; --d) {
    if (t->shape[d] > 1 && t->strides[d] != expected) return false;
    expected *= t->shape[d];
  }
  return t->shape[1] == 1 || t->strides[1] == 1;
}

og_conv_layout og_convolution_layout(const og_tensor *t) {
  return is_run_from(t, 2) ? OG_CONV_PLANES
         : is_pixels(t)    ? OG_CONV_PIXELS
                           : OG_CONV_OTHER;
}

bool og_convolution_is_f32(const og_prep *prep, const og_convolution *c) {
  const og_tensor *x = prep->in[0], *w = prep->in[1], *y = prep->out[0];
  return !c->transposed && og_dtype_is_f32(x->dtype) &&
         og_dtype_is_f32(w->dtype) && og_dtype_is_f32(y->dtype) &&
         (prep->in[2] == NULL || og_dtype_is_f32(prep->in[2]->dtype)) &&
         og_numel(y) > 0 && og_numel(w) > 0 && is_run_from(w, 0);
}

bool og_convolution_is_planes(const og_prep *prep, const og_convolution *c) {
  return og_convolution_is_f32(prep, c) && c->taps[0] == 1 &&
         c->small[0] == 1 && c->large[0] == 1 &&
         og_convolution_layout(prep->in[0]) == OG_CONV_PLANES &&
         og_convolution_layout(prep->out[0]) == OG_CONV_PLANES;
}
