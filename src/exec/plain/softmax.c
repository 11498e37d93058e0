// SPDX-License-Identifier: Apache-2.0
// Reference kernels along one dim: softmax and its relatives, scans.

#include <math.h>

#include "base/grain.h"
#include "exec/step/operands.h"

typedef struct along along;
// One line: x and the second operand in, y out; they may be one buffer.
typedef void (*line_fn)(const double *a, const double *b, int64_t n, double *y);

struct along {
  og_operands io;
  og_lines lines;  // operands, then the result
  line_fn line;
  double *scratch;  // for each worker three lines
  int64_t length;
};

static void softmax_line(const double *x, const double *unused, int64_t n,
                         double *y) {
  double top = -INFINITY, sum = 0;
  (void)unused;
  for (int64_t i = 0; i < n; ++i) top = x[i] > top || x[i] != x[i] ? x[i] : top;
  for (int64_t i = 0; i < n; ++i) sum += y[i] = exp(x[i] - top);
  for (int64_t i = 0; i < n; ++i) y[i] /= sum;
}

static void log_softmax_line(const double *x, const double *unused, int64_t n,
                             double *y) {
  double top = -INFINITY, sum = 0;
  (void)unused;
  for (int64_t i = 0; i < n; ++i) top = x[i] > top || x[i] != x[i] ? x[i] : top;
  for (int64_t i = 0; i < n; ++i) sum += exp(x[i] - top);
  const double shift = log(sum);  // which is lost beside a large number
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] - top - shift;
}

static void softmax_backward_line(const double *grad, const double *s,
                                  int64_t n, double *y) {
  double dot = 0;
  for (int64_t i = 0; i < n; ++i) dot += grad[i] * s[i];
  for (int64_t i = 0; i < n; ++i) y[i] = (grad[i] - dot) * s[i];
}

static void log_softmax_backward_line(const double *grad, const double *s,
                                      int64_t n, double *y) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += grad[i];
  for (int64_t i = 0; i < n; ++i) y[i] = grad[i] - exp(s[i]) * sum;
}

static void cumsum_line(const double *x, const double *unused, int64_t n,
                        double *y) {
  double sum = 0;
  (void)unused;
  for (int64_t i = 0; i < n; ++i) y[i] = sum += x[i];
}

static void cumprod_line(const double *x, const double *unused, int64_t n,
                         double *y) {
  double product = 1;
  (void)unused;
  for (int64_t i = 0; i < n; ++i) y[i] = product *= x[i];
}

static void share_lines(void *state, int64_t begin, int64_t end,
                        int32_t worker) {
  const along *s = state;
  double *a = s->scratch + 3 * s->length * worker;
  double *b = a + s->length, *y = b + s->length;
  const int32_t out = s->io.in_count;
  for (int64_t i = begin; i < end; ++i) {
    int64_t offset[OG_NEST_OPERANDS];
    og_nest_point(&s->lines.nest, i, offset);
    for (int32_t k = 0; k < out; ++k)
      og_get_doubles(s->io.in[k], og_bytes(s->io.in[k]) + offset[k],
                     s->lines.stride_bytes[k], s->length, k == 0 ? a : b);
    s->line(a, b, s->length, y);
    og_put_doubles(s->io.out[0], og_bytes(s->io.out[0]) + offset[out],
                   s->lines.stride_bytes[out], s->length, y);
  }
}

static og_status run_lines(void *state, const og_run *run) {
  const along *s = state;
  return og_run_parallel(run, s->lines.count,
                         og_grain(OG_GRAIN_HEAVY, s->length), share_lines,
                         state);
}

static og_status along_prepare(og_prep *prep, line_fn line) {
  const og_tensor *tensors[3];
  int32_t dim;
  const int32_t count = prep->node->in_count;
  along *s = og_state_begin(prep, sizeof *s, run_lines);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_prep_dim(prep, 0, prep->out[0]->ndim, &dim));
  for (int32_t k = 0; k < count; ++k) {
    tensors[k] = prep->in[k];
    if (tensors[k] == NULL || !og_same_shape(tensors[k], prep->out[0]) ||
        og_dtype_class(tensors[k]->dtype) == OG_CLASS_NONE)
      return og_prep_wrong(prep, "the shapes or types do not fit");
  }
  tensors[count] = prep->out[0];
  OG_TRY(og_need_float(prep, prep->out[0]));
  if (!og_lines_init(&s->lines, dim, tensors, count + 1))
    return og_prep_misfit(prep);
  s->line = line;
  s->length = s->lines.length[0];
  s->scratch = og_prep_doubles(prep, 3 * s->length * prep->executable->threads);
  if (s->scratch == NULL) return og_prep_memory(prep);
  if (og_numel(prep->out[0]) == 0) prep->step.run = NULL;
  return OG_OK;
}

og_status og_prepare_softmax(og_prep *prep) {
  switch (prep->node->op) {
    case OG_IR_softmax:
      return along_prepare(prep, softmax_line);
    case OG_IR_log_softmax:
      return along_prepare(prep, log_softmax_line);
    case OG_IR_softmax_backward:
      return along_prepare(prep, softmax_backward_line);
    default:
      return along_prepare(prep, log_softmax_backward_line);
  }
}

// --- Scans of integers -------------------------------------------------------

typedef struct whole_scan {
  og_operands io;
  og_lines lines;
  bool is_product;
} whole_scan;

static og_status run_whole_scan(void *state, const og_run *run) {
  const whole_scan *s = state;
  const og_tensor *in = s->io.in[0], *out = s->io.out[0];
  (void)run;
  for (int64_t i = 0; i < s->lines.count; ++i) {
    int64_t offset[OG_NEST_OPERANDS];
    og_nest_point(&s->lines.nest, i, offset);
    const char *from = og_bytes(in) + offset[0];
    char *to = og_bytes(out) + offset[1];
    uint64_t total = s->is_product;
    for (int64_t j = 0; j < s->lines.length[0]; ++j) {
      const uint64_t x = (uint64_t)og_element_int(in->dtype, from);
      total = s->is_product ? total * x : total + x;
      og_element_set_int(out->dtype, to, (int64_t)total);
      from += s->lines.stride_bytes[0];
      to += s->lines.stride_bytes[1];
    }
  }
  return OG_OK;
}

og_status og_prepare_scan(og_prep *prep) {
  const bool is_product = prep->node->op == OG_IR_cumprod;
  const og_tensor *tensors[2] = {prep->in[0], prep->out[0]};
  int32_t dim;
  if (og_is_float(prep->out[0]))
    return along_prepare(prep, is_product ? cumprod_line : cumsum_line);
  whole_scan *s = og_state_begin(prep, sizeof *s, run_whole_scan);
  if (s == NULL) return OG_MEMORY;
  s->is_product = is_product;
  OG_TRY(og_prep_dim(prep, 0, prep->out[0]->ndim, &dim));
  OG_TRY(og_need_int(prep, prep->in[0]));
  OG_TRY(og_need_int(prep, prep->out[0]));
  if (!og_same_shape(prep->in[0], prep->out[0]) ||
      !og_lines_init(&s->lines, dim, tensors, 2))
    return og_prep_misfit(prep);
  return OG_OK;
}
