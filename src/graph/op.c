// SPDX-License-Identifier: Apache-2.0
// The operator table and its look-ups.

#include <string.h>

#include "graph/graph.h"

#define OG_OP(id, least, most, outs, flag_bits, attr_names, prepare) \
  [OG_IR_##id] = {.name = #id,                                       \
                  .in_min = least,                                   \
                  .in_max = most,                                    \
                  .out_count = outs,                                 \
                  .flags = flag_bits,                                \
                  .attrs = attr_names},
#define OG_PW(id, arity, flag_bits, rule, on_float, on_int) \
  OG_OP(id, arity, arity, 1, (flag_bits) | OG_OP_POINTWISE, "", pointwise)
const og_op_info og_ops[OG_IR_COUNT] = {
#include "graph/ops.def"
};
#undef OG_OP
#undef OG_PW

int32_t og_op_find(const char *name, size_t length) {
  for (int32_t i = 0; i < OG_IR_COUNT; ++i)
    if (strlen(og_ops[i].name) == length &&
        memcmp(og_ops[i].name, name, length) == 0)
      return i;
  return -1;
}

const char *og_op_attr_name(int32_t op, int32_t index, size_t *out_length) {
  const char *at = og_ops[op].attrs;
  for (; *at != '\0'; --index) {
    const size_t length = strcspn(at, " ");
    if (index == 0) {
      *out_length = length;
      return at;
    }
    at += length + (at[length] == ' ');
  }
  *out_length = 0;
  return NULL;
}

int32_t og_op_attr_index(int32_t op, const char *name, size_t length) {
  size_t own;
  const char *at;
  for (int32_t i = 0; (at = og_op_attr_name(op, i, &own)) != NULL; ++i)
    if (own == length && memcmp(at, name, length) == 0) return i;
  return -1;
}

const opgraft_arg *og_node_attr(const og_node *node, int32_t index) {
  static const opgraft_arg none = {.kind = OPGRAFT_ARG_NONE};
  return node->attrs != NULL ? &node->attrs[index] : &none;
}
