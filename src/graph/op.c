// SPDX-License-Identifier: Apache-2.0
// The operator table and its look-ups.

#include "graph/op.h"

#include <string.h>

#include "graph/graph.h"

#define OG_OP(id, least, most, outs, flag_bits, attr_names, plain, fast) \
  [OG_IR_##id] = {.name = #id,                                           \
                  .in_min = least,                                       \
                  .in_max = most,                                        \
                  .out_count = outs,                                     \
                  .flags = flag_bits,                                    \
                  .attrs = attr_names},
#define RESULT_RULE true
#define OPERANDS_RULE false
#define OG_PW(id, arity, flag_bits, rule, class_bits, text) \
  [OG_IR_##id] = {.name = #id,                              \
                  .in_min = arity,                          \
                  .in_max = arity,                          \
                  .out_count = 1,                           \
                  .converts = rule##_RULE,                  \
                  .flags = (flag_bits) | OG_OP_POINTWISE,   \
                  .attrs = "",                              \
                  .expression = #text,                      \
                  .classes = OG_CLASSES_##class_bits},
const og_op_info og_ops[OG_IR_COUNT] = {
#include "graph/ops.def"
};
#undef OG_OP
#undef OG_PW
#undef RESULT_RULE
#undef OPERANDS_RULE

// Operands have one letter each, from a on.
static og_status operand_find(void *state, const og_reader *reader,
                              og_token name, og_scalar_instruction *out) {
  const og_op_info *op = state;
  const int32_t slot = *og_token_text(reader, name) - 'a';
  if (og_scalar_constant(reader, name, &out->value)) return OG_OK;
  if (og_token_length(name) != 1 || slot < 0 || slot >= op->in_max)
    return og_read_error_token(reader, name, "no operand and no constant");
  out->op = OG_SCALAR_load;
  out->slot = slot;
  return OG_OK;
}

og_status og_op_parse(int32_t op, og_scalar_code *out, opgraft_error *error) {
  const og_op_info *info = &og_ops[op];
  const og_scalar_names names = {.find = operand_find,
                                 .state = (void *)(uintptr_t)info};
  og_reader reader;
  OG_TRY(og_reader_init(&reader, info->name, "expression", info->expression,
                        error));
  OG_TRY(og_scalar_parse(&reader, &names, info->classes, out));
  return og_reader_expect_end(&reader, "an operator or the end");
}

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

int32_t og_op_attr_count(int32_t op) {
  size_t length;
  int32_t count = 0;
  while (og_op_attr_name(op, count, &length) != NULL) ++count;
  return count;
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
