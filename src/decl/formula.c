// SPDX-License-Identifier: Apache-2.0
// A kernel that computes any formula.
//
// Invariants: the shape rule holds, so operands lie in the space as the formula
// says.

#include "decl/formula.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/grain.h"
#include "base/machine.h"
#include "decl/formula_function.h"
#include "decl/formula_loops.h"
#include "decl/formula_rows.h"
#include "decl/parse/names.h"
#include "loop/plain.h"

enum {
  CHUNK = 4096,       // elements of a row that need not stay whole
  FEW = OG_SUM_ROWS,  // rows that are added at a time, by sum_rows
  BLOCK = FEW * FEW,  // rows that are added in f32
  COLUMNS = 256,      // elements of rows that are added at a time
};

// --- Operands ----------------------------------------------------------------

// Where an operand's elements lie: inputs, then results.
typedef struct operand {
  const og_tensor *tensor;  // NULL: a number, a position, or absent
  char *data;
  int64_t bytes;                     // of an element
  int64_t stride[OPGRAFT_RANK_MAX];  // in elements, by dim of the walk
  bool is_copied;  // a row at a time, to or from memory of its own
  bool is_sum;     // over rows
  bool is_added;   // to rows that an index chooses: computed in own memory
  int32_t row_by;  // the operand that is its index, or 0
} operand;

// What runs: the dims of the space, those that all operands walk alike as one;
// the last one is the row.
typedef struct walk {
  const struct og_formula *f;
  const og_formula_function *fn;
  int32_t rank;
  int64_t size[OPGRAFT_RANK_MAX];
  int64_t number[OPGRAFT_RANK_MAX];  // of rows in the space, by dim: steps
  int32_t count, all;  // of operands; with the indices, which are behind them
  operand operands[OG_FORMULA_OPERANDS_MAX + OG_FORMULA_INDICES_MAX];
  og_sum_number numbers[OG_LOOP_INPUTS_MAX];
  char *positions;  // 0, 1, ... as the class has them; NULL: none are asked for
  int64_t chunk, chunks;  // of a row
  bool sums;  // rows are added: dims that all sums lack come behind the others
  // Chunks of rows; where rows are summed, groups that are added, in blocks.
  int64_t units, groups, group_units, group_blocks;
  og_sum_number
      *totals[OG_LOOP_OUTPUTS_MAX];  // of sum_rows: by block and column
  char *added[OG_LOOP_OUTPUTS_MAX];  // of add_rows: by row and column
  _Atomic int64_t wrong;  // row * OG_LOOP_OUTPUTS_MAX + output, or INT64_MAX
  char *scratch;          // a share for each worker
  size_t share_bytes, run_bytes;
  _Alignas(64) char near[2048];  // scratch where that is enough
} walk;

static bool is_sum(const walk *w, int32_t i) { return w->operands[i].is_sum; }

static bool is_check(const walk *w, int32_t i) {
  return i >= w->f->input_count &&
         w->f->outputs[i - w->f->input_count].result < 0;
}

// Whether its values are kept beside it, for a block of rows.
static bool is_kept(const walk *w, int32_t i) {
  return is_sum(w, i) || is_check(w, i);
}

// --- Dims --------------------------------------------------------------------

static void strides_broadcast(const og_tensor *t, int32_t rank,
                              const int64_t *size, int64_t *stride) {
  for (int32_t d = 0; d < rank; ++d) {
    const int32_t own = d - (rank - t->ndim);
    stride[d] = size[d] == 1                    ? 1
                : own < 0 || t->shape[own] == 1 ? 0
                                                : t->strides[own];
  }
}

static int32_t space_find(const walk *w, const og_call *call, int64_t *size) {
  const og_tensor *space =
      w->f->space < 0 ? call->out[0] : call->in[w->f->space];
  memcpy(size, space->shape, (size_t)space->ndim * sizeof *size);
  const uint32_t is_wide =
      w->f->space < 0 ? w->f->wide_out & 1 : w->f->wide_in >> w->f->space & 1;
  if (is_wide) size[space->ndim - 1] /= 2;
  return space->ndim;
}

static void swap(int64_t *of, int32_t a, int32_t b) {
  const int64_t own = of[a];
  of[a] = of[b];
  of[b] = own;
}

static void dims_swap(walk *w, int32_t a, int32_t b) {
  swap(w->size, a, b);
  swap(w->number, a, b);
  for (int32_t i = 0; i < w->all; ++i) swap(w->operands[i].stride, a, b);
}

// The dims in the order in which the first result's memory has them.
static void dims_sort(walk *w) {
  const int64_t *stride = w->operands[w->f->input_count].stride;
  for (int32_t a = 1; a < w->rank; ++a)
    for (int32_t b = a; b > 0 && stride[b - 1] < stride[b]; --b)
      dims_swap(w, b - 1, b);
}

