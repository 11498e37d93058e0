// SPDX-License-Identifier: Apache-2.0
// Reference kernels that move elements: write-back, writes into a view,
// concatenation, reversal, repetition, triangles, ranges.

#include <string.h>

#include "call/call.h"
#include "exec/step/operands.h"

// --- copy_to and scatter_view ------------------------------------------------

typedef struct copy_to {
  og_operands io;
  og_tensor between;  // row-major; data NULL where none is needed
} copy_to;

static og_status run_copy_to(void *state, const og_run *run) {
  const copy_to *s = state;
  (void)run;
  if (s->between.data != NULL) {
    og_copy_elements(&s->between, s->io.in[1]);
    og_copy_elements(s->io.out[0], &s->between);
  } else {
    og_copy_elements(s->io.out[0], s->io.in[1]);
  }
  return OG_OK;
}

// Another view of the same storage: what is written is still to be read.
static bool is_own_view(const og_prep *prep) {
  const og_value *values = prep->plan->graph->values;
  const og_value *to = &values[prep->node->in[0]];
  const og_value *from = &values[prep->node->in[1]];
  return to->root == from->root && !og_value_same_place(to, from);
}

static og_status between_make(og_prep *prep, copy_to *s) {
  const og_tensor *from = prep->in[1];
  s->between = *from;
  s->between.byte_offset = 0;
  s->between.strides = og_prep_alloc(prep, (size_t)from->ndim * 8 + 8);
  s->between.data =
      og_prep_scratch(prep, (size_t)(og_numel(from) * og_item_bytes(from)) + 1);
  if (s->between.strides == NULL || s->between.data == NULL)
    return og_prep_memory(prep);
  og_row_major(from->shape, from->ndim, s->between.strides);
  return OG_OK;
}

og_status og_prepare_copy_to(og_prep *prep) {
  if (prep->in[1] == NULL || !og_same_shape(prep->out[0], prep->in[1]) ||
      !og_dtype_equal(prep->out[0]->dtype, prep->in[1]->dtype))
    return og_prep_wrong(prep, "it writes a tensor of equal shape and type");
  copy_to *s = og_state_begin(prep, sizeof *s, run_copy_to);
  if (s == NULL) return OG_MEMORY;
  return is_own_view(prep) ? between_make(prep, s) : OG_OK;
}

typedef struct scatter_view {
  og_operands io;
  og_tensor window;  // where the second operand goes, in the result
  int64_t offset_bytes;
} scatter_view;

static og_status run_scatter_view(void *state, const og_run *run) {
  scatter_view *s = state;
  (void)run;
  og_update_start(&s->io);
  s->window.data = og_bytes(s->io.out[0]) + s->offset_bytes;
  og_copy_elements(&s->window, s->io.in[1]);
  return OG_OK;
}

// The window must lie inside the result: it is given as the position and the
// strides that it has in a row-major tensor of the result's shape.
static og_status window_check(og_prep *prep, const og_tensor *window,
                              int64_t offset) {
  int64_t low = offset, high = offset;
  const int64_t count = og_numel(prep->out[0]);
  if (og_numel(window) == 0) return OG_OK;
  for (int32_t d = 0; d < window->ndim; ++d) {
    int64_t reach;
    if (window->strides[d] < 0 ||
        !og_i64_mul(window->shape[d] - 1, window->strides[d], &reach) ||
        !og_i64_add(high, reach, &high))
      return og_prep_wrong(prep, "its window leaves the result");
  }
  if (low < 0 || high >= count)
    return og_prep_wrong(prep, "its window leaves the result");
  return OG_OK;
}

// From steps in a row-major tensor to those in the result's own strides: each
// is a sum of whole steps along the result's dims, and all `count` of them
// together stay inside of each dim. `used` counts what is taken of each.
static bool stride_map(const og_tensor *result, int64_t dense, int64_t count,
                       int64_t *used, int64_t *out) {
  int64_t step = og_numel(result);
  *out = 0;
  for (int32_t d = 0; d < result->ndim; ++d) {
    step /= result->shape[d];
    const int64_t steps = dense / step;
    used[d] += steps * count;
    if (used[d] >= result->shape[d]) return false;
    *out += steps * result->strides[d];
    dense %= step;
  }
  return true;
}

