// SPDX-License-Identifier: Apache-2.0
// Expressions over symbols as text.

#include "graph/size_print.h"

static void call_print(const og_sizes *sizes, const og_size_expr *expr,
                       og_text *out);

static void size_print_in(const og_sizes *sizes, opgraft_size size, int least,
                          og_text *out) {
  const og_size_expr *expr = &sizes->exprs[size];
  const int own = og_size_precedence(expr->op);
  if (expr->op == OG_SIZE_CONST) {
    og_text_addf(out, "%lld", (long long)expr->value);
  } else if (expr->op == OG_SIZE_FCONST) {
    og_text_add_double(out, og_bits_double(expr->value));
  } else if (expr->op == OG_SIZE_SYMBOL) {
    og_text_add(out, sizes->symbols[expr->value]);
  } else if (own == 3) {
    call_print(sizes, expr, out);
  } else {
    if (own < least) og_text_add(out, "(");
    size_print_in(sizes, expr->a, own, out);
    og_text_add(out, og_size_ops[expr->op].text);
    size_print_in(sizes, expr->b, own + 1, out);
    if (own < least) og_text_add(out, ")");
  }
}

static void call_print(const og_sizes *sizes, const og_size_expr *expr,
                       og_text *out) {
  const og_size_op_info *info = &og_size_ops[expr->op];
  og_text_addf(out, "%s(", info->text);
  size_print_in(sizes, expr->a, 0, out);
  if (info->operand_count == 2) {
    og_text_add(out, ", ");
    size_print_in(sizes, expr->b, 0, out);
  }
  og_text_add(out, ")");
}

void og_size_print(const og_sizes *sizes, opgraft_size size, og_text *out) {
  size_print_in(sizes, size, 0, out);
}
