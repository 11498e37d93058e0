// SPDX-License-Identifier: Apache-2.0
// Probes of what arguments do: a mask that hides everything, an argument that
// no kernel reads.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/probe/steady.h"
#include "check/probe/table.h"
#include "check/probe/uses.h"
#include "check/run/array.h"
#include "check/run/backward.h"
#include "check/run/name.h"
#include "check/run/record.h"
#include "check/run/trial.h"
#include "check/run/watchpoint.h"
#include "check/sample/sample.h"
#include "check/sample/valid.h"
#include "check/sample/value.h"
#include "decl/parse/expect.h"

// --- Masks -------------------------------------------------------------------

typedef enum mask { MASK_ALL, MASK_NO_FIRST_ROW, MASK_NONE } mask;

// Sets every bool argument; false if there is none.
static bool set_masks(og_inputs *inputs, const og_sample *s, mask kind) {
  bool any = false;
  for (int32_t t = 0; t < s->op->decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      og_array *a = &inputs->tensor[t][e];
      if (a->data == NULL || a->type.code != OG_CODE_BOOL || a->count == 0)
        continue;
      const int64_t row =
          a->sizes.rank > 0 ? a->sizes.size[a->sizes.rank - 1] : 1;
      memset(a->data, kind != MASK_NONE, (size_t)a->count);
      if (kind == MASK_NO_FIRST_ROW) memset(a->data, 0, (size_t)row);
      any = true;
    }
  return any;
}

static int64_t first_nan(const og_array *a) {
  if (!og_is_floating(a->type)) return -1;
  for (int64_t i = 0; i < a->count; ++i)
    if (isnan(og_array_get(a, i))) return i;
  return -1;
}

// The first output that holds a NaN, and where; -1: none does.
static int32_t output_with_nan(og_trial *trial, const og_inputs *inputs,
                               char *name, size_t size, int64_t *out_at) {
  og_outputs out;
  int32_t found = -1;
  if (!og_run_quietly(trial, &trial->sample, inputs, &out)) return -1;
  for (int32_t i = 0; i < out.count && found < 0; ++i) {
    *out_at = first_nan(&out.array[i]);
    if (*out_at >= 0) found = i;
  }
  if (found >= 0)
    og_name_of(trial->op, out.role[found], out.index[found], out.entry[found],
               name, size);
  og_outputs_reset(&out);
  return found;
}

// The first kind of mask under which a result has NaN, or MASK_ALL.
static mask mask_with_nan(og_trial *trial, og_inputs *inputs, char *name,
                          size_t size, int64_t *out_at) {
  static const mask kinds[] = {MASK_NO_FIRST_ROW, MASK_NONE};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
    set_masks(inputs, &trial->sample, kinds[i]);
    if (output_with_nan(trial, inputs, name, size, out_at) >= 0)
      return kinds[i];
  }
  return MASK_ALL;
}

// NaN where a mask hides a whole row, and nowhere with nothing hidden.
void og_probe_masked(og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  og_inputs inputs;
  char name[64];
  int64_t at;
  if (!og_is_comparable(trial) || trial->forward != NULL ||
      !og_inputs_copy(&inputs, &trial->inputs))
    return;
  if (!set_masks(&inputs, &trial->sample, MASK_ALL) ||
      output_with_nan(trial, &inputs, name, sizeof name, &at) >= 0)
    goto done;
  const mask kind = mask_with_nan(trial, &inputs, name, sizeof name, &at);
  if (kind != MASK_ALL) {
    og_tell_expect(trial->op, OG_EXPECT_NAN, name, true);
    og_tell_finding(trial->op, OPGRAFT_NOT_FINITE,
                    og_decl_expects(decl, OG_EXPECT_NAN, name), name,
                    "with %s hidden by the mask, element %lld is NaN; with "
                    "nothing hidden none is",
                    kind == MASK_NONE ? "everything" : "a row", (long long)at);
  }
  for (int32_t i = 0; kind == MASK_ALL && i < decl->expect_count; ++i)
    og_tell_expect(trial->op, OG_EXPECT_NAN, decl->expects[i].name, false);
done:
  og_inputs_reset(&inputs);
}

// --- Arguments that are not read ---------------------------------------------

static bool expr_has_attr(const og_expr *expr, int32_t k) {
  for (int32_t i = 0; i < expr->count; ++i) switch (expr->code[i].op) {
      case OG_CODE_ATTR_:
      case OG_CODE_ATTR_AT_:
      case OG_CODE_ATTR_LEN_:
      case OG_CODE_ATTR_PROD_:
      case OG_CODE_ATTR_SUM_:
      case OG_CODE_GIVEN_ATTR_:
        if (expr->code[i].slot == k) return true;
        break;
      default:
        break;
    }
  return false;
}

