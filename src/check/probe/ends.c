// SPDX-License-Identifier: Apache-2.0
// Elements at the ends of an argument that nothing depends on, where others
// have an effect: a loop that begins or ends too late.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/probe/steady.h"
#include "check/probe/table.h"
#include "check/run/array.h"
#include "check/run/axis.h"
#include "check/run/compare.h"
#include "check/run/fill.h"
#include "check/run/guard.h"
#include "check/run/record.h"
#include "check/run/trial.h"
#include "check/sample/eval.h"
#include "check/sample/offsets.h"
#include "check/sample/sample.h"
#include "check/sample/valid.h"
#include "check/sample/value.h"

enum { COUNT_MIN = 3 };  // a first, a last, and one between

typedef struct place {
  int32_t tensor;
  int32_t entry;
  int64_t element;
} place;

static char *at(const og_array *a, int64_t element) {
  return a->data + (size_t)element * og_dtype_bytes(a->type);
}

// Other values to try: of the other sign and not small; zero, which a kernel
// may treat apart; and, where a whole argument seems to have no effect, NaN and
// infinity.
enum { OTHERS = 2, ALL_OTHERS = 4 };

static double other_than(double value, int32_t which) {
  if (which >= OTHERS) return which == OTHERS ? NAN : INFINITY;
  if (which == 1) return value == 0 ? 2 : 0;
  return value < 0 ? 1.5 - value : -1.5 - value;
}

// Another value for the element; false where an integer has none.
static bool set_other(og_array *a, int64_t element, int32_t which) {
  if (!og_has_fractions(a->type)) return og_array_vary(a, element);
  og_value_set(a->type, at(a, element), 0,
               other_than(og_value_get(a->type, at(a, element), 0), which));
  return true;
}

// The argument's own result, where the kernel writes it.
static og_array *result_of(og_outputs *out, const place *p) {
  for (int32_t i = 0; i < out->count; ++i)
    if (out->role[i] == OG_ROLE_MUTATED && out->index[i] == p->tensor &&
        out->entry[i] == p->entry)
      return &out->array[i];
  return NULL;
}

static bool is_written(og_trial *trial, const place *p) {
  const og_array *in = &trial->inputs.tensor[p->tensor][p->entry];
  const og_array *out = result_of(&trial->base, p);
  return out != NULL && out->count == in->count &&
         memcmp(at(in, p->element), at(out, p->element),
                og_dtype_bytes(in->type)) != 0;
}

// Whether another value there changes anything but the element itself.
static og_ran changes_results(og_trial *trial, const place *p, int32_t which,
                              bool *out) {
  og_inputs inputs;
  og_outputs got;
  og_mode mode = og_mode_plain;
  mode.is_quiet = true;
  if (!og_inputs_copy(&inputs, &trial->inputs)) return OG_RAN_FAILED;
  og_array *a = &inputs.tensor[p->tensor][p->entry];
  char *element = at(a, p->element);
  if (!set_other(a, p->element, which)) {
    og_inputs_reset(&inputs);
    return OG_RAN_FAILED;
  }
  const og_ran ran = og_trial_run(trial, &trial->sample, &inputs, &mode, &got);
  if (ran == OG_RAN) {
    const og_array *own = result_of(&got, p);
    const og_array *base = result_of(&trial->base, p);
    if (own != NULL && base != NULL && own->count == base->count &&
        memcmp(at(own, p->element), element, og_dtype_bytes(a->type)) == 0)
      memcpy(at(own, p->element), at(base, p->element),
             og_dtype_bytes(a->type));
    *out = og_outputs_compare(trial->op, &got, &trial->base, 0).differs;
    og_outputs_reset(&got);
  }
  og_inputs_reset(&inputs);
  return ran;
}

// --- Padding -----------------------------------------------------------------

static bool has_code(const og_expr *expr, int32_t op, int32_t slot) {
  for (int32_t i = 0; i < expr->count; ++i)
    if (expr->code[i].op == op && (slot < 0 || expr->code[i].slot == slot))
      return true;
  return false;
}

static bool is_rounding(const og_expr *expr) {
  return has_code(expr, OG_CODE_CEIL_DIV_, -1) ||
         has_code(expr, OG_CODE_FLOOR_DIV_, -1);
}

