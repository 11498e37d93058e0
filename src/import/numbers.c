// SPDX-License-Identifier: Apache-2.0
// Numbers and tensors without dims in the type that ATen gives them.
//
// Kernels and row programs compute in f32, f64 or i64, which hold numbers that
// a narrower type lacks; ATen converts first. Doing it here, once, makes all of
// them agree.

#include "import/numbers.h"

#include <float.h>
#include <math.h>

#include "import/emit.h"

// --- The common type ---------------------------------------------------------

// An argument that is a number, also one that sizes give.
static bool is_number(const opgraft_graph *graph, const og_value *value) {
  return value->kind == OG_VALUE_LITERAL ||
         (value->node >= 0 && graph->nodes[value->node].op == OG_IR_size);
}

// `lower` counts only where it is of a higher category: bool, integer, float.
static og_dtype types_combine(og_dtype higher, og_dtype lower) {
  if (higher.bits == 0) return lower;
  if (lower.bits == 0 || og_dtype_is_float(higher)) return higher;
  return higher.code == OG_CODE_BOOL || og_dtype_is_float(lower)
             ? og_dtype_promote(higher, lower)
             : higher;
}

// torch.result_type: tensors with dims, then tensors without, then numbers.
static og_dtype operands_type(const og_import *import,
                              const og_spec_args *args) {
  const opgraft_graph *graph = import->graph;
  og_dtype levels[3] = {{0}};
  for (int32_t i = 0; i < args->in_count; ++i) {
    if (args->in[i] < 0) continue;
    const og_value *value = &graph->values[args->in[i]];
    const bool number = is_number(graph, value);
    og_dtype *level = &levels[number ? 2 : value->ndim == 0 ? 1 : 0];
    const og_dtype dtype = number && og_dtype_is_float(value->dtype)
                               ? (og_dtype){OG_CODE_FLOAT, 32, 1}
                               : value->dtype;
    *level = level->bits == 0 ? dtype : og_dtype_promote(*level, dtype);
  }
  return types_combine(levels[0], types_combine(levels[1], levels[2]));
}

static og_dtype common_type(const og_import *import, const og_spec_args *args) {
  const int32_t r = import->element > 0 ? import->element - 1 : 0;
  return og_ops[import->row->op].converts ||
                 import->row->numbers == OG_NUMBERS_FILL
             ? import->record->results[r].dtype
             : operands_type(import, args);
}

// --- Which operands ----------------------------------------------------------

// Whether kernels compute in the type itself.
static bool is_wide(og_dtype dtype) {
  return dtype.bits == 64 || (og_dtype_is_float(dtype) && dtype.bits == 32);
}

static bool int_holds(og_dtype dtype, int64_t number) {
  if (dtype.code == OG_CODE_UINT && number < 0) return false;
  const int bits = dtype.bits - (dtype.code == OG_CODE_INT);
  return bits >= 63 ||
         (number >= -(INT64_C(1) << bits) && number < (INT64_C(1) << bits));
}

static bool float_holds(og_dtype dtype, double number) {
  const double most = dtype.bits == 64               ? DBL_MAX
                      : dtype.bits == 32             ? FLT_MAX
                      : dtype.code == OG_CODE_BFLOAT ? 0x1.FEp127
                                                     : 65504;
  return !isfinite(number) || fabs(number) <= most;
}

// A float in a tensor of integers, of which the fraction is dropped. The host
// knows whether a negative one may be in an unsigned tensor.
static bool int_holds_float(og_dtype dtype, double number) {
  if (dtype.code == OG_CODE_UINT && number < 0) return false;
  const int bits = dtype.code == OG_CODE_BOOL  ? 64
                   : dtype.code == OG_CODE_INT ? dtype.bits - 1
                                               : dtype.bits;
  return dtype.code == OG_CODE_BOOL || fabs(number) < ldexp(1, bits);
}

static bool is_one_element(const og_value *value) {
  bool is_one = true;
  for (int32_t d = 0; d < value->ndim; ++d)
    is_one &= value->shape[d] == OG_SIZE_ONE;
  return is_one;
}

static bool keeps_digits(const og_import *import, const og_spec_args *args,
                         int32_t i) {
  const og_value *value = &import->graph->values[args->in[i]];
  return import->row->numbers == OG_NUMBERS_OPMATH && i > 0 &&
         (is_number(import->graph, value) ||
          (i == args->in_count - 1 && is_one_element(value)));
}

// Whether a kernel, which reads the value as what it computes in, would see
// another number than the common type has.
static bool is_other(const og_import *import, og_dtype common,
                     const og_value *value) {
  const og_class of = og_dtype_class(common),
                 own = og_dtype_class(value->dtype);
  if (value->dtype.code == OG_CODE_BOOL || og_dtype_equal(value->dtype, common))
    return false;
  // f32 with an f64 without dims would be compared as f64.
  if (is_wide(common))
    return !og_ops[import->row->op].converts && own == OG_CLASS_F64 &&
           of == OG_CLASS_F32;
  return of != own ||
         !og_dtype_equal(og_dtype_promote(common, value->dtype), common);
}

