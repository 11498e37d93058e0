// SPDX-License-Identifier: Apache-2.0
// Who runs a node.

#include "exec/choose/choose.h"

#include <pthread.h>

#include "base/machine.h"
#include "exec/choose/candidates.h"
#include "exec/choose/rules.h"
#include "exec/choose/tune.h"
#include "exec/fast/direct_attention.h"
#include "exec/fast/packs.h"
#include "exec/fast/winograd.h"
#include "exec/step/convolution.h"
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
#include "exec/choose/choose.def"
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

// A row program that reads a contraction's result.
static bool is_behind_contraction(const og_prep *prep) {
  return prep->node->op == OG_IR_fused &&
         og_contraction_read_by(prep->plan->graph, prep->node) >= 0;
}

// --- Mode max-autotune -------------------------------------------------------

static bool is_max_autotune(const og_prep *prep) {
  return (prep->plan->graph->option_flags & OPGRAFT_OPTION_MAX_AUTOTUNE) != 0;
}

// Nodes that a host would get in any case, and of which we have a fast kernel.
static bool is_contested(const og_prep *prep) {
  return is_max_autotune(prep) && has_host(prep) &&
         prep->node->update == NULL && limits_of(prep).fast == 0 &&
         og_candidate_kernel(prep->node->op, OG_BY_FAST) != NULL;
}

// So many rows and more pay for packing the other operand at each call; with
// fewer, ours over packed weights are faster than any host's.
enum { PACK_ROWS = 128, FEW_ROWS = 64 };

enum { SMALL_WEIGHTS = 4096 };

// From so many queries on, packing keys and values pays off.
enum { PACK_QUERIES = 16 };

static bool is_f32_attention(const og_prep *prep) {
  const og_tensor *result = prep->out[0];
  return prep->node->op == OG_IR_attention && result->dtype.bits == 32 &&
         result->shape[result->ndim - 2] >= PACK_QUERIES;
}

static bool is_decode(const og_prep *prep) {
  return prep->node->op == OG_IR_attention && og_attention_is_decode(prep);
}

static bool is_f32_convolution(const og_prep *prep) {
  return prep->node->op == OG_IR_convolution && prep->out[0]->dtype.bits == 32;
}

// Channels side by side, each by its own taps: our kernel turns the image into
// planes first, which hosts' need not.
static bool is_turned(const og_prep *prep) {
  return prep->in[1]->shape[1] == 1 &&
         og_convolution_layout(prep->in[0]) != OG_CONV_PLANES;
}

static bool takes_winograd(const og_prep *prep) {
  return is_f32_convolution(prep) && og_winograd_pays(prep);
}

// f32 weights that pack in a microsecond or two, as a last layer's are. Hosts'
// products start their threads even for these, and these spin afterwards beside
// a plan that has the engine's team.
static bool is_small_product(const og_prep *prep) {
  const og_tensor *weights = prep->in[prep->node->in_count - 1];
  return og_is_contraction(prep->node) && weights->dtype.bits == 32 &&
         og_numel(weights) < SMALL_WEIGHTS;
}

// Without the clock: by what is known of processors. Hosts' f32 products reach
// about half of what AMD's processors can, and nearly all of what Intel's can
// from some rows on. On AMD our f32 attention is faster too, from PACK_QUERIES
// on, and everywhere for one query, where keys are read in place. So are our
// f32 convolutions there and on all processors with AVX-512.
static void by_machine(const og_prep *prep, og_order *out) {
  const og_tensor *result = prep->out[0];
  const bool is_ours = og_is_contraction(prep->node) &&
                       result->dtype.bits == 32 && result->ndim > 1;
  const int64_t rows = is_ours ? result->shape[result->ndim - 2] : 0;
  const bool is_amd = og_machine_is_amd();
  const bool stays = og_is_contraction(prep->node) && og_kept_is_offered(prep);
  const bool is_winograd = takes_winograd(prep);
  if (is_ours && stays && (is_amd || rows < FEW_ROWS)) add(out, OG_BY_PACKED);
  if (is_ours && is_amd && rows >= PACK_ROWS) add(out, OG_BY_FAST);
  const bool convolves = is_f32_convolution(prep) && !is_turned(prep) &&
                         (is_amd || og_isa_used() >= OG_ISA_AVX512);
  if (convolves && is_winograd) add(out, OG_BY_WINOGRAD);
  if (convolves || (is_amd && is_f32_attention(prep)) || is_decode(prep) ||
      is_small_product(prep))
    add(out, OG_BY_FAST);
  add(out, OG_BY_HOST);
  if (stays) add(out, OG_BY_PACKED);
  if (is_winograd) add(out, OG_BY_WINOGRAD);
  add(out, OG_BY_FAST);
  add(out, OG_BY_PLAIN);
  out->reason = "it is the faster one on such processors";
}

// --- Both --------------------------------------------------------------------

static void by_order(const og_prep *prep, og_order *out) {
  const bool is_epilogue = is_behind_contraction(prep);
  if (is_epilogue) add(out, OG_BY_EPILOGUE);
  if (og_contraction_is_int8(prep) && og_kept_is_offered(prep))
    add(out, OG_BY_PACKED);
  if (is_max_autotune(prep) && takes_winograd(prep)) add(out, OG_BY_WINOGRAD);
  by_size(prep, out);
  if (is_epilogue)
    out->reason = "it runs on each tile of the contraction that it reads";
}

static bool has_candidate(const og_prep *prep, og_candidate by) {
  return by == OG_BY_HOST ? has_host(prep)
                          : og_candidate_kernel(prep->node->op, by) != NULL;
}

void og_choose(const og_prep *prep, og_order *out) {
  og_candidate forced;
  *out = (og_order){.count = 0};
  const bool is_forced =
      og_rule_find(prep, &forced) && has_candidate(prep, forced);
  if (is_forced) {
    add(out, forced);
    by_size(prep, out);
    out->reason = "a rule says so";
  } else if (is_contested(prep)) {
    by_machine(prep, out);
    if (prep->executable->tuning != NULL && !is_small_product(prep))
      og_tune(prep, out);
  } else {
    by_order(prep, out);
  }
}

const char *og_choice_refused(og_candidate by) {
  switch (by) {
    case OG_BY_FAST:
      return "no fast kernel takes its types, layouts or limits";
    case OG_BY_HOST:
      return "the host has no quick way to it";
    case OG_BY_PACKED:
      return "its weights do not stay constant, or they are too small";
    case OG_BY_WINOGRAD:
      return "its taps are not 3x3 of stride 1, or math is strict";
    case OG_BY_EPILOGUE:
      return "it reads no contraction's result";
    default:
      return "its plain kernel takes no such shapes";
  }
}
