// SPDX-License-Identifier: Apache-2.0
// Constant operands of contractions, packed once for all plans and calls of an
// executable.

#ifndef OG_EXEC_FAST_PACKS_H
#define OG_EXEC_FAST_PACKS_H

#include "exec/step/contraction.h"

// The panels of b, which live as long as the executable; NULL where b is no
// constant, has several batches, or memory is short.
void og_packs_get(og_prep *prep, const og_contraction *of, int element,
                  const void **out_panels);
void og_packs_destroy(og_pack *packs);

#endif  // OG_EXEC_FAST_PACKS_H
