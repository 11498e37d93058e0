// SPDX-License-Identifier: Apache-2.0
// Reference bags of embeddings: sums, means or largest elements of rows of a
// table, and their gradients. Bag b holds the indices from offset b up to the
// next one's. Sums are in double, rounded once.

#include <inttypes.h>
#include <string.h>

#include "call/call.h"
#include "exec/step/operands.h"

enum { BAG_SUM, BAG_MEAN, BAG_MAX };

typedef struct bags {
  og_operands io;
  int64_t mode, has_last, skip;
  int64_t rows, width, places, count;  // of the table; indices; bags
  double *sum, *row;                   // one row each
  double *table;                       // the gradient's
} bags;

static int64_t int_at(const og_tensor *tensor, int64_t index) {
  const int64_t step = tensor->shape[0] > 1 ? tensor->strides[0] : 0;
  return og_element_int(
      tensor->dtype, og_bytes(tensor) + index * step * og_item_bytes(tensor));
}

static void int_put(const og_tensor *tensor, int64_t index, int64_t number) {
  og_element_set_int(
      tensor->dtype,
      og_bytes(tensor) + index * tensor->strides[0] * og_item_bytes(tensor),
      number);
}

static void row_get(const og_tensor *table, int64_t row, int64_t width,
                    double *out) {
  og_get_doubles(
      table, og_bytes(table) + row * table->strides[0] * og_item_bytes(table),
      table->strides[1] * og_item_bytes(table), width, out);
}

static void row_put(const og_tensor *table, int64_t row, int64_t width,
                    const double *in) {
  og_put_doubles(
      table, og_bytes(table) + row * table->strides[0] * og_item_bytes(table),
      table->strides[1] * og_item_bytes(table), width, in);
}

static double weight_at(const og_tensor *weights, int64_t place) {
  if (weights == NULL) return 1;
  return og_element_double(
      weights->dtype,
      og_bytes(weights) + place * weights->strides[0] * og_item_bytes(weights));
}

static og_status row_check(const og_run *run, int64_t chosen, int64_t rows) {
  if (chosen >= 0 && chosen < rows) return OG_OK;
  return og_run_fail(run, OG_INVALID,
                     "index %" PRId64 " is out of range for a table of %" PRId64
                     " rows",
                     chosen, rows);
}

// --- Forward -----------------------------------------------------------------

// Where bag b begins, or the last one ends.
static og_status bag_begin(const bags *s, const og_run *run, int64_t bag,
                           int64_t *out) {
  const og_tensor *offsets = s->io.in[2];
  *out = bag < offsets->shape[0] ? int_at(offsets, bag) : s->places;
  if (bag == 0 && s->count > 0 && *out != 0)
    return og_run_fail(run, OG_INVALID,
                       "the first offset is %" PRId64 ", expected 0", *out);
  if (*out >= 0 && *out <= s->places) return OG_OK;
  return og_run_fail(run, OG_INVALID,
                     "offset %" PRId64 " is out of range for %" PRId64
                     " indices",
                     *out, s->places);
}

static void row_join(const bags *s, int64_t chosen, int64_t place, int64_t bag,
                     bool is_first) {
  const og_tensor *best = s->io.out[3];
  const double weight =
      weight_at(s->io.in_count > 3 ? s->io.in[3] : NULL, place);
  row_get(s->io.in[0], chosen, s->width, s->row);
  for (int64_t j = 0; j < s->width; ++j) {
    if (s->mode != BAG_MAX) {
      s->sum[j] += s->row[j] * weight;
    } else if (is_first || s->row[j] > s->sum[j]) {
      s->sum[j] = s->row[j];
      if (best != NULL)
        og_element_set_int(
            best->dtype,
            og_bytes(best) + (bag * best->strides[0] + j * best->strides[1]) *
                                 og_item_bytes(best),
            chosen);
    }
  }
}

// The results besides the sums: which bag each index is of, the bags' sizes,
// and for the largest where they come from. ATen leaves out what it needs not.
static void results_clear(const bags *s) {
  for (int32_t r = 1; r < 4; ++r) {
    const og_tensor *out = s->io.out[r];
    const int64_t count = out != NULL ? og_numel(out) : 0;
    if (count > 0)
      memset(og_bytes(out), 0, (size_t)(count * og_item_bytes(out)));
  }
}

