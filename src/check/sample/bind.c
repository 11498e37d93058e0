// SPDX-License-Identifier: Apache-2.0
// Names' values from the shapes of arguments.

#include "check/sample/bind.h"

#include <assert.h>

#include "check/sample/sketch.h"
#include "decl/infer/match.h"

static void take_vary(og_sample *s, int32_t d, const og_tensor_list *list,
                      int32_t axis) {
  for (int64_t e = 0; e < list->count; ++e)
    if (list->tensors[e] != NULL) s->vary[d][e] = list->tensors[e]->shape[axis];
}

static void take_dim(og_sample *s, int32_t d, const opgraft_frame *frame,
                     const og_bound_dim *at) {
  switch (s->op->decl->dims[d].kind) {
    case OG_DIM_PACK:
      assert(at->pack.rank <= OG_SAMPLE_RANK);
      s->pack[d].rank = (int32_t)at->pack.rank;
      for (int64_t i = 0; i < at->pack.rank; ++i)
        s->pack[d].size[i] = at->pack.dims[i];
      break;
    case OG_DIM_VARY:
      take_vary(s, d, &frame->in_list[at->vary.tensor], at->vary.axis);
      break;
    default:
      s->dim[d] = frame->dim[d];
  }
}

bool og_sample_bind(og_sample *sample) {
  const og_decl *decl = sample->op->decl;
  og_binding binding;
  og_sketch *sketch = og_sketch_create(sample);
  if (sketch == NULL) return false;
  // Shapes that do not match are left for the run to refuse.
  og_match(decl, &sketch->frame, &binding, NULL);
  for (int32_t d = 0; d < decl->dim_count; ++d)
    if (og_is_bound(&binding, d))
      take_dim(sample, d, &sketch->frame, &binding.at[d]);
  og_sketch_destroy(sketch);
  return true;
}