// Whether a condition rounds the dim: its last places may be padding.
static bool is_dim_rounded(const og_decl *decl, int32_t d) {
  for (int32_t c = 0; c < decl->condition_count; ++c)
    if (is_rounding(&decl->conditions[c].expr) &&
        has_code(&decl->conditions[c].expr, OG_CODE_DIM_, d))
      return true;
  return false;
}

// ceildiv(D, group): so many groups, of which the last may be a part.
static bool is_count_of_groups(const og_expr *expr) {
  return expr->count > 0 && expr->code[expr->count - 1].op == OG_CODE_CEIL_DIV_;
}

// Whether the size is rounded up to a multiple.
static bool is_item_rounded(const og_decl *decl, const og_item *item) {
  if (item->kind == OG_ITEM_EXPR)
    return is_rounding(&item->expr) && !is_count_of_groups(&item->expr);
  return item->kind == OG_ITEM_DIM && is_dim_rounded(decl, item->dim);
}

// The last element, or, where a size is rounded up and what it ends with may be
// padding, the first one of the last row; -1 where that may be padding too.
static int64_t last_place(const og_decl *decl, int32_t tensor,
                          const og_array *a) {
  const og_pattern *pattern = og_pattern_of(decl, tensor);
  for (int32_t i = 0; pattern != NULL && i < pattern->item_count; ++i)
    if (is_item_rounded(decl, &pattern->items[i]))
      return i == 0 ? -1 : a->count - a->count / a->sizes.size[0];
  return a->count - 1;
}

// --- Ends --------------------------------------------------------------------

// Those that are drawn in order may have to fit each other, too.
static bool may_change(const og_trial *trial, int32_t tensor,
                       const og_array *a) {
  const og_decl *decl = trial->op->decl;
  const og_index_values drawn = trial->sample.index_values;
  return og_has_fractions(a->type) ||
         (og_is_integral(a->type) && !og_has_fitting_integers(decl, tensor) &&
          !decl->params[decl->tensor_params[tensor]].is_mutated &&
          (drawn == OG_INDEX_RANDOM || drawn == OG_INDEX_DISTINCT));
}

// Whether anything depends on the element, or it is written; false where the
// changed calls do not run.
static bool see_place(og_trial *trial, const place *p, bool *out) {
  const og_array *a = &trial->inputs.tensor[p->tensor][p->entry];
  const int32_t others = og_has_fractions(a->type)         ? OTHERS
                         : may_change(trial, p->tensor, a) ? 1
                                                           : 0;
  *out = is_written(trial, p);
  for (int32_t i = 0; i < others && !*out; ++i)
    if (changes_results(trial, p, i, out) != OG_RAN) return false;
  return true;
}

// Whether the kernel reads an argument on which nothing depends.
static bool is_read_in_vain(og_trial *trial, int32_t tensor, int32_t entry) {
  const place p = {tensor, entry, 1};
  const og_array *a = &trial->inputs.tensor[tensor][entry];
  og_mode mode = og_mode_plain;
  og_outputs out;
  for (int32_t i = OTHERS; i < ALL_OTHERS && og_has_fractions(a->type); ++i) {
    bool is_used;
    if (changes_results(trial, &p, i, &is_used) != OG_RAN || is_used)
      return false;
  }
  mode.is_quiet = true;
  mode.watched_tensor = 1 + tensor;
  // Nobody sees a device read its memory.
  if (entry > 0 || trial->device != NULL ||
      og_trial_run(trial, &trial->sample, &trial->inputs, &mode, &out) !=
          OG_RAN)
    return false;
  og_outputs_reset(&out);
  return trial->tensor_read;
}

// Of integers the ends may mean nothing (the first of offsets is 0), so that
// only one thing is told of them: that nothing but the first element matters,
// or that more does. False where neither is known.
static bool only_first(uint32_t *used) {
  const uint32_t first = 1u << OG_END_FIRST, last = 1u << OG_END_LAST;
  if (*used >> OG_END_NONE & 1u)
    *used |= first | last;
  else if (*used & first)
    *used |= last;
  return (*used & first) != 0;
}