// Where a window lies in a result that is not row-major.
static og_status window_map(og_prep *prep, og_tensor *window, int64_t *offset) {
  int64_t used[OPGRAFT_RANK_MAX] = {0};
  const og_tensor *result = prep->out[0];
  if (og_numel(window) == 0 || og_tensor_is_contiguous(result)) return OG_OK;
  bool maps = stride_map(result, *offset, 1, used, offset);
  for (int32_t d = 0; maps && d < window->ndim; ++d)
    maps = window->shape[d] == 1 ||
           stride_map(result, window->strides[d], window->shape[d] - 1, used,
                      &window->strides[d]);
  return maps ? OG_OK
              : og_prep_wrong(prep, "its window does not follow the dims");
}

og_status og_prepare_scatter_view(og_prep *prep) {
  int64_t offset, strides[OPGRAFT_RANK_MAX];
  int32_t count;
  scatter_view *s = og_state_begin(prep, sizeof *s, run_scatter_view);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_prep_int(prep, 0, 0, &offset));
  OG_TRY(og_prep_ints(prep, 1, strides, OPGRAFT_RANK_MAX, &count));
  if (prep->in[1] == NULL) return og_prep_wrong(prep, "it writes a tensor");
  s->window = *prep->in[1];
  if (count != s->window.ndim)
    return og_prep_wrong(prep, "it needs one stride for each dim");
  if (!og_same_shape(prep->out[0], prep->in[0]) ||
      !og_dtype_equal(prep->out[0]->dtype, prep->in[0]->dtype) ||
      !og_dtype_equal(prep->out[0]->dtype, prep->in[1]->dtype))
    return og_prep_wrong(prep,
                         "its operands and result differ in type or "
                         "shape");
  s->window.byte_offset = 0;
  s->window.strides = og_prep_alloc(prep, (size_t)count * 8 + 8);
  if (s->window.strides == NULL) return og_prep_memory(prep);
  memcpy(s->window.strides, strides, (size_t)count * 8);
  OG_TRY(window_check(prep, &s->window, offset));
  OG_TRY(window_map(prep, &s->window, &offset));
  if (og_numel(&s->window) > 0)
    s->offset_bytes = offset * og_item_bytes(prep->out[0]);
  return OG_OK;
}

// --- cat ---------------------------------------------------------------------

typedef struct cat {
  og_operands io;
  int64_t stride_bytes;  // of the result along the dim
  int32_t dim;
} cat;

// A tensor of one dim without elements joins anything.
static bool is_skipped(const og_tensor *part) {
  return part->ndim == 1 && part->shape[0] == 0;
}

static og_status run_cat(void *state, const og_run *run) {
  const cat *c = state;
  int64_t at = 0;
  (void)run;
  for (int32_t i = 0; i < c->io.in_count; ++i) {
    const og_tensor *part = c->io.in[i];
    if (is_skipped(part)) continue;
    og_tensor to = *part;
    to.strides = c->io.out[0]->strides;
    to.data = og_bytes(c->io.out[0]) + at * c->stride_bytes;
    to.byte_offset = 0;
    og_copy_elements(&to, part);
    at += part->shape[c->dim];
  }
  return OG_OK;
}

og_status og_prepare_cat(og_prep *prep) {
  const og_tensor *out = prep->out[0];
  int64_t total = 0;
  cat *c = og_state_begin(prep, sizeof *c, run_cat);
  if (c == NULL) return OG_MEMORY;
  OG_TRY(og_prep_dim(prep, 0, out->ndim, &c->dim));
  if (out->ndim == 0) return og_prep_wrong(prep, "its result has no dims");
  for (int32_t i = 0; i < prep->node->in_count; ++i) {
    const og_tensor *part = prep->in[i];
    if (part == NULL || !og_dtype_equal(part->dtype, out->dtype))
      return og_prep_wrong(prep, "its operands differ in type");
    if (is_skipped(part)) continue;
    bool fits = part->ndim == out->ndim;
    for (int32_t d = 0; fits && d < out->ndim; ++d)
      fits = d == c->dim || part->shape[d] == out->shape[d];
    if (!fits) return og_prep_misfit(prep);
    total += part->shape[c->dim];
  }
  if (total != out->shape[c->dim]) return og_prep_misfit(prep);
  c->stride_bytes = out->strides[c->dim] * og_item_bytes(out);
  return OG_OK;
}

// --- flip --------------------------------------------------------------------

typedef struct flip {
  og_operands io;
  og_tensor mirror;  // the operand, walked backwards
  int64_t offset_bytes;
} flip;

static og_status run_flip(void *state, const og_run *run) {
  flip *f = state;
  (void)run;
  f->mirror.data = og_bytes(f->io.in[0]) + f->offset_bytes;
  og_copy_elements(f->io.out[0], &f->mirror);
  return OG_OK;
}

