// SPDX-License-Identifier: Apache-2.0
// Reference normalisations and their gradients, in double.
//
// Group and batch norm see their operand as [N, C, rest]. Layer norm is a group
// norm of [rows, width, 1], width being the last `rank` dims: one group, a
// channel for each element of a row.

#include <math.h>
#include <string.h>

#include "base/grain.h"
#include "base/loops.h"
#include "exec/step/operands.h"

typedef struct norm {
  og_operands io;
  int64_t batch, channels, inner, groups;
  int64_t stats;  // how many means there are
  double eps;
  bool training;
  double *x, *grad, *y;   // whole tensors, dense
  double *weight, *bias;  // per channel
  double *mean, *rstd;    // per group or channel
  double *grad_weight, *grad_bias;
} norm;

// Optional vectors: a default where the operand is missing.
static void get_or(const og_tensor *tensor, double otherwise, int64_t n,
                   double *out) {
  if (tensor != NULL)
    og_get_all(tensor, out);
  else
    for (int64_t i = 0; i < n; ++i) out[i] = otherwise;
}

static void put_if(const og_tensor *tensor, const double *in) {
  if (tensor != NULL) og_put_all(tensor, in);
}

static void moments(const double *x, int64_t n, double *out_mean,
                    double *out_variance) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  *out_mean = sum / (double)n;
  for (int64_t i = 0; i < n; ++i)
    squares += (x[i] - *out_mean) * (x[i] - *out_mean);
  *out_variance = squares / (double)n;
}

// --- Groups: y = (x - mean) * rstd * weight + bias ---------------------------

// The first channel of group g, counted over the batch.
static int64_t channel_of(const norm *s, int64_t g) {
  return g % s->groups * (s->channels / s->groups);
}

static og_status run_group_norm(void *state, const og_run *run) {
  const norm *s = state;
  const int64_t channels = s->channels / s->groups, inner = s->inner;
  (void)run;
  og_get_all(s->io.in[0], s->x);
  get_or(s->io.in[1], 1, s->channels, s->weight);
  get_or(s->io.in[2], 0, s->channels, s->bias);
  for (int64_t g = 0; g < s->batch * s->groups; ++g) {
    const double *x = s->x + g * channels * inner;
    double variance, *y = s->y + g * channels * inner;
    moments(x, channels * inner, &s->mean[g], &variance);
    s->rstd[g] = 1 / sqrt(variance + s->eps);
    for (int64_t k = 0, c = channel_of(s, g); k < channels; ++k, ++c)
      for (int64_t i = k * inner; i < (k + 1) * inner; ++i)
        y[i] = (x[i] - s->mean[g]) * s->rstd[g] * s->weight[c] + s->bias[c];
  }
  put_if(s->io.out[0], s->y);
  put_if(s->io.out[1], s->mean);
  put_if(s->io.out[2], s->rstd);
  return OG_OK;
}

// The gradient of one normalised run of n, where g is grad * weight.
static void run_backward(const double *g, const double *x, int64_t n,
                         double mean, double rstd, double *out) {
  double sum = 0, dot = 0;
  for (int64_t i = 0; i < n; ++i) {
    sum += g[i];
    dot += g[i] * (x[i] - mean) * rstd;
  }
  for (int64_t i = 0; i < n; ++i)
    out[i] = rstd *
             (g[i] - sum / (double)n - (x[i] - mean) * rstd * dot / (double)n);
}

static og_status run_group_norm_backward(void *state, const og_run *run) {
  const norm *s = state;
  const int64_t channels = s->channels / s->groups, inner = s->inner;
  (void)run;
  og_get_all(s->io.in[0], s->grad);
  og_get_all(s->io.in[1], s->x);
  og_get_all(s->io.in[2], s->mean);
  og_get_all(s->io.in[3], s->rstd);
  get_or(s->io.in[4], 1, s->channels, s->weight);
  memset(s->grad_weight, 0, 2 * (size_t)s->channels * sizeof(double));
  for (int64_t g = 0; g < s->batch * s->groups; ++g) {
    const int64_t begin = g * channels * inner;
    const double *x = s->x + begin;
    double *grad = s->grad + begin;
    for (int64_t k = 0, c = channel_of(s, g); k < channels; ++k, ++c)
      for (int64_t i = k * inner; i < (k + 1) * inner; ++i) {
        s->grad_weight[c] += grad[i] * (x[i] - s->mean[g]) * s->rstd[g];
        s->grad_bias[c] += grad[i];
        grad[i] *= s->weight[c];
      }
    run_backward(grad, x, channels * inner, s->mean[g], s->rstd[g],
                 s->y + begin);
  }
  put_if(s->io.out[0], s->y);
  put_if(s->io.out[1], s->grad_weight);
  put_if(s->io.out[2], s->grad_bias);
  return OG_OK;
}

