// SPDX-License-Identifier: Apache-2.0
// The dims of packs: bound, given by an int list, broadcast, permuted, dropped,
// inserted.

#ifndef OG_DECL_INFER_PACKS_H
#define OG_DECL_INFER_PACKS_H

#include "decl/infer/eval.h"

// Writes a pack item's dims to `dims`, which has room for OPGRAFT_RANK_MAX;
// `index` is that of a list result's entry.
og_status og_pack_dims(const og_decl *decl, const og_item *item,
                       const og_scope *scope, int64_t index, int64_t *dims,
                       int32_t *out_rank, opgraft_error *error);

#endif  // OG_DECL_INFER_PACKS_H