og_status og_prepare_flip(og_prep *prep) {
  int64_t dims[OPGRAFT_RANK_MAX];
  int32_t count;
  const og_tensor *in = prep->in[0];
  flip *f = og_state_begin(prep, sizeof *f, run_flip);
  if (f == NULL) return OG_MEMORY;
  OG_TRY(og_prep_ints(prep, 0, dims, OPGRAFT_RANK_MAX, &count));
  if (!og_same_shape(in, prep->out[0]) ||
      !og_dtype_equal(in->dtype, prep->out[0]->dtype))
    return og_prep_wrong(prep, "its result differs from its operand");
  f->mirror = *in;
  f->mirror.byte_offset = 0;
  f->mirror.strides = og_prep_alloc(prep, (size_t)in->ndim * 8 + 8);
  if (f->mirror.strides == NULL) return og_prep_memory(prep);
  memcpy(f->mirror.strides, in->strides, (size_t)in->ndim * 8);
  for (int32_t i = 0; i < count; ++i) {
    const int64_t dim = dims[i] < 0 ? dims[i] + in->ndim : dims[i];
    if (dim < 0 || dim >= in->ndim || f->mirror.strides[dim] < 0)
      return og_prep_wrong(prep, "a dim is out of range");
    if (in->shape[dim] == 0) continue;
    f->offset_bytes +=
        (in->shape[dim] - 1) * in->strides[dim] * og_item_bytes(in);
    f->mirror.strides[dim] = -in->strides[dim];
  }
  return OG_OK;
}

// --- bitcast -----------------------------------------------------------------

// The bytes of a tensor as numbers of another type, of which the last dim
// holds more or fewer.
typedef struct bitcast {
  og_operands io;
  og_tensor dense;  // the operand, row-major
} bitcast;

static og_status run_bitcast(void *state, const og_run *run) {
  const bitcast *b = state;
  og_tensor from = *b->io.out[0];
  (void)run;
  og_copy_elements(&b->dense, b->io.in[0]);
  from.data = b->dense.data;
  from.byte_offset = 0;
  from.strides = NULL;
  og_copy_elements(b->io.out[0], &from);
  return OG_OK;
}

og_status og_prepare_bitcast(og_prep *prep) {
  const og_tensor *in = prep->in[0], *out = prep->out[0];
  const int32_t last = in->ndim - 1;
  bitcast *b = og_state_begin(prep, sizeof *b, run_bitcast);
  if (b == NULL) return OG_MEMORY;
  bool fits = out->ndim == in->ndim;
  for (int32_t d = 0; fits && d < last; ++d)
    fits = in->shape[d] == out->shape[d];
  if (fits && last >= 0)
    fits = in->shape[last] * og_item_bytes(in) ==
           out->shape[last] * og_item_bytes(out);
  if (!fits || (last < 0 && og_item_bytes(in) != og_item_bytes(out)))
    return og_prep_misfit(prep);
  b->dense = *in;
  b->dense.byte_offset = 0;
  b->dense.strides = NULL;
  b->dense.data =
      og_prep_scratch(prep, (size_t)(og_numel(in) * og_item_bytes(in)) + 1);
  return b->dense.data != NULL ? OG_OK : og_prep_memory(prep);
}

// --- repeat ------------------------------------------------------------------

typedef struct repeat {
  og_operands io;
  og_tensor to, from;  // each dim as {repetitions, size}
} repeat;

static og_status run_repeat(void *state, const og_run *run) {
  repeat *r = state;
  (void)run;
  r->to.data = og_bytes(r->io.out[0]);
  r->from.data = og_bytes(r->io.in[0]);
  og_copy_elements(&r->to, &r->from);
  return OG_OK;
}

static void repeat_dim(repeat *r, int64_t size, int64_t to_stride,
                       int64_t from_stride) {
  const int32_t d = r->to.ndim++;
  r->from.ndim = r->to.ndim;
  r->to.shape[d] = size;
  r->to.strides[d] = to_stride;
  r->from.strides[d] = from_stride;
}

