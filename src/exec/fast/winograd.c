// SPDX-License-Identifier: Apache-2.0
// Convolutions of 3x3 taps, stride 1, through transformed tiles
// (kernel/winograd.h).
//
// A task is some rows of tiles and a block of channels: 16 contractions, then
// the sums of their points are the pixels of these rows. The rows of all images
// are one list. Where the weights stay in the second-level cache, a task
// transforms the elements of its rows itself and takes all channels, block by
// block; else the elements of a turn, many rows, are transformed once and its
// tasks share them.
//
// Weights are transformed once where they are constants or stay (packs.h), else
// by each task. How tasks are cut changes no bit: a tile's sums are added up in
// one order.
//
// A pixel that is not finite is computed again by its own taps alone: its tile
// reads more, which may be infinite or NaN, and sums of large elements may have
// overflowed.

#include <math.h>

#include "base/grain.h"
#include "exec/fast/packs.h"
#include "exec/fast/tile_reader.h"
#include "exec/fast/winograd.h"
#include "exec/step/convolution.h"
#include "kernel/kernel.h"

enum {
  POINTS = OG_WINOGRAD_POINTS,
  SIDE = OG_WINOGRAD_SIDE,
  FLOAT = (int)sizeof(float),
  // Of weights that stay in the second-level cache, and of a task's elements.
  NEAR_BYTES = 640 * 1024,
  OWN_BYTES = 256 * 1024,
  SHARED_BYTES = 16 * 1024 * 1024,  // of a turn's elements, at most
  TASK_TILES = 112,
  BLOCK_NEAR = 64,     // channels of a block where weights are near
  BLOCK_SHARED = 32,   // where they are not: a tile's columns
  READ_CHANNELS = 64,  // of a task that transforms elements for a turn
  TASKS_PER_WORKER = 4,
  CHANNELS_LEAST = 32,
};

typedef struct winograd {
  og_operands io;
  og_conv of;
  int64_t images, in_channels, out_channels;
  int64_t k, pixels;
  int64_t rows, columns, all_rows;  // of tiles: of an image, and of all
  int64_t tile;                     // floats of a tile's elements at a point
  int64_t task_rows, task_channels, channel_tasks;
  int64_t turn_rows;  // 0: each task transforms its elements
  const void *constant;
  og_kept *kept;
  bool may_repeat;
  og_tile_reader reader;
  char *shared;   // elements of a turn
  char *scratch;  // worker_bytes for each worker
  int64_t worker_bytes;
  // Where a worker's parts begin, behind the contraction's scratch.
  int64_t elements_at, sums_at, band_at, weights_at, pixels_at, mend_at;
} winograd;

// A call.
typedef struct running {
  const winograd *of;
  const float *weights;  // NULL: each task transforms its own
  int64_t begin, end;    // rows of the turn
} running;

static int64_t parts_of(int64_t count, int64_t each) {
  return (count + each - 1) / each;
}

static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

static float *plane_at(const og_tensor *t, int64_t image, int64_t channel) {
  return (float *)(void *)(og_bytes(t) +
                           (image * t->strides[0] + channel * t->strides[1]) *
                               FLOAT);
}

static bool keeps_result(const winograd *s) {
  return s->reader.run == NULL || s->reader.keeps_result;
}

static char *scratch_of(const winograd *s, int32_t worker) {
  return s->scratch + worker * s->worker_bytes;
}

static float *part_of(const winograd *s, int32_t worker, int64_t offset) {
  return (float *)(void *)(scratch_of(s, worker) + offset);
}

// Tiles side by side, of `rows` rows. Points lie a line more apart: else all of
// them would take the same sets of the first-level cache.
static og_winograd_tiles tiles_at(const winograd *s, void *at, int64_t rows,
                                  int64_t tile) {
  return (og_winograd_tiles){
      .data = at, .point = rows * s->columns * tile + OG_PANEL, .tile = tile};
}

// Rows [row, end) of one image, of a list that goes up to `end`.
static int64_t image_end(const winograd *s, int64_t row, int64_t end) {
  return lesser(end, (row / s->rows + 1) * s->rows);
}

// --- Elements ----------------------------------------------------------------

