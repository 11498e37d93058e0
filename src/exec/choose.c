// SPDX-License-Identifier: Apache-2.0
// Who runs a node.

#include "exec/choose.h"

#include <pthread.h>

#include "exec/candidates.h"
#include "exec/rules.h"
#include "graph/op.h"

// With so many elements a host's kernels are worth the way to them, where ours
// are plain: functions like exp are calls of libm there, arithmetic is a loop
// that the compiler made vectors of.
enum { FROM_ELSE = 1024, FROM_ARITHMETIC = 65536, FROM_FUNCTION = 512 };

typedef struct limits {
  bool is_set;
  int64_t plain, fast;  // elements, from which on the host is asked first
} limits;

static const limits known[OG_IR_COUNT] = {
#define OG_HOST_FROM(op, plain, fast) [OG_IR_##op] = {true, plain, fast},
#include "exec/choose.def"
#undef OG_HOST_FROM
};

// --- What is arithmetic ------------------------------------------------------

static bool is_vector_instruction(int32_t op) {
  switch (op) {
    case OG_SCALAR_const:
    case OG_SCALAR_load:
    case OG_SCALAR_neg:
    case OG_SCALAR_abs:
    case OG_SCALAR_add:
    case OG_SCALAR_sub:
    case OG_SCALAR_mul:
    case OG_SCALAR_div:
    case OG_SCALAR_sqrt:
    case OG_SCALAR_fma:
    case OG_SCALAR_min:
    case OG_SCALAR_max:
    case OG_SCALAR_select:
    case OG_SCALAR_not:
    case OG_SCALAR_and:
    case OG_SCALAR_or:
    case OG_SCALAR_eq:
    case OG_SCALAR_ne:
    case OG_SCALAR_lt:
    case OG_SCALAR_le:
    case OG_SCALAR_gt:
    case OG_SCALAR_ge:
    case OG_SCALAR_bit_not:
    case OG_SCALAR_bit_and:
    case OG_SCALAR_bit_or:
    case OG_SCALAR_bit_xor:
      return true;
    default:
      return false;
  }
}

static bool arithmetic[OG_IR_COUNT];

static void arithmetic_find(void) {
  for (int32_t op = 0; op < OG_IR_COUNT; ++op) {
    og_scalar_code code = {.count = 0};
    if (og_ops[op].expression == NULL || og_op_parse(op, &code, NULL) != OG_OK)
      continue;
    arithmetic[op] = true;
    for (int32_t i = 0; i < code.count; ++i)
      arithmetic[op] &= is_vector_instruction(code.code[i].op);
  }
}

static limits limits_of(const og_prep *prep) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  const int32_t op = prep->node->op;
  if (known[op].is_set) return known[op];
  pthread_once(&once, arithmetic_find);
  return (limits){.plain = !og_op_is(prep->node, OG_OP_POINTWISE) ? FROM_ELSE
                           : arithmetic[op] ? FROM_ARITHMETIC
                                            : FROM_FUNCTION,
                  .fast = INT64_MAX};
}

// --- The order ---------------------------------------------------------------

static int64_t most_elements(const og_prep *prep) {
  int64_t most = 0;
  for (int32_t i = 0; i < prep->node->in_count; ++i)
    if (prep->in[i] != NULL && og_numel(prep->in[i]) > most)
      most = og_numel(prep->in[i]);
  for (int32_t i = 0; i < prep->node->out_count; ++i)
    if (prep->out[i] != NULL && og_numel(prep->out[i]) > most)
      most = og_numel(prep->out[i]);
  return most;
}

static bool has_host(const og_prep *prep) {
  return prep->executable->host.prepare != NULL && prep->node->is_as_recorded &&
         !og_op_is(prep->node, OG_OP_FOREIGN);
}

static void add(og_order *order, og_candidate by) {
  for (int32_t i = 0; i < order->count; ++i)
    if (order->by[i] == by) return;
  order->by[order->count++] = by;
}

static void by_size(const og_prep *prep, og_order *out) {
  const limits limit = limits_of(prep);
  const int64_t elements = most_elements(prep);
  const bool has_fast = og_candidate_kernel(prep->node->op, OG_BY_FAST) != NULL;
  if (!has_host(prep)) {
    out->reason = "no host runs it";
  } else if (elements >= (has_fast ? limit.fast : limit.plain)) {
    add(out, OG_BY_HOST);
    out->reason = "the host's kernel is faster";
  } else if (elements >= limit.plain) {
    add(out, OG_BY_FAST);
    add(out, OG_BY_HOST);
    out->reason = "no host's kernel is faster";
  } else {
    out->reason = "too small for the way to the host";
  }
  if (has_fast) add(out, OG_BY_FAST);
  add(out, OG_BY_PLAIN);
}

void og_choose(const og_prep *prep, og_order *out) {
  og_candidate forced;
  *out = (og_order){.count = 0};
  const bool is_forced =
      og_rule_find(prep, &forced) && (forced != OG_BY_HOST || has_host(prep)) &&
      (forced != OG_BY_FAST ||
       og_candidate_kernel(prep->node->op, OG_BY_FAST) != NULL);
  if (is_forced) add(out, forced);
  by_size(prep, out);
  if (is_forced) out->reason = "a rule says so";
}

const char *og_choice_refused(og_candidate by) {
  switch (by) {
    case OG_BY_FAST:
      return "no fast kernel takes its types, layouts or limits";
    case OG_BY_HOST:
      return "the host has no quick way to it";
    default:
      return "its plain kernel takes no such shapes";
  }
}