// --- Batches -----------------------------------------------------------------

// Element i of channel c, counted over the batch and what follows.
static int64_t channel_at(const norm *s, int64_t c, int64_t i) {
  return (i / s->inner * s->channels + c) * s->inner + i % s->inner;
}

// y from x, weight, bias, mean and variance.
static og_status run_batch_norm(void *state, const og_run *run) {
  const norm *s = state;
  (void)run;
  og_get_all(s->io.in[0], s->x);
  get_or(s->io.in[1], 1, s->channels, s->weight);
  get_or(s->io.in[2], 0, s->channels, s->bias);
  og_get_all(s->io.in[3], s->mean);
  og_get_all(s->io.in[4], s->rstd);
  for (int64_t c = 0; c < s->channels; ++c) {
    const double scale = s->weight[c] / sqrt(s->rstd[c] + s->eps);
    for (int64_t i = 0; i < s->batch * s->inner; ++i) {
      const int64_t at = channel_at(s, c, i);
      s->y[at] = (s->x[at] - s->mean[c]) * scale + s->bias[c];
    }
  }
  put_if(s->io.out[0], s->y);
  return OG_OK;
}

// The mean, the variance and 1 / sqrt(variance + eps) of each channel.
static og_status run_batch_norm_stats(void *state, const og_run *run) {
  const norm *s = state;
  const int64_t n = s->batch * s->inner;
  (void)run;
  og_get_all(s->io.in[0], s->x);
  for (int64_t c = 0; c < s->channels; ++c) {
    for (int64_t i = 0; i < n; ++i) s->y[i] = s->x[channel_at(s, c, i)];
    moments(s->y, n, &s->mean[c], &s->grad_weight[c]);
    s->rstd[c] = 1 / sqrt(s->grad_weight[c] + s->eps);
  }
  put_if(s->io.out[0], s->mean);
  put_if(s->io.out[1], s->grad_weight);
  put_if(s->io.out[2], s->rstd);
  return OG_OK;
}

static og_status run_batch_norm_backward(void *state, const og_run *run) {
  const norm *s = state;
  const int64_t n = s->batch * s->inner;
  (void)run;
  og_get_all(s->io.in[0], s->grad);
  og_get_all(s->io.in[1], s->x);
  get_or(s->io.in[2], 1, s->channels, s->weight);
  og_get_all(s->io.in[3], s->mean);
  og_get_all(s->io.in[4], s->rstd);
  for (int64_t c = 0; c < s->channels; ++c) {
    double sum = 0, dot = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = channel_at(s, c, i);
      sum += s->grad[at];
      dot += s->grad[at] * (s->x[at] - s->mean[c]) * s->rstd[c];
    }
    s->grad_weight[c] = dot;
    s->grad_bias[c] = sum;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = channel_at(s, c, i);
      double g = s->grad[at];
      if (s->training)
        g -= sum / (double)n +
             (s->x[at] - s->mean[c]) * s->rstd[c] * dot / (double)n;
      s->y[at] = g * s->rstd[c] * s->weight[c];
    }
  }
  put_if(s->io.out[0], s->y);
  put_if(s->io.out[1], s->grad_weight);
  put_if(s->io.out[2], s->grad_bias);
  return OG_OK;
}

// Planes of floats as they lie: convolutional models spend their time here.

// In double, and rounded once: a shift that is rounded, or x - mean, is off by
// the same amount for a whole channel, and sums over it would show that.
OG_LOOP_BODY void plane_scale_body(int64_t n, const float *x, float *y,
                                   double scale, double shift) {
  for (int64_t i = 0; i < n; ++i) y[i] = (float)((double)x[i] * scale + shift);
}
OG_LOOP(plane_scale,
        (int64_t n, const float *x, float *y, double scale, double shift),
        (n, x, y, scale, shift))

static void share_planes(void *state, int64_t begin, int64_t end,
                         int32_t worker) {
  const norm *s = state;
  (void)worker;
  for (int64_t p = begin; p < end; ++p) {
    const int64_t c = p % s->channels;
    const double scale = s->weight[c] / sqrt(s->rstd[c] + s->eps);
    plane_scale(s->inner,
                (const float *)(void *)og_bytes(s->io.in[0]) + p * s->inner,
                (float *)(void *)og_bytes(s->io.out[0]) + p * s->inner, scale,
                s->bias[c] - s->mean[c] * scale);
  }
}

