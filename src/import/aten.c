// SPDX-License-Identifier: Apache-2.0
// ATen operators whose translation is not one to one: pointwise ones with
// modes, views, fills, reductions, norms, attention.

#include <math.h>
#include <string.h>

#include "import/args.h"
#include "import/emit.h"

static og_status number(og_import *import, double value, opgraft_value *out) {
  return og_graph_literal_float(import->graph, value, out, import->error);
}

static bool is_one(const og_import *import, opgraft_value value) {
  const og_value *literal = &import->graph->values[value];
  if (literal->kind != OG_VALUE_LITERAL) return false;
  return literal->dtype.code == OG_CODE_FLOAT ? literal->number.f == 1
                                              : literal->number.i == 1;
}

static bool is_negative(const opgraft_arg *arg) {
  return arg != NULL &&
         (arg->kind == OPGRAFT_ARG_FLOAT ? arg->f < 0 : arg->i < 0);
}

static const og_value *value_of(const og_import *import, opgraft_value id) {
  return &import->graph->values[id];
}

// --- Pointwise ---------------------------------------------------------------

// add(a, b, alpha) and sub(a, b, alpha); a - alpha b is a + (-alpha) b.
og_status og_import_add(og_import *import) {
  og_spec_args args;
  OG_TRY(og_spec_read(import, &args));
  if (is_one(import, args.in[2]))
    return og_emit(import, import->row->op, args.in, 2, NULL);
  if (import->row->op == OG_IR_sub) {
    const og_value alpha = *value_of(import, args.in[2]);
    if (alpha.kind != OG_VALUE_LITERAL)
      return og_give_up(import, "alpha depends on sizes");
    if (alpha.dtype.code == OG_CODE_FLOAT)
      OG_TRY(number(import, -alpha.number.f, &args.in[2]));
    else
      OG_TRY(og_graph_literal_int(import->graph, -alpha.number.i, &args.in[2],
                                  import->error));
  }
  return og_emit(import, OG_IR_add_scaled, args.in, 3, NULL);
}

og_status og_import_div_mode(og_import *import) {
  og_spec_args args;
  const opgraft_arg *mode = og_arg_find(import, -1, "rounding_mode");
  int32_t op = OG_IR_div;
  OG_TRY(og_spec_read(import, &args));
  if (mode != NULL && mode->kind == OPGRAFT_ARG_STR)
    op = strcmp(mode->s, "floor") == 0 ? OG_IR_floor_div : OG_IR_trunc_div;
  return og_emit(import, op, args.in, 2, NULL);
}

// The powers that PyTorch computes without pow: x ** 2 as x * x, x ** 3 as
// x * x * x, rounded once, x ** 0.5 and its inverse as roots.
og_status og_import_pow(og_import *import) {
  og_spec_args args;
  OG_TRY(og_spec_read(import, &args));
  const og_value x = *value_of(import, args.in[0]);
  const og_value *power = value_of(import, args.in[1]);
  const opgraft_value_info *info = &import->record->results[0];
  const og_class of = og_dtype_class(info->dtype);
  const double exponent = power->kind != OG_VALUE_LITERAL ? 0
                          : power->dtype.code == OG_CODE_FLOAT
                              ? power->number.f
                              : (double)power->number.i;
  if (of == OG_CLASS_I64 && is_negative(og_arg_at(import, 1)))
    return og_give_up(import, "an integer to a negative power");
  if (exponent == 0.5 && of != OG_CLASS_I64)
    return og_emit(import, OG_IR_sqrt, args.in, 1, NULL);
  if (exponent == -0.5 && of != OG_CLASS_I64)
    return og_emit(import, OG_IR_rsqrt, args.in, 1, NULL);
  if (exponent != 2 && exponent != 3)
    return og_emit(import, OG_IR_pow, args.in, 2, NULL);
  args.in[1] = args.in[0];
  if (exponent == 3) {
    const og_dtype wide =
        of == OG_CLASS_F32 ? (og_dtype){OG_CODE_FLOAT, 32, 1} : info->dtype;
    OG_TRY(og_emit_new(import, OG_IR_mul, args.in, 2, NULL, wide, x.ndim,
                       x.shape, &args.in[1]));
  }
  return og_emit(import, OG_IR_mul, args.in, 2, NULL);
}