static bool items_have_attr(const og_item *items, int32_t count, int32_t k) {
  for (int32_t i = 0; i < count; ++i)
    if (items[i].attr == k || expr_has_attr(&items[i].expr, k)) return true;
  return false;
}

bool og_is_in_rules(const og_decl *decl, int32_t k) {
  if (expr_has_attr(&decl->workspace, k)) return true;
  for (int32_t p = 0; p < decl->pattern_count; ++p)
    if (items_have_attr(decl->patterns[p].items, decl->patterns[p].item_count,
                        k))
      return true;
  for (int32_t i = 0; i < decl->fresh_count; ++i)
    if (items_have_attr(decl->shapes[i].items, decl->shapes[i].item_count, k) ||
        expr_has_attr(&decl->shapes[i].list_count, k))
      return true;
  return false;
}

static bool is_empty(const og_outputs *out) {
  for (int32_t i = 0; i < out->count; ++i)
    if (out->array[i].count > 0) return false;
  return true;
}

// Values that a kernel may treat apart, here and there.
static void set_special(og_inputs *inputs, const og_decl *decl) {
  static const double special[] = {NAN, INFINITY, -INFINITY, 0};
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      og_array *a = &inputs->tensor[t][e];
      if (a->data == NULL || !og_is_floating(a->type)) continue;
      for (int64_t i = 0; i < a->count && i < 4; ++i)
        og_array_set(a, i, special[i]);
    }
}

// Adds the bits of the arguments that the backward operator is given and reads.
static void read_by_backward(og_trial *trial, uint32_t *read) {
  const og_decl *decl = trial->op->decl;
  const opgraft_op *op =
      decl->grad.kind == OG_GRAD_OPERATOR
          ? opgraft_module_find_op(trial->op->module, decl->grad.op_name)
          : NULL;
  og_array weight[OG_ARRAYS_MAX] = {{.data = NULL}};
  const og_saved saved = {&trial->sample, &trial->inputs, &trial->base, weight};
  og_sample *sample = malloc(sizeof *sample);
  og_inputs inputs;
  og_outputs out;
  og_mode mode = og_mode_plain;
  mode.is_quiet = mode.watches_arguments = true;
  if (sample == NULL || op == NULL ||
      !og_weights_draw(&trial->base, trial->sample.seed, OG_WEIGHTS_READ,
                       weight) ||
      !og_backward_fill(&saved, op, sample, &inputs))
    goto done;
  if (og_trial_run(trial, sample, &inputs, &mode, &out) == OG_RAN) {
    for (int32_t a = 0; a < decl->grad.arg_count; ++a) {
      const opgraft_grad_arg *arg = &decl->grad.args[a];
      if (arg->source != OPGRAFT_GRAD_PARAM) continue;
      const og_param *from = &decl->params[arg->index];
      if (from->type != OG_TYPE_TENSOR &&
          (og_is_in_rules(op->decl, op->decl->params[a].index) ||
           trial->arguments_read >> op->decl->params[a].index & 1u))
        *read |= 1u << from->index;
    }
    og_outputs_reset(&out);
  }
  og_inputs_reset(&inputs);
done:
  og_weights_reset(weight);
  free(sample);
}

// Bits of the arguments that a run on these inputs reads; false if there was
// no run.
static bool read_by(og_trial *trial, const og_inputs *inputs, uint32_t *read,
                    uint8_t *entries) {
  og_outputs out;
  og_mode mode = og_mode_plain;
  mode.is_quiet = mode.watches_arguments = true;
  if (og_trial_run(trial, &trial->sample, inputs, &mode, &out) != OG_RAN)
    return false;
  og_outputs_reset(&out);
  *read |= trial->arguments_read;
  for (int32_t k = 0; k < OPGRAFT_ATTR_MAX; ++k)
    entries[k] |= trial->entries_read[k];
  return true;
}

static bool is_watched(const og_decl *decl, const og_param *param) {
  return param->type != OG_TYPE_TENSOR && param->type != OG_TYPE_SCALAR_TYPE &&
         param->type != OG_TYPE_DEVICE && !og_is_in_rules(decl, param->index);
}