// Which of the argument's ends something depends on; false where changed calls
// do not run. Those next to the ends are used where only the first or last row
// is.
static bool see_ends(og_trial *trial, int32_t tensor, int32_t entry,
                     uint32_t *used) {
  const og_array *a = &trial->inputs.tensor[tensor][entry];
  og_random r = {og_seed_mix(trial->sample.seed, (uint64_t)tensor + 1)};
  const int64_t last = last_place(trial->op->decl, tensor, a);
  const struct {
    int32_t end;
    int64_t element;
  } tries[] = {{OG_END_FIRST, 0},
               {OG_END_LAST, last},
               {OG_END_NONE, og_random_between(&r, 1, a->count - 2)},
               {OG_END_NONE, 1},
               {OG_END_NONE, a->count - 2}};
  *used = last < 0 ? 1u << OG_END_LAST : 0;
  for (size_t i = 0; i < sizeof tries / sizeof *tries; ++i) {
    const place p = {tensor, entry, tries[i].element};
    bool is_used;
    if (*used >> tries[i].end & 1u) continue;
    if (!see_place(trial, &p, &is_used)) return false;
    *used |= (uint32_t)is_used << tries[i].end;
  }
  return true;
}

static void try_ends(og_trial *trial, int32_t tensor, int32_t entry) {
  const og_array *a = &trial->inputs.tensor[tensor][entry];
  const og_decl *decl = trial->op->decl;
  uint32_t used;
  if (!see_ends(trial, tensor, entry, &used)) return;
  if (!og_has_fractions(a->type) && may_change(trial, tensor, a) &&
      !only_first(&used))
    return;
  if (used == 0 && is_read_in_vain(trial, tensor, entry))
    used = 1u << OG_END_READ;
  og_tell_ends(trial->op, decl->params[decl->tensor_params[tensor]].name, used);
}

// --- Groups of which the last is a part --------------------------------------

enum { GROUPS_MIN = 3, LENGTH_MIN = 5, LENGTH_MAX = 80, STEP = 4 };

// The value of the same expression with its last division rounding down.
static bool eval_floor(const og_sample *s, const og_expr *expr, int64_t *out) {
  og_instruction code[OG_EXPR_CODE_MAX];
  og_expr whole = *expr;
  memcpy(code, expr->code, (size_t)expr->count * sizeof *code);
  code[expr->count - 1].op = OG_CODE_FLOOR_DIV_;
  whole.code = code;
  return og_sample_eval(s, &whole, out);
}

// The call with a size of dim `d` that makes several groups and a part.
static bool find_partial(const og_trial *trial, const og_expr *expr, int32_t d,
                         og_sample *out) {
  const int64_t begin = LENGTH_MIN + (int64_t)(trial->sample.seed % STEP);
  for (int64_t size = begin; size < LENGTH_MAX; size += STEP) {
    opgraft_error error;
    int64_t groups, whole;
    *out = trial->sample;
    out->dim[d] = size;
    if (og_sample_is_valid(out, INT64_MAX, &error) && out->dim[d] == size &&
        og_sample_eval(out, expr, &groups) && groups >= GROUPS_MIN &&
        eval_floor(out, expr, &whole) && groups != whole)
      return true;
  }
  return false;
}

// As if that were the trial's own call: whether the part's element counts.
static void try_partial(og_trial *trial, int32_t tensor, const og_sample *s) {
  const og_decl *decl = trial->op->decl;
  og_trial other = *trial;
  char name[64];
  uint32_t used;
  other.sample = *s;
  if (!og_inputs_fill(&other.inputs, s)) return;
  if (og_run_quietly(&other, s, &other.inputs, &other.base)) {
    const og_array *a = &other.inputs.tensor[tensor][0];
    snprintf(name, sizeof name, "%.60s%%",
             decl->params[decl->tensor_params[tensor]].name);
    if (og_has_fractions(a->type) && a->count >= COUNT_MIN &&
        see_ends(&other, tensor, 0, &used))
      og_tell_ends(trial->op, name, used);
    og_outputs_reset(&other.base);
  }
  og_inputs_reset(&other.inputs);
}