// ATen reads the value as a number, and refuses one that the type cannot hold.
og_status og_import_masked_fill(og_import *import) {
  og_spec_args args;
  OG_TRY(og_spec_read(import, &args));
  const og_dtype to = import->record->results[0].dtype;
  const og_dtype from = value_of(import, args.in[1])->dtype;
  const bool holds = og_dtype_class(from) == og_dtype_class(to)
                         ? og_dtype_equal(og_dtype_promote(to, from), to)
                         : og_dtype_class(from) == OG_CLASS_I64 && to.bits > 16;
  if (!holds && from.code != OG_CODE_BOOL)
    return og_give_up(import, "its value may not fit the tensor's type");
  return og_emit(import, OG_IR_where, args.in, 3, NULL);
}

og_status og_import_bitwise_not(og_import *import) {
  og_spec_args args;
  OG_TRY(og_spec_read(import, &args));
  const bool is_bool = import->record->results[0].dtype.code == OG_CODE_BOOL;
  return og_emit(import, is_bool ? OG_IR_logical_not : OG_IR_bitwise_not,
                 args.in, 1, NULL);
}

// A bound that is absent is the type's own.
og_status og_import_clamp(og_import *import) {
  og_spec_args args;
  OG_TRY(og_spec_read(import, &args));
  const bool is_int =
      og_dtype_class(import->record->results[0].dtype) == OG_CLASS_I64;
  for (int32_t i = 1; i < 3; ++i) {
    if (args.in[i] >= 0) continue;
    if (is_int)
      OG_TRY(og_graph_literal_int(import->graph, i == 1 ? INT64_MIN : INT64_MAX,
                                  &args.in[i], import->error));
    else
      OG_TRY(number(import, i == 1 ? -(double)INFINITY : (double)INFINITY,
                    &args.in[i]));
  }
  return og_emit(import, OG_IR_clamp, args.in, 3, NULL);
}

og_status og_import_gelu(og_import *import) {
  const bool is_backward = import->row->op == OG_IR_gelu_backward;
  const opgraft_arg *form = og_arg_find(import, -1, "approximate");
  const bool is_tanh = form != NULL && form->kind == OPGRAFT_ARG_STR &&
                       strcmp(form->s, "tanh") == 0;
  og_spec_args args;
  OG_TRY(og_spec_read(import, &args));
  int32_t op = import->row->op;
  if (is_tanh) op = is_backward ? OG_IR_gelu_tanh_backward : OG_IR_gelu_tanh;
  return og_emit(import, op, args.in, args.in_count, NULL);
}

// --- Copies, fills, views ----------------------------------------------------

// copy_(x, y): the result is x, changed. y is converted and broadcast first.
og_status og_import_write_back(og_import *import) {
  og_spec_args args;
  OG_TRY(og_spec_read(import, &args));
  const og_value to = *value_of(import, args.in[0]);
  if (args.in[1] < 0 || to.kind == OG_VALUE_LITERAL)
    return og_give_up(import, "it writes to no tensor");
  const og_value *from = value_of(import, args.in[1]);
  const bool is_as_it_is = og_dtype_equal(to.dtype, from->dtype) &&
                           og_device_equal(to.device, from->device) &&
                           og_value_same_shape(&to, from);
  if (!is_as_it_is && (og_dtype_class(to.dtype) == OG_CLASS_NONE ||
                       og_dtype_class(from->dtype) == OG_CLASS_NONE))
    return og_give_up(import, "the engine does not convert between its types");
  if (!is_as_it_is)
    OG_TRY(og_emit_new(import, OG_IR_copy, &args.in[1], 1, NULL, to.dtype,
                       to.ndim, to.shape, &args.in[1]));
  OG_TRY(og_graph_add_value(import->graph, OG_VALUE_RESULT, to.dtype, to.device,
                            to.ndim, to.shape, to.strides, &import->out[0],
                            import->error));
  og_value *result = &import->graph->values[import->out[0]];
  result->root = to.root;
  result->offset = to.offset;
  result->host_offset = to.host_offset;
  return og_append(import, OG_IR_copy_to, args.in, 2, import->out, 1, NULL);
}

