// SPDX-License-Identifier: Apache-2.0
// Matches argument patterns: binds names to sizes, or compares.
//
// Invariants: og_parse_shape ordered the patterns so that at most one pack of a
// pattern is unknown when its turn comes. Sizes that are expressions are
// compared after all patterns, when every name is bound.

#include "decl/infer/match.h"

#include <stdio.h>
#include <string.h>

#include "decl/infer/eval.h"
#include "decl/infer/packs.h"
#include "decl/parse/names.h"
#include "decl/parse/parser.h"

typedef struct matcher {
  const og_decl *decl;
  const opgraft_frame *frame;
  const og_scope *scope;  // of the frame and what is bound so far
  og_binding *binding;
  int64_t *dim;
  opgraft_error *error;
} matcher;

// One tensor under one pattern; `entry` is its position in a list, or -1.
typedef struct subject {
  const og_pattern *pattern;
  const og_tensor *tensor;
  int64_t entry;
} subject;

// --- Refusals ----------------------------------------------------------------

// The length of a span without the blanks at its end.
static int span_length(const char *text, int32_t begin, int32_t end) {
  while (end > begin && strchr(" \t\r\n", text[end - 1])) --end;
  return end - begin;
}

// An argument's pattern as a message shows it, `focus` among its items and
// packs beside it as "...".
static void pattern_text(const og_decl *decl, const og_pattern *pattern,
                         int32_t focus, char *buffer, size_t size) {
  const char *text = decl->record->shape;
  const char *name = og_tensor_param(decl, pattern->tensor)->name;
  bool was_dots = false;
  size_t used = (size_t)snprintf(buffer, size, "%s[", name);
  for (int32_t i = 0; i < pattern->item_count && used + 70 < size; ++i) {
    const og_item *item = &pattern->items[i];
    const bool is_dots =
        item->kind == OG_ITEM_PACK && focus >= 0 && item->dim != focus;
    if (is_dots && was_dots) continue;
    was_dots = is_dots;
    const int length = span_length(text, item->begin, item->end);
    used += (size_t)snprintf(buffer + used, size - used, "%s%.*s",
                             i > 0 ? ", " : "",
                             is_dots ? 3 : (length < 60 ? length : 60),
                             is_dots ? "..." : text + item->begin);
  }
  snprintf(buffer + used, size - used, "]");
}

// x[*N, D], or xs[2][*N, D] for an entry.
static void subject_text(const matcher *m, const subject *s, int32_t focus,
                         char *buffer, size_t size) {
  char text[200];
  pattern_text(m->decl, s->pattern, focus, text, sizeof text);
  const char *name = og_tensor_param(m->decl, s->pattern->tensor)->name;
  if (s->entry < 0)
    snprintf(buffer, size, "%s", text);
  else
    snprintf(buffer, size, "%s[%lld]%s", name, (long long)s->entry,
             text + strlen(name));
}

static const char *subject_name(const matcher *m, const subject *s) {
  return og_tensor_param(m->decl, s->pattern->tensor)->name;
}

static og_status refuse(const matcher *m, const subject *s, int32_t focus,
                        const char *format, ...) OG_PRINTF(4, 5);

static og_status refuse(const matcher *m, const subject *s, int32_t focus,
                        const char *format, ...) {
  char where[240], text[400];
  va_list values;
  if (m->error == NULL) return OG_SHAPE;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  subject_text(m, s, focus, where, sizeof where);
  og_error_set(m->error, OG_SHAPE, m->decl->name, subject_name(m, s),
               "%s: %s: %s", m->decl->name, where, text);
  m->error->begin = s->pattern->begin;
  m->error->end = s->pattern->end;
  return OG_SHAPE;
}

// The argument that bound the dim, as a message shows it.
static void binder_text(const matcher *m, int32_t dim, char *buffer,
                        size_t size) {
  snprintf(buffer, size, "the argument before");
  for (int32_t i = 0; i < m->decl->pattern_count; ++i) {
    const og_pattern *pattern = &m->decl->patterns[i];
    if (!pattern->is_list && m->frame->in[pattern->tensor] == NULL) continue;
    if (pattern->is_list && m->frame->in_list[pattern->tensor].count == 0)
      continue;
    for (int32_t k = 0; k < pattern->item_count; ++k) {
      const og_item *item = &pattern->items[k];
      if (item->dim != dim ||
          (item->kind != OG_ITEM_DIM && item->kind != OG_ITEM_PACK))
        continue;
      pattern_text(m->decl, pattern, dim, buffer, size);
      return;
    }
  }
}