// One float element for each group, `scale[ceildiv(D, group)]`.
static void try_groups(og_trial *trial, const og_pattern *pattern) {
  og_sample *s = malloc(sizeof *s);
  for (int32_t i = 0; s != NULL && i < pattern->item_count; ++i) {
    const og_item *item = &pattern->items[i];
    if (item->kind != OG_ITEM_EXPR || !is_count_of_groups(&item->expr))
      continue;
    for (int32_t c = 0; c < item->expr.count; ++c)
      if (item->expr.code[c].op == OG_CODE_DIM_ &&
          find_partial(trial, &item->expr, item->expr.code[c].slot, s)) {
        try_partial(trial, pattern->tensor, s);
        break;
      }
  }
  free(s);
}

// Whether anything depends on the entries at the ends of a list, by a place
// between in each; entries between may all be empty.
static void try_entries(og_trial *trial, int32_t tensor) {
  const og_decl *decl = trial->op->decl;
  const int32_t count = trial->sample.list_count[tensor];
  og_random r = {og_seed_mix(trial->sample.seed, 91 + (uint64_t)tensor)};
  uint32_t used = 0;
  char name[64];
  for (int32_t e = 0; e < count; ++e) {
    const og_array *a = &trial->inputs.tensor[tensor][e];
    const int32_t end = e == 0           ? OG_END_FIRST
                        : e == count - 1 ? OG_END_LAST
                                         : OG_END_NONE;
    if (a->data == NULL || a->count == 0 || !og_has_fractions(a->type)) return;
    const place p = {tensor, e, og_random_below(&r, a->count)};
    bool is_used;
    if (!see_place(trial, &p, &is_used)) return;
    used |= (uint32_t)is_used << end;
  }
  // Of two entries the other one stands for those between.
  if (count == 2 && used != 0) used |= 1u << OG_END_NONE;
  snprintf(name, sizeof name, "%.56s[]",
           decl->params[decl->tensor_params[tensor]].name);
  og_tell_ends(trial->op, name, used);
}

// --- Places along a dim ------------------------------------------------------

// Other values at one place of the axis: bools turn, numbers are others.
static void set_place(og_array *a, int32_t axis, int64_t index, int32_t which) {
  int64_t inner = 1;
  for (int32_t d = axis + 1; d < a->sizes.rank; ++d) inner *= a->sizes.size[d];
  for (int64_t i = 0; i < a->count; ++i) {
    if (i / inner % a->sizes.size[axis] != index) continue;
    if (a->type.code == OG_CODE_BOOL)
      *at(a, i) = *at(a, i) == 0;
    else
      set_other(a, i, which);
  }
}

// Whether other values there change anything; false where the changed calls do
// not run.
static bool see_axis_place(og_trial *trial, int32_t tensor, int32_t axis,
                           int64_t index, bool *out) {
  *out = false;
  for (int32_t i = 0; i < OTHERS && !*out; ++i) {
    og_inputs inputs;
    og_outputs got;
    if (!og_inputs_copy(&inputs, &trial->inputs)) return false;
    set_place(&inputs.tensor[tensor][0], axis, index, i);
    const bool ran = og_run_quietly(trial, &trial->sample, &inputs, &got);
    if (ran) {
      *out = og_outputs_compare(trial->op, &got, &trial->base, 0).differs;
      og_outputs_reset(&got);
    }
    og_inputs_reset(&inputs);
    if (!ran) return false;
  }
  return true;
}

static bool is_in_results(const og_trial *trial, int32_t d) {
  for (int32_t i = 0; i < trial->base.count; ++i)
    if (og_output_axis(&trial->sample, &trial->base, i, d) >= 0) return true;
  return false;
}

// Which places along dim d matter: told of by the name "mask.B". Of a dim that
// no result names an operator may take one place only.
static void try_axis(og_trial *trial, int32_t tensor, int32_t axis, int32_t d) {
  const og_decl *decl = trial->op->decl;
  const int64_t size = trial->inputs.tensor[tensor][0].sizes.size[axis];
  og_random r = {og_seed_mix(trial->sample.seed, 17 + (uint64_t)axis)};
  const struct {
    int32_t end;
    int64_t index;
  } tries[] = {{OG_END_FIRST, 0},
               {OG_END_LAST, size - 1},
               {OG_END_NONE, og_random_between(&r, 1, size - 2)}};
  uint32_t used = 0;
  char name[64];
  for (size_t i = 0; i < sizeof tries / sizeof *tries; ++i) {
    bool is_used;
    if (!see_axis_place(trial, tensor, axis, tries[i].index, &is_used)) return;
    used |= (uint32_t)is_used << tries[i].end;
  }
  if (!(used >> OG_END_NONE & 1u) && !is_in_results(trial, d)) return;
  snprintf(name, sizeof name, "%.40s.%.20s",
           decl->params[decl->tensor_params[tensor]].name, decl->dims[d].name);
  og_tell_ends(trial->op, name, used);
}

