// SPDX-License-Identifier: Apache-2.0
// What prepare functions ask for: memory, pointers, attributes.

#include "exec/step/prep.h"

#include <stdio.h>
#include <string.h>

#include "exec/step/reloc.h"
#include "graph/op.h"

void *og_prep_alloc(og_prep *prep, size_t size_bytes) {
  const int64_t most = prep->executable->host.max_bytes;
  og_instance *instance = prep->instance;
  if (most > 0) {
    if (size_bytes > (uint64_t)(most - instance->held_bytes)) return NULL;
    instance->held_bytes += (int64_t)size_bytes;
  }
  return og_arena_alloc(&instance->memory, size_bytes);
}

void *og_prep_scratch(og_prep *prep, size_t size_bytes) {
  og_scratch *scratch = &prep->instance->scratch[prep->lane];
  if (scratch->memory == NULL || scratch->bytes < size_bytes) {
    scratch->memory = og_prep_alloc(prep, size_bytes);
    scratch->bytes = size_bytes;
  }
  return scratch->memory;
}

static og_status prep_fail(og_prep *prep, og_status code, const char *what) {
  const og_node *node = prep->node;
  return og_error_set(prep->error, code, og_node_name(node), NULL, "%s%s: %s",
                      og_node_name(node),
                      og_node_source(node, &(og_source){{0}}), what);
}

og_status og_prep_wrong(og_prep *prep, const char *what) {
  return prep_fail(prep, OG_SHAPE, what);
}

// The shapes of tensors, as many as there is room for: "[2, 3], [3]".
static void shapes_text(og_tensor *const *tensors, int32_t count, char *text,
                        size_t size) {
  size_t at = 0;
  text[0] = '\0';
  for (int32_t i = 0; i < count && at + 8 < size; ++i) {
    const og_tensor *t = tensors[i];
    at += (size_t)snprintf(text + at, size - at, "%s", i > 0 ? ", " : "");
    og_dims_text(t != NULL ? t->shape : NULL, t != NULL ? t->ndim : 0,
                 text + at, size - at);
    at += strlen(text + at);
  }
}

og_status og_prep_misfit(og_prep *prep) {
  char in[160], out[80], what[320];
  shapes_text(prep->in, prep->node->in_count, in, sizeof in);
  shapes_text(prep->out, prep->node->out_count, out, sizeof out);
  snprintf(what, sizeof what, "the shapes do not go together: found %s -> %s",
           in, out);
  return og_prep_wrong(prep, what);
}

og_status og_prep_refuse(og_prep *prep, const char *what) {
  return prep_fail(prep, OG_INVALID, what);
}

og_status og_prep_memory(og_prep *prep) {
  const int64_t most = prep->executable->host.max_bytes;
  const char *name = og_node_name(prep->node);
  if (most == 0)
    return og_error_set(prep->error, OG_MEMORY, name, NULL,
                        "not enough memory to prepare %s", name);
  return og_error_set(prep->error, OG_MEMORY, name, NULL,
                      "%s%s: there is not enough memory, or it needs "
                      "more than the limit of %lld bytes",
                      name, og_node_source(prep->node, &(og_source){{0}}),
                      (long long)most);
}

static int64_t saturated_add(int64_t a, int64_t b) {
  return og_i64_add(a, b, &a) ? a : INT64_MAX;
}

void og_prep_work(og_prep *prep, int64_t count, int64_t times) {
  int64_t work;
  if (!og_i64_mul(count, times, &work)) work = INT64_MAX;
  prep->work = saturated_add(prep->work, work);
}

og_status og_prep_pointer(og_prep *prep, void **where,
                          const og_tensor *tensor) {
  const opgraft_value id = (opgraft_value)(tensor - prep->instance->tensors);
  if (og_reloc_add(prep->instance, prep->plan, id, where) == OG_OK)
    return OG_OK;
  return og_prep_memory(prep);
}

bool og_prep_is_in_place(const og_prep *prep) {
  const og_node *node = prep->node;
  for (int32_t i = 0; i < node->in_count; ++i)
    if (node->in[i] >= 0 &&
        og_plan_overlaps(prep->plan, node->in[i], node->out[0]))
      return true;
  return false;
}

// --- Attributes --------------------------------------------------------------

