// SPDX-License-Identifier: Apache-2.0
// The evaluator of references: each node an array of doubles over its dims.
//
// Invariants: a node's array has its free dims in the order of their numbers,
// the last one innermost; the result's node has them in the result's order. A
// pack counts as one dim, the product of its sizes.

#include "check/run/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check/run/array.h"
#include "check/sample/sample.h"
#include "check/sample/value.h"
#include "decl/parse/reduce.h"

enum { POINTS_MAX = 1 << 21, BLOCK = OG_SCALAR_BLOCK };

// An order of dims, outermost first.
typedef struct layout {
  int32_t count;
  int32_t dim[OPGRAFT_DIM_MAX];
} layout;

typedef struct evaluator {
  const og_sample *sample;
  const og_inputs *inputs;
  const og_reference *reference;
  int64_t size[OPGRAFT_DIM_MAX];
  double *value[OG_REFERENCE_NODE_MAX];  // of nodes
  layout layouts[OG_REFERENCE_NODE_MAX];
  int64_t index[OPGRAFT_DIM_MAX][BLOCK];  // of the block's points
} evaluator;

static int64_t points_of(const evaluator *v, const layout *a) {
  int64_t points = 1;
  for (int32_t i = 0; i < a->count; ++i)
    if (!og_i64_mul(points, v->size[a->dim[i]], &points)) return INT64_MAX;
  return points;
}

static void layout_add(layout *a, uint64_t dims) {
  for (int32_t d = 0; d < OPGRAFT_DIM_MAX; ++d)
    if (dims >> d & 1) a->dim[a->count++] = d;
}

// --- Loads -------------------------------------------------------------------

static int64_t offset_at(const evaluator *v, const layout *a, int64_t i) {
  int64_t offset = 0;
  for (int32_t k = 0; k < a->count; ++k)
    offset = offset * v->size[a->dim[k]] + v->index[a->dim[k]][i];
  return offset;
}

static void tensor_load(const evaluator *v, int32_t t, int64_t n, double *to) {
  const og_pattern *pattern = og_pattern_of(v->sample->op->decl, t);
  const og_array *a = &v->inputs->tensor[t][0];
  layout at = {0};
  for (int32_t i = 0; pattern != NULL && i < pattern->item_count; ++i)
    at.dim[at.count++] = pattern->items[i].dim;
  const size_t bytes = og_dtype_bytes(a->type);
  for (int64_t i = 0; i < n; ++i)  // one that is absent counts 0
    to[i] =
        a->data == NULL
            ? 0
            : og_value_get(a->type,
                           a->data + (size_t)offset_at(v, &at, i) * bytes, 0);
}

static double number_of(const evaluator *v, int32_t slot) {
  if (slot >= OG_REFERENCE_SIZES)
    return (double)v->size[slot - OG_REFERENCE_SIZES];
  const og_attr *a = &v->sample->attr[slot];
  return a->kind == OG_ATTR_FLOAT ? a->f : (double)a->i;
}

static void load(void *state, const og_scalar_instruction *code, int64_t n,
                 void *to) {
  const evaluator *v = state;
  double *values = to;
  const int32_t slot = code->slot;
  if (code->op == OG_SCALAR_number) {
    const double value = number_of(v, slot);
    for (int64_t i = 0; i < n; ++i) values[i] = value;
  } else if (slot >= OG_REFERENCE_PLACES) {
    for (int64_t i = 0; i < n; ++i)
      values[i] = (double)v->index[slot - OG_REFERENCE_PLACES][i];
  } else if (slot >= OG_REFERENCE_NODES) {
    const int32_t node = slot - OG_REFERENCE_NODES;
    for (int64_t i = 0; i < n; ++i)
      values[i] = v->value[node][offset_at(v, &v->layouts[node], i)];
  } else {
    tensor_load(v, slot, n, values);
  }
}

// --- Nodes -------------------------------------------------------------------

static double reduce_begin(og_reduce reduce) {
  switch (reduce) {
    case OG_REDUCE_PROD:
      return 1;
    case OG_REDUCE_MAX:
      return -INFINITY;
    case OG_REDUCE_MIN:
      return INFINITY;
    default:
      return 0;
  }
}