static bool merges(const walk *w, int32_t last, int32_t d) {
  if (w->sums && w->number[last] != w->number[d] * w->size[d]) return false;
  for (int32_t i = 0; i < w->all; ++i)
    if (w->operands[i].stride[last] != w->operands[i].stride[d] * w->size[d])
      return false;
  return true;
}

// Drops dims of size 1 and merges what can be, up to dim `end`.
static void dims_merge(walk *w, int32_t end) {
  int32_t rank = 0;
  for (int32_t d = 0; d < w->rank; ++d) {
    if (d < end && w->size[d] == 1) continue;
    const bool joins = d < end && rank > 0 && merges(w, rank - 1, d);
    const int32_t to = joins ? rank - 1 : rank++;
    w->size[to] = joins ? w->size[to] * w->size[d] : w->size[d];
    w->number[to] = w->number[d];
    for (int32_t i = 0; i < w->all; ++i)
      w->operands[i].stride[to] = w->operands[i].stride[d];
  }
  w->rank = rank;
}

// A dim of one element behind all others.
static void dims_end(walk *w) {
  w->size[w->rank] = 1;
  for (int32_t i = 0; i < w->all; ++i) w->operands[i].stride[w->rank] = 1;
  ++w->rank;
}

// 0, 1, ... along its dim.
static void strides_count(int32_t position, int32_t rank, int64_t *stride) {
  const int32_t d = rank - (position == OG_FORMULA_ROW ? 2 : 1);
  if (d >= 0) stride[d] = 1;
}

static og_formula_part part_of(const struct og_formula *f, int32_t i) {
  return i < f->input_count ? f->inputs[i].part
                            : f->outputs[i - f->input_count].part;
}

static const og_formula_place *place_of(const struct og_formula *f, int32_t i) {
  return i < f->input_count ? &f->in[f->inputs[i].index]
                            : &f->out[f->outputs[i - f->input_count].result];
}

// Sizes of parts, which the shape rule does not hold to each other.
static og_status parts_check(const walk *w, const og_call *call) {
  const struct og_formula *f = w->f;
  int64_t size[OPGRAFT_RANK_MAX];
  if ((f->wide_in | f->wide_out) == 0) return OG_OK;
  const int32_t rank = space_find(w, call, size);
  for (int32_t i = 0; i < w->count; ++i) {
    const og_tensor *t = w->operands[i].tensor;
    if (t == NULL || t->ndim == 0 ||
        !(place_of(f, i)->items >> (f->item_count - 1) & 1))
      continue;
    const int64_t wanted = size[rank - 1] * (part_of(f, i) ? 2 : 1);
    if (t->shape[t->ndim - 1] != wanted)
      return og_failf(call, OG_SHAPE,
                      "a row has %lld elements, expected %lld: a half has %lld",
                      (long long)t->shape[t->ndim - 1], (long long)wanted,
                      (long long)size[rank - 1]);
  }
  return OG_OK;
}

// The dims are the space's still.
static void part_place(walk *w, int32_t i) {
  operand *o = &w->operands[i];
  const int32_t row = w->rank - 1;
  const og_formula_part part = part_of(w->f, i);
  const int64_t step = o->tensor->strides[o->tensor->ndim - 1];
  if (part == OG_FORMULA_SECOND) o->data += w->size[row] * step * o->bytes;
  if (part == OG_FORMULA_ODD) o->data += step * o->bytes;
  if (part == OG_FORMULA_EVEN || part == OG_FORMULA_ODD) o->stride[row] *= 2;
}

// Whether a sum over rows has the dim.
static bool has_dim(const walk *w, int32_t d) {
  for (int32_t i = w->f->input_count; i < w->count; ++i)
    if (is_sum(w, i) && w->operands[i].stride[d] != 0) return true;
  return false;
}

// Which results are sums over rows in this call, and what all of them lack.
static void sums_find(walk *w) {
  const int32_t row = w->rank - 1;
  for (int32_t k = 0; k < w->f->output_count; ++k) {
    operand *o = &w->operands[w->f->input_count + k];
    const int32_t r = w->f->outputs[k].result;
    for (int32_t d = 0; d < w->rank && r >= 0 && (w->f->sums >> r & 1); ++d)
      o->is_sum |= o->stride[d] == 0 && w->size[d] != 1;
    w->sums |= o->is_sum;
  }
  for (int32_t a = 1; a < row && w->sums; ++a)
    for (int32_t b = a; b > 0 && has_dim(w, b) && !has_dim(w, b - 1); --b)
      dims_swap(w, b - 1, b);
}

static void numbers_find(walk *w) {
  w->number[w->rank - 1] = 0;
  int64_t rows = 1;
  for (int32_t d = w->rank - 2; d >= 0; rows *= w->size[d--])
    w->number[d] = rows;
}