// Whether several elements may lie at one place, as strides of 0 have them, and
// how many places there are. Strides that depend on sizes count as a tensor's
// that is made anew: no place twice.
static bool places_repeat(const og_import *import, int64_t *out_places) {
  const opgraft_value_info *info = &import->record->results[0];
  const og_sizes *sizes = &import->graph->sizes;
  bool is_counted[OPGRAFT_RANK_MAX] = {false}, repeats = false;
  *out_places = 1;
  for (int32_t turn = 0; info->strides != NULL && turn < info->ndim; ++turn) {
    int64_t length = 0, stride = INT64_MAX, size, step, reach;
    int32_t least = 0;
    for (int32_t d = 0; d < info->ndim; ++d) {
      if (!og_size_get(sizes, info->shape[d], &size) || size == 0 ||
          !og_size_get(sizes, info->strides[d], &step))
        return false;
      if (is_counted[d] || step > stride) continue;
      least = d, length = size, stride = step;
    }
    is_counted[least] = true;
    if (!og_i64_mul(length - 1, stride, &reach)) return false;
    repeats |= length > 1 && stride < *out_places;
    if (!og_i64_add(*out_places, reach, out_places)) return false;
  }
  return repeats;
}

// A result whose elements share places is a view of these.
og_status og_import_empty_strided(og_import *import) {
  opgraft_graph *graph = import->graph;
  const opgraft_value_info *info = &import->record->results[0];
  int64_t count;
  opgraft_size places;
  opgraft_value zero, base;
  if (!places_repeat(import, &count)) return og_import_pointwise(import);
  OG_TRY(og_size_const(&graph->sizes, count, &places, import->error));
  OG_TRY(number(import, 0, &zero));
  OG_TRY(og_emit_new(import, OG_IR_copy, &zero, 1, NULL, info->dtype, 1,
                     &places, &base));
  OG_TRY(og_result_make(import, 0));
  graph->values[import->out[0]].root = base;
  return og_append(import, OG_IR_view, &base, 1, import->out, 1, NULL);
}

og_status og_import_view(og_import *import) {
  const opgraft_arg *base = og_arg_at(import, 0);
  if (base == NULL || base->kind != OPGRAFT_ARG_VALUE)
    return og_give_up(import, "it views no tensor");
  for (int32_t r = 0; r < import->record->result_count; ++r)
    OG_TRY(og_emit_view(import, base->value, r));
  return OG_OK;
}

// Says that it is not a view: where somebody could tell, it is a copy.
og_status og_import_unsafe_view(og_import *import) {
  opgraft_graph *graph = import->graph;
  const opgraft_value_info *info = &import->record->results[0];
  OG_TRY(og_import_view(import));
  const opgraft_value view = import->out[0];
  OG_TRY(og_graph_add_value(graph, OG_VALUE_RESULT, info->dtype, info->device,
                            info->ndim, info->shape, info->strides,
                            &import->out[0], import->error));
  graph->values[import->out[0]].host_offset = info->offset;
  return og_append(import, OG_IR_copy, &view, 1, import->out, 1, NULL);
}

// The host's result is a view; here nobody writes to either.
og_status og_import_bitcast(og_import *import) {
  og_spec_args args;
  OG_TRY(og_spec_read(import, &args));
  OG_TRY(og_results(import));
  return og_append(import, OG_IR_bitcast, args.in, 1, import->out, 1, NULL);
}

// --- Quantization ------------------------------------------------------------

// The scale and the zero point are numbers: tensors without dims.
og_status og_import_fake_quantize(og_import *import) {
  og_spec_args args;
  OG_TRY(og_spec_read(import, &args));
  const og_dtype types[2] = {{OG_CODE_FLOAT, 32, 1}, {OG_CODE_INT, 64, 1}};
  for (int32_t i = 1; i < 3; ++i)
    OG_TRY(og_emit_new(import, OG_IR_copy, &args.in[i], 1, NULL, types[i - 1],
                       0, NULL, &args.in[i]));
  return og_emit(import, OG_IR_fake_quantize, args.in, 3, args.attrs);
}