static og_status refuse_size(const matcher *m, const subject *s, int32_t dim,
                             int64_t size, int64_t wanted) {
  char binder[200];
  const char *name = m->decl->dims[dim].name;
  binder_text(m, dim, binder, sizeof binder);
  return refuse(m, s, dim, "%s is %lld here, but %s has %lld", name,
                (long long)size, binder, (long long)wanted);
}

static og_status refuse_pack(const matcher *m, const subject *s, int32_t dim,
                             const int64_t *dims, int64_t rank) {
  char binder[200], here[100], there[100];
  const og_bound_dim *at = &m->binding->at[dim];
  binder_text(m, dim, binder, sizeof binder);
  og_dims_text(dims, rank, here, sizeof here);
  og_dims_text(at->pack.dims, at->pack.rank, there, sizeof there);
  return refuse(m, s, dim, "%s is %s here, but %s has %s",
                m->decl->dims[dim].name, here, binder, there);
}

static og_status refuse_rank(const matcher *m, const subject *s, int32_t least,
                             bool has_pack) {
  char dims[120];
  og_dims_text(s->tensor->shape, s->tensor->ndim, dims, sizeof dims);
  return refuse(m, s, -1, "%s has %d dim%s here, %s, expected %d%s",
                subject_name(m, s), (int)s->tensor->ndim,
                og_plural(s->tensor->ndim), dims, (int)least,
                has_pack ? " or more" : "");
}

// --- Binding -----------------------------------------------------------------

static void mark_bound(matcher *m, int32_t dim) {
  m->binding->bound |= (uint64_t)1 << dim;
}

static inline og_status bind_size(matcher *m, const subject *s, int32_t dim,
                                  int64_t size) {
  if (!og_is_bound(m->binding, dim)) {
    m->dim[dim] = size;
    mark_bound(m, dim);
    return OG_OK;
  }
  if (OG_LIKELY(m->dim[dim] == size)) return OG_OK;
  return refuse_size(m, s, dim, size, m->dim[dim]);
}

static bool dims_equal(const int64_t *a, const int64_t *b, int64_t rank) {
  for (int64_t i = 0; i < rank; ++i)
    if (a[i] != b[i]) return false;
  return true;
}

static inline og_status bind_pack(matcher *m, const subject *s, int32_t dim,
                                  const int64_t *dims, int64_t rank) {
  og_bound_dim *at = &m->binding->at[dim];
  if (og_is_bound(m->binding, dim)) {
    if (OG_LIKELY(at->pack.rank == rank &&
                  dims_equal(at->pack.dims, dims, rank)))
      return OG_OK;
    return refuse_pack(m, s, dim, dims, rank);
  }
  int64_t product = 1;
  for (int64_t i = 0; i < rank; ++i)
    if (OG_UNLIKELY(!og_i64_mul(product, dims[i], &product)))
      return refuse(m, s, dim, "the product of %s is beyond 64 bits",
                    m->decl->dims[dim].name);
  at->pack.dims = dims;
  at->pack.rank = rank;
  m->dim[dim] = product;
  mark_bound(m, dim);
  return OG_OK;
}

// D~ of one entry: its sum over the list that binds it, equal entry by entry in
// any further place.
static og_status bind_vary(matcher *m, const subject *s, int32_t dim,
                           int32_t axis) {
  const int64_t size = s->tensor->shape[axis];
  og_bound_dim *at = &m->binding->at[dim];
  if (!og_is_bound(m->binding, dim)) {
    at->vary.tensor = s->pattern->tensor;
    at->vary.axis = axis;
    m->dim[dim] = size;
    mark_bound(m, dim);
    return OG_OK;
  }
  if (at->vary.tensor == s->pattern->tensor && at->vary.axis == axis) {
    if (og_i64_add(m->dim[dim], size, &m->dim[dim])) return OG_OK;
    return refuse(m, s, dim, "the sum of %s~ is beyond 64 bits",
                  m->decl->dims[dim].name);
  }
  const og_tensor_list *list = &m->frame->in_list[at->vary.tensor];
  const og_tensor *other =
      s->entry < list->count ? list->tensors[s->entry] : NULL;
  if (other == NULL)
    return refuse(
        m, s, dim, "%s has no entry %lld, expected lists of one length",
        og_tensor_param(m->decl, at->vary.tensor)->name, (long long)s->entry);
  const int64_t wanted = other->shape[at->vary.axis];
  if (wanted == size) return OG_OK;
  return refuse_size(m, s, dim, size, wanted);
}