// Indices pick some places more often than others.
static bool has_index(const og_trial *trial) {
  for (int32_t t = 0; t < trial->op->decl->tensor_count; ++t)
    if (trial->sample.is_given[t] && og_is_integral(trial->sample.type[t]) &&
        trial->sample.type[t].bits > 8)
      return true;
  return false;
}

// Plain dims of arguments whose values may be any.
static void try_axes(og_trial *trial, int32_t tensor) {
  const og_decl *decl = trial->op->decl;
  const og_array *a = &trial->inputs.tensor[tensor][0];
  const og_param *param = &decl->params[decl->tensor_params[tensor]];
  if (a->data == NULL || a->sizes.rank < 2 || a->count == 0 ||
      param->is_mutated || param->is_list || has_index(trial) ||
      !(og_has_fractions(a->type) || a->type.code == OG_CODE_BOOL))
    return;
  for (int32_t d = 0; d < decl->dim_count; ++d) {
    const int32_t axis =
        decl->dims[d].kind == OG_DIM_SIZE && !is_dim_rounded(decl, d)
            ? og_argument_axis(&trial->sample, tensor, d)
            : OG_NO_AXIS;
    if (axis >= 0 && a->sizes.size[axis] >= COUNT_MIN)
      try_axis(trial, tensor, axis, d);
  }
}

// --- Two places in exchange --------------------------------------------------

// Integers may have to fit each other, but two places of a plain dim, exchanged
// in all that names it, fit as before. Then results change at these places, and
// not at others.
typedef struct exchange {
  int32_t dim;
  int32_t order[OG_ORDER_MAX];
  int32_t first;
  int32_t second;
} exchange;

static bool inputs_exchange(const og_sample *s, og_inputs *inputs,
                            const exchange *x, bool has_integers) {
  for (int32_t t = 0; t < s->op->decl->tensor_count; ++t) {
    og_array *a = &inputs->tensor[t][0];
    uint32_t axes;
    if (a->data == NULL || (!has_integers && og_is_integral(a->type))) continue;
    if (s->list_count[t] > 1 || !og_argument_axes(s, t, x->dim, &axes) ||
        !og_array_reorder(a, axes, x->order))
      return false;
  }
  return true;
}

// Gives both places what the base run has there; false where a result does not
// have the dim once.
static bool places_restore(const og_trial *trial, const exchange *x,
                           og_outputs *got) {
  bool any = false;
  for (int32_t i = 0; i < got->count; ++i)
    for (int32_t k = 0; k < 2; ++k) {
      const int32_t axis = og_output_axis(&trial->sample, got, i, x->dim);
      const int32_t where = k == 0 ? x->first : x->second;
      og_array own;
      if (axis < 0 ||
          !og_array_slice(&trial->base.array[i], axis, where, 1, &own))
        return false;
      og_array_place(&got->array[i], axis, where, &own);
      free(own.data);
      any = true;
    }
  return any;
}

// Whether results change elsewhere; false in *out_ran where that is not known.
static bool changes_others(og_trial *trial, exchange *x, int32_t first,
                           int32_t second, bool has_integers, bool *out_ran) {
  og_inputs inputs;
  og_outputs got;
  bool differs = false;
  *out_ran = false;
  for (int32_t i = 0; i < OG_ORDER_MAX; ++i) x->order[i] = i;
  x->order[x->first = first] = second;
  x->order[x->second = second] = first;
  if (!og_inputs_copy(&inputs, &trial->inputs)) return false;
  if (inputs_exchange(&trial->sample, &inputs, x, has_integers) &&
      og_run_quietly(trial, &trial->sample, &inputs, &got)) {
    *out_ran = places_restore(trial, x, &got);
    differs = *out_ran &&
              og_outputs_compare(trial->op, &got, &trial->base, -1).differs;
    og_outputs_reset(&got);
  }
  og_inputs_reset(&inputs);
  return differs;
}