// Rows of their own, one after the other.
static void strides_own(const walk *w, const og_formula_place *place,
                        int64_t *stride) {
  const bool has_row = place->items >> (w->f->item_count - 1) & 1;
  int64_t step = has_row ? w->size[w->rank - 1] : 1;
  stride[w->rank - 1] = has_row;
  for (int32_t d = w->rank - 2; d >= 0; step *= w->size[d--]) stride[d] = step;
}

static void indices_place(walk *w) {
  const struct og_formula *f = w->f;
  for (int32_t k = 0; k < f->index_count; ++k) {
    operand *o = &w->operands[w->count + k];
    memset(o->stride, 0, (size_t)w->rank * sizeof *o->stride);
    og_formula_strides(f, &f->in[f->indices[k]], o->tensor, w->rank, w->size,
                       o->stride);
  }
}

static void dims_find(walk *w, const og_call *call) {
  const struct og_formula *f = w->f;
  w->rank = space_find(w, call, w->size);
  for (int32_t i = 0; i < w->count; ++i) {
    operand *o = &w->operands[i];
    const bool is_out = i >= f->input_count;
    memset(o->stride, 0, (size_t)w->rank * sizeof *o->stride);
    if (!is_out && f->inputs[i].is_position)
      strides_count(f->inputs[i].index, w->rank, o->stride);
    if (o->tensor == NULL || is_check(w, i)) continue;
    if (o->is_added)
      strides_own(w, place_of(f, i), o->stride);
    else if (f->broadcasts)
      strides_broadcast(o->tensor, w->rank, w->size, o->stride);
    else
      og_formula_strides(f, place_of(f, i), o->tensor, w->rank, w->size,
                         o->stride);
    if (part_of(f, i) != OG_FORMULA_WHOLE) part_place(w, i);
  }
  indices_place(w);
  if (w->rank == 0) dims_end(w);
  numbers_find(w);
  sums_find(w);
  if (!f->needs_rows && !w->sums) {
    dims_sort(w);
    dims_merge(w, w->rank);
    if (w->rank == 0) dims_end(w);
  } else {
    dims_merge(w, w->rank - 1);
  }
}

// --- Binding -----------------------------------------------------------------

// One list of positions serves all of them.
static og_status positions_make(walk *w, const og_call *call, og_class class) {
  int64_t size[OPGRAFT_RANK_MAX], count = 0;
  const int32_t rank = space_find(w, call, size);
  for (int32_t i = 0; i < w->f->input_count; ++i) {
    const og_formula_input *input = &w->f->inputs[i];
    if (!input->is_position) continue;
    const int32_t d = rank - (input->index == OG_FORMULA_ROW ? 2 : 1);
    const int64_t own = d >= 0 ? size[d] : 1;
    if (own > count) count = own;
    w->operands[i].bytes = class == OG_CLASS_F32 ? 4 : 8;
  }
  if (count == 0) return OG_OK;
  if (class == OG_CLASS_F32 && count > 1 << 24)
    return og_fail(call, OG_UNSUPPORTED,
                   "a dim has more than 2^24 elements, whose places f32 does "
                   "not tell apart");
  w->positions = og_alloc((size_t)count * sizeof(int64_t));
  if (w->positions == NULL) return og_fail(call, OG_MEMORY, "out of memory");
  og_positions_store(class, count, w->positions);
  return OG_OK;
}

static og_status operands_bind(walk *w, const og_call *call,
                               uint32_t *out_given) {
  const struct og_formula *f = w->f;
  w->count = f->input_count + f->output_count;
  *out_given = 0;
  for (int32_t i = 0; i < w->count; ++i) {
    const bool is_out = i >= f->input_count;
    operand *o = &w->operands[i];
    o->tensor = NULL;
    o->data = NULL;
    o->bytes = 0;
    o->is_copied = o->is_sum = o->is_added = false;
    o->row_by = 0;
    if (!is_out && f->inputs[i].is_position) continue;
    if (!is_out && !f->inputs[i].is_tensor) {
      const int32_t kind = call->attr[f->inputs[i].index].kind;
      if (kind == OG_ATTR_COMPLEX)
        return og_fail(call, OG_UNSUPPORTED,
                       "a formula takes no complex number");
      *out_given |= (uint32_t)(kind != OG_ATTR_NONE) << i;
      continue;
    }
    o->row_by = is_out || f->inputs[i].row_by == 0
                    ? 0
                    : w->count + f->inputs[i].row_by - 1;
    o->is_added = is_out && f->outputs[i - f->input_count].row_by != 0;
    o->tensor = og_formula_tensor(f, call, i);
    if (o->tensor == NULL) continue;
    o->data = og_data(o->tensor);
    o->bytes = (int64_t)og_dtype_bytes(o->tensor->dtype);
    if (!is_out) *out_given |= 1u << i;
  }
  w->all = w->count + f->index_count;
  for (int32_t k = 0; k < f->index_count; ++k)
    w->operands[w->count + k].tensor = call->in[f->indices[k]];
  return OG_OK;
}

