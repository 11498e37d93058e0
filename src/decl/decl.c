// SPDX-License-Identifier: Apache-2.0
// A declaration's life: every string of an og_op, read once.

#include "decl/decl.h"

#include "base/sized.h"
#include "decl/formula.h"
#include "decl/formula_grad.h"
#include "decl/infer/quick.h"
#include "decl/parse/parser.h"

// Fields that the oldest record has; one that ends before is not an og_op.
enum { OLDEST_OP_BYTES = offsetof(og_op, infer) };

// The record in our size: what an older module lacks is zero, what a newer one
// has beyond ours must be.
static og_status copy_record(og_decl *decl, const og_op *record,
                             uint32_t op_size, opgraft_error *error) {
  const size_t ours = sizeof(og_op);
  og_op *copy = og_arena_alloc(&decl->arena, ours);
  if (copy == NULL)
    return og_error_set(error, OG_MEMORY, NULL, NULL,
                        "out of memory while a declaration was read");
  if (op_size < OLDEST_OP_BYTES)
    return og_error_set(
        error, OG_VERSION, NULL, NULL,
        "an operator's record has %u bytes, expected %u or more; "
        "build the module with <opgraft/op.h>",
        (unsigned)op_size, (unsigned)OLDEST_OP_BYTES);
  const size_t unknown = og_copy_known(record, op_size, copy, ours);
  if (unknown != 0)
    return og_error_set(error, OG_VERSION, NULL, NULL,
                        "%s: the module uses a field of og_op that this "
                        "library does not know (byte %zu of %u); update "
                        "opgraft, or build the module against this version",
                        record->schema != NULL ? record->schema : "operator",
                        unknown, (unsigned)op_size);
  decl->record = copy;
  decl->flags = copy->flags;
  if (copy->schema != NULL) return OG_OK;
  return og_error_set(error, OG_INVALID, NULL, "schema",
                      "schema: missing; every operator has one, such as "
                      "\"f(Tensor x) -> Tensor\"");
}

static og_status parse_all(og_decl *decl, opgraft_error *error) {
#define OG_STEP(read) OG_TRY(read(decl, error));
#include "decl/parse/steps.def"
#undef OG_STEP
  return OG_OK;
}

og_status og_decl_create(const og_op *record, uint32_t op_size,
                         og_decl **out_decl, opgraft_error *error) {
  *out_decl = NULL;
  og_decl *decl = og_alloc_zeroed(1, sizeof *decl);
  if (decl == NULL)
    return og_error_set(error, OG_MEMORY, NULL, NULL,
                        "out of memory while a declaration was read");
  og_status status = copy_record(decl, record, op_size, error);
  if (status == OG_OK) status = parse_all(decl, error);
  if (status != OG_OK) {
    og_decl_destroy(decl);
    return status;
  }
  *out_decl = decl;
  return OG_OK;
}

void og_decl_destroy(og_decl *decl) {
  if (decl == NULL) return;
  if (decl->formula != NULL) og_formula_destroy(decl->formula);
  og_arena_destroy(&decl->arena);
  og_free(decl);
}
