// SPDX-License-Identifier: Apache-2.0
// Rows by an index.

#include "decl/formula_rows.h"

#include <string.h>

#include "base/grain.h"
#include "decl/formula_loops.h"
#include "scalar/element.h"

void og_formula_strides(const struct og_formula *f,
                        const og_formula_place *place, const og_tensor *t,
                        int32_t rank, const int64_t *size, int64_t *stride) {
  const int32_t of_pack = rank - (f->item_count - 1);
  int32_t own = t->ndim - 1, d = rank - 1;
  for (int32_t k = f->item_count - 1; k >= 0; --k)
    for (int32_t n = f->pack == k ? of_pack : 1; n > 0; --n, --d) {
      const bool has = place->items >> k & 1;
      stride[d] = has && size[d] > 1 ? t->strides[own] : !has ? 0 : 1;
      own -= has || (place->ones >> k & 1);
    }
}

// --- Indices -----------------------------------------------------------------

int64_t og_formula_index_at(const og_tensor *index, int64_t offset) {
  const size_t bytes = og_dtype_bytes(index->dtype);
  return og_element_int(index->dtype,
                        (char *)og_data(index) + offset * (int64_t)bytes);
}

static bool is_index_type(og_dtype dtype) {
  return dtype.code == OG_CODE_INT ||
         (dtype.code == OG_CODE_UINT && dtype.bits == 8);
}

// Of n elements in the order of dims.
static int64_t offset_of(const og_tensor *t, int64_t n) {
  int64_t offset = 0;
  for (int32_t d = t->ndim - 1; d >= 0; n /= t->shape[d--])
    offset += n % t->shape[d] * t->strides[d];
  return offset;
}

static og_status index_check(const struct og_formula *f, const og_call *call,
                             int32_t row_by, const og_tensor *table) {
  const og_tensor *index = call->in[f->indices[row_by - 1]];
  const int64_t count = og_numel(index);
  if (!is_index_type(index->dtype))
    return og_fail(call, OG_DTYPE,
                   "an index that chooses rows is neither of a signed "
                   "integer nor uint8");
  for (int64_t n = 0; n < count; ++n) {
    const int64_t row = og_formula_index_at(index, offset_of(index, n));
    if (row >= 0 && row < table->shape[0]) continue;
    return og_failf(call, OG_INVALID,
                    "row %lld: an index is out of range: found %lld, expected "
                    "one of %lld rows",
                    (long long)n, (long long)row, (long long)table->shape[0]);
  }
  return OG_OK;
}

og_status og_formula_indices_check(const struct og_formula *f,
                                   const og_call *call) {
  for (int32_t i = 0; i < f->input_count; ++i) {
    const og_tensor *table = og_formula_tensor(f, call, i);
    if (f->inputs[i].row_by != 0 && table != NULL)
      OG_TRY(index_check(f, call, f->inputs[i].row_by, table));
  }
  for (int32_t o = 0; o < f->output_count; ++o)
    if (f->outputs[o].row_by != 0)
      OG_TRY(index_check(f, call, f->outputs[o].row_by,
                         og_formula_tensor(f, call, f->input_count + o)));
  return OG_OK;
}

// --- Sums --------------------------------------------------------------------

// The rows that are added to one result, in the order of the rows that they are
// added to.
typedef struct adding {
  const og_call *call;
  og_class class;
  int32_t rank;
  const int64_t *size;
  const og_tensor *to;
  int64_t stride[OPGRAFT_RANK_MAX];  // of the result, by dim of the space
  int64_t rows, n;                   // of the space; elements of a row
  int64_t inner;                     // rows of the result for each index
  int64_t *ends;   // by row of the result: where its rows end in `order`
  int64_t *order;  // rows of the space, of one output behind the other
  char *const *values;
  int32_t outputs[OG_LOOP_OUTPUTS_MAX], output_count;
  og_sum_number *sums;  // two rows for each worker
} adding;

// The row of the result that a row of the space is added to.
static int64_t target_of(const adding *a, const og_tensor *index,
                         const int64_t *index_stride, int64_t row) {
  int64_t offset = 0, inner = 0, scale = 1;
  for (int32_t d = a->rank - 2; d >= 0; row /= a->size[d--]) {
    const int64_t at = row % a->size[d];
    offset += at * (a->size[d] > 1 ? index_stride[d] : 0);
    if (a->stride[d] == 0) continue;
    inner += at * scale;
    scale *= a->size[d];
  }
  return og_formula_index_at(index, offset) * a->inner + inner;
}