opgraft_arg og_prep_resolved(const og_prep *prep, const opgraft_arg *attr) {
  opgraft_arg arg = *attr;
  if (arg.kind == OPGRAFT_ARG_SIZE)
    og_size_resolve(&prep->executable->graph->sizes, prep->plan->sizes, &arg);
  return arg;
}

static og_status attr_int(og_prep *prep, const opgraft_arg *attr,
                          int64_t *out) {
  const opgraft_arg arg = og_prep_resolved(prep, attr);
  if (arg.kind != OPGRAFT_ARG_INT && arg.kind != OPGRAFT_ARG_BOOL)
    return og_prep_wrong(prep, "an attribute is not an integer");
  *out = arg.i;
  return OG_OK;
}

bool og_prep_is_read(const og_prep *prep, int32_t index) {
  const opgraft_graph *graph = prep->plan->graph;
  const opgraft_value value = prep->node->out[index];
  if (value < 0) return false;
  const opgraft_value root = graph->values[value].root;
  if (root != value) return true;
  for (int32_t n = 0; n < graph->node_count; ++n)
    for (int32_t i = 0; i < graph->nodes[n].in_count; ++i) {
      const opgraft_value in = graph->nodes[n].in[i];
      if (!graph->nodes[n].is_removed && in >= 0 &&
          graph->values[in].root == root)
        return true;
    }
  for (int32_t i = 0; i < graph->output_count; ++i) {
    const opgraft_value out = graph->outputs[i].value;
    if (out >= 0 && graph->values[out].root == root) return true;
  }
  return false;
}

og_status og_prep_int(og_prep *prep, int32_t index, int64_t otherwise,
                      int64_t *out) {
  const opgraft_arg *attr = og_node_attr(prep->node, index);
  *out = otherwise;
  return attr->kind == OPGRAFT_ARG_NONE ? OG_OK : attr_int(prep, attr, out);
}

bool og_prep_is_float(const og_prep *prep, int32_t index) {
  return og_prep_resolved(prep, og_node_attr(prep->node, index)).kind ==
         OPGRAFT_ARG_FLOAT;
}

og_status og_prep_float(og_prep *prep, int32_t index, double otherwise,
                        double *out) {
  const opgraft_arg attr =
      og_prep_resolved(prep, og_node_attr(prep->node, index));
  int64_t number = 0;
  *out = otherwise;
  if (attr.kind == OPGRAFT_ARG_NONE) return OG_OK;
  if (attr.kind == OPGRAFT_ARG_FLOAT) {
    *out = attr.f;
    return OG_OK;
  }
  OG_TRY(attr_int(prep, &attr, &number));
  *out = (double)number;
  return OG_OK;
}

og_status og_prep_ints(og_prep *prep, int32_t index, int64_t *out,
                       int32_t capacity, int32_t *out_count) {
  const opgraft_arg *attr = og_node_attr(prep->node, index);
  *out_count = 0;
  if (attr->kind == OPGRAFT_ARG_NONE) return OG_OK;
  if (attr->kind != OPGRAFT_ARG_LIST) {
    *out_count = 1;
    return attr_int(prep, attr, out);
  }
  if (attr->count > capacity)
    return og_prep_wrong(prep, "a list of integers is too long");
  for (; *out_count < attr->count; ++*out_count)
    OG_TRY(attr_int(prep, &attr->list[*out_count], &out[*out_count]));
  return OG_OK;
}

og_status og_prep_dim(og_prep *prep, int32_t index, int32_t rank,
                      int32_t *out_dim) {
  int64_t dim;
  const int64_t dims = rank > 0 ? rank : 1;
  OG_TRY(og_prep_int(prep, index, -1, &dim));
  if (dim < 0) dim += dims;
  if (dim < 0 || dim >= dims)
    return og_prep_wrong(prep, "a dim is out of range");
  *out_dim = (int32_t)dim;
  return OG_OK;
}

bool og_same_shape(const og_tensor *a, const og_tensor *b) {
  bool same = a->ndim == b->ndim;
  for (int32_t d = 0; same && d < a->ndim; ++d)
    same = a->shape[d] == b->shape[d];
  return same;
}

bool og_is_float(const og_tensor *tensor) {
  const og_class of = og_dtype_class(tensor->dtype);
  return of == OG_CLASS_F32 || of == OG_CLASS_F64;
}

bool og_is_int(const og_tensor *tensor) {
  return og_dtype_class(tensor->dtype) == OG_CLASS_I64;
}