// Records what one call shows of an argument: whether the operator's own
// kernel reads it (a bit of `own`), and whether any kernel does (of `any`).
static void tell_use(const og_trial *trial, const og_param *param, uint32_t own,
                     uint32_t any) {
  og_tell_use(trial->op, param->name,
              (any >> param->index & 1u) << OG_USE_ANY |
                  (own >> param->index & 1u) << OG_USE_OWN);
}

// --- Arguments that a rule uses ----------------------------------------------

// Where the last operand of a postfix expression begins, before its code `end`;
// -1: it has more than sums, products and rounded-down quotients of names.
static int32_t operand_begin(const og_expr *expr, int32_t end) {
  int32_t missing = 1;
  for (int32_t i = end - 1; i >= 0; --i) switch (expr->code[i].op) {
      case OG_CODE_CONST_:
      case OG_CODE_DIM_:
      case OG_CODE_ATTR_:
        if (--missing == 0) return i;
        break;
      case OG_CODE_ADD_:
      case OG_CODE_SUB_:
      case OG_CODE_MUL_:
      case OG_CODE_FLOOR_DIV_:
        ++missing;
        break;
      default:
        return -1;
    }
  return -1;
}

// Whether the expression has nothing of the attribute, or is a rounded-down
// quotient by it, what it divides without it: how far apart the parts lie is in
// the attribute alone. Of a limit (min), a count of parts (ceildiv), an end
// that is a sum, or a multiple, the sizes may be all that matters.
static bool is_quotient_by(const og_expr *expr, int32_t k) {
  if (!expr_has_attr(expr, k)) return true;
  if (expr->code[expr->count - 1].op != OG_CODE_FLOOR_DIV_) return false;
  const int32_t begin = operand_begin(expr, expr->count - 1);
  for (int32_t i = 0; i < begin; ++i)
    if (expr->code[i].op == OG_CODE_ATTR_ && expr->code[i].slot == k)
      return false;
  return begin > 0 && operand_begin(expr, begin) == 0;
}

// Whether the attribute is taken away from what is then divided, rounding
// down: "(L - kernel) // stride + 1". Several values give the same count of
// windows, which are as long as the attribute says.
static bool is_window_of(const og_expr *expr, int32_t k) {
  int32_t uses = 0, quotients = 0, first = -1;
  for (int32_t i = 0; i < expr->count; ++i) {
    const bool is_use =
        expr->code[i].op == OG_CODE_ATTR_ && expr->code[i].slot == k;
    uses += is_use;
    if (is_use) first = i;
    quotients += first >= 0 && expr->code[i].op == OG_CODE_FLOOR_DIV_;
  }
  return uses == 1 && quotients == 1 && first + 2 < expr->count &&
         expr->code[first + 1].op == OG_CODE_SUB_ &&
         expr->code[first + 2].op != OG_CODE_FLOOR_DIV_;
}

static bool leave_open(const og_item *items, int32_t count, int32_t k) {
  for (int32_t i = 0; i < count; ++i)
    if (items[i].attr == k || (!is_quotient_by(&items[i].expr, k) &&
                               !is_window_of(&items[i].expr, k)))
      return false;
  return true;
}

// Whether the rules use the attribute as what sizes are divided by, or as the
// length of windows, and as nothing else.
static bool is_open_in_rules(const og_decl *decl, int32_t k) {
  for (int32_t p = 0; p < decl->pattern_count; ++p)
    if (!leave_open(decl->patterns[p].items, decl->patterns[p].item_count, k))
      return false;
  for (int32_t i = 0; i < decl->fresh_count; ++i)
    if (decl->shapes[i].kind != OG_SHAPE_ITEMS ||
        !leave_open(decl->shapes[i].items, decl->shapes[i].item_count, k))
      return false;
  return !decl->has_lists && !expr_has_attr(&decl->workspace, k);
}

// The call with another value of the attribute, and what it gives; false where
// there is none.
static bool run_with(og_trial *trial, int32_t k, int64_t value,
                     og_sample *out_sample, og_outputs *out) {
  opgraft_error error;
  *out_sample = trial->sample;
  out_sample->attr[k].i = value;
  return og_sample_is_valid(out_sample, INT64_MAX, &error) &&
         out_sample->attr[k].i == value &&
         memcmp(out_sample->dim, trial->sample.dim, sizeof out_sample->dim) ==
             0 &&
         og_run_quietly(trial, out_sample, &trial->inputs, out);
}