// Counts rows, or, where `order` is there, sorts them: in order of rows.
static void targets_walk(adding *a, const struct og_formula *f, bool sorts) {
  int64_t stride[OPGRAFT_RANK_MAX];
  for (int32_t k = 0; k < a->output_count; ++k) {
    const int32_t t = f->indices[f->outputs[a->outputs[k]].row_by - 1];
    const og_tensor *index = a->call->in[t];
    og_formula_strides(f, &f->in[t], index, a->rank, a->size, stride);
    for (int64_t row = 0; row < a->rows; ++row) {
      int64_t *end = &a->ends[target_of(a, index, stride, row)];
      if (sorts) a->order[*end] = k * a->rows + row;
      ++*end;
    }
  }
}

static int64_t place_of(const adding *a, int64_t target) {
  int64_t offset = target / a->inner * a->to->strides[0];
  int64_t inner = target % a->inner;
  for (int32_t d = a->rank - 2; d >= 0; --d) {
    if (a->stride[d] == 0) continue;
    offset += inner % a->size[d] * (a->size[d] > 1 ? a->stride[d] : 0);
    inner /= a->size[d];
  }
  return offset;
}

static void rows_sum(void *state, int64_t begin, int64_t end, int32_t worker) {
  const adding *a = state;
  const og_class class = a->class == OG_CLASS_I64 ? OG_CLASS_I64 : OG_CLASS_F64;
  const int64_t bytes = a->class == OG_CLASS_F32 ? 4 : 8;
  const int64_t item = (int64_t)og_dtype_bytes(a->to->dtype);
  const int64_t step = a->n > 1 ? a->stride[a->rank - 1] : 1;
  og_sum_number *sum = a->sums + (size_t)worker * 2 * (size_t)a->n;
  og_sum_number *one = sum + a->n;
  for (int64_t target = begin; target < end; ++target) {
    char *to = (char *)og_data(a->to) + place_of(a, target) * item;
    memset(sum, 0, (size_t)a->n * sizeof *sum);
    for (int64_t k = target > 0 ? a->ends[target - 1] : 0; k < a->ends[target];
         ++k) {
      const int64_t row = a->order[k] % a->rows;
      const char *from = a->values[a->outputs[a->order[k] / a->rows]];
      og_sum_totals(a->class, a->n, from + row * a->n * bytes, one);
      og_sum_add(class, a->n, one, sum);
    }
    const int64_t run = step == 1 ? a->n : 1;
    for (int64_t e = 0; e < a->n; e += run)
      og_sum_store(class, a->to->dtype, run, sum + e, to + e * step * item);
  }
}

static void ends_settle(int64_t *ends, int64_t targets) {
  int64_t before = 0;
  for (int64_t t = 0; t < targets; ++t) {
    const int64_t count = ends[t];
    ends[t] = before;
    before += count;
  }
}

static og_status adding_run(adding *a, const struct og_formula *f) {
  const int64_t targets = a->to->shape[0] * a->inner;
  const int64_t all = a->rows * a->output_count;
  const size_t workers = (size_t)(a->call->threads > 1 ? a->call->threads : 1);
  og_status status = OG_MEMORY;
  a->ends = og_alloc_zeroed((size_t)targets + 1, sizeof *a->ends);
  a->order = og_alloc_zeroed((size_t)all + 1, sizeof *a->order);
  a->sums = og_alloc_zeroed(workers * 2 * (size_t)a->n + 1, sizeof *a->sums);
  if (a->ends != NULL && a->order != NULL && a->sums != NULL) {
    targets_walk(a, f, false);
    ends_settle(a->ends, targets);
    targets_walk(a, f, true);
    status = og_parallel_tasks(
        a->call, targets,
        og_grain(OG_GRAIN_MEDIUM, a->n * (1 + all / (targets + 1))), rows_sum,
        a);
  }
  og_free(a->ends);
  og_free(a->order);
  og_free(a->sums);
  return status == OG_MEMORY ? og_fail(a->call, OG_MEMORY, "out of memory")
                             : status;
}

og_status og_formula_rows_add(const struct og_formula *f, const og_call *call,
                              og_class class, int32_t rank, const int64_t *size,
                              char *const *values) {
  for (int32_t r = 0; r < f->result_count; ++r) {
    adding a = {.call = call,
                .class = class,
                .rank = rank,
                .size = size,
                .rows = 1,
                .inner = 1,
                .values = values};
    if (!(f->added >> r & 1)) continue;
    a.to = call->out[r];
    if (og_numel(a.to) == 0) continue;
    og_formula_strides(f, &f->out[r], a.to, rank, size, a.stride);
    a.n = a.stride[rank - 1] != 0 ? size[rank - 1] : 1;
    for (int32_t d = 0; d < rank - 1; ++d) {
      a.rows *= size[d];
      if (a.stride[d] != 0) a.inner *= size[d];
    }
    for (int32_t o = 0; o < f->output_count; ++o)
      if (f->outputs[o].result == r) a.outputs[a.output_count++] = o;
    OG_TRY(adding_run(&a, f));
  }
  return OG_OK;
}
