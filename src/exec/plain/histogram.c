// SPDX-License-Identifier: Apache-2.0
// Reference histogram: how many numbers fall into each of equal parts of
// [least, most], its upper end included. NaN falls into none. Equal bounds
// stand for the least and the greatest number; where these are equal too, for
// one less and one more.

#include <math.h>

#include "exec/step/operands.h"

typedef struct histogram {
  og_operands io;
  double least, most;
  int64_t count;
  double *numbers, *bins;
} histogram;

// The position is rounded as ATen rounds it: in the operand's own type.
static int64_t position_f32(float x, float least, float most, int64_t bins) {
  return og_double_to_int((x - least) * (float)bins / (most - least));
}

static int64_t position_f64(double x, double least, double most, int64_t bins) {
  return og_double_to_int((x - least) * (double)bins / (most - least));
}

// The bounds of this call. A NaN among the numbers is both of them.
static og_status bounds_find(const histogram *h, const og_run *run,
                             double *out_least, double *out_most) {
  double least = h->least, most = h->most;
  if (least == most && h->count > 0) {
    least = most = h->numbers[0];
    for (int64_t i = 1; i < h->count; ++i) {
      const double x = h->numbers[i];
      if (x < least || x != x) least = x;
      if (x > most || x != x) most = x;
    }
  }
  if (least == most) --least, ++most;
  // A number is compared with them in its own type.
  const bool is_f32 = og_dtype_class(h->io.in[0]->dtype) == OG_CLASS_F32;
  *out_least = is_f32 ? (double)(float)least : least;
  *out_most = is_f32 ? (double)(float)most : most;
  if (isfinite(least) && isfinite(most)) return OG_OK;
  return og_run_fail(run, OG_INVALID,
                     "the bounds are %g and %g, expected finite ones", least,
                     most);
}

static og_status run_histogram(void *state, const og_run *run) {
  const histogram *h = state;
  const bool is_f32 = og_dtype_class(h->io.in[0]->dtype) == OG_CLASS_F32;
  const int64_t bins = h->io.out[0]->shape[0];
  double least, most;
  og_get_all(h->io.in[0], h->numbers);
  OG_TRY(bounds_find(h, run, &least, &most));
  for (int64_t b = 0; b < bins; ++b) h->bins[b] = 0;
  for (int64_t i = 0; i < h->count; ++i) {
    const double x = h->numbers[i];
    if (!(x >= least && x <= most)) continue;
    const int64_t at =
        is_f32 ? position_f32((float)x, (float)least, (float)most, bins)
               : position_f64(x, least, most, bins);
    // Bounds too far apart for the type give no position.
    h->bins[at < 0 ? 0 : at < bins ? at : bins - 1] += 1;
  }
  og_put_all(h->io.out[0], h->bins);
  return OG_OK;
}

og_status og_prepare_histogram(og_prep *prep) {
  histogram *h = og_state_begin(prep, sizeof *h, run_histogram);
  if (h == NULL) return OG_MEMORY;
  OG_TRY(og_need_float(prep, prep->in[0]));
  OG_TRY(og_need_float(prep, prep->out[0]));
  OG_TRY(og_prep_float(prep, 0, 0, &h->least));
  OG_TRY(og_prep_float(prep, 1, 0, &h->most));
  if (!(h->least <= h->most) || prep->out[0]->ndim != 1 ||
      prep->out[0]->shape[0] < 1)
    return og_prep_wrong(prep, "it needs bins, and bounds that do not fall");
  h->count = og_numel(prep->in[0]);
  h->numbers = og_prep_doubles(prep, h->count + prep->out[0]->shape[0]);
  if (h->numbers == NULL) return og_prep_memory(prep);
  h->bins = h->numbers + h->count;
  return OG_OK;
}
