// SPDX-License-Identifier: Apache-2.0
// Draws samples until og_infer accepts one.

#include "check/sample/draw.h"

#include <string.h>

#include "check/sample/randomize.h"
#include "check/sample/sample.h"
#include "check/sample/solve.h"
#include "check/sample/types.h"
#include "check/sample/valid.h"

enum { ELEMENT_LIMIT = 1 << 17, DRAW_TRIES = 60 };

bool og_sample_draw(const opgraft_op *op, og_profile profile,
                    const int32_t types[OG_VARIABLE_MAX], uint64_t seed,
                    og_sample *out, opgraft_error *error) {
  const int64_t limit = profile == OG_PROFILE_SMOOTH ? 1 << 12 : ELEMENT_LIMIT;
  for (uint64_t i = 0; i < DRAW_TRIES; ++i) {
    og_random random = {og_seed_mix(seed, i)};
    memset(out, 0, sizeof *out);
    out->op = op;
    out->seed = og_random_next(&random);
    out->structure_seed = out->seed;
    og_sample_set_types(out, types);
    og_sample_randomize(out, profile, &random);
    if (og_sample_solve(out, profile, &random) &&
        og_sample_is_valid(out, limit, error))
      return true;
    // What is hard to meet at an edge or far out is tried in the middle.
    if (i == DRAW_TRIES / 2 && profile != OG_PROFILE_SMOOTH)
      profile = OG_PROFILE_TINY;
  }
  return false;
}