// Its scales are one list.
og_status og_import_upsample(og_import *import) {
  enum { SCALE = 1 };
  og_spec_args args;
  OG_TRY(og_spec_read(import, &args));
  const opgraft_arg scales = args.attrs[SCALE];
  if (scales.kind == OPGRAFT_ARG_LIST && scales.count != 2)
    return og_give_up(import, "it needs a scale for each of two dims");
  for (int32_t d = 0; scales.kind == OPGRAFT_ARG_LIST && d < 2; ++d)
    args.attrs[SCALE + d] = scales.list[d];
  return og_emit(import, import->row->op, args.in, 1, args.attrs);
}

// --- Reductions --------------------------------------------------------------

// Without a dim the position counts over all elements, row-major.
og_status og_import_arg_extreme(og_import *import) {
  og_spec_args args;
  OG_TRY(og_spec_read(import, &args));
  opgraft_graph *graph = import->graph;
  const og_value x = *value_of(import, args.in[0]);
  if (args.attrs[0].kind != OPGRAFT_ARG_NONE || x.ndim <= 1)
    return og_emit(import, import->row->op, args.in, 1, args.attrs);
  if (!og_value_is_dense(graph, &x) || import->record->results[0].ndim != 0)
    return og_give_up(import, "an index over several dims");
  opgraft_size count = OG_SIZE_ONE;
  for (int32_t d = 0; d < x.ndim; ++d)
    OG_TRY(og_size_make(&graph->sizes, OG_SIZE_MUL, count, x.shape[d], &count,
                        import->error));
  opgraft_value flat;
  OG_TRY(og_emit_new(import, OG_IR_view, args.in, 1, NULL, x.dtype, 1, &count,
                     &flat));
  graph->values[flat].root = x.root;
  graph->values[flat].offset = x.offset;
  return og_emit(import, import->row->op, &flat, 1, args.attrs);
}

// --- Norms -------------------------------------------------------------------

og_status og_import_layer_norm(og_import *import) {
  og_spec_args args;
  const bool is_backward = import->row->op == OG_IR_layer_norm_backward;
  const opgraft_arg *shape = og_arg_at(import, is_backward ? 2 : 1);
  OG_TRY(og_spec_read(import, &args));
  if (shape == NULL || shape->kind != OPGRAFT_ARG_LIST)
    return og_give_up(import, "normalized_shape is not a list");
  args.attrs[0] = (opgraft_arg){.kind = OPGRAFT_ARG_INT, .i = shape->count};
  return og_emit(import, import->row->op, args.in, args.in_count, args.attrs);
}

// A further result that PyTorch leaves empty.
static og_status empty_result(og_import *import, int32_t index) {
  opgraft_value zero;
  OG_TRY(og_result_make(import, index));
  if (import->out[index] < 0) return OG_OK;
  OG_TRY(number(import, 0, &zero));
  return og_append(import, OG_IR_copy, &zero, 1, &import->out[index], 1, NULL);
}

// y, and two results that are empty in evaluation.
og_status og_import_batch_norm_fixed(og_import *import) {
  og_spec_args args;
  OG_TRY(og_spec_read(import, &args));
  OG_TRY(og_result_make(import, 0));
  OG_TRY(og_append(import, OG_IR_batch_norm, args.in, 5, import->out, 1,
                   args.attrs));
  for (int32_t r = 1; r < import->record->result_count; ++r)
    OG_TRY(empty_result(import, r));
  return OG_OK;
}

static og_status one_result(og_import *import, int32_t op,
                            const opgraft_value *in, int32_t in_count,
                            int32_t index) {
  OG_TRY(og_result_make(import, index));
  return og_append(import, op, in, in_count, &import->out[index], 1, NULL);
}

