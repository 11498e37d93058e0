// SPDX-License-Identifier: Apache-2.0
// Pointwise operators: the loops of ops.def behind one walk over strides and
// types.
//
// Invariant: a loop's operands are runs of T, or one T that stands for all
// (step 0); what is neither is first converted, block by block.

#include <string.h>

#include "base/grain.h"
#include "exec/plain/pointwise.h"
#include "exec/step/kernels.h"
#include "exec/step/nest.h"
#include "exec/step/run.h"

enum { OPERANDS = OG_LOOP_OPERANDS, BLOCK = 256 };

// --- A prepared node ---------------------------------------------------------

typedef struct pointwise {
  og_loop_fn loop;
  int64_t width;
  void *out;
  const void *in[OPERANDS];
  int64_t step[OPERANDS];  // of the plain case
  // The general case.
  const og_nest *nest;  // NULL in the plain case, where it would be large
  og_class of;
  int32_t arity;
  int64_t rows;
  og_load_fn load[OPERANDS];  // NULL: already T, and a run or one element
  og_store_fn store;          // NULL: the result is a run of T
  // Of a division of integers, whose loop gives 0 where the divisor, operand 1,
  // is 0: what runs it otherwise, and whether a share found one (atomic).
  og_step_fn run;
  bool has_zero;
} pointwise;

static void loop_run(const pointwise *p, int64_t n, void *out,
                     const void *const *in, const int64_t *step) {
  bool has_zero = false;
  const int64_t *divisor = in[1];
  if (p->run != NULL)
    for (int64_t i = 0; i < n; ++i) has_zero |= divisor[i * step[1]] == 0;
  if (has_zero)
    __atomic_store_n(&((pointwise *)(uintptr_t)p)->has_zero, true,
                     __ATOMIC_RELAXED);
  p->loop(n, out, in, step);
}

static og_status run_division(void *state, const og_run *run) {
  pointwise *p = state;
  p->has_zero = false;
  OG_TRY(p->run(state, run));
  return p->has_zero
             ? og_run_fail(run, OG_INVALID, "an integer is divided by 0")
             : OG_OK;
}

static og_status run_plain(void *state, const og_run *run) {
  const pointwise *p = state;
  (void)run;
  loop_run(p, p->width, p->out, p->in, p->step);
  return OG_OK;
}

static void share_plain(void *state, int64_t begin, int64_t end,
                        int32_t worker) {
  const pointwise *p = state;
  const size_t size = og_class_bytes(p->of);
  const void *in[OPERANDS];
  (void)worker;
  for (int32_t k = 0; k < OPERANDS; ++k)
    in[k] = (const char *)p->in[k] + (size_t)(begin * p->step[k]) * size;
  loop_run(p, end - begin, (char *)p->out + (size_t)begin * size, in, p->step);
}

static og_status run_plain_shared(void *state, const og_run *run) {
  const pointwise *p = state;
  return og_run_parallel(run, p->width, OG_GRAIN_LIGHT, share_plain, state);
}

// One block of one row, at most BLOCK elements.
static void block_run(const pointwise *p, int64_t n, const int64_t *offset,
                      int64_t begin) {
  double buffer[OPERANDS + 1][BLOCK];
  const void *in[OPERANDS];
  int64_t step[OPERANDS];
  const int32_t inner = p->nest->ndim - 1;
  for (int32_t k = 0; k < OPERANDS; ++k) {
    in[k] = p->in[k];
    step[k] = 0;
    if (k >= p->arity) continue;
    const int64_t stride = inner >= 0 ? p->nest->stride[k + 1][inner] : 0;
    const char *from = (const char *)p->in[k] + offset[k + 1] + begin * stride;
    step[k] = stride != 0;
    in[k] = from;
    if (p->load[k] == NULL) continue;
    p->load[k](stride != 0 ? n : 1, buffer[k], from, stride);
    in[k] = buffer[k];
  }
  const int64_t stride = inner >= 0 ? p->nest->stride[0][inner] : 0;
  char *to = (char *)p->out + offset[0] + begin * stride;
  if (p->store == NULL) {
    loop_run(p, n, to, in, step);
  } else {
    loop_run(p, n, buffer[OPERANDS], in, step);
    p->store(n, to, stride, buffer[OPERANDS]);
  }
}

