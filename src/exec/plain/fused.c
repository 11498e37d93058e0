// SPDX-License-Identifier: Apache-2.0
// The plain kernel of fused nodes: a row program in double, rounded where a
// result is stored.

#include <math.h>
#include <string.h>

#include "base/grain.h"
#include "exec/step/operands.h"
#include "exec/step/rows.h"

typedef struct fused {
  og_operands io;
  og_loop_program program;
  og_rows rows;
  bool is_row_result[OG_LOOP_OUTPUTS_MAX];
  // For each worker the offsets of its row, then each statement's values.
  int64_t *offsets;
  double *values;
  int64_t worker_values;
} fused;

// Where an expression reads.
typedef struct reader {
  const fused *node;
  const int64_t *offsets;
  double *values;
  int64_t at;
} reader;

// Of a statement, among a worker's: a row, or its one element.
static double *values_of(const fused *s, double *values, int32_t statement) {
  return values + statement * (s->rows.width + 1);
}

// One element for the row stands for all of them.
static void load(void *state, const og_scalar_instruction *code, int64_t n,
                 void *to) {
  const reader *r = state;
  const fused *s = r->node;
  double *out = to;
  int64_t step = 0;
  if (code->op == OG_SCALAR_number) {
    out[0] = (double)s->rows.width;
  } else if (code->slot < s->program.input_count) {
    const int32_t i = code->slot;
    const og_tensor *tensor = s->io.in[i];
    step = s->rows.step[i];
    og_get_doubles(tensor, og_bytes(tensor) + r->offsets[i] + r->at * step,
                   step, step != 0 ? n : 1, out);
  } else {
    const int32_t from = code->slot - s->program.input_count;
    step = !s->program.statements[from].is_row;
    const double *values = values_of(s, r->values, from) + r->at * step;
    for (int64_t i = 0; i < (step != 0 ? n : 1); ++i) out[i] = values[i];
  }
  for (int64_t i = 1; step == 0 && i < n; ++i) out[i] = out[0];
}

static double reduced(og_loop_reduction reduction, double total, double x) {
  switch (reduction) {
    case OG_LOOP_MAX:
      return x > total || x != x ? x : total;
    case OG_LOOP_MIN:
      return x < total || x != x ? x : total;
    default:
      return total + x;
  }
}

static void running_sum(og_loop_reduction reduction, int64_t width,
                        double *out) {
  const bool is_reversed = reduction == OG_LOOP_CUMSUM_REVERSED;
  for (int64_t k = 1; k < width; ++k)
    if (is_reversed)
      out[width - 1 - k] += out[width - k];
    else
      out[k] += out[k - 1];
}

static void statement_run(reader *r, const og_loop_statement *statement,
                          double *out) {
  const og_loop_reduction reduction = statement->reduction;
  const bool reduces = og_loop_reduces(reduction);
  const bool is_one = statement->is_row && !reduces;
  const int64_t width = is_one ? 1 : r->node->rows.width;
  double total = reduction == OG_LOOP_MAX   ? -INFINITY
                 : reduction == OG_LOOP_MIN ? INFINITY
                                            : 0;
  double block[OG_SCALAR_BLOCK];
  for (r->at = 0; r->at < width; r->at += OG_SCALAR_BLOCK) {
    const int64_t n =
        width - r->at < OG_SCALAR_BLOCK ? width - r->at : OG_SCALAR_BLOCK;
    if (!reduces) {
      og_scalar_run_f64(&statement->expression, n, load, r, out + r->at);
      continue;
    }
    og_scalar_run_f64(&statement->expression, n, load, r, block);
    for (int64_t i = 0; i < n; ++i) total = reduced(reduction, total, block[i]);
  }
  if (og_loop_is_running(reduction)) running_sum(reduction, width, out);
  if (reduces) out[0] = total;
}

// Only after all statements: a result may share an operand's memory.
static void outputs_store(const fused *s, const int64_t *offsets,
                          double *values) {
  for (int32_t i = 0; i < s->program.statement_count; ++i) {
    const og_loop_statement *statement = &s->program.statements[i];
    const int32_t r = statement->output;
    if (r < 0) continue;
    const og_tensor *tensor = s->io.out[r];
    const int32_t k = s->io.in_count + r;
    const int64_t step = s->rows.step[k];
    const int64_t n = s->is_row_result[r] ? 1 : s->rows.width;
    const double *from = values_of(s, values, i);
    char *to = og_bytes(tensor) + offsets[k];
    if (!statement->is_row) {
      og_put_doubles(tensor, to, step, n, from);
      continue;
    }
    for (int64_t e = 0; e < n; ++e)
      og_put_doubles(tensor, to + e * step, step, 1, from);
  }
}

static void share_rows(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  const fused *s = state;
  int64_t *offsets = s->offsets + worker * s->rows.tensors;
  double *values = s->values + worker * s->worker_values;
  reader r = {.node = s, .offsets = offsets, .values = values};
  for (int64_t row = begin; row < end; ++row) {
    og_rows_offsets(&s->rows, row, offsets);
    for (int32_t i = 0; i < s->program.statement_count; ++i)
      statement_run(&r, &s->program.statements[i], values_of(s, values, i));
    outputs_store(s, offsets, values);
  }
}

static og_status run_fused(void *state, const og_run *run) {
  const fused *s = state;
  const int64_t elements = s->rows.width * s->program.statement_count;
  return og_run_parallel(run, s->rows.count, og_grain(OG_GRAIN_HEAVY, elements),
                         share_rows, state);
}

static og_status types_check(og_prep *prep) {
  for (int32_t i = 0; i < prep->node->in_count; ++i)
    if (og_load_find(prep->in[i]->dtype, OG_CLASS_F64) == NULL)
      return og_prep_wrong(prep, "an operand's type has no arithmetic");
  for (int32_t r = 0; r < prep->node->out_count; ++r)
    if (og_store_find(prep->out[r]->dtype, OG_CLASS_F64) == NULL)
      return og_prep_wrong(prep, "a result's type has no arithmetic");
  return OG_OK;
}

og_status og_prepare_fused(og_prep *prep) {
  og_fused meaning;
  fused *s = og_state_begin(prep, sizeof *s, run_fused);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(types_check(prep));
  OG_TRY(og_fused_read(prep->plan->graph, prep->node, &prep->instance->memory,
                       &meaning, prep->error));
  OG_TRY(og_rows_init(prep, &meaning, true, &s->rows));
  s->program = meaning.program;
  memcpy(s->is_row_result, meaning.is_row_result, sizeof s->is_row_result);
  const int64_t workers = prep->executable->threads;
  // A width of 0 leaves the rows their one value.
  if (s->rows.count == 0) {
    prep->step.run = NULL;
    return OG_OK;
  }
  int64_t all_values;
  if (!og_i64_mul(s->rows.width + 1, s->program.statement_count,
                  &s->worker_values) ||
      !og_i64_mul(workers, s->worker_values, &all_values))
    return og_prep_memory(prep);
  s->offsets = og_prep_alloc(
      prep, (size_t)(workers * s->rows.tensors) * sizeof *s->offsets);
  s->values = og_prep_doubles(prep, all_values);
  if (s->offsets == NULL || s->values == NULL) return og_prep_memory(prep);
  og_prep_work(prep, s->rows.count * s->rows.width, s->program.statement_count);
  return OG_OK;
}