// Whether the integer at a place decides what others give.
static bool is_of_all(og_trial *trial, exchange *x, int32_t where,
                      int32_t other, bool *out_ran) {
  bool ran;
  const bool differs = changes_others(trial, x, where, other, true, out_ran);
  return differs && !changes_others(trial, x, where, other, false, &ran) && ran;
}

// Whether the integers at two places are the same, so that an exchange of them
// shows nothing.
static bool are_alike(const og_array *a, int32_t axis, int32_t first,
                      int32_t second) {
  og_array one, two;
  if (!og_array_slice(a, axis, first, 1, &one)) return true;
  const bool is_copied = og_array_slice(a, axis, second, 1, &two);
  const bool alike =
      !is_copied || memcmp(one.data, two.data,
                           (size_t)one.count * og_dtype_bytes(a->type)) == 0;
  if (is_copied) free(two.data);
  free(one.data);
  return alike;
}

// One of the integers is used for all places, the others for none: told of by
// the name "row@". The place that it is exchanged with is another in each call.
static void try_exchange(og_trial *trial, int32_t tensor, int32_t axis,
                         int32_t d) {
  const og_decl *decl = trial->op->decl;
  const int32_t size = (int32_t)trial->sample.dim[d], middle = size / 2;
  og_random r = {og_seed_mix(trial->sample.seed, 53 + (uint64_t)d)};
  const int32_t below = (int32_t)og_random_between(&r, 1, size - 3);
  const int32_t other = below + (below >= middle);
  const int32_t where[] = {
      [OG_END_FIRST] = 0, [OG_END_NONE] = middle, [OG_END_LAST] = size - 1};
  exchange x = {.dim = d};
  uint32_t used = 0;
  char name[64];
  for (int32_t end = 0; end < (int32_t)(sizeof where / sizeof *where); ++end) {
    bool ran;
    if (are_alike(&trial->inputs.tensor[tensor][0], axis, where[end], other))
      return;
    used |= (uint32_t)is_of_all(trial, &x, where[end], other, &ran) << end;
    if (!ran) return;
  }
  snprintf(name, sizeof name, "%.60s@",
           decl->params[decl->tensor_params[tensor]].name);
  og_tell_ends(trial->op, name, used);
}

// A plain dim of the integers, long enough for two places between the ends.
static void try_exchanges(og_trial *trial, int32_t tensor) {
  const og_decl *decl = trial->op->decl;
  const og_array *a = &trial->inputs.tensor[tensor][0];
  if (a->data == NULL || !og_is_integral(a->type) ||
      og_is_offsets_argument(decl, tensor))
    return;
  for (int32_t d = 0; d < decl->dim_count; ++d) {
    if (decl->dims[d].kind != OG_DIM_SIZE ||
        trial->sample.dim[d] <= COUNT_MIN ||
        trial->sample.dim[d] > OG_ORDER_MAX)
      continue;
    const int32_t axis = og_argument_axis(&trial->sample, tensor, d);
    if (axis >= 0) try_exchange(trial, tensor, axis, d);
  }
}

void og_probe_ends(og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  if (!og_is_comparable(trial) || trial->forward != NULL) return;
  for (int32_t p = 0; p < decl->pattern_count; ++p)
    if (!decl->patterns[p].is_list) try_groups(trial, &decl->patterns[p]);
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    if (decl->params[decl->tensor_params[t]].is_list &&
        trial->sample.list_count[t] > 1)
      try_entries(trial, t);
    try_axes(trial, t);
    try_exchanges(trial, t);
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      const og_array *a = &trial->inputs.tensor[t][e];
      const bool is_mutated = decl->params[decl->tensor_params[t]].is_mutated;
      if (a->data == NULL || a->count < COUNT_MIN ||
          !(may_change(trial, t, a) || is_mutated))
        continue;
      try_ends(trial, t, e);
      break;  // the entries of a list are alike
    }
  }
}