// n / (n - 1) of the n elements of each channel: a literal where n is known.
static og_status unbias_make(og_import *import, const og_value *x,
                             opgraft_value *out) {
  og_sizes *sizes = &import->graph->sizes;
  opgraft_size count = OG_SIZE_ONE, less, ratio;
  int64_t n;
  for (int32_t d = 0; d < x->ndim; ++d)
    if (d != 1)
      OG_TRY(og_size_make(sizes, OG_SIZE_MUL, count, x->shape[d], &count,
                          import->error));
  if (og_size_get(sizes, count, &n))
    return n > 1 ? number(import, (double)n / (double)(n - 1), out)
                 : og_give_up(import, "batch norm over one element a channel");
  OG_TRY(og_size_make(sizes, OG_SIZE_SUB, count, OG_SIZE_ONE, &less,
                      import->error));
  OG_TRY(og_size_make(sizes, OG_SIZE_TRUE_DIV, count, less, &ratio,
                      import->error));
  return og_operand(
      import, &(opgraft_arg){.kind = OPGRAFT_ARG_SIZE, .size = ratio}, out);
}

// The running statistics after this batch; the variance is the unbiased one.
static og_status running_update(og_import *import, const og_spec_args *args,
                                const opgraft_value *stats, double momentum,
                                opgraft_value unbias) {
  opgraft_value weight, unbiased;
  const og_value variance = *value_of(import, stats[1]);
  OG_TRY(number(import, momentum, &weight));
  const opgraft_value scaled[2] = {stats[1], unbias};
  OG_TRY(og_emit_new(import, OG_IR_mul, scaled, 2, NULL, variance.dtype, 1,
                     variance.shape, &unbiased));
  const opgraft_value mean[3] = {args->in[3], stats[0], weight};
  const opgraft_value spread[3] = {args->in[4], unbiased, weight};
  OG_TRY(one_result(import, OG_IR_lerp, mean, 3, 3));
  return one_result(import, OG_IR_lerp, spread, 3, 4);
}

// stats -> y, saved mean, saved 1/std, and the new running statistics.
og_status og_import_batch_norm_training(og_import *import) {
  og_spec_args args;
  const bool has_stats = import->record->result_count == 5;
  const opgraft_arg *training = og_arg_at(import, has_stats ? 5 : 3);
  const opgraft_arg *momentum = og_arg_at(import, has_stats ? 6 : 4);
  const opgraft_arg *eps = og_arg_at(import, has_stats ? 7 : 5);
  int64_t is_training;
  opgraft_value unbias = -1;
  OG_TRY(og_spec_read(import, &args));
  if (!og_arg_int(import, training, &is_training) || !is_training ||
      eps == NULL || momentum == NULL || eps->kind != OPGRAFT_ARG_FLOAT ||
      momentum->kind != OPGRAFT_ARG_FLOAT)
    return og_give_up(import, "batch norm in a form that is not training");
  const og_value x = *value_of(import, args.in[0]);
  if (x.ndim < 2 || (has_stats && (args.in[3] < 0 || args.in[4] < 0)))
    return og_give_up(import, "no channels, or no running statistics");
  if (has_stats) OG_TRY(unbias_make(import, &x, &unbias));
  opgraft_arg attrs[OG_OP_ATTR_MAX] = {{.kind = OPGRAFT_ARG_NONE}};
  attrs[0] = *eps;
  attrs[0].name = NULL;
  opgraft_graph *graph = import->graph;
  OG_TRY(og_result_make(import, 1));
  OG_TRY(og_result_make(import, 2));
  // The variance may be larger than 16 bits hold.
  og_dtype dtype = import->record->results[1].dtype;
  if (dtype.bits == 16) dtype = (og_dtype){OG_CODE_FLOAT, 32, 1};
  opgraft_value stats[3] = {import->out[1], -1, import->out[2]};
  if (stats[0] < 0 || stats[2] < 0)
    return og_give_up(import, "a saved statistic is None");
  OG_TRY(og_graph_add_value(graph, OG_VALUE_RESULT, dtype, x.device, 1,
                            &x.shape[1], NULL, &stats[1], import->error));
  OG_TRY(
      og_append(import, OG_IR_batch_norm_stats, args.in, 1, stats, 3, attrs));
  OG_TRY(og_result_make(import, 0));
  const opgraft_value in[5] = {args.in[0], args.in[1], args.in[2], stats[0],
                               stats[1]};
  OG_TRY(og_append(import, OG_IR_batch_norm, in, 5, import->out, 1, attrs));
  if (!has_stats) return OG_OK;
  return running_update(import, &args, stats, momentum->f, unbias);
}

