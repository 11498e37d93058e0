// SPDX-License-Identifier: Apache-2.0
// Dense tensors: the arguments and results of a run.

#include "check/run/array.h"

#include <stdlib.h>
#include <string.h>

#include "check/sample/sample.h"
#include "check/sample/value.h"

bool og_array_create(og_array *array, og_dtype type, const og_dims *sizes) {
  *array = (og_array){.type = type, .sizes = *sizes, .count = 1};
  for (int32_t i = 0; i < sizes->rank; ++i) array->count *= sizes->size[i];
  array->data = calloc((size_t)array->count + 1, og_dtype_bytes(type));
  return array->data != NULL;
}

double og_array_get(const og_array *a, int64_t i) {
  return og_value_get(a->type, a->data + (size_t)i * og_dtype_bytes(a->type),
                      0);
}

void og_array_set(og_array *a, int64_t i, double value) {
  og_value_set(a->type, a->data + (size_t)i * og_dtype_bytes(a->type), 0,
               value);
}

void og_array_add(og_array *to, const og_array *from) {
  for (int64_t i = 0; i < to->count; ++i)
    og_array_set(to, i, og_array_get(to, i) + og_array_get(from, i));
}

void og_array_as_tensor(const og_array *array, int64_t *strides,
                        og_tensor *out) {
  og_row_major(array->sizes.size, array->sizes.rank, strides);
  *out = (og_tensor){.data = array->data,
                     .device = og_cpu,
                     .ndim = array->sizes.rank,
                     .dtype = array->type,
                     .shape = (int64_t *)(uintptr_t)array->sizes.size,
                     .strides = strides};
}

void og_inputs_reset(og_inputs *inputs) {
  for (int32_t t = 0; t < OPGRAFT_ARG_MAX; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      free(inputs->tensor[t][e].data);
      inputs->tensor[t][e].data = NULL;
    }
}

void og_outputs_reset(og_outputs *outputs) {
  for (int32_t i = 0; i < outputs->count; ++i) free(outputs->array[i].data);
  outputs->count = 0;
}

static bool array_copy(og_array *to, const og_array *from) {
  if (!og_array_create(to, from->type, &from->sizes)) return false;
  memcpy(to->data, from->data,
         (size_t)from->count * og_dtype_bytes(from->type));
  return true;
}

bool og_inputs_copy(og_inputs *to, const og_inputs *from) {
  memset(to, 0, sizeof *to);
  for (int32_t t = 0; t < OPGRAFT_ARG_MAX; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      const og_array *a = &from->tensor[t][e];
      if (a->data == NULL || array_copy(&to->tensor[t][e], a)) continue;
      og_inputs_reset(to);
      return false;
    }
  return true;
}

bool og_outputs_add_fresh(og_outputs *to, const og_tensor *fresh) {
  const int32_t i = to->count;
  og_dims sizes = {.rank = fresh->ndim};
  if (fresh->ndim > OG_SAMPLE_RANK) return false;
  memcpy(sizes.size, fresh->shape, (size_t)fresh->ndim * sizeof *fresh->shape);
  if (!og_array_create(&to->array[i], fresh->dtype, &sizes)) return false;
  to->role[i] = OG_ROLE_RESULT;
  to->index[i] = i;
  to->count = i + 1;
  return true;
}

bool og_outputs_copy(og_outputs *to, const og_outputs *from) {
  *to = *from;
  for (to->count = 0; to->count < from->count; ++to->count)
    if (!array_copy(&to->array[to->count], &from->array[to->count])) {
      og_outputs_reset(to);
      return false;
    }
  return true;
}

bool og_array_vary(og_array *a, int64_t element) {
  const size_t bytes = og_dtype_bytes(a->type);
  char *at = a->data + (size_t)element * bytes;
  if (og_has_fractions(a->type)) {
    const double value = og_value_get(a->type, at, 0);
    og_value_set(a->type, at, 0, value < 0 ? 1.5 - value : -1.5 - value);
    return true;
  }
  for (int64_t i = 0; i < a->count; ++i)
    if (memcmp(at, a->data + (size_t)i * bytes, bytes) != 0) {
      memcpy(at, a->data + (size_t)i * bytes, bytes);
      return true;
    }
  return false;
}

bool og_dims_equal(const og_dims *a, const og_dims *b) {
  if (a->rank != b->rank) return false;
  for (int32_t i = 0; i < a->rank; ++i)
    if (a->size[i] != b->size[i]) return false;
  return true;
}

static bool convert(og_array *a, og_dtype type) {
  og_array to;
  if (!og_array_create(&to, type, &a->sizes)) return false;
  for (int64_t i = 0; i < a->count; ++i)
    for (int32_t p = 0; p < og_parts(type); ++p)
      og_value_set(
          type, to.data + (size_t)i * og_dtype_bytes(type), p,
          og_value_get(a->type, a->data + (size_t)i * og_dtype_bytes(a->type),
                       p));
  free(a->data);
  *a = to;
  return true;
}

bool og_inputs_convert(og_inputs *inputs, const og_sample *sample) {
  for (int32_t t = 0; t < sample->op->decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      og_array *a = &inputs->tensor[t][e];
      if (a->data == NULL || og_dtype_equal(a->type, sample->type[t])) continue;
      if (convert(a, sample->type[t])) continue;
      og_inputs_reset(inputs);
      return false;
    }
  return true;
}
