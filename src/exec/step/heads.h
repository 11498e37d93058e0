// SPDX-License-Identifier: Apache-2.0
// The operands of attention: q [B, H, L, E], k [B, G, S, E], v [B, G, S, F], H
// a multiple of G, and an optional mask that is added (or, as bool, kept where
// true) and broadcasts to [B, H, L, S].

#ifndef OG_EXEC_STEP_HEADS_H
#define OG_EXEC_STEP_HEADS_H

#include "exec/step/operands.h"

typedef struct og_heads {
  og_operands io;
  const og_tensor *q, *k, *v;
  int64_t pairs, heads, queries, keys, width, value_width;  // pairs: B * H
  int64_t key_repeat;  // query heads for each key head
  bool causal, is_bool_mask;
  double scale;
  og_tensor mask;               // broadcast to [B, H, L, S]
  const og_tensor *given_mask;  // NULL: none
} og_heads;

// Fills `s`, which og_state_begin made, from these operands and the node's
// attributes; fails where shapes or types do not fit.
og_status og_heads_read(og_prep *prep, og_heads *s, int32_t first,
                        const og_tensor *mask);
// Fails unless these are attention's results.
og_status og_heads_need_results(og_prep *prep, const og_heads *s,
                                const og_tensor *y, const og_tensor *lse);
// The pair of key and value that a pair of queries reads.
static inline int64_t og_heads_key_pair(const og_heads *s, int64_t pair) {
  const int64_t key_heads = s->heads / s->key_repeat;
  return pair / s->heads * key_heads + pair % s->heads / s->key_repeat;
}
// Where the mask of a query begins, and its step in bytes.
const char *og_heads_mask_row(const og_heads *s, int64_t pair, int64_t query,
                              int64_t *out_step_bytes);

#endif  // OG_EXEC_STEP_HEADS_H
