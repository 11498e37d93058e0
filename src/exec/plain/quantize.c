// SPDX-License-Identifier: Apache-2.0
// Reference kernels of quantization: numbers rounded to a grid and back, with
// the mask of those that the grid holds; products of int8 matrices.

#include <math.h>
#include <string.h>

#include "exec/step/operands.h"
#include "graph/op.h"

// --- fake_quantize -----------------------------------------------------------

typedef struct fake_quantize {
  og_operands io;
  og_lines lines;  // x, result, mask, along the axis
  bool is_channel;
  bool is_f64;
  int64_t low, high;
} fake_quantize;

static char *number_at(const og_tensor *tensor, int64_t index) {
  const int64_t step =
      tensor->ndim > 0 && tensor->shape[0] > 1 ? tensor->strides[0] : 0;
  return og_bytes(tensor) + index * step * og_item_bytes(tensor);
}

// A number of the grid; what int64 cannot hold is its least one for each
// channel, as a cast has it, and the nearest one otherwise.
static double grid_number(const fake_quantize *s, double x, float inverse,
                          const og_tensor *zero, int64_t channel) {
  const char *at = number_at(zero, channel);
  const double scaled =
      s->is_f64 ? x * (double)inverse : (double)((float)x * inverse);
  const double found =
      og_is_float(zero)
          ? rint((double)((float)scaled +
                          (float)og_element_double(zero->dtype, at)))
          : rint(scaled) + (double)og_element_int(zero->dtype, at);
  if (found != found || found < -0x1p63) return -0x1p63;
  if (found >= 0x1p63) return s->is_channel ? -0x1p63 : 0x1p63;
  return found;
}

static void quantize_one(const fake_quantize *s, int64_t channel,
                         const int64_t *offset) {
  const og_tensor *x = s->io.in[0], *scale = s->io.in[1];
  const og_tensor *zero = s->io.in[2], *y = s->io.out[0];
  const og_tensor *mask = s->io.out[1];
  const float step =
      (float)og_element_double(scale->dtype, number_at(scale, channel));
  const char *at = number_at(zero, channel);
  const double shift = og_is_float(zero)
                           ? og_element_double(zero->dtype, at)
                           : (double)og_element_int(zero->dtype, at);
  const double number = og_element_double(x->dtype, og_bytes(x) + offset[0]);
  const double found = grid_number(s, number, 1 / step, zero, channel);
  const double low = (double)s->low, high = (double)s->high;
  const double kept = found < low ? low : found > high ? high : found;
  og_element_set_double(y->dtype, og_bytes(y) + offset[1],
                        (double)((float)(kept - shift)) * (double)step);
  og_element_set_int(mask->dtype, og_bytes(mask) + offset[2],
                     found >= low && found <= high);
}

// Switched off: the operand as it is.
static bool is_off(const fake_quantize *s) {
  const og_tensor *enabled = s->io.in_count > 3 ? s->io.in[3] : NULL;
  return enabled != NULL &&
         og_element_double(enabled->dtype, og_bytes(enabled)) == 0;
}

static og_status run_fake_quantize(void *state, const og_run *run) {
  const fake_quantize *s = state;
  const og_tensor *mask = s->io.out[1];
  const bool off = is_off(s);
  (void)run;
  if (off) og_copy_elements(s->io.out[0], s->io.in[0]);
  for (int64_t line = 0; line < s->lines.count; ++line) {
    int64_t offset[OG_NEST_OPERANDS];
    og_nest_point(&s->lines.nest, line, offset);
    for (int64_t i = 0; i < s->lines.length[0]; ++i) {
      if (off)
        og_element_set_int(mask->dtype, og_bytes(mask) + offset[2], 1);
      else
        quantize_one(s, s->is_channel ? i : 0, offset);
      for (int32_t k = 0; k < 3; ++k) offset[k] += s->lines.stride_bytes[k];
    }
  }
  return OG_OK;
}

og_status og_prepare_fake_quantize(og_prep *prep) {
  const og_tensor *x = prep->in[0], *scale = prep->in[1], *zero = prep->in[2];
  const og_tensor *const walked[3] = {x, prep->out[0], prep->out[1]};
  int32_t axis = 0;
  fake_quantize *s = og_state_begin(prep, sizeof *s, run_fake_quantize);
  if (s == NULL) return OG_MEMORY;
  s->is_channel = og_node_attr(prep->node, 0)->kind != OPGRAFT_ARG_NONE;
  if (s->is_channel) OG_TRY(og_prep_dim(prep, 0, x->ndim, &axis));
  OG_TRY(og_prep_int(prep, 1, 0, &s->low));
  OG_TRY(og_prep_int(prep, 2, 255, &s->high));
  OG_TRY(og_need_float(prep, x));
  OG_TRY(og_need_float(prep, scale));
  s->is_f64 = og_dtype_class(x->dtype) == OG_CLASS_F64;
  const int64_t count = s->is_channel && x->ndim > 0 ? x->shape[axis] : 1;
  if (zero == NULL || og_dtype_class(zero->dtype) == OG_CLASS_NONE ||
      prep->out[0] == NULL || prep->out[1] == NULL ||
      !og_dtype_equal(x->dtype, prep->out[0]->dtype) ||
      !og_is_int(prep->out[1]))
    return og_prep_wrong(prep, "its operands or results have another type");
  if (scale->ndim > 1 || zero->ndim > 1 || og_numel(scale) != count ||
      og_numel(zero) != count || !og_same_shape(x, prep->out[0]) ||
      !og_same_shape(x, prep->out[1]) ||
      !og_lines_init(&s->lines, axis, walked, 3))
    return og_prep_misfit(prep);
  const og_tensor *enabled = prep->node->in_count > 3 ? prep->in[3] : NULL;
  if (enabled != NULL && (og_numel(enabled) != 1 ||
                          og_dtype_class(enabled->dtype) == OG_CLASS_NONE))
    return og_prep_wrong(prep, "its switch should be one number");
  if (og_numel(x) == 0) prep->step.run = NULL;
  return OG_OK;
}