static og_dtype class_dtype(og_class class) {
  return class == OG_CLASS_F32   ? (og_dtype){OG_CODE_FLOAT, 32, 1}
         : class == OG_CLASS_F64 ? (og_dtype){OG_CODE_FLOAT, 64, 1}
                                 : (og_dtype){OG_CODE_INT, 64, 1};
}

static void number_place(walk *w, const og_call *call, int32_t i,
                         og_class class) {
  const og_attr *attr = &call->attr[w->f->inputs[i].index];
  const double value = attr->kind == OG_ATTR_FLOAT ? attr->f : (double)attr->i;
  og_sum_number *n = &w->numbers[i];
  n->i64 = 0;
  w->operands[i].data = (char *)n;
  if (w->f->inputs[i].is_tensor) return;  // absent
  if (class == OG_CLASS_F32)
    n->f32 = value == value ? (float)value : NAN;
  else if (class == OG_CLASS_F64)
    n->f64 = value;
  else
    n->i64 = attr->i;
}

// Memory for the rows that are added.
static og_status added_make(walk *w, const og_call *call, og_class class) {
  int64_t size[OPGRAFT_RANK_MAX];
  size_t bytes = class == OG_CLASS_F32 ? 4 : 8;
  if (w->f->added == 0) return OG_OK;
  bool fits = true;
  const int32_t rank = space_find(w, call, size);
  for (int32_t d = 0; d < rank; ++d)
    fits &= og_size_mul(bytes, (size_t)size[d], &bytes);
  for (int32_t i = w->f->input_count; i < w->count; ++i) {
    if (!w->operands[i].is_added) continue;
    char **own = &w->added[i - w->f->input_count];
    *own = fits ? og_alloc(bytes + 8) : NULL;
    if (*own == NULL) return og_fail(call, OG_MEMORY, "out of memory");
    w->operands[i].data = *own;
  }
  return OG_OK;
}

static void kept_form(walk *w, int32_t i, og_formula_function *key) {
  const bool is_row = w->operands[i].stride[w->rank - 1] == 0;
  key->operands[i] = (og_loop_operand){class_dtype(key->class),
                                       is_row ? OG_LOOP_ROW : OG_LOOP_RUN};
  w->operands[i].bytes = (int64_t)og_dtype_bytes(key->operands[i].dtype);
}

// How each operand's rows lie: a form that the engine takes, or copied.
static void forms_find(walk *w, const og_call *call, og_formula_function *key) {
  const int32_t row = w->rank - 1;
  for (int32_t i = 0; i < w->count; ++i) {
    operand *o = &w->operands[i];
    const int64_t stride = o->stride[row];
    if (is_kept(w, i) || o->is_added) {
      kept_form(w, i, key);
      continue;
    }
    key->operands[i] = (og_loop_operand){
        o->tensor != NULL ? o->tensor->dtype : class_dtype(key->class),
        stride == 0 ? OG_LOOP_ROW : OG_LOOP_RUN};
    o->is_copied = stride != 0 && stride != 1;
    if (i < w->f->input_count && w->f->inputs[i].is_position)
      o->data = w->positions;
    else if (o->tensor == NULL)
      number_place(w, call, i, key->class);
  }
}

// Whether each of its rows begins at a line that no input has.
static bool has_lines(const walk *w, const operand *o) {
  bool is_so = (uintptr_t)o->data % OG_LOOP_LINE == 0;
  for (int32_t d = 0; d < w->rank - 1; ++d)
    is_so &= o->stride[d] * o->bytes % OG_LOOP_LINE == 0;
  for (int32_t i = 0; i < w->f->input_count; ++i)
    is_so &= w->operands[i].data != o->data;
  return is_so;
}

// What is larger than the last-level cache passes it.
static void memory_find(const walk *w, og_formula_function *key) {
  const int32_t inputs = w->f->input_count;
  int64_t read = 0, written = 0;
  key->nontemporal = 0;
  for (int32_t i = 0; i < w->count; ++i) {
    const operand *o = &w->operands[i];
    if (o->tensor == NULL || is_kept(w, i) || o->is_added) continue;
    const int64_t bytes = og_numel(o->tensor) * o->bytes;
    if (i < inputs) {
      read += bytes;
    } else if (!o->is_copied && og_loop_may_pass_caches(key->operands[i]) &&
               has_lines(w, o)) {
      key->nontemporal |= 1u << (i - inputs);
      written += bytes;
    }
  }
  key->prefetch = read > og_machine_cache_bytes();
  if (written <= og_machine_cache_bytes()) key->nontemporal = 0;
}