// In evaluation the running statistics replace the batch's: 1 / std is computed
// from the running variance.
static og_status running_rstd(og_import *import, opgraft_value variance,
                              double eps, opgraft_value *out) {
  opgraft_value shift, sum;
  const og_value v = *value_of(import, variance);
  OG_TRY(number(import, eps, &shift));
  const opgraft_value terms[2] = {variance, shift};
  OG_TRY(og_emit_new(import, OG_IR_add, terms, 2, NULL, v.dtype, 1, v.shape,
                     &sum));
  return og_emit_new(import, OG_IR_rsqrt, &sum, 1, NULL, v.dtype, 1, v.shape,
                     out);
}

// grad, x, weight, running mean and variance, saved mean and 1/std, training,
// eps, mask.
og_status og_import_batch_norm_backward(og_import *import) {
  og_spec_args args;
  int64_t training;
  OG_TRY(og_spec_read(import, &args));
  if (!og_arg_int(import, og_arg_at(import, 7), &training))
    return og_give_up(import, "whether batch norm trains is not known");
  for (int32_t i = 0; i < 2; ++i) {
    const opgraft_arg *arg = og_arg_at(import, (training ? 5 : 3) + i);
    if (arg == NULL || arg->kind != OPGRAFT_ARG_VALUE)
      return og_give_up(import, "a statistic of batch norm is missing");
    args.in[3 + i] = arg->value;
  }
  const opgraft_arg *eps = og_arg_at(import, 8);
  if (!training) {
    if (eps == NULL || eps->kind != OPGRAFT_ARG_FLOAT ||
        value_of(import, args.in[4])->ndim != 1)
      return og_give_up(import, "the running variance has another form");
    OG_TRY(running_rstd(import, args.in[4], eps->f, &args.in[4]));
  }
  args.attrs[0] =
      (opgraft_arg){.kind = OPGRAFT_ARG_BOOL, .i = training ? 1 : 0};
  return og_emit(import, OG_IR_batch_norm_backward, args.in, 5, args.attrs);
}

// --- Contractions ------------------------------------------------------------

// ATen refuses a factor that a narrow type of integers lacks.
static og_status factor_check(og_import *import, const char *name) {
  const opgraft_arg *factor = og_arg_find(import, -1, name);
  const og_dtype to = import->record->results[0].dtype;
  if (factor == NULL || og_dtype_class(to) != OG_CLASS_I64 || to.bits == 64 ||
      (factor->kind == OPGRAFT_ARG_INT && (factor->i == 0 || factor->i == 1)))
    return OG_OK;
  return og_give_up(import, "a factor may not fit its tensor's type");
}

og_status og_import_index_add(og_import *import) {
  OG_TRY(factor_check(import, "alpha"));
  return og_import_plain(import);
}

// ATen reads no factors of a product that does not count, of which one may be
// a NaN; in a batch its size decides.
og_status og_import_addmm(og_import *import) {
  OG_TRY(factor_check(import, "beta"));
  OG_TRY(factor_check(import, "alpha"));
  const opgraft_arg *alpha = og_arg_find(import, -1, "alpha");
  if (alpha != NULL && (alpha->kind == OPGRAFT_ARG_FLOAT
                            ? alpha->f == 0
                            : alpha->kind == OPGRAFT_ARG_INT && alpha->i == 0))
    return og_give_up(import, "its alpha is 0");
  return og_import_plain(import);
}

// --- Attention ---------------------------------------------------------------

static bool has_dropout(const opgraft_arg *p) {
  return p != NULL && p->kind == OPGRAFT_ARG_FLOAT && p->f != 0;
}

// `dropout` is the position of the probability.
static og_status attention(og_import *import, int32_t op, int32_t in_count,
                           int32_t dropout) {
  og_spec_args args;
  OG_TRY(og_spec_read(import, &args));
  if (has_dropout(og_arg_at(import, dropout)))
    return og_give_up(import, "attention with dropout");
  return og_emit(import, op, args.in, in_count, args.attrs);
}

og_status og_import_attention(og_import *import) {
  return attention(import, OG_IR_attention, 4, 3);
}

og_status og_import_attention_backward(og_import *import) {
  return attention(import, OG_IR_attention_backward, 7, 6);
}