static og_status bag_run(const bags *s, const og_run *run, int64_t bag) {
  const og_tensor *of_bag = s->io.out[1], *sizes = s->io.out[2];
  int64_t begin, end, size = 0;
  OG_TRY(bag_begin(s, run, bag, &begin));
  OG_TRY(bag_begin(s, run, bag + 1, &end));
  memset(s->sum, 0, (size_t)s->width * sizeof *s->sum);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t chosen = int_at(s->io.in[1], i);
    OG_TRY(row_check(run, chosen, s->rows));
    if (of_bag != NULL && of_bag->shape[0] > 0) int_put(of_bag, i, bag);
    if (chosen == s->skip) continue;
    row_join(s, chosen, i, bag, size++ == 0);
  }
  for (int64_t j = 0; s->mode == BAG_MEAN && size > 0 && j < s->width; ++j)
    s->sum[j] /= (double)size;
  row_put(s->io.out[0], bag, s->width, s->sum);
  if (s->mode != BAG_SUM && sizes != NULL) int_put(sizes, bag, size);
  if (s->mode == BAG_MEAN && s->io.out[3] != NULL)
    int_put(s->io.out[3], bag, size);
  return OG_OK;
}

static og_status run_bags(void *state, const og_run *run) {
  const bags *s = state;
  results_clear(s);
  for (int64_t bag = 0; bag < s->count; ++bag) OG_TRY(bag_run(s, run, bag));
  return OG_OK;
}

// --- Gradients ---------------------------------------------------------------

static og_status bag_check(const bags *s, const og_run *run, int64_t bag) {
  if (bag >= 0 && bag < s->count) return OG_OK;
  return og_run_fail(run, OG_INVALID,
                     "bag %" PRId64 " is out of range for %" PRId64 " bags",
                     bag, s->count);
}

static og_status sums_backward(const bags *s, const og_run *run) {
  const og_tensor *weights = s->io.in_count > 5 ? s->io.in[5] : NULL;
  for (int64_t i = 0; i < s->places; ++i) {
    const int64_t chosen = int_at(s->io.in[1], i);
    const int64_t bag = int_at(s->io.in[2], i);
    if (chosen == s->skip) continue;
    OG_TRY(row_check(run, chosen, s->rows));
    OG_TRY(bag_check(s, run, bag));
    double weight = weight_at(weights, i);
    if (s->mode == BAG_MEAN) weight /= (double)int_at(s->io.in[3], bag);
    row_get(s->io.in[0], bag, s->width, s->row);
    for (int64_t j = 0; j < s->width; ++j)
      s->table[chosen * s->width + j] += s->row[j] * weight;
  }
  return OG_OK;
}

static og_status largest_backward(const bags *s, const og_run *run) {
  const og_tensor *best = s->io.in[4];
  for (int64_t bag = 0; bag < s->count; ++bag) {
    if (int_at(s->io.in[3], bag) == 0) continue;
    row_get(s->io.in[0], bag, s->width, s->row);
    for (int64_t j = 0; j < s->width; ++j) {
      const int64_t chosen = og_element_int(
          best->dtype,
          og_bytes(best) + (bag * best->strides[0] + j * best->strides[1]) *
                               og_item_bytes(best));
      OG_TRY(row_check(run, chosen, s->rows));
      s->table[chosen * s->width + j] += s->row[j];
    }
  }
  return OG_OK;
}

static og_status run_bags_backward(void *state, const og_run *run) {
  const bags *s = state;
  memset(s->table, 0, (size_t)(s->rows * s->width) * sizeof *s->table);
  OG_TRY(s->mode == BAG_MAX ? largest_backward(s, run) : sums_backward(s, run));
  og_put_all(s->io.out[0], s->table);
  return OG_OK;
}

// Operands: gradient, table, indices, offsets, bag of each index (or none).
static og_status run_weights_backward(void *state, const og_run *run) {
  const bags *s = state;
  const og_tensor *out = s->io.out[0], *of_bag = s->io.in[4];
  int64_t bag = 0;
  for (int64_t i = 0; i < s->places; ++i) {
    const int64_t chosen = int_at(s->io.in[2], i);
    double dot = 0;
    while (bag + 1 < s->count && int_at(s->io.in[3], bag + 1) <= i) ++bag;
    const int64_t own = of_bag->shape[0] > 0 ? int_at(of_bag, i) : bag;
    OG_TRY(bag_check(s, run, own));
    if (chosen != s->skip) {
      OG_TRY(row_check(run, chosen, s->rows));
      row_get(s->io.in[0], own, s->width, s->sum);
      row_get(s->io.in[1], chosen, s->width, s->row);
      for (int64_t j = 0; j < s->width; ++j) dot += s->sum[j] * s->row[j];
    }
    og_element_set_double(
        out->dtype, og_bytes(out) + i * out->strides[0] * og_item_bytes(out),
        dot);
  }
  return OG_OK;
}

// --- Preparing ---------------------------------------------------------------

static bool is_list(const og_tensor *tensor, int64_t count) {
  return tensor != NULL && og_is_int(tensor) && tensor->ndim == 1 &&
         (count < 0 || tensor->shape[0] == count);
}

static bool is_matrix(const og_tensor *tensor, int64_t rows, int64_t columns) {
  return tensor != NULL && tensor->ndim == 2 && tensor->shape[0] == rows &&
         tensor->shape[1] == columns;
}