// A result in an input's memory is written behind what that input is read for.
static void copies_add(walk *w) {
  const int32_t inputs = w->f->input_count;
  for (int32_t r = inputs; r < w->count; ++r)
    for (int32_t i = 0; i < inputs; ++i)
      if (w->operands[i].tensor != NULL && w->fn->loop != NULL &&
          w->operands[i].data == w->operands[r].data && !is_kept(w, r) &&
          (!og_loop_may_overwrite(w->fn->loop, i) ||
           w->operands[i].bytes != w->operands[r].bytes ||
           w->fn->operands[i].form != w->fn->operands[r].form))
        w->operands[r].is_copied = true;
}

// --- Running -----------------------------------------------------------------

static void row_copy(const operand *o, int64_t stride, int64_t n, char *own,
                     char *at, bool is_out) {
  if (is_out)
    og_elements_copy(o->bytes, n, own, 1, at, stride);
  else
    og_elements_copy(o->bytes, n, at, stride, own, 1);
}

typedef struct stretch {
  int64_t index[OPGRAFT_RANK_MAX];  // of its first row; the row's dim: element
  int64_t rows, width;
  int64_t row;  // of the first, among those that are kept
} stretch;

// Bytes of a row of what is kept, in a worker's memory.
static int64_t kept_bytes(const walk *w, int32_t i) {
  const bool is_row = w->fn->operands[i].form == OG_LOOP_ROW;
  return (is_row ? 1 : w->size[w->rank - 1]) * w->operands[i].bytes;
}

static int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

static int64_t offset_at(const walk *w, const operand *o, const stretch *at) {
  int64_t offset = 0;
  for (int32_t d = 0; d < w->rank; ++d) offset += at->index[d] * o->stride[d];
  return offset;
}

// The rows and operands of a call, copies made beside it.
static void stretch_run(const walk *w, const stretch *at, char *memory) {
  const int32_t row = w->rank - 1, inputs = w->f->input_count;
  og_loop_call call;
  char *copy = memory + w->run_bytes;
  char *from[OG_FORMULA_OPERANDS_MAX], *own[OG_FORMULA_OPERANDS_MAX];
  call.width = at->width;
  call.rows = at->rows;
  call.blocks = 1;
  call.scratch = memory;
  call.nontemporal = w->fn->nontemporal != 0;
  for (int32_t i = 0; i < w->count; ++i) {
    const operand *o = &w->operands[i];
    int64_t offset = offset_at(w, o, at);
    if (o->row_by != 0 && o->tensor != NULL) {
      const operand *index = &w->operands[o->row_by];
      offset += og_formula_index_at(index->tensor, offset_at(w, index, at)) *
                o->tensor->strides[0];
    }
    from[i] = own[i] = o->data + offset * o->bytes;
    if (o->is_copied) {
      own[i] = copy;
      copy += aligned(at->width * o->bytes);
      if (i < inputs)
        row_copy(o, o->stride[row], at->width, own[i], from[i], false);
    }
    int64_t step = row > 0 ? o->stride[row - 1] * o->bytes : 0;
    if (is_kept(w, i)) {
      step = kept_bytes(w, i);
      own[i] = copy + at->row * step;
      copy += 2 * aligned(FEW * step);
    }
    if (i < inputs) {
      call.in[i] = own[i];
      call.in_row_bytes[i] = step;
      call.in_block_bytes[i] = 0;
    } else {
      call.out[i - inputs] = own[i];
      call.out_row_bytes[i - inputs] = step;
      call.out_block_bytes[i - inputs] = 0;
    }
  }
  if (w->fn->compiled != NULL)
    w->fn->compiled(&call);
  else if (w->fn->loop != NULL)
    og_loop_run(w->fn->loop, &call);
  else
    og_loop_plain_run(&w->fn->program, w->fn->operands,
                      w->fn->operands + inputs, w->fn->class, &call);
  for (int32_t i = inputs; i < w->count; ++i) {
    const operand *o = &w->operands[i];
    const bool is_row = w->fn->operands[i].form == OG_LOOP_ROW;
    if (o->is_copied)
      row_copy(o, o->stride[row], is_row ? 1 : at->width, own[i], from[i],
               true);
  }
}

// Whether a call has one row.
static bool is_one_by_one(const walk *w) {
  for (int32_t i = 0; i < w->count; ++i)
    if (w->operands[i].is_copied || w->operands[i].row_by != 0) return true;
  return false;
}

static stretch stretch_at(const walk *w, int64_t unit, int64_t end,
                          bool one_by_one) {
  const int32_t row = w->rank - 1;
  stretch at;
  int64_t left = unit / w->chunks;
  at.rows = 1;
  at.row = 0;
  at.index[row] = unit % w->chunks * w->chunk;
  at.width = w->size[row] - at.index[row];
  if (at.width > w->chunk) at.width = w->chunk;
  for (int32_t d = row - 1; d >= 0; left /= w->size[d--])
    at.index[d] = left % w->size[d];
  if (!one_by_one && row > 0) {
    at.rows = w->size[row - 1] - at.index[row - 1];
    if (at.rows > end - unit) at.rows = end - unit;
  }
  return at;
}