static og_status run_planes(void *state, const og_run *run) {
  const norm *s = state;
  get_or(s->io.in[1], 1, s->channels, s->weight);
  get_or(s->io.in[2], 0, s->channels, s->bias);
  og_get_all(s->io.in[3], s->mean);
  og_get_all(s->io.in[4], s->rstd);
  return og_run_parallel(run, s->batch * s->channels,
                         og_grain(OG_GRAIN_LIGHT, s->inner), share_planes,
                         state);
}

// Sums are in double: those of floats, however short, round more than the mean
// itself. Four vectors at a time, so that the totals are not waited for.
enum { LANES = 8, STEP = 4 * LANES };

static void lanes_add(const double *a, const double *b, double *sum,
                      double *other) {
  for (int k = 0; k < LANES; ++k) {
    *sum += a[k];
    *other += b[k];
  }
}

// The sums of x - shift and of its square.
OG_LOOP_BODY void plane_sums_body(int64_t n, const float *x, double shift,
                                  double *sum, double *squares) {
  double a[LANES] = {0}, b[LANES] = {0};
  int64_t i = 0;
  for (; i + STEP <= n; i += STEP)
    for (int k = 0; k < LANES; ++k) {
      const float *at = x + i + k;
      const double d = (double)at[0] - shift, e = (double)at[LANES] - shift;
      const double f = (double)at[2 * LANES] - shift;
      const double g = (double)at[3 * LANES] - shift;
      a[k] += (d + e) + (f + g);
      b[k] += (d * d + e * e) + (f * f + g * g);
    }
  for (; i < n; ++i) {
    const double d = (double)x[i] - shift;
    a[0] += d;
    b[0] += d * d;
  }
  lanes_add(a, b, sum, squares);
}
OG_LOOP(plane_sums,
        (int64_t n, const float *x, double shift, double *sum, double *squares),
        (n, x, shift, sum, squares))

// Deviations are taken from the first element, so that a large mean does not
// eat the variance; from 0 where it is no number to take away.
static void share_stats(void *state, int64_t begin, int64_t end,
                        int32_t worker) {
  const norm *s = state;
  const double n = (double)(s->batch * s->inner);
  const float *x = (const float *)(void *)og_bytes(s->io.in[0]);
  (void)worker;
  for (int64_t c = begin; c < end; ++c) {
    const float first = x[c * s->inner];
    const double shift = isfinite(first) ? (double)first : 0;
    double sum = 0, squares = 0;
    for (int64_t b = 0; b < s->batch; ++b)
      plane_sums(s->inner, x + (b * s->channels + c) * s->inner, shift, &sum,
                 &squares);
    const double variance = (squares - sum * sum / n) / n;
    s->mean[c] = shift + sum / n;
    s->grad_weight[c] = variance < 0 ? 0 : variance;
    s->rstd[c] = 1 / sqrt(s->grad_weight[c] + s->eps);
  }
}

static og_status run_plane_stats(void *state, const og_run *run) {
  const norm *s = state;
  OG_TRY(og_run_parallel(run, s->channels,
                         og_grain(OG_GRAIN_LIGHT, s->batch * s->inner),
                         share_stats, state));
  put_if(s->io.out[0], s->mean);
  put_if(s->io.out[1], s->grad_weight);
  put_if(s->io.out[2], s->rstd);
  return OG_OK;
}

// The sums of g and of g * (x - mean).
OG_LOOP_BODY void plane_dots_body(int64_t n, const float *g, const float *x,
                                  double mean, double *sum, double *dot) {
  double a[LANES] = {0}, b[LANES] = {0};
  int64_t i = 0;
  for (; i + STEP <= n; i += STEP)
    for (int k = 0; k < LANES; ++k) {
      const float *at = x + i + k, *to = g + i + k;
      const double p = (double)to[0], q = (double)to[LANES];
      const double r = (double)to[2 * LANES], t = (double)to[3 * LANES];
      a[k] += (p + q) + (r + t);
      b[k] += (p * ((double)at[0] - mean) + q * ((double)at[LANES] - mean)) +
              (r * ((double)at[2 * LANES] - mean) +
               t * ((double)at[3 * LANES] - mean));
    }
  for (; i < n; ++i) {
    a[0] += (double)g[i];
    b[0] += (double)g[i] * ((double)x[i] - mean);
  }
  lanes_add(a, b, sum, dot);
}
OG_LOOP(plane_dots,
        (int64_t n, const float *g, const float *x, double mean, double *sum,
         double *dot),
        (n, g, x, mean, sum, dot))