// Whether the type holds each number that sizes may give.
static bool holds_sizes(og_dtype dtype, const og_value *number) {
  if (dtype.code == OG_CODE_BOOL) return true;
  if (og_dtype_is_float(number->dtype))
    return og_dtype_is_float(dtype) && dtype.bits == 64;
  return og_dtype_is_float(dtype)
             ? dtype.code == OG_CODE_BFLOAT || dtype.bits > 16
             : dtype.bits == 64;
}

// --- Converting --------------------------------------------------------------

// A negative number of an unsigned type wraps around, as ATen converts it. One
// beyond the type does in some of ATen's operators, and is an error in others:
// the host knows which.
static og_status int_wrap(og_import *import, og_dtype common, int64_t number,
                          opgraft_value *operand) {
  const bool wraps = common.code == OG_CODE_UINT && common.bits < 63 &&
                     number < 0 &&
                     (import->record->flags & OPGRAFT_RECORD_NO_WRAP) == 0;
  const int64_t wrapped = wraps ? number + (INT64_C(1) << common.bits) : -1;
  if (wrapped <= 0)
    return og_give_up(import, "a number does not fit its tensor's type");
  return og_graph_literal_int(import->graph, wrapped, operand, import->error);
}

static og_status int_convert(og_import *import, og_dtype common,
                             opgraft_value *operand) {
  const og_value *literal = &import->graph->values[*operand];
  if (literal->dtype.code == OG_CODE_FLOAT)
    return import->row->numbers == OG_NUMBERS_FILL &&
                   int_holds_float(common, literal->number.f)
               ? OG_OK
               : og_give_up(import, "a float does not fit its tensor's type");
  if (common.code == OG_CODE_BOOL)
    return og_graph_literal_as(import->graph, *operand, common, operand,
                               import->error);
  return int_holds(common, literal->number.i)
             ? OG_OK
             : int_wrap(import, common, literal->number.i, operand);
}

// A finite number that the type rounds to infinity is an error in some of
// ATen's operators too.
static og_status float_convert(og_import *import, og_dtype to,
                               opgraft_value *operand) {
  const og_value *literal = &import->graph->values[*operand];
  const double number = literal->dtype.code == OG_CODE_FLOAT
                            ? literal->number.f
                            : (double)literal->number.i;
  if (!float_holds(to, number))
    return og_give_up(import, "a number does not fit its tensor's type");
  return is_wide(to) ? OG_OK
                     : og_graph_literal_as(import->graph, *operand, to, operand,
                                           import->error);
}

static og_status tensor_convert(og_import *import, og_dtype common,
                                opgraft_value *operand) {
  const og_value value = import->graph->values[*operand];
  opgraft_value result;
  OG_TRY(og_graph_add_value(import->graph, OG_VALUE_RESULT, common,
                            value.device, value.ndim, value.shape, NULL,
                            &result, import->error));
  OG_TRY(og_append(import, OG_IR_copy, operand, 1, &result, 1, NULL));
  *operand = result;
  return OG_OK;
}

static og_status operand_convert(og_import *import, og_spec_args *args,
                                 og_dtype common, int32_t i) {
  opgraft_value *operand = &args->in[i];
  const og_value *value = &import->graph->values[*operand];
  const bool is_int = og_dtype_class(common) == OG_CLASS_I64;
  const bool keeps = !is_int && keeps_digits(import, args, i);
  if (keeps && common.bits < 32) common = (og_dtype){OG_CODE_FLOAT, 32, 1};
  if (value->kind == OG_VALUE_LITERAL)
    return is_int ? int_convert(import, common, operand)
                  : float_convert(import, common, operand);
  if (keeps) return OG_OK;
  if (is_number(import->graph, value) && !holds_sizes(common, value))
    return og_give_up(
        import, "a number that depends on sizes may not fit its tensor's type");
  if (import->row->numbers == OG_NUMBERS_FILL ||
      !is_other(import, common, value))
    return OG_OK;
  return tensor_convert(import, common, operand);
}

og_status og_numbers_convert(og_import *import, og_spec_args *args) {
  if (import->row->numbers == OG_NUMBERS_NONE) return OG_OK;
  const og_dtype common = common_type(import, args);
  if (og_dtype_class(common) == OG_CLASS_NONE) return OG_OK;
  for (int32_t i = 0; i < args->in_count; ++i)
    if (args->in[i] >= 0) OG_TRY(operand_convert(import, args, common, i));
  return OG_OK;
}