static bool are_sizes_equal(const og_outputs *a, const og_outputs *b) {
  bool is_equal = a->count == b->count;
  for (int32_t i = 0; is_equal && i < a->count; ++i)
    is_equal = og_dims_equal(&a->array[i].sizes, &b->array[i].sizes);
  return is_equal;
}

enum { OPEN_MIN = 2, OPEN_MAX = 6 };

// The call with a value of the attribute beside which another one has the same
// sizes: only by reading it can the kernel know it.
static bool find_open(og_trial *trial, int32_t k, og_sample *out) {
  bool is_open = false;
  for (int64_t v = OPEN_MIN; v <= OPEN_MAX && !is_open; ++v) {
    og_sample next;
    og_outputs a, b;
    if (!run_with(trial, k, v, out, &a)) continue;
    if (!is_empty(&a) && run_with(trial, k, v + 1, &next, &b)) {
      is_open = are_sizes_equal(&a, &b);
      og_outputs_reset(&b);
    }
    og_outputs_reset(&a);
  }
  return is_open;
}

// An int argument that the shape rule divides by, where its value is left open.
static void see_in_rules(og_trial *trial, const og_param *param) {
  const int32_t k = param->index;
  og_sample *s = malloc(sizeof *s);
  og_outputs out;
  og_mode mode = og_mode_plain;
  mode.is_quiet = mode.watches_arguments = true;
  if (s != NULL && param->type == OG_TYPE_INT &&
      trial->sample.attr[k].kind == OG_ATTR_INT &&
      is_open_in_rules(trial->op->decl, k) && find_open(trial, k, s) &&
      og_trial_run(trial, s, &trial->inputs, &mode, &out) == OG_RAN) {
    const uint32_t own = trial->arguments_read;
    uint32_t any = own;
    if (!(own >> k & 1u)) read_by_backward(trial, &any);
    tell_use(trial, param, own, any);
    og_outputs_reset(&out);
  }
  free(s);
}

// --- The probe ---------------------------------------------------------------

// Which entries of a list of numbers were read: the first, the last, others.
static void tell_entries(og_trial *trial, const og_param *param, uint8_t read) {
  const og_attr *a = &trial->sample.attr[param->index];
  char name[64];
  if ((a->kind != OG_ATTR_INTS && a->kind != OG_ATTR_BOOLS &&
       a->kind != OG_ATTR_FLOATS) ||
      a->count < 2 || a->count > OG_WATCH_ENTRIES)
    return;
  const uint32_t last = (uint32_t)a->count - 1, bits = read;
  const uint32_t at_first = bits & 1u, at_last = bits >> last & 1u;
  const uint32_t between = last == 1 ? bits : bits & ~(1u | 1u << last);
  const uint32_t used = at_first << OG_END_FIRST | at_last << OG_END_LAST |
                        (uint32_t)(between != 0) << OG_END_NONE;
  snprintf(name, sizeof name, "%.56s[]", param->name);
  og_tell_ends(trial->op, name, used);
}

// What arguments that no rule uses are told of, by bits.
static void tell_uses(og_trial *trial, uint32_t own, uint32_t any,
                      const uint8_t *entries) {
  const og_decl *decl = trial->op->decl;
  for (int32_t p = 0; p < decl->param_count; ++p) {
    const og_param *param = &decl->params[p];
    if (!is_watched(decl, param)) continue;
    tell_use(trial, param, own, any);
    tell_entries(trial, param, entries[param->index]);
  }
}

static void see_watched(og_trial *trial, uint32_t wanted) {
  uint8_t entries[OPGRAFT_ATTR_MAX] = {0};
  uint32_t own = 0;
  og_inputs special;
  if (!read_by(trial, &trial->inputs, &own, entries)) return;
  if ((wanted & ~own) != 0 && og_inputs_copy(&special, &trial->inputs)) {
    set_special(&special, trial->op->decl);
    read_by(trial, &special, &own, entries);
    og_inputs_reset(&special);
  }
  uint32_t any = own;
  if ((wanted & ~own) != 0) read_by_backward(trial, &any);
  tell_uses(trial, own, any, entries);
}

void og_probe_unused(og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  uint32_t wanted = 0;
  if (!trial->has_base || trial->forward != NULL || is_empty(&trial->base) ||
      !og_watch_works())
    return;
  for (int32_t p = 0; p < decl->param_count; ++p) {
    const og_param *param = &decl->params[p];
    if (is_watched(decl, param))
      wanted |= 1u << param->index;
    else if (param->type != OG_TYPE_TENSOR)
      see_in_rules(trial, param);
  }
  if (wanted != 0) see_watched(trial, wanted);
}