OG_LOOP_BODY void plane_combine_body(int64_t n, const float *g, const float *x,
                                     float *y, double scale, double slope,
                                     double shift) {
  for (int64_t i = 0; i < n; ++i)
    y[i] = (float)((double)g[i] * scale + (double)x[i] * slope + shift);
}
OG_LOOP(plane_combine,
        (int64_t n, const float *g, const float *x, float *y, double scale,
         double slope, double shift),
        (n, g, x, y, scale, slope, shift))

static void share_backward(void *state, int64_t begin, int64_t end,
                           int32_t worker) {
  const norm *s = state;
  const double n = (double)(s->batch * s->inner);
  const float *g = (const float *)(void *)og_bytes(s->io.in[0]);
  const float *x = (const float *)(void *)og_bytes(s->io.in[1]);
  const og_tensor *out = s->io.out[0];
  (void)worker;
  for (int64_t c = begin; c < end; ++c) {
    double sum = 0, dot = 0;
    for (int64_t b = 0; b < s->batch; ++b) {
      const int64_t at = (b * s->channels + c) * s->inner;
      plane_dots(s->inner, g + at, x + at, s->mean[c], &sum, &dot);
    }
    s->grad_bias[c] = sum;
    s->grad_weight[c] = dot * s->rstd[c];
    const double scale = s->rstd[c] * s->weight[c];
    const double slope =
        s->training ? -scale * s->rstd[c] * s->grad_weight[c] / n : 0;
    const double shift =
        s->training ? -slope * s->mean[c] - scale * sum / n : 0;
    for (int64_t b = 0; out != NULL && b < s->batch; ++b) {
      const int64_t at = (b * s->channels + c) * s->inner;
      plane_combine(s->inner, g + at, x + at,
                    (float *)(void *)og_bytes(out) + at, scale, slope, shift);
    }
  }
}

static og_status run_plane_backward(void *state, const og_run *run) {
  const norm *s = state;
  get_or(s->io.in[2], 1, s->channels, s->weight);
  og_get_all(s->io.in[3], s->mean);
  og_get_all(s->io.in[4], s->rstd);
  OG_TRY(og_run_parallel(run, s->channels,
                         og_grain(OG_GRAIN_MEDIUM, s->batch * s->inner),
                         share_backward, state));
  put_if(s->io.out[1], s->grad_weight);
  put_if(s->io.out[2], s->grad_bias);
  return OG_OK;
}

// --- Preparing ---------------------------------------------------------------

// Operands by letter, which says how many elements one has: x of the tensor, c
// one for each channel, s one for each mean. One in capitals is needed.
typedef struct form {
  og_status (*read)(og_prep *prep, norm *s, const og_tensor *x);
  og_step_fn run;
  og_step_fn run_planes;  // of dense planes of floats; NULL: it has none
  const char *in, *out;
  int32_t eps;  // which attribute it is, or NONE
} form;
enum { NONE = -1 };

static og_status rows_read(og_prep *prep, norm *s, const og_tensor *x) {
  int64_t rank;
  OG_TRY(og_prep_int(prep, 0, 1, &rank));
  if (x == NULL || rank < 1 || rank > x->ndim)
    return og_prep_wrong(prep,
                         "it normalises at least one and at most all "
                         "dims");
  s->inner = s->batch = s->channels = s->groups = 1;
  for (int32_t d = 0; d < x->ndim; ++d)
    *(d < x->ndim - rank ? &s->batch : &s->channels) *= x->shape[d];
  s->stats = s->batch;
  return OG_OK;
}

static og_status channels_read(og_prep *prep, norm *s, const og_tensor *x) {
  if (x == NULL || x->ndim < 2)
    return og_prep_wrong(prep, "it takes a tensor of at least two dims");
  s->batch = x->shape[0];
  s->stats = s->channels = x->shape[1];
  s->groups = s->inner = 1;
  for (int32_t d = 2; d < x->ndim; ++d) s->inner *= x->shape[d];
  if (og_numel(x) == 0) prep->step.run = NULL;
  return OG_OK;
}

