// SPDX-License-Identifier: Apache-2.0
// Operands of contractions and weights of convolutions, packed once for all
// plans and calls of an executable: constants, and weights that the host passes
// with each call.

#ifndef OG_EXEC_FAST_PACKS_H
#define OG_EXEC_FAST_PACKS_H

#include "exec/step/contraction.h"
#include "graph/prepacked.h"
#include "kernel/kernel.h"

// An operand of a node, and what it is packed to.
typedef struct og_packing {
  og_gemm_weights of;  // a convolution's: a row of all its taps for each result
  int32_t operand;
  bool is_winograd;  // as og_winograd_kernels packs it, else panels
  int narrow;        // OG_I8 or int4: their panels (og_packs_scales); or 0
} og_packing;
// Of b; false where it has several batches.
bool og_packing_of(const og_contraction *of, int element, og_packing *out);
// Behind panels of int8 or int4, `type`: the columns' scales, zero where there
// is no column.
const float *og_packs_scales(const void *panels, int64_t n, int64_t k,
                             int type);
int64_t og_packs_scales_bytes(int64_t n);

bool og_packs_is_constant(const og_prep *prep, const og_packing *what);
// The panels, which live as long as the executable: packed now or before, or
// mapped, where the graph's file has them: whoever reads panels of a
// contraction there checks them first (og_blocks_hold). NULL where the operand
// is not a constant, memory is short, or such a type cannot hold it: NaN,
// infinity.
void og_packs_get(og_prep *prep, const og_packing *what,
                  const void **out_panels);
void og_packs_destroy(og_pack *packs);
// Bytes of panels that were packed, and of those that are mapped. Under the
// executable's mutex, as og_packs_list.
void og_packs_count(const opgraft_executable *executable, int64_t *out_packed,
                    int64_t *out_mapped);
// Weights that are int8 or int4 by now, and the largest of their errors: the
// square root of what rounding lost over what there is, both as sums of
// squares.
void og_packs_narrow(const opgraft_executable *executable, int64_t *out_count,
                     double *out_error);
// Forms in the graph's file that nothing here packs.
int32_t og_packs_unknown(const opgraft_graph *graph);
// All panels of constants that lie in the graph's file, in no order; how many.
// `out` may be NULL, and else has room for all.
int32_t og_packs_list(const opgraft_executable *executable, og_prepacked *out);

// --- Weights among the inputs ------------------------------------------------

// Whether the weights of a contraction or convolution are an operand whose
// packed form may be kept: the host marked the input (OPGRAFT_INPUT_STATIC) and
// said that it stays, and the system tells when it is written (base/watch.h).
bool og_kept_is_offered(const og_prep *prep);
// The place for its panels, shared by all plans, which lives as long as the
// executable. NULL where it is not offered or is too small, and where memory is
// short.
og_kept *og_kept_get(og_prep *prep, const og_packing *what);
// The panels of what `data`, the operand, holds now, packed by this call where
// they were not or where it was written or moved since; kept until
// og_kept_leave. NULL: it is to be packed as it is read, since it changes too
// often, another call packs it, its type cannot hold it, or memory is short;
// og_kept_leave is not called then.
const void *og_kept_enter(og_kept *kept, const void *data, const og_run *run);
void og_kept_leave(og_kept *kept);
// The same panels without asking the system whether it was written:
// og_kept_holds says it, while or after they are used. NULL: there are none of
// this memory, or it is known that they are no longer the operand's.
const void *og_kept_try(og_kept *kept, const void *data);
bool og_kept_holds(const og_kept *kept);
// Whether nobody packs it any more: its type cannot hold it, or it changes too
// often.
bool og_kept_is_over(og_kept *kept);
void og_kept_destroy(og_kept *kept);  // a list

#endif  // OG_EXEC_FAST_PACKS_H
