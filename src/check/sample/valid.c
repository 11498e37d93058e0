// SPDX-License-Identifier: Apache-2.0
// Whether og_infer accepts a sample.

#include "check/sample/valid.h"

#include "check/sample/callback.h"
#include "check/sample/sample.h"
#include "check/sample/shape.h"
#include "decl/infer/infer.h"

// Tensors without memory: og_infer looks at shapes only. `infer` callbacks
// may look at data; they get elements that are zero.
static int64_t nothing[64];

static void tensor_sketch(const og_sample *s, int32_t t, int32_t e,
                          int64_t *strides, og_tensor *out) {
  const og_dims *sizes = &s->shape[t][e];
  og_row_major(sizes->size, sizes->rank, strides);
  *out = (og_tensor){.data = nothing,
                     .device = og_cpu,
                     .ndim = sizes->rank,
                     .dtype = s->type[t],
                     .shape = (int64_t *)(uintptr_t)sizes->size,
                     .strides = strides};
}

typedef struct sketch {
  opgraft_frame frame;
  og_tensor tensor[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST];
  og_tensor *entry[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST];
  int64_t strides[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST][OG_SAMPLE_RANK];
} sketch;

static void sketch_fill(sketch *k, const og_sample *s) {
  const og_decl *decl = s->op->decl;
  opgraft_frame_init(&k->frame, s->op);
  og_sample_attrs(s, k->frame.attr);
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    k->frame.in[t] = NULL;
    k->frame.in_list[t] = (og_tensor_list){0};
    if (!s->is_given[t]) continue;
    for (int32_t e = 0; e < s->list_count[t]; ++e) {
      k->entry[t][e] = NULL;
      if (!og_sample_has(s, t, e)) continue;
      tensor_sketch(s, t, e, k->strides[t][e], &k->tensor[t][e]);
      k->entry[t][e] = &k->tensor[t][e];
    }
    if (decl->params[decl->tensor_params[t]].is_list)
      k->frame.in_list[t] = (og_tensor_list){s->list_count[t], k->entry[t]};
    else
      k->frame.in[t] = &k->tensor[t][0];
  }
}

static int64_t fresh_numel(const opgraft_frame *frame) {
  int64_t n = 0;
  for (int32_t i = 0; i < frame->fresh_count; ++i) {
    const og_decl *decl = frame->op->decl;
    if (decl->results[decl->fresh_results[i]].is_list) {
      for (int64_t e = 0; e < frame->fresh_list[i].count; ++e)
        n += og_numel(frame->fresh_list[i].tensors[e]);
    } else {
      int64_t one = 1;
      for (int32_t d = 0; d < frame->fresh[i].ndim; ++d)
        if (!og_i64_mul(one, frame->fresh[i].shape[d], &one)) return INT64_MAX;
      if (!og_i64_add(n, one, &n)) return INT64_MAX;
    }
  }
  return n;
}

bool og_sample_is_valid(og_sample *sample, int64_t element_limit,
                        opgraft_error *error) {
  if (!og_sample_settle(sample, error)) return false;
  if (!og_sample_build(sample)) {
    og_error_set(error, OG_SHAPE, sample->op->decl->name, NULL,
                 "the shape rule has no value for a sampled call");
    return false;
  }
  if (og_sample_numel(sample) > element_limit) return false;
  sketch *k = og_alloc(sizeof *k);
  if (k == NULL) {
    og_error_set(error, OG_MEMORY, sample->op->decl->name, NULL,
                 "not enough memory to sample calls");
    return false;
  }
  sketch_fill(k, sample);
  bool ok = og_infer(sample->op->decl, &k->frame, error) == OG_OK;
  if (ok && fresh_numel(&k->frame) > element_limit) {
    og_error_set(error, OG_SHAPE, sample->op->decl->name, NULL,
                 "the results of sampled calls are too large");
    ok = false;
  }
  opgraft_frame_reset(&k->frame);
  og_free(k);
  return ok;
}