// --- One tensor --------------------------------------------------------------

// At most one pack, all else one dim each.
static og_status match_plain(matcher *m, const subject *s) {
  const og_pattern *pattern = s->pattern;
  const int64_t *shape = s->tensor->shape;
  const int32_t least = pattern->item_count - pattern->pack_count;
  const int32_t rest = s->tensor->ndim - least;
  if (OG_UNLIKELY(pattern->pack_count > 0 ? rest < 0 : rest != 0))
    return refuse_rank(m, s, least, s->pattern->pack_count > 0);
  for (int32_t i = 0; i < pattern->item_count; ++i) {
    const og_item *item = &pattern->items[i];
    if (item->kind == OG_ITEM_DIM) {
      OG_TRY(bind_size(m, s, item->dim, *shape++));
    } else if (item->kind == OG_ITEM_PACK) {
      OG_TRY(bind_pack(m, s, item->dim, shape, rest));
      shape += rest;
    } else {
      ++shape;  // an expression, compared later
    }
  }
  return OG_OK;
}

// How many dims each item of [*A, D@dim, *B] has.
static og_status pick_lengths(const matcher *m, const subject *s,
                              int32_t *lengths) {
  const og_item *item = &s->pattern->items[s->pattern->pick];
  const og_attr *attr = &m->frame->attr[item->attr];
  const char *name = og_attr_param(m->decl, item->attr)->name;
  const int32_t ndim = s->tensor->ndim;
  if (attr->kind != OG_ATTR_INT)
    return refuse(m, s, -1, "%s is not an int, expected the dim to pick", name);
  if (ndim == 0)
    return refuse(m, s, -1, "%s has no dims here, expected 1 or more",
                  subject_name(m, s));
  const int64_t at = attr->i < 0 ? attr->i + ndim : attr->i;
  if (at < 0 || at >= ndim)
    return refuse(m, s, -1,
                  "%s is %lld, but %s has %d dim%s, expected %d to %d", name,
                  (long long)attr->i, subject_name(m, s), (int)ndim,
                  og_plural(ndim), (int)-ndim, (int)ndim - 1);
  lengths[0] = (int32_t)at;
  lengths[1] = 1;
  lengths[2] = ndim - 1 - (int32_t)at;
  return OG_OK;
}

// How many dims each item has; the pack that is not bound yet gets what the
// others leave.
static og_status item_lengths(const matcher *m, const subject *s,
                              int32_t *lengths) {
  const og_pattern *pattern = s->pattern;
  int64_t scratch[OPGRAFT_RANK_MAX];
  int32_t unknown = -1, total = 0;
  if (pattern->pick >= 0) return pick_lengths(m, s, lengths);
  for (int32_t i = 0; i < pattern->item_count; ++i) {
    const og_item *item = &pattern->items[i];
    lengths[i] = 1;
    if (item->kind == OG_ITEM_PACK && !og_is_bound(m->binding, item->dim)) {
      unknown = i;
      lengths[i] = 0;
    } else if (item->kind != OG_ITEM_DIM && item->kind != OG_ITEM_EXPR) {
      OG_TRY(og_pack_dims(m->decl, item, m->scope, 0, scratch, &lengths[i],
                          m->error));
    }
    total += lengths[i];
  }
  const int32_t rest = s->tensor->ndim - total;
  if (unknown >= 0 ? rest < 0 : rest != 0)
    return refuse_rank(m, s, total, unknown >= 0);
  if (unknown >= 0) lengths[unknown] = rest;
  return OG_OK;
}

