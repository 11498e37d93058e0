// SPDX-License-Identifier: Apache-2.0
// The table of types and PyTorch's promotion between them.
// Source: c10/core/ScalarType.h (promoteTypes), ATen/native/TypeProperties.cpp
// (result_type).

#include "decl/types.h"

enum {
  F16,
  BF16,
  F32,
  F64,
  I8,
  I16,
  I32,
  I64,
  U8,
  U16,
  U32,
  U64,
  BOOL,
  C64,
  C128,
  TYPE_COUNT
};

static const og_dtype table[TYPE_COUNT] = {
    [F16] = {OG_CODE_FLOAT, 16, 1},     [BF16] = {OG_CODE_BFLOAT, 16, 1},
    [F32] = {OG_CODE_FLOAT, 32, 1},     [F64] = {OG_CODE_FLOAT, 64, 1},
    [I8] = {OG_CODE_INT, 8, 1},         [I16] = {OG_CODE_INT, 16, 1},
    [I32] = {OG_CODE_INT, 32, 1},       [I64] = {OG_CODE_INT, 64, 1},
    [U8] = {OG_CODE_UINT, 8, 1},        [U16] = {OG_CODE_UINT, 16, 1},
    [U32] = {OG_CODE_UINT, 32, 1},      [U64] = {OG_CODE_UINT, 64, 1},
    [BOOL] = {OG_CODE_BOOL, 8, 1},      [C64] = {OG_CODE_COMPLEX, 64, 1},
    [C128] = {OG_CODE_COMPLEX, 128, 1},
};

const uint8_t og_dtype_indices[OG_DTYPE_CODES][OG_DTYPE_BYTES] = {
    [OG_CODE_FLOAT] = {[2] = F16 + 1, [4] = F32 + 1, [8] = F64 + 1},
    [OG_CODE_BFLOAT] = {[2] = BF16 + 1},
    [OG_CODE_INT] = {[1] = I8 + 1, [2] = I16 + 1, [4] = I32 + 1, [8] = I64 + 1},
    [OG_CODE_UINT] =
        {[1] = U8 + 1, [2] = U16 + 1, [4] = U32 + 1, [8] = U64 + 1},
    [OG_CODE_BOOL] = {[1] = BOOL + 1},
    [OG_CODE_COMPLEX] = {[8] = C64 + 1, [16] = C128 + 1},
};

og_dtype og_dtype_at(int32_t index) { return table[index]; }

int32_t og_dtype_table_count(void) { return TYPE_COUNT; }

const og_type_set og_types_any = (1u << TYPE_COUNT) - 1;
const og_type_set og_types_floating =
    1u << F16 | 1u << BF16 | 1u << F32 | 1u << F64;
const og_type_set og_types_integral = 1u << I8 | 1u << I16 | 1u << I32 |
                                      1u << I64 | 1u << U8 | 1u << U16 |
                                      1u << U32 | 1u << U64;
const og_type_set og_types_complex = 1u << C64 | 1u << C128;

static bool in_set(og_type_set set, int32_t type) {
  return type >= 0 && (set >> type & 1u);
}

// --- Promotion ---------------------------------------------------------------

enum { UNDEFINED = -1, IMPOSSIBLE = -2 };

// Types that PyTorch promotes to themselves and to floating types only.
static bool is_barebones(int32_t t) { return t == U16 || t == U32 || t == U64; }

static int32_t promote_floating(int32_t a, int32_t b) {
  if (a == F64 || b == F64) return F64;
  if (a == F32 || b == F32) return F32;
  return F32;  // f16 with bf16: neither holds the other
}

static int32_t promote_complex(int32_t a, int32_t b) {
  if (a == C128 || b == C128 || a == F64 || b == F64) return C128;
  return C64;
}

// Signed types by size; u8 with a signed type needs the next larger one.
static int32_t promote_integral(int32_t a, int32_t b) {
  if (a == BOOL) return b;
  if (b == BOOL) return a;
  if (a != U8 && b != U8) return a > b ? a : b;
  const int32_t other = a == U8 ? b : a;
  return other == I8 ? I16 : other;
}

static int32_t promote_two(int32_t a, int32_t b) {
  if (a == UNDEFINED || b == IMPOSSIBLE) return b;
  if (b == UNDEFINED || a == IMPOSSIBLE || a == b) return a;
  const bool a_floats = in_set(og_types_floating, a);
  const bool b_floats = in_set(og_types_floating, b);
  if ((is_barebones(a) && !b_floats) || (is_barebones(b) && !a_floats))
    return IMPOSSIBLE;
  if (in_set(og_types_complex, a) || in_set(og_types_complex, b))
    return promote_complex(a, b);
  if (a_floats && b_floats) return promote_floating(a, b);
  if (a_floats || b_floats) return a_floats ? a : b;
  return promote_integral(a, b);
}

// A higher category (tensors with dims, tensors without, numbers) keeps its
// type unless the lower one is of a higher kind.
static int32_t combine(int32_t higher, int32_t lower) {
  if (higher == UNDEFINED || lower == UNDEFINED)
    return higher == UNDEFINED ? lower : higher;
  if (higher == IMPOSSIBLE || lower == IMPOSSIBLE) return IMPOSSIBLE;
  if (in_set(og_types_complex, higher)) return higher;
  const bool lower_is_complex = in_set(og_types_complex, lower);
  if (in_set(og_types_floating, higher)) {
    if (!lower_is_complex) return higher;
    // The complex type of the same size; f16's is not in the table.
    if (higher == F16) return IMPOSSIBLE;
    return higher == F64 ? C128 : C64;
  }
  if (lower_is_complex && is_barebones(higher)) return lower;
  if (higher == BOOL || lower_is_complex || in_set(og_types_floating, lower))
    return promote_two(higher, lower);
  return higher;
}

void og_promotion_tensor(og_promotion *state, og_dtype dtype, int32_t ndim) {
  int32_t *type = ndim > 0 ? &state->dims : &state->no_dims;
  *type = promote_two(*type, og_dtype_index(dtype));
}

void og_promotion_number(og_promotion *state, int32_t attr_kind) {
  int32_t type;
  switch (attr_kind) {
    case OG_ATTR_NONE:
      return;
    case OG_ATTR_INT:
      type = I64;
      break;
    case OG_ATTR_BOOL:
      type = BOOL;
      break;
    case OG_ATTR_COMPLEX:
      type = C64;
      break;
    default:
      type = F32;  // PyTorch's default type
  }
  state->number = promote_two(state->number, type);
}

int32_t og_promotion_result(const og_promotion *state) {
  return combine(state->dims, combine(state->no_dims, state->number));
}

og_type_set og_types_of(const og_decl *decl, int32_t tensor) {
  const int32_t same = decl->types[tensor].same_as;
  return decl->types[same >= 0 ? same : tensor].set;
}

bool og_takes_integers_only(const og_decl *decl, int32_t tensor) {
  return (og_types_of(decl, tensor) & ~og_types_integral) == 0;
}