// Channels [channel, channel + count) of rows [begin, end), at the tiles of
// `to`, whose first ones are those of `begin`.
static void elements_read(const winograd *s, int64_t begin, int64_t end,
                          int64_t channel, int64_t count, og_winograd_tiles to,
                          float *band) {
  const og_tensor *x = s->io.in[0];
  to.data += channel;
  for (int64_t row = begin, stop; row < end; row = stop) {
    const int64_t image = row / s->rows;
    stop = lesser(image_end(s, row, end), row + s->task_rows);
    og_winograd_kernels_used()->read(
        &s->of, plane_at(x, image, channel), x->strides[1], count,
        row - image * s->rows, stop - image * s->rows, to, band);
    to.data += (stop - row) * s->columns * to.tile;
  }
}

static void share_elements(void *state, int64_t begin, int64_t end,
                           int32_t worker) {
  const running *r = state;
  const winograd *s = r->of;
  const int64_t parts = parts_of(s->in_channels, READ_CHANNELS);
  float *band = part_of(s, worker, s->band_at);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t row = r->begin + i / parts * s->task_rows;
    const int64_t channel = i % parts * READ_CHANNELS;
    og_winograd_tiles to = tiles_at(s, s->shared, s->turn_rows, s->tile);
    to.data += (row - r->begin) * s->columns * s->tile;
    elements_read(s, row, lesser(row + s->task_rows, r->end), channel,
                  lesser(READ_CHANNELS, s->in_channels - channel), to, band);
  }
}

// --- Pixels ------------------------------------------------------------------

// A block of channels over a task's rows.
typedef struct block {
  const winograd *of;
  int64_t channel, channels;
  int32_t worker;
} block;

// Pixels of some channels, to be looked at.
typedef struct patch {
  int64_t image, channel, channels;
  int64_t pixel, pixels;
  float *y;
  int64_t y_stride;
} patch;

static const float *bias_of(const winograd *s, int64_t channel) {
  const og_tensor *bias = s->io.in[2];
  return bias != NULL ? (const float *)(const void *)og_bytes(bias) + channel
                      : NULL;
}

// Those of a panel that are not finite become `sums`, [channel][OG_PANEL].
static void panel_mend(const winograd *s, const patch *p, int64_t panel,
                       const float *sums) {
  const float *bias = bias_of(s, p->channel);
  for (int64_t c = 0; c < p->channels; ++c)
    for (int64_t j = 0; j < OG_PANEL; ++j) {
      const int64_t i = panel * OG_PANEL + j - p->pixel;
      if (i < 0 || i >= p->pixels || isfinite(p->y[c * p->y_stride + i]))
        continue;
      p->y[c * p->y_stride + i] =
          sums[c * OG_PANEL + j] + (bias != NULL ? bias[c] : 0);
    }
}

// Computes pixels that are not finite by their own taps.
static void patch_mend(const winograd *s, const patch *p, int32_t worker) {
  const og_tensor *x = s->io.in[0];
  float *panel = part_of(s, worker, s->mend_at);
  float *sums = panel + og_packed_bytes(OG_PANEL, s->k, OG_F32) / FLOAT;
  const float *w =
      (const float *)(const void *)og_bytes(s->io.in[1]) + p->channel * s->k;
  const int64_t end = parts_of(p->pixel + p->pixels, OG_PANEL);
  for (int64_t i = p->pixel / OG_PANEL; i < end; ++i) {
    og_conv_kernels_used()->pack(&s->of, plane_at(x, p->image, 0),
                                 x->strides[1], s->in_channels, i, i + 1,
                                 panel);
    og_gemm(OG_F32)->run(w, s->k, panel, p->channels, OG_PANEL, s->k, 0, 1,
                         NULL, sums, OG_PANEL, (og_epilogue){.wide = 1},
                         scratch_of(s, worker), OG_F32, OG_F32);
    panel_mend(s, p, i, sums);
  }
}

// The pixels of rows [begin, end) of one image.
static void pixels_write(const block *b, int64_t begin, int64_t end,
                         og_winograd_tiles sums) {
  const winograd *s = b->of;
  const int64_t image = begin / s->rows, first = image * s->rows;
  const int64_t width = s->of.out[1];
  const int64_t last = lesser((end - first) * SIDE, s->of.out[0]);
  patch p = {.image = image,
             .channel = b->channel,
             .channels = b->channels,
             .pixel = (begin - first) * SIDE * width};
  p.pixels = last * width - p.pixel;
  p.y = keeps_result(s) ? plane_at(s->io.out[0], image, b->channel) + p.pixel
                        : part_of(s, b->worker, s->pixels_at);
  p.y_stride = keeps_result(s) ? s->io.out[0]->strides[1] : p.pixels;
  if (og_winograd_kernels_used()->write(
          &s->of, sums, bias_of(s, b->channel), b->channels, begin - first,
          end - first, p.y, p.y_stride, part_of(s, b->worker, s->band_at)))
    patch_mend(s, &p, b->worker);
  if (s->reader.run == NULL) return;
  s->reader.run(s->reader.state,
                &(og_tile){.data = p.y,
                           .row_bytes = p.y_stride * FLOAT,
                           .row = image * s->out_channels + b->channel,
                           .rows = b->channels,
                           .column = p.pixel,
                           .columns = p.pixels},
                b->worker);
}

