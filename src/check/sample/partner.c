// SPDX-License-Identifier: Apache-2.0
// A sample in the types that a comparison wants.

#include "check/sample/partner.h"

#include "check/sample/sample.h"
#include "check/sample/types.h"
#include "check/sample/value.h"
#include "decl/types.h"

static bool is_partner(og_partner kind, og_dtype now, og_dtype other) {
  switch (kind) {
    case OG_PARTNER_WIDER:
      return og_is_floating(now) && og_is_floating(other);
    case OG_PARTNER_INTEGER:
      return og_is_integral(now) && other.code == OG_CODE_INT;
    default:
      return og_is_integral(now) && og_is_floating(other);
  }
}

// The widest partner that free type v may have, or the type itself.
static int32_t widest(const opgraft_op *op, int32_t v, int32_t type,
                      og_partner kind) {
  const og_type_set set = op->decl->types[op->variable_tensor[v]].set;
  const og_dtype now = og_dtype_at(type);
  int32_t best = type;
  for (int32_t i = 0; i < og_dtype_table_count(); ++i) {
    const og_dtype other = og_dtype_at(i);
    const bool is_first = best == type && kind == OG_PARTNER_FLOAT;
    if ((set >> i & 1u) && is_partner(kind, now, other) &&
        (is_first || other.bits > og_dtype_at(best).bits))
      best = i;
  }
  return best;
}

bool og_sample_convert(const og_sample *sample, og_partner kind,
                       og_sample *out) {
  const opgraft_op *op = sample->op;
  int32_t types[OG_VARIABLE_MAX] = {0};
  bool is_other = false;
  for (int32_t v = 0; v < op->decl->type_variable_count; ++v) {
    const int32_t now = og_dtype_index(sample->type[op->variable_tensor[v]]);
    types[v] = widest(op, v, now, kind);
    is_other |= types[v] != now;
    // Floats beside integers are compared in their widest type as well.
    if (types[v] == now) types[v] = widest(op, v, now, OG_PARTNER_WIDER);
  }
  if (!is_other || !og_sample_has_types(op, types)) return false;
  *out = *sample;
  og_sample_set_types(out, types);
  return true;
}
