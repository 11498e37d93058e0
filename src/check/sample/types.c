// SPDX-License-Identifier: Apache-2.0
// Combinations of types that an operator has kernels for.

#include "check/sample/types.h"

#include <string.h>

#include "check/sample/sample.h"
#include "check/sample/value.h"
#include "decl/types.h"

enum { LOOKED_MAX = 1 << 12 };  // combinations

static bool kernel_takes(const opgraft_op *op, int32_t device, int32_t k,
                         const int32_t *types) {
  const og_decl *decl = op->decl;
  const og_type_set *sets = decl->kernel_types + (size_t)k * OG_VARIABLE_MAX;
  if (decl->kernels[k].device != device || !op->kernel_available[k])
    return false;
  for (int32_t v = 0; v < decl->type_variable_count; ++v)
    if (!(sets[v] >> types[v] & 1u)) return false;
  return true;
}

bool og_sample_has_kernel(const opgraft_op *op, int32_t device,
                          const int32_t *types) {
  for (int32_t k = 0; k < op->decl->kernel_count; ++k)
    if (kernel_takes(op, device, k, types)) return true;
  return false;
}

static bool variable_accepts(const opgraft_op *op, int32_t v, int32_t type) {
  return op->decl->types[op->variable_tensor[v]].set >> type & 1u;
}

// The first type from `from` on that free type v may have; the table's length
// if there is none.
static int32_t next_type(const opgraft_op *op, int32_t v, int32_t from) {
  while (from < og_dtype_table_count() && !variable_accepts(op, v, from))
    ++from;
  return from;
}

bool og_sample_has_types(const opgraft_op *op, const int32_t *types) {
  for (int32_t v = 0; v < op->decl->type_variable_count; ++v)
    if (!variable_accepts(op, v, types[v])) return false;
  return og_sample_has_kernel(op, OG_CPU, types);
}

// The next combination in the order of the type table; false behind the last.
static bool next_types(const opgraft_op *op, int32_t *now) {
  for (int32_t v = 0; v < op->decl->type_variable_count; ++v) {
    now[v] = next_type(op, v, now[v] + 1);
    if (now[v] < og_dtype_table_count()) return true;
    now[v] = next_type(op, v, 0);
  }
  return false;
}

static bool is_one_type(const opgraft_op *op, const int32_t *types) {
  for (int32_t v = 1; v < op->decl->type_variable_count; ++v)
    if (types[v] != types[0]) return false;
  return true;
}

// How many combinations there are with one type, and with several.
static bool count_types(const opgraft_op *op, int32_t device, int32_t *first,
                        int32_t *out_one_type, int32_t *out_mixed) {
  const int32_t variables = op->decl->type_variable_count;
  *out_one_type = *out_mixed = 0;
  for (int32_t v = 0; v < variables; ++v) {
    first[v] = next_type(op, v, 0);
    if (first[v] == og_dtype_table_count()) return false;
  }
  int32_t now[OG_VARIABLE_MAX];
  memcpy(now, first, sizeof now);
  int32_t looked = 0;
  do {
    if (og_sample_has_kernel(op, device, now))
      ++*(is_one_type(op, now) ? out_one_type : out_mixed);
  } while (++looked < LOOKED_MAX && next_types(op, now));
  return true;
}

int32_t og_sample_types(const opgraft_op *op, int32_t max,
                        int32_t (*out_types)[OG_VARIABLE_MAX]) {
  return og_sample_device_types(op, OG_CPU, max, out_types);
}

int32_t og_sample_device_types(const opgraft_op *op, int32_t device,
                               int32_t max,
                               int32_t (*out_types)[OG_VARIABLE_MAX]) {
  int32_t now[OG_VARIABLE_MAX] = {0};
  int32_t one_type, mixed;
  if (!count_types(op, device, now, &one_type, &mixed)) return 0;
  // Where there are too many, those with one type come first, and of the
  // others so many as there is room for, evenly.
  const int32_t kept_one =
      one_type + mixed <= max || one_type < max / 2 ? one_type : max / 2;
  const int32_t room = max - kept_one < mixed ? max - kept_one : mixed;
  int32_t count = 0, ones = 0, others = 0, looked = 0;
  do {
    if (!og_sample_has_kernel(op, device, now)) continue;
    bool is_kept = false;
    if (is_one_type(op, now)) {
      is_kept = ones++ < kept_one;
    } else {
      is_kept =
          (int64_t)(others + 1) * room / mixed > (int64_t)others * room / mixed;
      ++others;
    }
    if (is_kept) memcpy(out_types[count++], now, sizeof now);
  } while (++looked < LOOKED_MAX && next_types(op, now));
  return count;
}

static int32_t first_type(og_type_set set) {
  for (int32_t i = 0; i < og_dtype_table_count(); ++i)
    if (set >> i & 1u) return i;
  return 0;
}

void og_sample_set_types(og_sample *sample,
                         const int32_t types[OG_VARIABLE_MAX]) {
  const og_decl *decl = sample->op->decl;
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    int32_t from = t;
    for (int32_t i = 0; i < OPGRAFT_ARG_MAX; ++i)
      if (decl->types[from].same_as >= 0) from = decl->types[from].same_as;
    const int32_t v = decl->types[from].variable;
    sample->type[t] =
        og_dtype_at(v >= 0 ? types[v] : first_type(decl->types[from].set));
  }
}

bool og_is_index_argument(const og_decl *decl, int32_t t) {
  return og_takes_integers_only(decl, t) &&
         (decl->tensor_count > 1 || decl->attr_count > 0);
}