// Long rows are shared out in pieces, short ones several at a time.
static void share_rows(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  const pointwise *p = state;
  int64_t offset[OG_NEST_OPERANDS];
  (void)worker;
  while (begin < end) {
    const int64_t row = begin / p->width, at = begin % p->width;
    int64_t n = p->width - at < end - begin ? p->width - at : end - begin;
    og_nest_offsets(p->nest, row, offset);
    for (int64_t done = 0; done < n; done += BLOCK) {
      const int64_t block = n - done < BLOCK ? n - done : BLOCK;
      block_run(p, block, offset, at + done);
    }
    begin += n;
  }
}

static og_status run_rows(void *state, const og_run *run) {
  const pointwise *p = state;
  return og_run_parallel(run, p->rows * p->width, OG_GRAIN_LIGHT, share_rows,
                         state);
}

// --- Preparing ---------------------------------------------------------------

// Literals only count for their category: an int tensor compared with 0.5 is
// compared as floats, one compared with 2 as integers.
static og_class operands_class(const og_prep *prep) {
  og_dtype type = {OG_CODE_BOOL, 8, 1};
  bool has_tensor = false;
  for (int32_t i = 0; i < prep->node->in_count; ++i) {
    const og_value *value = &prep->plan->graph->values[prep->node->in[i]];
    if (value->kind == OG_VALUE_LITERAL) continue;
    if (og_dtype_class(value->dtype) == OG_CLASS_NONE) return OG_CLASS_NONE;
    type = has_tensor ? og_dtype_promote(type, value->dtype) : value->dtype;
    has_tensor = true;
  }
  og_class of = og_dtype_class(type);
  for (int32_t i = 0; i < prep->node->in_count; ++i) {
    const og_value *value = &prep->plan->graph->values[prep->node->in[i]];
    if (value->kind != OG_VALUE_LITERAL) continue;
    if (!has_tensor && og_dtype_class(value->dtype) == OG_CLASS_F64)
      return OG_CLASS_F64;
    if (of == OG_CLASS_I64 && value->dtype.code == OG_CODE_FLOAT)
      of = OG_CLASS_F32;
  }
  return of;
}

static bool is_own_type(og_dtype dtype, og_class of) {
  if (of == OG_CLASS_F32)
    return dtype.code == OG_CODE_FLOAT && dtype.bits == 32;
  return og_dtype_class(dtype) == of && dtype.bits == 64;
}

static og_status choose_conversions(og_prep *prep, const og_nest *nest,
                                    pointwise *p) {
  const int32_t inner = nest->ndim - 1;
  const int64_t element = (int64_t)og_class_bytes(p->of);
  for (int32_t k = 0; k < p->arity; ++k) {
    const og_dtype dtype = prep->in[k]->dtype;
    const int64_t stride = inner >= 0 ? nest->stride[k + 1][inner] : 0;
    if (og_load_find(dtype, p->of) == NULL)
      return og_prep_wrong(prep, "an operand's type has no arithmetic");
    const bool is_run = stride == 0 || stride == element;
    if (!is_own_type(dtype, p->of) || !is_run)
      p->load[k] = og_load_find(dtype, p->of);
  }
  const int64_t stride = inner >= 0 ? nest->stride[0][inner] : element;
  p->store = og_store_find(prep->out[0]->dtype, p->of);
  if (p->store == NULL)
    return og_prep_wrong(prep, "the result's type has no arithmetic");
  if (is_own_type(prep->out[0]->dtype, p->of) && stride == element)
    p->store = NULL;
  return OG_OK;
}