// --- Sums over rows, and checks ----------------------------------------------

// Of a row by its place in the walk, which may have exchanged dims.
static int64_t number_of(const walk *w, int64_t k) {
  if (!w->sums) return k;
  int64_t number = 0;
  for (int32_t d = w->rank - 2; d >= 0; --d, k /= w->size[d + 1])
    number += k % w->size[d] * w->number[d];
  return number;
}

// Notes the first row that a check finds wrong.
static void rows_check(walk *w, int32_t i, int64_t first, int64_t rows,
                       const char *values) {
  for (int64_t k = 0; k < rows; ++k) {
    og_sum_number value;
    og_sum_totals(w->fn->class, 1,
                  values + k * (w->fn->class == OG_CLASS_F32 ? 4 : 8), &value);
    const bool holds =
        w->fn->class == OG_CLASS_I64 ? value.i64 > 0 : value.f64 > 0;
    if (holds) continue;
    const int64_t found =
        number_of(w, first + k) * OG_LOOP_OUTPUTS_MAX + (i - w->f->input_count);
    int64_t before = atomic_load(&w->wrong);
    while (found < before &&
           !atomic_compare_exchange_weak(&w->wrong, &before, found))
      continue;
  }
}

static og_status wrong_say(walk *w, const og_call *call) {
  const int64_t found = atomic_load(&w->wrong);
  if (found == INT64_MAX) return OG_OK;
  const og_token said = w->f->outputs[found % OG_LOOP_OUTPUTS_MAX].check;
  return og_failf(
      call, OG_INVALID, "row %lld: %s%.*s",
      (long long)(found / OG_LOOP_OUTPUTS_MAX),
      said.kind == OG_TOKEN_STRING ? "" : "an index is out of range: ",
      (int)(said.end - said.begin), w->f->text + said.begin);
}

// The operand before i whose values are kept, and those; -1: there is no more.
static int32_t kept_before(const walk *w, int32_t i, char **kept) {
  while (--i >= w->f->input_count) {
    if (w->operands[i].is_copied)
      *kept -= aligned(w->chunk * w->operands[i].bytes);
    if (!is_kept(w, i)) continue;
    *kept -= 2 * aligned(FEW * kept_bytes(w, i));
    return i;
  }
  return -1;
}

// What is kept of few rows that are all there: sums of them are kept, too.
static void few_end(walk *w, int64_t first, int64_t rows, int64_t nth,
                    char *memory) {
  char *kept = memory + w->share_bytes;
  for (int32_t i = w->count; (i = kept_before(w, i, &kept)) >= 0;) {
    const int64_t bytes = kept_bytes(w, i);
    if (is_check(w, i))
      rows_check(w, i, first, rows, kept);
    else
      og_sum_rows(w->fn->class, kept, rows, bytes / w->operands[i].bytes,
                  kept + aligned(FEW * bytes) + nth * bytes);
  }
}

// A block of sums of rows.
static void block_end(walk *w, int64_t block, int64_t count, char *memory) {
  char *kept = memory + w->share_bytes;
  for (int32_t i = w->count; (i = kept_before(w, i, &kept)) >= 0;) {
    const int64_t bytes = kept_bytes(w, i), n = bytes / w->operands[i].bytes;
    if (is_check(w, i)) continue;
    og_sum_rows(w->fn->class, kept + aligned(FEW * bytes), count, n, kept);
    og_sum_totals(w->fn->class, n, kept,
                  w->totals[i - w->f->input_count] + block * n);
  }
}

// What a group of rows is added to of a sum: where it begins, and how many
// rows of it come before.
static int64_t sum_place(const walk *w, const operand *o, int64_t group,
                         int64_t *out_offset) {
  const stretch at = stretch_at(w, group * w->group_units, 0, true);
  int64_t before = 0;
  *out_offset = 0;
  for (int32_t d = 0; d < w->rank - 1; ++d) {
    if (o->stride[d] == 0) continue;
    before = before * w->size[d] + at.index[d];
    *out_offset += at.index[d] * o->stride[d];
  }
  return before;
}

// Adds blocks in order and stores the result of one sum.
typedef struct finish {
  const walk *w;
  int32_t operand;
  int64_t n;             // elements of a row
  og_sum_number *total;  // by row and element
} finish;