// The operand's dims are the result's last ones.
og_status og_prepare_repeat(og_prep *prep) {
  const og_tensor *in = prep->in[0], *out = prep->out[0];
  const int32_t missing = out->ndim - in->ndim;
  repeat *r = og_state_begin(prep, sizeof *r, run_repeat);
  if (r == NULL) return OG_MEMORY;
  int64_t *numbers = og_prep_alloc(prep, 6 * OPGRAFT_RANK_MAX * 8);
  if (numbers == NULL) return og_prep_memory(prep);
  if (missing < 0 || 2 * out->ndim > OPGRAFT_RANK_MAX ||
      !og_dtype_equal(in->dtype, out->dtype))
    return og_prep_wrong(prep, "its result differs from its operand");
  r->to = r->from = *out;
  r->to.ndim = r->from.ndim = 0;
  r->to.byte_offset = r->from.byte_offset = 0;
  r->to.shape = r->from.shape = numbers;
  r->to.strides = numbers + 2 * OPGRAFT_RANK_MAX;
  r->from.strides = numbers + 4 * OPGRAFT_RANK_MAX;
  for (int32_t d = 0; d < out->ndim; ++d) {
    const int64_t size = d < missing ? 1 : in->shape[d - missing];
    if (size == 0 ? out->shape[d] != 0 : out->shape[d] % size != 0)
      return og_prep_misfit(prep);
    repeat_dim(r, size == 0 ? 0 : out->shape[d] / size, size * out->strides[d],
               0);
    repeat_dim(r, size, out->strides[d],
               d < missing ? 0 : in->strides[d - missing]);
  }
  if (og_numel(out) == 0) prep->step.run = NULL;
  return OG_OK;
}

// --- triangle ----------------------------------------------------------------

typedef struct triangle {
  og_operands io;
  og_nest nest;
  int64_t rows, columns, upper, diagonal;
} triangle;

static og_status run_triangle(void *state, const og_run *run) {
  const triangle *t = state;
  const og_tensor *out = t->io.out[0];
  const size_t item = (size_t)og_item_bytes(out);
  (void)run;
  og_copy_elements(out, t->io.in[0]);
  const int64_t matrices = og_numel(out) / (t->rows * t->columns);
  for (int64_t m = 0; m < matrices; ++m) {
    int64_t offset[OG_NEST_OPERANDS];
    og_nest_point(&t->nest, m, offset);
    for (int64_t r = 0; r < t->rows; ++r)
      for (int64_t c = 0; c < t->columns; ++c) {
        const bool keeps =
            t->upper ? c - r >= t->diagonal : c - r <= t->diagonal;
        if (!keeps)
          memset(og_bytes(out) + offset[0] +
                     (r * out->strides[out->ndim - 2] +
                      c * out->strides[out->ndim - 1]) *
                         (int64_t)item,
                 0, item);
      }
  }
  return OG_OK;
}

og_status og_prepare_triangle(og_prep *prep) {
  const og_tensor *out = prep->out[0];
  triangle *t = og_state_begin(prep, sizeof *t, run_triangle);
  if (t == NULL) return OG_MEMORY;
  OG_TRY(og_prep_int(prep, 0, 0, &t->upper));
  OG_TRY(og_prep_int(prep, 1, 0, &t->diagonal));
  if (out->ndim < 2 || !og_same_shape(prep->in[0], out) ||
      !og_dtype_equal(prep->in[0]->dtype, out->dtype))
    return og_prep_wrong(prep, "it takes matrices and gives as many");
  t->rows = out->shape[out->ndim - 2];
  t->columns = out->shape[out->ndim - 1];
  og_tensor outer = *out;
  outer.ndim -= 2;
  const og_tensor *tensors[1] = {&outer};
  if (!og_nest_init(&t->nest, outer.ndim, outer.shape, tensors, 1))
    return og_prep_misfit(prep);
  if (og_numel(out) == 0) prep->step.run = NULL;
  return OG_OK;
}

// Where the elements of a triangle are: their rows, then their columns.
typedef struct triangle_indices {
  og_operands io;
  int64_t rows, columns, upper, diagonal;
} triangle_indices;

static int64_t clamped(int64_t x, int64_t least, int64_t most) {
  return x < least ? least : x > most ? most : x;
}

// The columns of row r are [begin, end).
static void row_columns(const triangle_indices *t, int64_t r, int64_t *begin,
                        int64_t *end) {
  const int64_t at = r + t->diagonal;
  *begin = t->upper ? clamped(at, 0, t->columns) : 0;
  *end = t->upper ? t->columns : clamped(at + 1, 0, t->columns);
}