// --- int_matmul --------------------------------------------------------------

static og_status run_int_matmul(void *state, const og_run *run) {
  const og_operands *s = state;
  const og_tensor *a = s->in[0], *b = s->in[1], *out = s->out[0];
  const int64_t inner = a->shape[1];
  (void)run;
  for (int64_t r = 0; r < out->shape[0]; ++r)
    for (int64_t c = 0; c < out->shape[1]; ++c) {
      const int8_t *x = (const int8_t *)og_bytes(a) + r * a->strides[0];
      const int8_t *y = (const int8_t *)og_bytes(b) + c * b->strides[1];
      uint32_t sum = 0;
      for (int64_t k = 0; k < inner; ++k)
        sum += (uint32_t)((int32_t)x[k * a->strides[1]] *
                          (int32_t)y[k * b->strides[0]]);
      og_element_set_int(
          out->dtype,
          og_bytes(out) +
              (r * out->strides[0] + c * out->strides[1]) * og_item_bytes(out),
          (int32_t)sum);
    }
  return OG_OK;
}

static bool is_int(const og_tensor *tensor, int bits) {
  return tensor != NULL && tensor->ndim == 2 &&
         tensor->dtype.code == OG_CODE_INT && tensor->dtype.bits == bits;
}

og_status og_prepare_int_matmul(og_prep *prep) {
  const og_tensor *a = prep->in[0], *b = prep->in[1], *out = prep->out[0];
  if (og_state_begin(prep, sizeof(og_operands), run_int_matmul) == NULL)
    return OG_MEMORY;
  if (!is_int(a, 8) || !is_int(b, 8) || !is_int(out, 32))
    return og_prep_wrong(prep, "it takes matrices of int8, and gives int32");
  return a->shape[1] == b->shape[0] && a->shape[0] == out->shape[0] &&
                 b->shape[1] == out->shape[1]
             ? OG_OK
             : og_prep_misfit(prep);
}

// --- int8_matmul -------------------------------------------------------------

static double matrix_at(const og_tensor *t, int64_t row, int64_t column) {
  return og_element_double(
      t->dtype, og_bytes(t) + (row * t->strides[0] + column * t->strides[1]) *
                                  og_item_bytes(t));
}

static og_status run_int8_matmul(void *state, const og_run *run) {
  const og_operands *s = state;
  const og_tensor *a = s->in[0], *b = s->in[1], *out = s->out[0];
  (void)run;
  for (int64_t r = 0; r < out->shape[0]; ++r)
    for (int64_t c = 0; c < out->shape[1]; ++c) {
      const double scale =
          og_element_double(s->in[2]->dtype, number_at(s->in[2], c));
      double sum = 0;
      for (int64_t k = 0; k < a->shape[1]; ++k)
        sum += matrix_at(a, r, k) * matrix_at(b, c, k);
      og_element_set_double(
          out->dtype,
          og_bytes(out) +
              (r * out->strides[0] + c * out->strides[1]) * og_item_bytes(out),
          sum * scale);
    }
  return OG_OK;
}

// x[M, K] w[N, K]^T, times the scales[N].
og_status og_prepare_int8_matmul(og_prep *prep) {
  const og_tensor *a = prep->in[0], *b = prep->in[1], *scales = prep->in[2];
  const og_tensor *out = prep->out[0];
  if (og_state_begin(prep, sizeof(og_operands), run_int8_matmul) == NULL)
    return OG_MEMORY;
  OG_TRY(og_need_float(prep, a));
  OG_TRY(og_need_float(prep, scales));
  OG_TRY(og_need_float(prep, out));
  if (!is_int(b, 8) || a->ndim != 2)
    return og_prep_wrong(prep, "it takes a matrix and one of int8");
  return a->shape[1] == b->shape[1] && a->shape[0] == out->shape[0] &&
                 b->shape[0] == out->shape[1] && scales->ndim == 1 &&
                 scales->shape[0] == b->shape[0]
             ? OG_OK
             : og_prep_misfit(prep);
}