// A literal is turned into one T here, once.
static og_status literal_convert(og_prep *prep, pointwise *p, int32_t k) {
  const og_value *value = &prep->plan->graph->values[prep->node->in[k]];
  void *number = og_prep_alloc(prep, sizeof(double));
  if (number == NULL) return og_prep_memory(prep);
  og_load_find(value->dtype, p->of)(1, number, (const char *)&value->number, 8);
  p->in[k] = number;
  p->load[k] = NULL;
  return OG_OK;
}

static og_status bind_operands(og_prep *prep, pointwise *p) {
  static const double zero;  // what loops read of operands that they lack
  OG_TRY(og_prep_pointer(prep, &p->out, prep->out[0]));
  for (int32_t k = 0; k < OPERANDS; ++k) {
    p->in[k] = &zero;
    if (k >= p->arity) continue;
    const opgraft_value id = prep->node->in[k];
    if (prep->plan->graph->values[id].kind == OG_VALUE_LITERAL)
      OG_TRY(literal_convert(prep, p, k));
    else
      OG_TRY(og_prep_pointer(prep, (void **)(uintptr_t)&p->in[k], prep->in[k]));
  }
  return OG_OK;
}

static og_status choose_run(og_prep *prep, const og_nest *nest, pointwise *p) {
  bool is_plain = p->store == NULL && nest->ndim <= 1;
  for (int32_t k = 0; k < p->arity; ++k) {
    is_plain &= p->load[k] == NULL;
    p->step[k] = nest->ndim > 0 && nest->stride[k + 1][nest->ndim - 1] != 0;
  }
  prep->step.state = p;
  prep->step.run = p->width > 2 * OG_GRAIN_LIGHT ? run_plain_shared : run_plain;
  if (is_plain) return OG_OK;
  og_nest *kept = og_prep_alloc(prep, sizeof *kept);
  if (kept == NULL) return og_prep_memory(prep);
  *kept = *nest;
  p->nest = kept;
  prep->step.run = run_rows;
  return OG_OK;
}

static bool is_division(int32_t op) {
  return op == OG_IR_floor_div || op == OG_IR_trunc_div ||
         op == OG_IR_remainder || op == OG_IR_fmod;
}

og_status og_prepare_pointwise(og_prep *prep) {
  const og_tensor *tensors[OPERANDS + 1] = {prep->out[0]};
  const og_pointwise_row *row = &og_pointwise_rows[prep->node->op];
  og_nest nest;
  pointwise *p = og_prep_alloc(prep, sizeof *p);
  if (p == NULL) return og_prep_memory(prep);
  p->arity = prep->node->in_count;
  for (int32_t k = 0; k < p->arity; ++k) tensors[k + 1] = prep->in[k];
  if (!og_nest_init(&nest, prep->out[0]->ndim, prep->out[0]->shape, tensors,
                    p->arity + 1))
    return og_prep_wrong(prep,
                         "an operand does not broadcast to the result's shape");
  p->of = row->is_of_result ? og_dtype_class(prep->out[0]->dtype)
                            : operands_class(prep);
  if (p->of == OG_CLASS_NONE)
    return og_prep_wrong(prep, "it cannot compute with this type");
  p->loop = row->loop[p->of][og_loop_set()];
  if (p->loop == NULL)
    return og_prep_wrong(prep, p->of == OG_CLASS_I64
                                   ? "it cannot compute with integers"
                                   : "it computes with integers only");
  p->rows = og_nest_rows(&nest);
  p->width = og_nest_width(&nest);
  OG_TRY(choose_conversions(prep, &nest, p));
  OG_TRY(bind_operands(prep, p));
  if (p->rows == 0 || p->width == 0) return OG_OK;
  OG_TRY(choose_run(prep, &nest, p));
  if (p->of != OG_CLASS_I64 || !is_division(prep->node->op)) return OG_OK;
  p->run = prep->step.run;
  prep->step.run = run_division;
  return OG_OK;
}