static og_status groups_read(og_prep *prep, norm *s, const og_tensor *x) {
  int64_t groups;
  OG_TRY(og_prep_int(prep, 0, 1, &groups));
  OG_TRY(channels_read(prep, s, x));
  if (groups < 1 || s->channels % groups != 0)
    return og_prep_wrong(prep, "the channels do not divide into the groups");
  s->groups = groups;
  s->stats = s->batch * groups;
  return OG_OK;
}

static og_status norm_alloc(og_prep *prep, norm *s, int64_t total) {
  double *at =
      og_prep_doubles(prep, 3 * total + 4 * s->channels + 2 * s->stats);
  if (at == NULL) return og_prep_memory(prep);
  s->x = at;
  s->grad = s->x + total;
  s->y = s->grad + total;
  s->weight = s->y + total;
  s->bias = s->weight + s->channels;
  s->grad_weight = s->bias + s->channels;
  s->grad_bias = s->grad_weight + s->channels;
  s->mean = s->grad_bias + s->channels;
  s->rstd = s->mean + s->stats;
  return OG_OK;
}

static bool is_plane(const og_tensor *x) {
  return x != NULL && og_is_dense_f32(x) && og_numel(x) > 0;
}

static bool are_planes(og_tensor *const *tensors, const char *letters) {
  for (int i = 0; letters[i] != '\0'; ++i)
    if (letters[i] == 'X'
            ? !is_plane(tensors[i])
            : letters[i] == 'x' && tensors[i] != NULL && !is_plane(tensors[i]))
      return false;
  return true;
}

// Every tensor that is there has a float type and as many elements as said.
static og_status counts_check(og_prep *prep, const norm *s,
                              og_tensor *const *tensors, const char *letters) {
  for (int i = 0; letters[i] != '\0'; ++i) {
    const int64_t count = strchr("xX", letters[i]) != NULL
                              ? s->batch * s->channels * s->inner
                          : strchr("sS", letters[i]) != NULL ? s->stats
                                                             : s->channels;
    if (tensors[i] != NULL &&
        (!og_is_float(tensors[i]) || og_numel(tensors[i]) != count))
      return og_prep_wrong(prep, "the shapes or types do not fit");
  }
  return OG_OK;
}

static og_status norm_begin(og_prep *prep, const form *f, norm **out) {
  const bool on_planes = f->run_planes != NULL && are_planes(prep->in, f->in) &&
                         are_planes(prep->out, f->out);
  const og_tensor *x = prep->in[f->in[1] == 'X'];  // behind a gradient
  norm *s = *out =
      og_state_begin(prep, sizeof *s, on_planes ? f->run_planes : f->run);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(f->read(prep, s, x));
  OG_TRY(norm_alloc(prep, s, on_planes ? 0 : og_numel(x)));
  for (int i = 0; f->in[i] != '\0'; ++i)
    if (strchr("XCS", f->in[i]) != NULL && prep->in[i] == NULL)
      return og_prep_wrong(prep, "an operand that it needs is missing");
  OG_TRY(counts_check(prep, s, prep->in, f->in));
  OG_TRY(counts_check(prep, s, prep->out, f->out));
  return f->eps >= 0 ? og_prep_float(prep, f->eps, 1e-5, &s->eps) : OG_OK;
}

#define PREPARE(name, ...)                     \
  og_status og_prepare_##name(og_prep *prep) { \
    static const form of = {__VA_ARGS__};      \
    norm *s;                                   \
    return norm_begin(prep, &of, &s);          \
  }
PREPARE(layer_norm, rows_read, run_group_norm, NULL, "Xcc", "xss", 1)
PREPARE(layer_norm_backward, rows_read, run_group_norm_backward, NULL, "XXSSc",
        "xcc", NONE)
PREPARE(group_norm, groups_read, run_group_norm, NULL, "Xcc", "xss", 1)
PREPARE(group_norm_backward, groups_read, run_group_norm_backward, NULL,
        "XXSSc", "xcc", NONE)
PREPARE(batch_norm, channels_read, run_batch_norm, run_planes, "XccCC", "X", 0)
PREPARE(batch_norm_stats, channels_read, run_batch_norm_stats, run_plane_stats,
        "X", "ccc", 0)

og_status og_prepare_batch_norm_backward(og_prep *prep) {
  static const form of = {channels_read,
                          run_batch_norm_backward,
                          run_plane_backward,
                          "XXcCC",
                          "xcc",
                          NONE};
  norm *s;
  int64_t training;
  OG_TRY(norm_begin(prep, &of, &s));
  OG_TRY(og_prep_int(prep, 0, 1, &training));
  s->training = training != 0;
  return OG_OK;
}
