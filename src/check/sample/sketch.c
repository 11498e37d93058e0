// SPDX-License-Identifier: Apache-2.0
// A sample as the frame of a call without memory: inference looks at shapes.

#include "check/sample/sketch.h"

// `infer` callbacks may look at data; they get elements that are zero.
static int64_t nothing[64];

static void set_tensor(og_sketch *k, const og_sample *s, int32_t t, int32_t e) {
  const og_dims *sizes = &s->shape[t][e];
  int64_t *strides = k->strides[t][e];
  og_row_major(sizes->size, sizes->rank, strides);
  k->tensor[t][e] = (og_tensor){.data = nothing,
                                .device = og_cpu,
                                .ndim = sizes->rank,
                                .dtype = s->type[t],
                                .shape = (int64_t *)(uintptr_t)sizes->size,
                                .strides = strides};
}

og_sketch *og_sketch_create(const og_sample *sample) {
  const og_decl *decl = sample->op->decl;
  og_sketch *k = og_alloc(sizeof *k);
  if (k == NULL) return NULL;
  opgraft_frame_init(&k->frame, sample->op);
  og_sample_attrs(sample, k->frame.attr);
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    k->frame.in[t] = NULL;
    k->frame.in_list[t] = (og_tensor_list){0};
    if (!sample->is_given[t]) continue;
    for (int32_t e = 0; e < sample->list_count[t]; ++e) {
      k->entry[t][e] = NULL;
      if (!og_sample_has(sample, t, e)) continue;
      set_tensor(k, sample, t, e);
      k->entry[t][e] = &k->tensor[t][e];
    }
    if (decl->params[decl->tensor_params[t]].is_list)
      k->frame.in_list[t] =
          (og_tensor_list){sample->list_count[t], k->entry[t]};
    else
      k->frame.in[t] = &k->tensor[t][0];
  }
  return k;
}

void og_sketch_destroy(og_sketch *sketch) {
  if (sketch != NULL) opgraft_frame_reset(&sketch->frame);
  og_free(sketch);
}