static og_status compare_computed(const matcher *m, const subject *s,
                                  const og_item *item, const int64_t *shape) {
  int64_t wanted[OPGRAFT_RANK_MAX];
  char here[100], there[100];
  int32_t rank;
  OG_TRY(og_pack_dims(m->decl, item, m->scope, 0, wanted, &rank, m->error));
  if (dims_equal(shape, wanted, rank)) return OG_OK;
  const char *text = m->decl->record->shape;
  og_dims_text(shape, rank, here, sizeof here);
  og_dims_text(wanted, rank, there, sizeof there);
  return refuse(m, s, -1, "%.*s is %s here, expected %s",
                span_length(text, item->begin, item->end), text + item->begin,
                here, there);
}

static og_status match_item(matcher *m, const subject *s, const og_item *item,
                            const int64_t *shape, int32_t length) {
  switch (item->kind) {
    case OG_ITEM_DIM:
      if (m->decl->dims[item->dim].kind == OG_DIM_VARY)
        return bind_vary(m, s, item->dim, (int32_t)(shape - s->tensor->shape));
      return bind_size(m, s, item->dim, *shape);
    case OG_ITEM_PACK:
      return bind_pack(m, s, item->dim, shape, length);
    case OG_ITEM_EXPR:
      return OG_OK;
    default:
      return compare_computed(m, s, item, shape);
  }
}

static og_status match_general(matcher *m, const subject *s) {
  int32_t lengths[OG_ITEMS_MAX];
  const int64_t *shape = s->tensor->shape;
  OG_TRY(item_lengths(m, s, lengths));
  for (int32_t i = 0; i < s->pattern->item_count; ++i) {
    OG_TRY(match_item(m, s, &s->pattern->items[i], shape, lengths[i]));
    shape += lengths[i];
  }
  return OG_OK;
}

// --- Expressions in patterns -------------------------------------------------

static og_status refuse_expr(const matcher *m, const subject *s,
                             const og_item *item, int64_t axis, int64_t size,
                             int64_t wanted) {
  char values[200];
  const og_expr *expr = &item->expr;
  og_expr_values(m->decl, expr, m->scope, values, sizeof values);
  if (values[0] == '\0')
    return refuse(m, s, -1, "dim %lld is %lld here, expected %lld",
                  (long long)axis, (long long)size, (long long)wanted);
  return refuse(
      m, s, -1, "dim %lld is %lld here, expected %.*s, which is %lld (%s)",
      (long long)axis, (long long)size, (int)(expr->end - expr->begin),
      m->decl->record->shape + expr->begin, (long long)wanted, values);
}

static og_status check_exprs(matcher *m, const subject *s) {
  int32_t lengths[OG_ITEMS_MAX];
  const int64_t *shape = s->tensor->shape;
  OG_TRY(item_lengths(m, s, lengths));
  for (int32_t i = 0; i < s->pattern->item_count; ++i) {
    const og_item *item = &s->pattern->items[i];
    const int64_t *at = shape;
    int64_t wanted;
    shape += lengths[i];
    if (item->kind != OG_ITEM_EXPR) continue;
    const int64_t size = *at;  // others may have no dim, and be the last
    OG_TRY(og_eval_or_refuse(m->decl, &item->expr, m->scope, 0, &wanted,
                             m->error));
    if (size == wanted) continue;
    return refuse_expr(m, s, item, shape - s->tensor->shape - lengths[i], size,
                       wanted);
  }
  return OG_OK;
}

// --- All patterns ------------------------------------------------------------

// Varying dims of several lists go entry by entry.
static og_status check_list_counts(matcher *m, const og_pattern *pattern) {
  const int64_t count = m->frame->in_list[pattern->tensor].count;
  for (int32_t i = 0; i < pattern->item_count; ++i) {
    const int32_t dim = pattern->items[i].dim;
    if (pattern->items[i].kind != OG_ITEM_DIM ||
        m->decl->dims[dim].kind != OG_DIM_VARY || !og_is_bound(m->binding, dim))
      continue;
    const int32_t binder = m->binding->at[dim].vary.tensor;
    const int64_t wanted = m->frame->in_list[binder].count;
    if (wanted == count) continue;
    return og_error_set(m->error, OG_SHAPE, m->decl->name,
                        og_tensor_param(m->decl, pattern->tensor)->name,
                        "%s: %s has %lld tensor%s, but %s, whose %s~ are the "
                        "same, has %lld",
                        m->decl->name,
                        og_tensor_param(m->decl, pattern->tensor)->name,
                        (long long)count, og_plural(count),
                        og_tensor_param(m->decl, binder)->name,
                        m->decl->dims[dim].name, (long long)wanted);
  }
  return OG_OK;
}

