// SPDX-License-Identifier: Apache-2.0
// Lines of inputs that are fetched before they are read.
//
// A program of one pass reads its rows at an even pace, for which the machine's
// own prefetcher does best. One of several passes reads memory in the first of
// them alone, and computes in the others while memory rests. So the longest
// pass that reads an input fetches the next row.

#include "loop/encode_prefetch.h"

#include "loop/encode_emit.h"

enum { EVERY = 16 };  // elements

static bool loads(const og_encoder *e, const og_loop_pass *pass,
                  int32_t input) {
  for (int32_t k = 0; k < pass->count; ++k)
    if (og_loop_computes(e->l, &pass->steps[k], OG_LANE_load) &&
        e->l->code[pass->steps[k].value].imm == (uint32_t)input)
      return true;
  return false;
}

// The longest pass with loads of it, the last of several.
static int32_t pass_of(const og_encoder *e, int32_t input) {
  int32_t best = -1;
  for (int32_t p = 0; p < e->l->pass_count; ++p)
    if (loads(e, &e->l->passes[p], input) &&
        (best < 0 || e->l->passes[p].count >= e->l->passes[best].count))
      best = p;
  return best;
}

void og_encoder_prefetch_begin(og_encoder *e, const int32_t *spare,
                               int32_t spare_count) {
  int32_t used = 0;
  for (int32_t i = 0; i < OG_LOOP_INPUTS_MAX; ++i) e->next_row[i] = -1;
  if (!e->spec->prefetch || e->l->pass_count == 1) return;
  for (int32_t i = 0; i < e->spec->input_count && used < spare_count; ++i) {
    if (pass_of(e, i) != e->pass || e->stream_reg[OG_STREAM_IN + i] < 0)
      continue;
    const size_t bytes = offsetof(og_loop_call, in_row_bytes) + 8 * (size_t)i;
    e->next_row[i] = spare[used++];
    og_encoder_general(e, OG_X86_mov, e->next_row[i],
                       og_x86_reg(e->stream_reg[OG_STREAM_IN + i]));
    og_encoder_general(e, OG_X86_add, e->next_row[i],
                       og_x86_at(OG_RDI, (int32_t)bytes));
  }
}

void og_encoder_prefetch(og_encoder *e, int32_t input) {
  const int32_t bytes = og_loop_memory_bytes(e->l->in_memory[input]);
  const int32_t base = e->next_row[input];
  const int32_t at = e->part * og_encoder_lanes(e);
  if (e->is_masked || base < 0 || at % EVERY != 0) return;
  og_encoder_general(e, OG_X86_prefetcht0, 0,
                     og_x86_indexed(base, OG_RCX, bytes, at * bytes));
}
