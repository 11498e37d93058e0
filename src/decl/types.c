// SPDX-License-Identifier: Apache-2.0
// The table of types and PyTorch's promotion between them.
// Source: c10/core/ScalarType.h (promoteTypes), ATen/native/TypeProperties.cpp
// (result_type).

#include "decl/types.h"

// TYPE_f16, ..., in the order of OG_DTYPE_LIST.
enum {
#define TYPE_NAME(name, long_name, code, bits) TYPE_##name,
  OG_DTYPE_LIST(TYPE_NAME)
#undef TYPE_NAME
      TYPE_COUNT
};

static const og_dtype table[TYPE_COUNT] = {
#define TYPE_ROW(name, long_name, code, bits) {code, bits, 1},
    OG_DTYPE_LIST(TYPE_ROW)
#undef TYPE_ROW
};

const uint8_t og_dtype_indices[OG_DTYPE_CODES][OG_DTYPE_BYTES] = {
#define TYPE_INDEX(name, long_name, code, bits) \
  [code][bits / 8] = TYPE_##name + 1,
    OG_DTYPE_LIST(TYPE_INDEX)
#undef TYPE_INDEX
};

og_dtype og_dtype_at(int32_t index) { return table[index]; }

int32_t og_dtype_table_count(void) { return TYPE_COUNT; }

const og_type_set og_types_any = (1u << TYPE_COUNT) - 1;
const og_type_set og_types_floating =
    1u << TYPE_f16 | 1u << TYPE_bf16 | 1u << TYPE_f32 | 1u << TYPE_f64;
const og_type_set og_types_integral =
    1u << TYPE_i8 | 1u << TYPE_i16 | 1u << TYPE_i32 | 1u << TYPE_i64 |
    1u << TYPE_u8 | 1u << TYPE_u16 | 1u << TYPE_u32 | 1u << TYPE_u64;
const og_type_set og_types_complex = 1u << TYPE_c64 | 1u << TYPE_c128;

static bool in_set(og_type_set set, int32_t type) {
  return type >= 0 && (set >> type & 1u);
}

// --- Promotion ---------------------------------------------------------------

enum { UNDEFINED = -1, IMPOSSIBLE = -2 };

// Types that PyTorch promotes to themselves and to floating types only.
static bool is_barebones(int32_t t) {
  return t == TYPE_u16 || t == TYPE_u32 || t == TYPE_u64;
}

static int32_t promote_floating(int32_t a, int32_t b) {
  if (a == TYPE_f64 || b == TYPE_f64) return TYPE_f64;
  if (a == TYPE_f32 || b == TYPE_f32) return TYPE_f32;
  return TYPE_f32;  // f16 with bf16: neither holds the other
}

static int32_t promote_complex(int32_t a, int32_t b) {
  if (a == TYPE_c128 || b == TYPE_c128 || a == TYPE_f64 || b == TYPE_f64)
    return TYPE_c128;
  return TYPE_c64;
}

// Signed types by size; u8 with a signed type needs the next larger one.
static int32_t promote_integral(int32_t a, int32_t b) {
  if (a == TYPE_bool) return b;
  if (b == TYPE_bool) return a;
  if (a != TYPE_u8 && b != TYPE_u8) return a > b ? a : b;
  const int32_t other = a == TYPE_u8 ? b : a;
  return other == TYPE_i8 ? TYPE_i16 : other;
}

// PyTorch promotes these to nothing but themselves.
static bool is_float8(int32_t t) {
  return t == TYPE_f8e4m3 || t == TYPE_f8e5m2;
}

static int32_t promote_two(int32_t a, int32_t b) {
  if (a == UNDEFINED || b == IMPOSSIBLE) return b;
  if (b == UNDEFINED || a == IMPOSSIBLE || a == b) return a;
  if (is_float8(a) || is_float8(b)) return IMPOSSIBLE;
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
    if (higher == TYPE_f16) return IMPOSSIBLE;
    return higher == TYPE_f64 ? TYPE_c128 : TYPE_c64;
  }
  if (lower_is_complex && is_barebones(higher)) return lower;
  if (higher == TYPE_bool || lower_is_complex ||
      in_set(og_types_floating, lower))
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
      type = TYPE_i64;
      break;
    case OG_ATTR_BOOL:
      type = TYPE_bool;
      break;
    case OG_ATTR_COMPLEX:
      type = TYPE_c64;
      break;
    default:
      type = TYPE_f32;  // PyTorch's default type
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