// --- Tasks -------------------------------------------------------------------

static const float *block_weights(const running *r, const block *b,
                                  int64_t *out_point) {
  const winograd *s = r->of;
  const int64_t panel = b->channel / OG_PANEL;
  *out_point = og_winograd_point(s->out_channels, s->in_channels);
  if (r->weights != NULL)
    return r->weights + og_winograd_point(b->channel, s->in_channels);
  float *own = part_of(s, b->worker, s->weights_at);
  *out_point = og_winograd_point(b->channels, s->in_channels);
  og_winograd_kernels_used()->pack(
      (const float *)(const void *)og_bytes(s->io.in[1]), s->out_channels,
      s->in_channels, panel, panel + parts_of(b->channels, OG_PANEL),
      *out_point, own);
  return own;
}

// Rows [begin, end), whose elements are given.
static void block_run(const running *r, const block *b, int64_t begin,
                      int64_t end, og_winograd_tiles elements) {
  const winograd *s = r->of;
  int64_t point;
  const float *weights = block_weights(r, b, &point);
  og_winograd_tiles sums =
      tiles_at(s, part_of(s, b->worker, s->sums_at), end - begin,
               parts_of(b->channels, OG_PANEL) * OG_PANEL);
  for (int64_t p = 0; p < POINTS; ++p)
    og_gemm(OG_F32)->run(elements.data + p * elements.point, elements.tile,
                         weights + p * point, (end - begin) * s->columns,
                         b->channels, s->in_channels, 0,
                         parts_of(b->channels, OG_PANEL),
                         p + 1 < POINTS ? weights + (p + 1) * point : NULL,
                         sums.data + p * sums.point, sums.tile,
                         (og_epilogue){.wide = 1, .run_steps = OG_WINOGRAD_RUN},
                         scratch_of(s, b->worker), OG_F32, OG_F32);
  for (int64_t row = begin, stop; row < end; row = stop) {
    stop = image_end(s, row, end);
    pixels_write(b, row, stop, sums);
    sums.data += (stop - row) * s->columns * sums.tile;
  }
}

static block block_of(const winograd *s, int64_t index, int32_t worker) {
  const int64_t channel = index * s->task_channels;
  return (block){s, channel,
                 lesser(s->task_channels, s->out_channels - channel), worker};
}

static void share_rows(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  const running *r = state;
  const winograd *s = r->of;
  float *band = part_of(s, worker, s->band_at);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t row = i * s->task_rows;
    const int64_t stop = lesser(row + s->task_rows, s->all_rows);
    const og_winograd_tiles elements =
        tiles_at(s, part_of(s, worker, s->elements_at), s->task_rows, s->tile);
    elements_read(s, row, stop, 0, s->in_channels, elements, band);
    for (int64_t c = 0; c < s->channel_tasks; ++c) {
      const block b = block_of(s, c, worker);
      block_run(r, &b, row, stop, elements);
    }
  }
}

static void share_blocks(void *state, int64_t begin, int64_t end,
                         int32_t worker) {
  const running *r = state;
  const winograd *s = r->of;
  const int64_t row_tasks = parts_of(r->end - r->begin, s->task_rows);
  for (int64_t i = begin; i < end; ++i) {
    const block b = block_of(s, i / row_tasks, worker);
    const int64_t row = r->begin + i % row_tasks * s->task_rows;
    og_winograd_tiles elements = tiles_at(s, s->shared, s->turn_rows, s->tile);
    elements.data += (row - r->begin) * s->columns * s->tile;
    block_run(r, &b, row, lesser(row + s->task_rows, r->end), elements);
  }
}

static int64_t row_products(const winograd *s, int64_t channels) {
  return POINTS * s->columns * s->in_channels * channels;
}

