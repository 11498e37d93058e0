// SPDX-License-Identifier: Apache-2.0
// Whether og_infer accepts a sample.

#include "check/sample/valid.h"

#include "check/sample/callback.h"
#include "check/sample/sample.h"
#include "check/sample/shape.h"
#include "check/sample/sketch.h"
#include "decl/infer/infer.h"

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
  og_sketch *k = og_sketch_create(sample);
  if (k == NULL) {
    og_error_set(error, OG_MEMORY, sample->op->decl->name, NULL,
                 "not enough memory to sample calls");
    return false;
  }
  bool ok = og_infer(sample->op->decl, &k->frame, error) == OG_OK;
  if (ok && fresh_numel(&k->frame) > element_limit) {
    og_error_set(error, OG_SHAPE, sample->op->decl->name, NULL,
                 "the results of sampled calls are too large");
    ok = false;
  }
  og_sketch_destroy(k);
  return ok;
}