static og_status run_triangle_indices(void *state, const og_run *run) {
  const triangle_indices *t = state;
  const og_tensor *out = t->io.out[0];
  const int64_t item = og_item_bytes(out);
  char *row = og_bytes(out), *column = row + out->strides[0] * item;
  (void)run;
  for (int64_t r = 0; r < t->rows; ++r) {
    int64_t begin, end;
    row_columns(t, r, &begin, &end);
    for (int64_t c = begin; c < end; ++c) {
      og_element_set_int(out->dtype, row, r);
      og_element_set_int(out->dtype, column, c);
      row += out->strides[1] * item;
      column += out->strides[1] * item;
    }
  }
  return OG_OK;
}

og_status og_prepare_triangle_indices(og_prep *prep) {
  const og_tensor *out = prep->out[0];
  int64_t count = 0;
  triangle_indices *t = og_state_begin(prep, sizeof *t, run_triangle_indices);
  if (t == NULL) return OG_MEMORY;
  OG_TRY(og_prep_int(prep, 0, 0, &t->rows));
  OG_TRY(og_prep_int(prep, 1, 0, &t->columns));
  OG_TRY(og_prep_int(prep, 2, 0, &t->diagonal));
  OG_TRY(og_prep_int(prep, 3, 0, &t->upper));
  OG_TRY(og_need_int(prep, out));
  if (t->rows < 0 || t->rows > INT32_MAX || t->columns < 0 ||
      t->columns > INT32_MAX)
    return og_prep_wrong(prep, "its rows or columns are out of range");
  t->diagonal = clamped(t->diagonal, -t->rows, t->columns);
  for (int64_t r = 0; r < t->rows; ++r) {
    int64_t begin, end;
    row_columns(t, r, &begin, &end);
    count += end > begin ? end - begin : 0;
  }
  return out->ndim == 2 && out->shape[0] == 2 && out->shape[1] == count
             ? OG_OK
             : og_prep_wrong(prep, "its result has another count of elements");
}

// --- iota and size -----------------------------------------------------------

typedef struct iota {
  og_operands io;
  bool is_int;
  int64_t start, step;
  double start_float, step_float;
} iota;

static og_status run_iota(void *state, const og_run *run) {
  const iota *s = state;
  const og_tensor *out = s->io.out[0];
  char *to = og_bytes(out);
  (void)run;
  for (int64_t i = 0; i < out->shape[0]; ++i) {
    if (s->is_int)
      og_element_set_int(
          out->dtype, to,
          (int64_t)((uint64_t)s->start + (uint64_t)i * (uint64_t)s->step));
    else
      og_element_set_double(out->dtype, to,
                            s->start_float + (double)i * s->step_float);
    to += out->strides[0] * og_item_bytes(out);
  }
  return OG_OK;
}

og_status og_prepare_iota(og_prep *prep) {
  iota *s = og_state_begin(prep, sizeof *s, run_iota);
  if (s == NULL) return OG_MEMORY;
  if (prep->out[0]->ndim != 1 ||
      og_dtype_class(prep->out[0]->dtype) == OG_CLASS_NONE)
    return og_prep_wrong(prep, "its result is one dim of a real type");
  s->is_int = !og_prep_is_float(prep, 0) && !og_prep_is_float(prep, 1);
  if (s->is_int) {
    OG_TRY(og_prep_int(prep, 0, 0, &s->start));
    return og_prep_int(prep, 1, 1, &s->step);
  }
  OG_TRY(og_prep_float(prep, 0, 0, &s->start_float));
  return og_prep_float(prep, 1, 1, &s->step_float);
}

typedef struct size_tensor {
  og_operands io;
  int64_t value;
  double real;  // of a float
  bool is_float;
} size_tensor;

static og_status run_size(void *state, const og_run *run) {
  const size_tensor *s = state;
  (void)run;
  if (s->is_float)
    og_element_set_double(s->io.out[0]->dtype, og_bytes(s->io.out[0]), s->real);
  else
    og_element_set_int(s->io.out[0]->dtype, og_bytes(s->io.out[0]), s->value);
  return OG_OK;
}

og_status og_prepare_size(og_prep *prep) {
  size_tensor *s = og_state_begin(prep, sizeof *s, run_size);
  if (s == NULL) return OG_MEMORY;
  if (og_numel(prep->out[0]) != 1 ||
      og_dtype_class(prep->out[0]->dtype) == OG_CLASS_NONE)
    return og_prep_wrong(prep, "its result is one number of a real type");
  s->is_float = og_prep_is_float(prep, 0);
  return s->is_float ? og_prep_float(prep, 0, 0, &s->real)
                     : og_prep_int(prep, 0, 0, &s->value);
}