static og_status turns_run(running *r, const og_run *run) {
  const winograd *s = r->of;
  const int64_t parts = parts_of(s->in_channels, READ_CHANNELS);
  for (r->begin = 0; r->begin < s->all_rows; r->begin = r->end) {
    r->end = lesser(r->begin + s->turn_rows, s->all_rows);
    const int64_t row_tasks = parts_of(r->end - r->begin, s->task_rows);
    OG_TRY(og_run_parallel(run, row_tasks * parts, 1, share_elements, r));
    OG_TRY(og_run_parallel(
        run, row_tasks * s->channel_tasks,
        og_grain(OG_GRAIN_PRODUCTS,
                 s->task_rows * row_products(s, s->task_channels)),
        share_blocks, r));
  }
  return OG_OK;
}

static og_status tasks_run(const winograd *s, const void *weights,
                           const og_run *run) {
  running r = {.of = s, .weights = weights};
  if (s->turn_rows > 0) return turns_run(&r, run);
  return og_run_parallel(
      run, parts_of(s->all_rows, s->task_rows),
      og_grain(OG_GRAIN_PRODUCTS,
               s->task_rows * row_products(s, s->out_channels)),
      share_rows, &r);
}

// Over a weight that stays: with the panels that are there, and again where it
// was written since they were made.
static og_status run_kept(const winograd *s, const og_run *run) {
  const void *data = og_bytes(s->io.in[1]);
  const bool may_repeat =
      s->may_repeat && (s->reader.run == NULL || s->reader.may_repeat);
  const void *panels = may_repeat ? og_kept_try(s->kept, data) : NULL;
  if (panels != NULL) {
    const og_status status = tasks_run(s, panels, run);
    const bool holds = og_kept_holds(s->kept);
    og_kept_leave(s->kept);
    if (status != OG_OK || holds) return status;
  }
  panels = og_kept_enter(s->kept, data, run);
  const og_status status = tasks_run(s, panels, run);
  if (panels != NULL) og_kept_leave(s->kept);
  return status;
}

static og_status run_winograd(void *state, const og_run *run) {
  const winograd *s = state;
  return s->kept != NULL ? run_kept(s, run) : tasks_run(s, s->constant, run);
}

// --- Preparation -------------------------------------------------------------

static void conv_take(og_conv *of, const og_convolution *c) {
  for (int d = 0; d < 2; ++d) {
    of->in[d] = c->large[d + 1];
    of->out[d] = c->small[d + 1];
    of->taps[d] = c->taps[d + 1];
    of->stride[d] = c->stride[d + 1];
    of->padding[d] = c->padding[d + 1];
    of->dilation[d] = c->dilation[d + 1];
  }
}

static bool is_taken(const og_prep *prep, const winograd *s,
                     const og_convolution *c) {
  const uint32_t flags = prep->plan->graph->option_flags;
  return (flags & OPGRAFT_OPTION_MATH_STRICT) == 0 &&
         og_convolution_is_planes(prep, c) && c->groups == 1 &&
         og_winograd_takes(&s->of) && s->k <= OG_GEMM_MAX_K &&
         (prep->in[2] == NULL || prep->in[2]->shape[0] == 1 ||
          prep->in[2]->strides[0] == 1);
}

// Rows of distances that are powers of two would share few sets of the
// first-level cache.
static int64_t tile_floats(int64_t channels) {
  enum { ROUND = 128 };
  const int64_t whole = parts_of(channels, OG_PANEL) * OG_PANEL;
  return whole % ROUND == 0 ? whole + OG_PANEL : whole;
}

// About `most` rows a task, all tasks nearly of one size.
static int64_t rows_even(int64_t rows, int64_t most) {
  return parts_of(rows, parts_of(rows, most > 1 ? most : 1));
}

static void tasks_cut(winograd *s, int64_t workers) {
  const int64_t wanted = workers > 1 ? workers * TASKS_PER_WORKER : 1;
  const int64_t row_bytes = POINTS * s->columns * s->tile * FLOAT;
  const int64_t weights =
      (int64_t)og_winograd_bytes(s->out_channels, s->in_channels);
  const bool is_near = weights <= NEAR_BYTES && s->all_rows >= 2 * wanted;
  s->task_channels = is_near ? BLOCK_NEAR : BLOCK_SHARED;
  s->channel_tasks = parts_of(s->out_channels, s->task_channels);
  if (is_near) {
    s->task_rows = rows_even(
        s->all_rows, lesser(OWN_BYTES / row_bytes, s->all_rows / wanted));
    return;
  }
  const int64_t turn = SHARED_BYTES / row_bytes;
  s->turn_rows = rows_even(s->all_rows, turn);
  const int64_t parts = parts_of(wanted, s->channel_tasks);
  s->task_rows = rows_even(s->turn_rows, lesser(TASK_TILES / s->columns,
                                                parts_of(s->turn_rows, parts)));
}