// Of COLUMNS elements of each row.
static void columns_finish(void *state, int64_t begin, int64_t end,
                           int32_t worker) {
  const finish *f = state;
  const walk *w = f->w;
  const operand *o = &w->operands[f->operand];
  const og_sum_number *totals = w->totals[f->operand - w->f->input_count];
  const og_class class =
      w->fn->class == OG_CLASS_I64 ? OG_CLASS_I64 : OG_CLASS_F64;
  const int64_t bytes = (int64_t)og_dtype_bytes(o->tensor->dtype);
  const int64_t first = begin * COLUMNS;
  const int64_t last = end * COLUMNS < f->n ? end * COLUMNS : f->n;
  int64_t offset;
  (void)worker;
  for (int64_t b = 0; b < w->groups * w->group_blocks && f->total != totals;
       ++b)
    og_sum_add(class, last - first, totals + b * f->n + first,
               f->total + first +
                   sum_place(w, o, b / w->group_blocks, &offset) * f->n);
  const int64_t step = o->stride[w->rank - 1];
  const int64_t run = step == 1 ? last - first : 1;
  for (int64_t g = 0; g < w->groups; ++g) {
    const og_sum_number *from = f->total + sum_place(w, o, g, &offset) * f->n;
    for (int64_t e = first; e < last; e += run)
      og_sum_store(class, o->tensor->dtype, run, from + e,
                   o->data + (offset + e * step) * bytes);
  }
}

static og_status sum_finish(const walk *w, int32_t i, const og_call *call) {
  finish f = {w, i, kept_bytes(w, i) / w->operands[i].bytes, NULL};
  int64_t rows = 1;
  for (int32_t d = 0; d < w->rank - 1; ++d)
    if (w->operands[i].stride[d] != 0) rows *= w->size[d];
  og_sum_number *own = NULL;
  if (w->groups * w->group_blocks == 1)
    f.total = w->totals[i - w->f->input_count];
  else
    f.total = own = og_alloc_zeroed((size_t)(rows * f.n + 1), sizeof *own);
  if (f.total == NULL) return og_fail(call, OG_MEMORY, "out of memory");
  const og_status status = og_parallel_tasks(
      call, (f.n + COLUMNS - 1) / COLUMNS,
      og_grain(OG_GRAIN_MEDIUM, COLUMNS * w->groups * (w->group_blocks + 1)),
      columns_finish, &f);
  og_free(own);
  return status;
}

static og_status sums_finish(const walk *w, const og_call *call) {
  og_status status = OG_OK;
  for (int32_t i = w->f->input_count; i < w->count && status == OG_OK; ++i) {
    if (!is_sum(w, i)) continue;
    if (w->groups * w->group_blocks == 0)
      og_zeros_store(w->operands[i].tensor);  // nothing to add
    else
      status = sum_finish(w, i, call);
  }
  return status;
}

static bool sums_allocate(walk *w) {
  bool fits = true;
  for (int32_t i = w->f->input_count; i < w->count; ++i) {
    if (!is_sum(w, i)) continue;
    const size_t n = (size_t)(kept_bytes(w, i) / w->operands[i].bytes);
    og_sum_number **to = &w->totals[i - w->f->input_count];
    size_t count, bytes;
    *to = og_size_mul(n, (size_t)(w->groups * w->group_blocks), &count) &&
                  og_size_mul(count + 1, sizeof **to, &bytes)
              ? og_alloc(bytes)
              : NULL;
    fits &= *to != NULL;
  }
  return fits;
}

// --- All of it ---------------------------------------------------------------

// Unit u is chunk u % chunks of row u / chunks.
static void units_run(void *state, int64_t begin, int64_t end, int32_t worker) {
  const walk *w = state;
  const bool one_by_one = w->chunks > 1 || is_one_by_one(w);
  char *memory = w->scratch + (size_t)worker * w->share_bytes;
  while (begin < end) {
    const stretch at = stretch_at(w, begin, end, one_by_one);
    stretch_run(w, &at, memory);
    begin += at.rows;
  }
}

static void few_run(const walk *w, int64_t first, int64_t last, char *memory) {
  const bool one_by_one = is_one_by_one(w);
  for (int64_t unit = first; unit < last;) {
    stretch at = stretch_at(w, unit, last, one_by_one);
    at.row = unit - first;
    stretch_run(w, &at, memory);
    unit += at.rows;
  }
}

static void blocks_run(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  walk *w = state;
  char *memory = w->scratch + (size_t)worker * w->share_bytes;
  for (int64_t block = begin; block < end; ++block) {
    const int64_t group = block / w->group_blocks;
    const int64_t all = (group + 1) * w->group_units;
    int64_t unit = group * w->group_units + block % w->group_blocks * BLOCK;
    int64_t nth = 0;
    for (; nth < FEW && unit < all; ++nth) {
      const int64_t next = unit + FEW < all ? unit + FEW : all;
      few_run(w, unit, next, memory);
      few_end(w, unit, next - unit, nth, memory);
      unit = next;
    }
    block_end(w, block, nth, memory);
  }
}