static bool is_weights(const og_tensor *weights, int64_t count) {
  return weights == NULL || (og_is_float(weights) && weights->ndim == 1 &&
                             weights->shape[0] == count);
}

static og_status bags_begin(og_prep *prep, bags *s, const og_tensor *table,
                            const og_tensor *indices, const og_tensor *sums,
                            int64_t table_doubles) {
  OG_TRY(og_need_float(prep, table));
  OG_TRY(og_need_float(prep, sums));
  if (table->ndim != 2 || sums->ndim != 2 || !is_list(indices, -1) ||
      table->shape[1] != sums->shape[1] || s->mode < BAG_SUM ||
      s->mode > BAG_MAX)
    return og_prep_wrong(prep, "the shapes or the mode do not fit");
  s->rows = table->shape[0];
  s->width = table->shape[1];
  s->places = indices->shape[0];
  s->count = sums->shape[0];
  s->sum = og_prep_doubles(prep, 2 * s->width + 1 + table_doubles);
  if (s->sum == NULL) return og_prep_memory(prep);
  s->row = s->sum + s->width;
  s->table = s->row + s->width;
  return OG_OK;
}

static bool is_long_list(const og_tensor *tensor, int64_t least) {
  return is_list(tensor, -1) && tensor->shape[0] >= least;
}

// ATen's shape function may give the lists more places than there are bags.
static bool further_fit(const og_prep *prep, const bags *s) {
  const og_tensor *of_bag = prep->out[1], *sizes = prep->out[2];
  const og_tensor *best = prep->out[3];
  const int64_t least = s->count + (s->has_last != 0);
  for (int32_t r = 1; r < 4; ++r)
    if (prep->out[r] != NULL && !og_tensor_is_contiguous(prep->out[r]))
      return false;
  return is_list(prep->in[2], -1) && prep->in[2]->shape[0] == least &&
         (of_bag == NULL || is_list(of_bag, s->places) || is_list(of_bag, 0)) &&
         (sizes == NULL || is_long_list(sizes, s->count)) &&
         (best == NULL ||
          (og_is_int(best) &&
           (s->mode == BAG_MAX ? is_matrix(best, s->count, s->width)
                               : is_long_list(best, s->count)))) &&
         is_weights(prep->node->in_count > 3 ? prep->in[3] : NULL, s->places);
}

og_status og_prepare_embedding_bag(og_prep *prep) {
  bags *s = og_state_begin(prep, sizeof *s, run_bags);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_prep_int(prep, 0, BAG_SUM, &s->mode));
  OG_TRY(og_prep_int(prep, 1, 0, &s->has_last));
  OG_TRY(og_prep_int(prep, 2, -1, &s->skip));
  OG_TRY(bags_begin(prep, s, prep->in[0], prep->in[1], prep->out[0], 0));
  return further_fit(prep, s) ? OG_OK : og_prep_misfit(prep);
}

// Operands: gradient, indices, bag of each, sizes of bags, where the largest
// come from, weights.
og_status og_prepare_embedding_bag_backward(og_prep *prep) {
  const og_tensor *table = prep->out[0];
  bags *s = og_state_begin(prep, sizeof *s, run_bags_backward);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_prep_int(prep, 0, BAG_SUM, &s->mode));
  OG_TRY(og_prep_int(prep, 1, -1, &s->skip));
  OG_TRY(bags_begin(prep, s, table, prep->in[1], prep->in[0], og_numel(table)));
  const bool fits =
      s->mode == BAG_MAX
          ? is_matrix(prep->in[4], s->count, s->width) &&
                og_is_int(prep->in[4]) && is_list(prep->in[3], s->count)
          : is_list(prep->in[2], s->places) &&
                (s->mode == BAG_SUM || is_list(prep->in[3], s->count));
  return fits && is_weights(prep->node->in_count > 5 ? prep->in[5] : NULL,
                            s->places)
             ? OG_OK
             : og_prep_misfit(prep);
}

og_status og_prepare_embedding_bag_weights_backward(og_prep *prep) {
  const og_tensor *of_bag = prep->in[4];
  bags *s = og_state_begin(prep, sizeof *s, run_weights_backward);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_prep_int(prep, 0, -1, &s->skip));
  OG_TRY(bags_begin(prep, s, prep->in[1], prep->in[2], prep->in[0], 0));
  const bool fits =
      is_list(prep->in[3], -1) && prep->in[3]->shape[0] >= s->count &&
      (is_list(of_bag, s->places) || is_list(of_bag, 0)) &&
      prep->out[0]->ndim == 1 && prep->out[0]->shape[0] == s->places;
  return fits && og_is_float(prep->out[0]) ? OG_OK : og_prep_misfit(prep);
}