static int64_t place_add(int64_t *bytes, int64_t floats) {
  const int64_t at = *bytes;
  *bytes += (floats * FLOAT + 63) / 64 * 64;
  return at;
}

static int64_t tiles_floats(const winograd *s, int64_t rows, int64_t tile) {
  const og_winograd_tiles t = tiles_at(s, NULL, rows, tile);
  return POINTS * t.point;
}

static bool memory_take(og_prep *prep, winograd *s) {
  const int64_t workers = prep->executable->threads;
  int64_t bytes = OG_GEMM_SCRATCH, shared = 0;
  s->elements_at = place_add(
      &bytes, s->turn_rows > 0 ? 0 : tiles_floats(s, s->task_rows, s->tile));
  s->sums_at =
      place_add(&bytes, tiles_floats(s, s->task_rows, s->task_channels));
  s->band_at = place_add(&bytes, og_winograd_scratch(&s->of, s->task_rows));
  s->weights_at = place_add(
      &bytes, s->constant != NULL ? 0
                                  : POINTS * og_winograd_point(s->task_channels,
                                                               s->in_channels));
  s->pixels_at =
      place_add(&bytes, s->task_channels * s->task_rows * SIDE * s->of.out[1]);
  s->mend_at = place_add(
      &bytes, (int64_t)og_packed_bytes(OG_PANEL, s->k, OG_F32) / FLOAT +
                  s->task_channels * OG_PANEL);
  s->worker_bytes = bytes;
  if (s->turn_rows > 0)
    place_add(&shared, tiles_floats(s, s->turn_rows, s->tile));
  char *memory = og_prep_scratch(prep, (size_t)(shared + workers * bytes + 64));
  if (memory == NULL) return false;
  s->shared = memory + -(uintptr_t)memory % 64;
  s->scratch = s->shared + shared;
  return true;
}

static void weights_find(og_prep *prep, winograd *s) {
  const og_packing w = {.of = {.data = og_bytes(s->io.in[1]),
                               .n = s->out_channels,
                               .k = s->k,
                               .n_stride = s->k,
                               .k_stride = 1,
                               .element = OG_F32},
                        .operand = 1,
                        .is_winograd = true};
  og_packs_get(prep, &w, &s->constant);
  if (s->constant == NULL) s->kept = og_kept_get(prep, &w);
  s->may_repeat = !og_prep_is_in_place(prep);
}

bool og_winograd_pays(const og_prep *prep) {
  const og_tensor *w = prep->in[1];
  return w != NULL && w->ndim == 4 && w->shape[2] == 3 && w->shape[3] == 3 &&
         w->shape[0] >= CHANNELS_LEAST && w->shape[1] >= CHANNELS_LEAST;
}

og_tile_reader *og_winograd_reader(const og_step *step) {
  return step->run == run_winograd ? &((winograd *)step->state)->reader : NULL;
}

og_status og_prepare_winograd(og_prep *prep) {
  og_convolution c;
  winograd *s = og_state_begin(prep, sizeof *s, run_winograd);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_convolution_read(prep, prep->in[0], prep->in[1], prep->out[0], &c));
  OG_TRY(og_convolution_bias(prep, prep->in[2], c.small_channels * c.groups));
  conv_take(&s->of, &c);
  s->images = c.batch;
  s->out_channels = c.small_channels;
  s->in_channels = c.large_channels;
  s->k = s->in_channels * OG_WINOGRAD_TAPS;
  s->pixels = og_conv_pixels(&s->of);
  if (!is_taken(prep, s, &c)) return OG_UNSUPPORTED;
  s->rows = og_winograd_rows(&s->of);
  s->columns = og_winograd_columns(&s->of);
  s->all_rows = s->images * s->rows;
  s->tile = tile_floats(s->in_channels);
  tasks_cut(s, prep->executable->threads);
  weights_find(prep, s);
  if (!memory_take(prep, s)) return OG_UNSUPPORTED;  // others need less
  og_prep_work(prep, s->images * s->pixels, og_numel(prep->in[1]));
  return OG_OK;
}
