// SPDX-License-Identifier: Apache-2.0
// Smaller samples.

#include "check/sample/shrink.h"

#include "check/sample/sample.h"

// What a size may become, smallest first.
static bool smaller_size(int64_t *size, int32_t way) {
  const int64_t ways[] = {0, 1, 2, *size / 2, *size - 1};
  const int64_t next = ways[way];
  if (next >= *size || next < 0) return false;
  *size = next;
  return true;
}

enum { SIZE_WAYS = 5 };

bool og_sample_shrink(const og_sample *sample, int32_t step, og_sample *out) {
  const og_decl *decl = sample->op->decl;
  const int32_t way = step % SIZE_WAYS;
  int32_t at = step / SIZE_WAYS;
  *out = *sample;
  for (int32_t d = 0; d < decl->dim_count; ++d) {
    if (decl->dims[d].kind == OG_DIM_SIZE && at-- == 0) {
      smaller_size(&out->dim[d], way);
      return true;
    }
    for (int32_t i = 0; i < sample->pack[d].rank; ++i)
      if (decl->dims[d].kind == OG_DIM_PACK && at-- == 0) {
        smaller_size(&out->pack[d].size[i], way);
        return true;
      }
    for (int32_t i = 0; i < OG_SAMPLE_LIST; ++i)
      if (decl->dims[d].kind == OG_DIM_VARY && at-- == 0) {
        smaller_size(&out->vary[d][i], way);
        return true;
      }
  }
  for (int32_t k = 0; k < decl->attr_count; ++k)
    if (sample->attr[k].kind == OG_ATTR_INT && at-- == 0) {
      smaller_size(&out->attr[k].i, way);
      return true;
    }
  return false;
}
