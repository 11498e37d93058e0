// SPDX-License-Identifier: Apache-2.0
// Operands of contractions, packed once for all plans and calls of an
// executable: constants, and weights that the host passes with each call.

#ifndef OG_EXEC_FAST_PACKS_H
#define OG_EXEC_FAST_PACKS_H

#include "exec/step/contraction.h"

// The panels of b, which live as long as the executable; NULL where b is not a
// constant, has several batches, or memory is short.
void og_packs_get(og_prep *prep, const og_contraction *of, int element,
                  const void **out_panels);
void og_packs_destroy(og_pack *packs);

// --- Weights among the inputs ------------------------------------------------

// Whether the second operand of a contraction is one whose packed form may be
// kept: the host marked the input (OPGRAFT_INPUT_STATIC) and said that it
// stays, and the system tells when it is written (base/watch.h).
bool og_kept_is_offered(const og_prep *prep);
// The place for its panels, shared by all plans, which lives as long as the
// executable. NULL where it is not offered, is too small or has several
// batches, and where memory is short.
og_kept *og_kept_get(og_prep *prep, const og_contraction *of, int element);
// The panels of what b holds now, packed by this call where they were not or
// where b was written or moved since; kept until og_kept_leave. NULL: b is to
// be packed as it is read, since it changes too often, another call packs it,
// or memory is short; og_kept_leave is not called then.
const void *og_kept_enter(og_kept *kept, const og_contraction *of,
                          const og_run *run);
void og_kept_leave(og_kept *kept);
// The same panels without asking the system whether b was written:
// og_kept_holds says it, while or after they are used. NULL: there are none of
// this memory, or it is known that they are no longer b's.
const void *og_kept_try(og_kept *kept, const og_contraction *of);
bool og_kept_holds(const og_kept *kept);
void og_kept_destroy(og_kept *kept);  // a list

#endif  // OG_EXEC_FAST_PACKS_H