static og_status match_list(matcher *m, const og_pattern *pattern,
                            og_status (*match)(matcher *, const subject *)) {
  const og_tensor_list *list = &m->frame->in_list[pattern->tensor];
  for (int64_t i = 0; i < list->count; ++i) {
    const subject s = {pattern, list->tensors[i], i};
    if (s.tensor != NULL) OG_TRY(match(m, &s));
  }
  return check_list_counts(m, pattern);
}

static og_status match_patterns(matcher *m) {
  const og_decl *decl = m->decl;
  for (int32_t i = 0; i < decl->pattern_count; ++i) {
    const og_pattern *pattern = &decl->patterns[i];
    if (OG_UNLIKELY(pattern->is_list)) {
      OG_TRY(match_list(m, pattern, match_general));
      continue;
    }
    const subject s = {pattern, m->frame->in[pattern->tensor], -1};
    if (s.tensor == NULL) continue;
    if (OG_LIKELY(pattern->is_plain))
      OG_TRY(match_plain(m, &s));
    else
      OG_TRY(match_general(m, &s));
  }
  return OG_OK;
}

static og_status match_exprs(matcher *m) {
  const og_decl *decl = m->decl;
  for (int32_t i = 0; i < decl->pattern_count; ++i) {
    const og_pattern *pattern = &decl->patterns[i];
    if (!pattern->has_exprs) continue;
    if (pattern->is_list) {
      OG_TRY(match_list(m, pattern, check_exprs));
      continue;
    }
    const subject s = {pattern, m->frame->in[pattern->tensor], -1};
    if (s.tensor != NULL) OG_TRY(check_exprs(m, &s));
  }
  return OG_OK;
}

static bool has_item(const og_pattern *pattern, int32_t dim) {
  for (int32_t i = 0; i < pattern->item_count; ++i)
    if (pattern->items[i].dim == dim) return true;
  return false;
}

static og_status refuse_empty(const matcher *m, int32_t dim) {
  const og_decl *decl = m->decl;
  const char *list = "its list";
  for (int32_t i = 0; i < decl->pattern_count; ++i)
    if (decl->patterns[i].is_list && has_item(&decl->patterns[i], dim))
      list = og_tensor_param(decl, decl->patterns[i].tensor)->name;
  return og_error_set(m->error, OG_SHAPE, decl->name, list,
                      "%s: %s is empty, but gives %s its size; expected one "
                      "entry or more",
                      decl->name, list, decl->dims[dim].name);
}

// What no argument bound counts 0. That may be so where an optional argument is
// absent, not where a list that is empty should have bound it.
static og_status fill_unbound(matcher *m) {
  const og_decl *decl = m->decl;
  for (int32_t d = 0; d < decl->dim_count; ++d) {
    if (og_is_bound(m->binding, d)) continue;
    m->dim[d] = 0;
    if (!decl->dims[d].is_always_bound || decl->dims[d].kind == OG_DIM_FOUND)
      continue;
    return refuse_empty(m, d);
  }
  return OG_OK;
}

og_status og_match(const og_decl *decl, opgraft_frame *frame,
                   og_binding *binding, opgraft_error *error) {
  const og_scope scope = og_scope_of(frame, binding);
  matcher m = {decl, frame, &scope, binding, frame->dim, error};
  binding->bound = 0;
  OG_TRY(match_patterns(&m));
  const int32_t unused = 64 - decl->dim_count;
  const uint64_t all = unused < 64 ? UINT64_MAX >> unused : 0;
  if (OG_UNLIKELY(binding->bound != all)) OG_TRY(fill_unbound(&m));
  return decl->has_expr_items ? match_exprs(&m) : OG_OK;
}

og_status og_match_again(const og_decl *decl, const opgraft_frame *frame,
                         og_binding *binding) {
  int64_t dim[OPGRAFT_DIM_MAX];
  og_scope scope = og_scope_of(frame, binding);
  scope.dim = dim;
  matcher m = {decl, frame, &scope, binding, dim, NULL};
  binding->bound = 0;
  return match_patterns(&m);
}
