// SPDX-License-Identifier: Apache-2.0
// In which order a kernel writes the dims of a result.
//
// A dim that an argument and a result both name is the same axis. Another value
// at one place of the argument then changes the result at that place of the
// axis only, unless the kernel mixes along it. Where it is elsewhere by the
// declared order of the result's dims, and at that place by another order, time
// and again, the kernel writes them in the other order.

#include <string.h>

#include "check/probe/steady.h"
#include "check/probe/table.h"
#include "check/run/array.h"
#include "check/run/axis_order.h"
#include "check/run/guard.h"
#include "check/run/record.h"
#include "check/run/trial.h"
#include "check/sample/offsets.h"
#include "check/sample/sample.h"
#include "check/sample/value.h"

enum { NOT_SHARED = -1, TRIES = 3 };

// The dims of a tensor, by item of its pattern; a pack's count as one.
typedef struct axes {
  int32_t count;
  int32_t name[OG_ORDER_ITEMS];  // NOT_SHARED: an expression
  int64_t size[OG_ORDER_ITEMS];
} axes;

static bool axes_read(const og_sample *s, const og_item *items, int32_t count,
                      const og_dims *sizes, axes *out) {
  int32_t at = 0;
  if (count > OG_ORDER_ITEMS) return false;
  out->count = count;
  for (int32_t i = 0; i < count; ++i) {
    const og_item *item = &items[i];
    if (item->kind != OG_ITEM_DIM && item->kind != OG_ITEM_PACK &&
        item->kind != OG_ITEM_EXPR)
      return false;
    if (item->kind == OG_ITEM_DIM && item->attr >= 0) return false;
    const int32_t rank =
        item->kind == OG_ITEM_PACK ? s->pack[item->dim].rank : 1;
    out->name[i] = item->kind == OG_ITEM_EXPR ? NOT_SHARED : item->dim;
    out->size[i] = 1;
    for (int32_t d = 0; d < rank; ++d, ++at) {
      if (at >= sizes->rank) return false;
      out->size[i] *= sizes->size[at];
    }
  }
  return at == sizes->rank;
}

// Where the axes name a dim; NOT_SHARED: nowhere, or twice.
static int32_t find_name(const axes *a, int32_t name) {
  int32_t found = NOT_SHARED;
  for (int32_t i = 0; i < a->count; ++i) {
    if (a->name[i] != name) continue;
    if (found != NOT_SHARED) return NOT_SHARED;
    found = i;
  }
  return found;
}

// The place along item `axis` of the flat element, where memory has the items
// in this order.
static int64_t place_along(const axes *a, const int32_t *order, int64_t element,
                           int32_t axis) {
  for (int32_t i = a->count - 1; i >= 0; --i) {
    const int64_t size = a->size[order[i]];
    if (order[i] == axis) return element % size;
    element /= size;
  }
  return 0;
}

// One bit for each order of the result's items in which every change lies at
// `place` of the axis; 0 where nothing changed.
static uint32_t orders_that_fit(const axes *a, int32_t axis, int64_t place,
                                const og_array *x, const og_array *y) {
  const size_t bytes = og_dtype_bytes(x->type);
  int32_t order[OG_ORDER_ITEMS];
  const int32_t orders = og_order_count(a->count);
  uint32_t fits = (uint32_t)((1ull << orders) - 1);
  bool any = false;
  for (int64_t j = 0; j < x->count; ++j) {
    if (memcmp(x->data + (size_t)j * bytes, y->data + (size_t)j * bytes,
               bytes) == 0)
      continue;
    any = true;
    for (int32_t k = 0; k < orders; ++k) {
      og_order_get(a->count, k, order);
      if (place_along(a, order, j, axis) != place) fits &= ~(1u << k);
    }
  }
  return any ? fits : 0;
}

static void see_result(og_trial *trial, const og_outputs *got, int32_t i,
                       const axes *argument, int64_t element) {
  const og_decl *decl = trial->op->decl;
  const og_array *x = &trial->base.array[i], *y = &got->array[i];
  const int32_t fresh = trial->base.index[i];
  const og_shape_rule *rule = &decl->shapes[fresh];
  axes result;
  int32_t identity[OG_ORDER_ITEMS];
  if (trial->base.role[i] != OG_ROLE_RESULT || rule->kind != OG_SHAPE_ITEMS ||
      rule->item_count < 2 || !og_dims_equal(&x->sizes, &y->sizes) ||
      !axes_read(&trial->sample, rule->items, rule->item_count, &x->sizes,
                 &result))
    return;
  for (int32_t a = 0; a < OG_ORDER_ITEMS; ++a) identity[a] = a;
  for (int32_t axis = 0; axis < result.count; ++axis) {
    const int32_t name = result.name[axis];
    if (name == NOT_SHARED || find_name(&result, name) != axis) continue;
    const int32_t from = find_name(argument, name);
    if (from == NOT_SHARED || argument->size[from] != result.size[axis])
      continue;
    const int64_t place = place_along(argument, identity, element, from);
    const uint32_t fits = orders_that_fit(&result, axis, place, x, y);
    if (memcmp(x->data, y->data, (size_t)x->count * og_dtype_bytes(x->type)) !=
        0)
      og_tell_order(trial->op, fresh, axis, fits);
  }
}

static void try_element(og_trial *trial, int32_t t, const axes *argument,
                        int64_t element) {
  og_inputs inputs;
  og_outputs got;
  if (!og_inputs_copy(&inputs, &trial->inputs)) return;
  if (og_array_vary(&inputs.tensor[t][0], element) &&
      og_run_quietly(trial, &trial->sample, &inputs, &got)) {
    for (int32_t i = 0; i < got.count && i < trial->base.count; ++i)
      see_result(trial, &got, i, argument, element);
    og_outputs_reset(&got);
  }
  og_inputs_reset(&inputs);
}

static bool may_vary(const og_decl *decl, int32_t tensor, const og_array *a) {
  return og_is_floating(a->type) ||
         (og_is_integral(a->type) && !og_has_fitting_integers(decl, tensor));
}

void og_probe_order(og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  if (!og_is_comparable(trial) || trial->forward != NULL) return;
  for (int32_t p = 0; p < decl->pattern_count; ++p) {
    const og_pattern *pattern = &decl->patterns[p];
    const og_array *a = &trial->inputs.tensor[pattern->tensor][0];
    axes argument;
    if (pattern->is_list || a->data == NULL || a->count < 2 ||
        !may_vary(decl, pattern->tensor, a) ||
        !axes_read(&trial->sample, pattern->items, pattern->item_count,
                   &a->sizes, &argument))
      continue;
    og_random r = {og_seed_mix(trial->sample.seed, 77 + (uint64_t)p)};
    for (int32_t i = 0; i < TRIES; ++i)
      try_element(trial, pattern->tensor, &argument,
                  og_random_below(&r, a->count));
  }
}