static double reduce_add(og_reduce reduce, double a, double b) {
  switch (reduce) {
    case OG_REDUCE_NONE:
      return b;
    case OG_REDUCE_PROD:
      return a * b;
    case OG_REDUCE_MAX:
      return isnan(a) || a > b ? a : b;
    case OG_REDUCE_MIN:
      return isnan(a) || a < b ? a : b;
    default:
      return a + b;
  }
}

// The places of n points from `begin` on.
static void indices_set(evaluator *v, const layout *all, int64_t begin,
                        int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = begin + i;
    for (int32_t k = all->count - 1; k >= 0; --k) {
      v->index[all->dim[k]][i] = rest % v->size[all->dim[k]];
      rest /= v->size[all->dim[k]];
    }
  }
}

static bool node_eval(evaluator *v, int32_t k) {
  const og_reference_node *node = &v->reference->nodes[k];
  layout all = v->layouts[k];
  double block[BLOCK];
  const int64_t results = points_of(v, &all);
  layout_add(&all, node->over);
  const int64_t points = points_of(v, &all);
  if (points > POINTS_MAX || results > POINTS_MAX) return false;
  double *out = v->value[k] =
      malloc((size_t)(results > 0 ? results : 1) * sizeof *out);
  if (out == NULL) return false;
  const int64_t reduced = results > 0 ? points / results : 0;
  for (int64_t i = 0; i < results; ++i) out[i] = reduce_begin(node->reduce);
  for (int64_t at = 0; at < points; at += BLOCK) {
    const int64_t n = points - at < BLOCK ? points - at : BLOCK;
    indices_set(v, &all, at, n);
    og_scalar_run_f64(&node->program, n, load, v, block);
    for (int64_t i = 0; i < n; ++i) {
      double *to = &out[(at + i) / reduced];
      *to = reduce_add(node->reduce, *to, block[i]);
    }
  }
  for (int64_t i = 0; node->reduce == OG_REDUCE_MEAN && i < results; ++i)
    out[i] /= (double)reduced;
  return true;
}

// --- A result ----------------------------------------------------------------

static layout result_layout(const og_decl *decl, int32_t fresh) {
  const og_items of = og_output_items(decl, decl->mutated_count + fresh);
  layout out = {0};
  for (int32_t i = 0; i < of.count; ++i) out.dim[out.count++] = of.items[i].dim;
  return out;
}

static bool has_complex(const og_sample *s) {
  for (int32_t t = 0; t < s->op->decl->tensor_count; ++t)
    if (s->is_given[t] && og_is_complex(s->type[t])) return true;
  for (int32_t k = 0; k < s->op->decl->attr_count; ++k)
    if (s->attr[k].kind == OG_ATTR_COMPLEX) return true;
  return false;
}

static bool evaluate(evaluator *v, int32_t fresh, const og_dims *sizes,
                     og_array *out) {
  const og_decl *decl = v->sample->op->decl;
  const int32_t last = v->reference->results[fresh];
  for (int32_t d = 0; d < decl->dim_count; ++d)
    if (!og_sample_dim(v->sample, d, &v->size[d])) return false;
  for (int32_t k = 0; k <= last; ++k) {
    if (k == last)
      v->layouts[k] = result_layout(decl, fresh);
    else
      layout_add(&v->layouts[k], v->reference->nodes[k].free);
    if (!node_eval(v, k)) return false;
  }
  const og_dtype f64 = {OG_CODE_FLOAT, 64, 1};
  if (!og_array_create(out, f64, sizes)) return false;
  if (out->count != points_of(v, &v->layouts[last])) {
    free(out->data);
    return false;
  }
  if (out->count > 0)
    memcpy(out->data, v->value[last], (size_t)out->count * sizeof(double));
  return true;
}

bool og_reference_eval(const og_sample *sample, const og_inputs *inputs,
                       int32_t fresh, const og_dims *sizes, og_array *out) {
  if (has_complex(sample)) return false;
  evaluator *v = calloc(1, sizeof *v);
  if (v == NULL) return false;
  v->sample = sample;
  v->inputs = inputs;
  v->reference = sample->op->decl->reference;
  const bool ok = evaluate(v, fresh, sizes, out);
  for (int32_t k = 0; k < OG_REFERENCE_NODE_MAX; ++k) free(v->value[k]);
  free(v);
  return ok;
}