static og_status scratch_make(walk *w, const og_call *call) {
  size_t bytes;
  const size_t workers = (size_t)(call->threads > 1 ? call->threads : 1);
  w->run_bytes = w->fn->loop != NULL
                     ? og_loop_scratch_bytes(w->fn->loop, w->chunk)
                     : og_loop_plain_bytes(&w->fn->program, w->chunk);
  w->run_bytes = (w->run_bytes + 63) / 64 * 64;
  w->share_bytes = w->run_bytes;
  for (int32_t i = 0; i < w->count; ++i) {
    if (w->operands[i].is_copied)
      w->share_bytes += (size_t)aligned(w->chunk * w->operands[i].bytes);
    if (is_kept(w, i))
      w->share_bytes += (size_t)(2 * aligned(FEW * kept_bytes(w, i)));
  }
  if (!og_size_mul(workers, w->share_bytes, &bytes))
    w->scratch = NULL;
  else
    w->scratch =
        bytes <= sizeof w->near ? w->near : og_alloc_aligned(64, bytes + 64);
  return w->scratch != NULL && sums_allocate(w)
             ? OG_OK
             : og_fail(call, OG_MEMORY, "no memory for the rows of a formula");
}

static void walk_free(walk *w) {
  if (w->scratch != w->near) og_free(w->scratch);
  og_free(w->positions);
  for (int32_t r = 0; r < OG_LOOP_OUTPUTS_MAX; ++r) {
    og_free(w->totals[r]);
    og_free(w->added[r]);
  }
}

static og_status walk_run(walk *w, const og_call *call) {
  const int32_t row = w->rank - 1;
  const int64_t width = w->size[row];
  int64_t rows = 1;
  for (int32_t d = 0; d < row; ++d) rows *= w->size[d];
  if (width == 0 && w->f->has_extreme)
    return og_fail(call, OG_INVALID,
                   "a row has no elements, and so no row_max or row_min");
  bool keeps = false;
  for (int32_t i = w->f->input_count; i < w->count; ++i) keeps |= is_kept(w, i);
  if (!keeps && (rows == 0 || (width == 0 && !w->f->needs_rows))) return OG_OK;
  const bool cuts = !w->f->needs_rows && !w->sums && width > CHUNK;
  w->chunk = cuts ? CHUNK : width;
  w->chunks = cuts ? (width + CHUNK - 1) / CHUNK : 1;
  w->units = rows * w->chunks;
  w->groups = 1;
  for (int32_t d = 0; d < row && w->sums; ++d)
    if (has_dim(w, d)) w->groups *= w->size[d];
  w->group_units = w->groups > 0 ? w->units / w->groups : 0;
  w->group_blocks = (w->group_units + BLOCK - 1) / BLOCK;
  OG_TRY(scratch_make(w, call));
  if (!keeps)
    return og_parallel_tasks(call, w->units,
                             og_grain(OG_GRAIN_MEDIUM, w->chunk), units_run, w);
  if (w->groups * w->group_blocks > 0)
    OG_TRY(og_parallel_tasks(call, w->groups * w->group_blocks,
                             og_grain(OG_GRAIN_MEDIUM, BLOCK * w->chunk),
                             blocks_run, w));
  OG_TRY(wrong_say(w, call));
  return sums_finish(w, call);
}

og_status og_formula_run(const og_call *call) {
  walk w;
  og_formula_function key;
  opgraft_error error;
  if (call->struct_size < offsetof(og_call, derived) + sizeof(void *) ||
      call->derived == NULL)
    return og_fail(call, OG_INTERNAL,
                   "the host left out the formula (og_call.derived) of a "
                   "derived kernel");
  w.f = call->derived;
  OG_TRY(operands_bind(&w, call, &key.given));
  const char *reason;
  const og_status status = og_formula_class(w.f, call, &key.class, &reason);
  if (status != OG_OK) return og_fail(call, status, reason);
  w.positions = w.scratch = NULL;
  w.sums = false;
  memset(w.totals, 0, sizeof w.totals);
  memset(w.added, 0, sizeof w.added);
  atomic_init(&w.wrong, INT64_MAX);
  OG_TRY(parts_check(&w, call));
  OG_TRY(og_formula_indices_check(w.f, call));
  OG_TRY(positions_make(&w, call, key.class));
  const og_status made = added_make(&w, call, key.class);
  if (made != OG_OK) {
    walk_free(&w);
    return made;
  }
  dims_find(&w, call);
  forms_find(&w, call, &key);
  memory_find(&w, &key);
  if (og_formula_function_get(w.f, &key, &w.fn, &error) != OG_OK) {
    walk_free(&w);
    return og_fail(call, error.code, error.text);
  }
  copies_add(&w);
  og_status ran = walk_run(&w, call);
  if (ran == OG_OK && w.f->added != 0) {
    int64_t size[OPGRAFT_RANK_MAX];
    const int32_t rank = space_find(&w, call, size);
    ran = og_formula_rows_add(w.f, call, key.class, rank, size, w.added);
  }
  walk_free(&w);
  return ran;
}
