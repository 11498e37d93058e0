// SPDX-License-Identifier: Apache-2.0
// convolution over src/kernel, in f32, of planes whose rows stand together.
//
// A group is a contraction: its weights [channels, k] times what the taps of
// each pixel read, [k, pixels], which is packed into panels and never exists as
// a whole (the implicit form of im2col; Chetlur et al., "cuDNN", 2014). A task
// packs some pixels in its worker's scratch and runs all channels over them.
// Where there are too few pixels for that, the panels of an image are packed by
// all workers first and the channels are shared out. Groups of one channel run
// channel by channel, single pixels as dot products (conv.h).
//
// Of three spatial dims each slice of the result is such an image, whose pixels
// read the planes of several slices: a panel has the taps of each of them.
//
// Finished parts are handed to a reader, where there is one (tile_reader.h):
// its rows are the channels of all images.

#include "base/grain.h"
#include "exec/fast/narrow.h"
#include "exec/fast/tile_reader.h"
#include "exec/step/convolution.h"
#include "kernel/kernel.h"

enum {
  PIXEL_BYTES = 192 * 1024,  // of panels, which stay in the second-level cache
  PIXELS_LEAST = 32,
  PIXELS_MOST = 512,
  TASKS_PER_WORKER = 4,
  SHARED_TASKS_PER_WORKER = 8,  // whose panels are there already
  CHANNELS_LEAST = 28,          // of a task of shared panels
  CHANNELS_DOTTED = 16,
  DOT_TIMES = 6,  // a product of dot products waits for its weight
  SHARED_BYTES = 16 * 1024 * 1024,  // of an image's panels, at most
  PLANE_FLOATS = 4096,  // of results that one run of channels leaves
};

typedef struct packed_convolution {
  og_operands io;
  const og_tensor *x, *y;      // of planes: the operand and result, or copies
  og_tensor *x_copy, *y_copy;  // NULL: none is needed
  og_conv of;
  og_convolution sizes;
  int64_t images, groups;             // slices of all images
  int64_t out_channels, in_channels;  // of a group
  int64_t k, pixels;
  int64_t task_pixels, pixel_tasks;
  int64_t task_channels, channel_tasks;  // of shared panels
  bool is_shared;
  bool is_dotted;
  bool is_rounded;       // a contraction's operands to bf16, as was asked for
  int64_t plane_floats;  // a channel's scratch; 0: contractions
  int64_t plane_rows, plane_channels;  // of one run of channels
  og_tile_reader reader;
  char *panels;   // of an image's group, where they are shared
  char *scratch;  // worker_bytes for each worker
  int64_t worker_bytes;
  int64_t panel_offset;  // in it, of a panel of floats that becomes bf16
} packed_convolution;

static int64_t parts_of(int64_t count, int64_t each) {
  return (count + each - 1) / each;
}

static int64_t panels_of(int64_t pixels) { return parts_of(pixels, OG_PANEL); }

static int panels_type(const packed_convolution *s) {
  return s->is_rounded ? OG_BF16 : OG_F32;
}

static float *plane_at(const og_tensor *t, int64_t image, int64_t channel) {
  return (float *)(void *)(og_bytes(t) +
                           (image * t->strides[0] + channel * t->strides[1]) *
                               (int64_t)sizeof(float));
}

// Of a slice's channel of the result.
static float *result_at(const packed_convolution *s, int64_t image,
                        int64_t channel) {
  const int64_t slices = s->sizes.small[0];
  return plane_at(s->y, image / slices, channel) + image % slices * s->pixels;
}

static bool keeps_result(const packed_convolution *s) {
  return s->reader.run == NULL || s->reader.keeps_result;
}

// --- Parts -------------------------------------------------------------------

// What the kernel's hook needs: the channels and pixels of a run.
typedef struct part {
  const packed_convolution *of;
  int64_t image, channel, pixel;
} part;

static float bias_of(const packed_convolution *s, int64_t channel) {
  const og_tensor *bias = s->io.in[2];
  return bias != NULL
             ? *(const float *)(const void *)(og_bytes(bias) +
                                              channel * bias->strides[0] *
                                                  (int64_t)sizeof(float))
             : 0;
}

// Of a part's first channel, among those of all images.
static int64_t row_of(const packed_convolution *s, const part *p) {
  return p->image / s->sizes.small[0] * s->groups * s->out_channels +
         p->channel;
}

static void part_read(const packed_convolution *s, const og_tile *tile,
                      int worker) {
  if (s->reader.run != NULL) s->reader.run(s->reader.state, tile, worker);
}

// Rows are channels. Where the result is not kept, y is the kernel's scratch.
static void part_finish(void *state, void *y, int64_t y_stride, int64_t row,
                        int64_t rows, int64_t column, int64_t columns,
                        int worker) {
  const part *p = state;
  const packed_convolution *s = p->of;
  if (s->io.in[2] != NULL)
    for (int64_t r = 0; r < rows; ++r) {
      const float bias = bias_of(s, p->channel + row + r);
      float *sum = (float *)y + r * y_stride;
      for (int64_t i = 0; i < columns; ++i) sum[i] += bias;
    }
  part_read(s,
            &(og_tile){.data = y,
                       .row_bytes = y_stride * (int64_t)sizeof(float),
                       .row = row_of(s, p) + row,
                       .rows = rows,
                       .column = p->image % s->sizes.small[0] * s->pixels +
                                 p->pixel + column,
                       .columns = columns},
            worker);
}

// Channels [channel, channel + rows) of an image, all of one group, over pixels
// whose panels are given.
static void part_run(const packed_convolution *s, part *p, int64_t rows,
                     int64_t pixels, const void *panels, char *scratch,
                     int32_t worker) {
  const og_tensor *w = s->io.in[1];
  const bool is_hooked = s->io.in[2] != NULL || s->reader.run != NULL;
  og_epilogue e = {.wide = 1,
                   .has_near_panels = !s->is_shared,
                   .dots_last = 1,
                   .tile = is_hooked ? part_finish : NULL,
                   .state = p,
                   .worker = worker};
  const int64_t slices = s->sizes.small[0], row_floats = slices * s->pixels;
  if (s->reader.result != NULL) {
    e.result = *(float **)s->reader.result + row_of(s, p) * row_floats +
               p->image % slices * s->pixels + p->pixel;
    e.result_row_bytes = row_floats * (int64_t)sizeof(float);
  }
  float *y = result_at(s, p->image, p->channel) + p->pixel;
  og_gemm(panels_type(s))
      ->run((const float *)(const void *)og_bytes(w) + p->channel * s->k, s->k,
            panels, rows, pixels, s->k, 0, panels_of(pixels), NULL,
            keeps_result(s) ? y : NULL, s->y->strides[1], e, scratch, OG_F32,
            panels_type(s));
}

static char *scratch_of(const packed_convolution *s, int32_t worker) {
  return s->scratch + worker * s->worker_bytes;
}

// Panels of floats, of the slices that the taps of an image's pixels read; a
// slice in the padding is zeros.
static void floats_pack(const packed_convolution *s, int64_t image,
                        int64_t group, int64_t begin, int64_t end, float *to) {
  const og_convolution *c = &s->sizes;
  const og_tensor *x = s->x;
  const float *planes =
      plane_at(x, image / c->small[0], group * s->in_channels);
  og_conv of = s->of;
  int64_t slice = image % c->small[0] * c->stride[0] - c->padding[0];
  for (int64_t t = 0; t < c->taps[0]; ++t, slice += c->dilation[0]) {
    const bool is_inside = slice >= 0 && slice < c->large[0];
    og_conv_kernels_used()->pack(
        &of, is_inside ? planes + slice * of.in[0] * of.in[1] : NULL,
        x->strides[1], s->in_channels, begin, end, to);
    of.steps_before += og_conv_taps(&of);
  }
}

// bf16 is made of a panel of floats in the worker's scratch.
static void panels_pack(const packed_convolution *s, int64_t image,
                        int64_t group, int64_t begin, int64_t end,
                        int32_t worker, void *to) {
  if (!s->is_rounded) {
    floats_pack(s, image, group, begin, end, to);
    return;
  }
  char *panel = scratch_of(s, worker) + s->panel_offset;
  const og_gemm_weights floats = {.data = panel,
                                  .n = OG_PANEL,
                                  .k = s->k,
                                  .n_stride = 1,
                                  .k_stride = OG_PANEL,
                                  .element = OG_F32,
                                  .is_rounded = 1};
  for (int64_t i = begin; i < end; ++i) {
    floats_pack(s, image, group, i, i + 1, (float *)(void *)panel);
    og_gemm_pack(&floats, 0, 1,
                 (char *)to + (i - begin) * (int64_t)og_packed_bytes(
                                                OG_PANEL, s->k, OG_BF16));
  }
}

// --- Each task packs its pixels ----------------------------------------------

static void share_pixels(void *state, int64_t begin, int64_t end,
                         int32_t worker) {
  const packed_convolution *s = state;
  char *scratch = scratch_of(s, worker);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t group = i / s->pixel_tasks % s->groups;
    part p = {.of = s,
              .image = i / s->pixel_tasks / s->groups,
              .channel = group * s->out_channels,
              .pixel = i % s->pixel_tasks * s->task_pixels};
    const int64_t left = s->pixels - p.pixel;
    const int64_t pixels = left < s->task_pixels ? left : s->task_pixels;
    void *panels = scratch + OG_GEMM_SCRATCH;
    panels_pack(s, p.image, group, p.pixel / OG_PANEL,
                p.pixel / OG_PANEL + panels_of(pixels), worker, panels);
    part_run(s, &p, s->out_channels, pixels, panels, scratch, worker);
  }
}

// --- Shared panels -----------------------------------------------------------

// A group of an image.
typedef struct turn {
  const packed_convolution *of;
  int64_t image, group;
} turn;

static void share_panels(void *state, int64_t begin, int64_t end,
                         int32_t worker) {
  const turn *t = state;
  panels_pack(t->of, t->image, t->group, begin, end, worker,
              t->of->panels + og_packed_bytes(begin * OG_PANEL, t->of->k,
                                              panels_type(t->of)));
}

static void share_channels(void *state, int64_t begin, int64_t end,
                           int32_t worker) {
  const turn *t = state;
  const packed_convolution *s = t->of;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t first = i * s->task_channels;
    const int64_t left = s->out_channels - first;
    part p = {.of = s,
              .image = t->image,
              .channel = t->group * s->out_channels + first};
    part_run(s, &p, left < s->task_channels ? left : s->task_channels,
             s->pixels, s->panels, scratch_of(s, worker), worker);
  }
}

static og_status run_shared(const packed_convolution *s, const og_run *run) {
  for (int64_t i = 0; i < s->images * s->groups; ++i) {
    turn t = {s, i / s->groups, i % s->groups};
    OG_TRY(og_run_parallel(run, panels_of(s->pixels),
                           og_grain(OG_GRAIN_LIGHT, s->k * OG_PANEL),
                           share_panels, &t));
    OG_TRY(og_run_parallel(
        run, s->channel_tasks,
        og_grain(OG_GRAIN_PRODUCTS, s->task_channels * s->k * s->pixels),
        share_channels, &t));
  }
  return OG_OK;
}

// --- Channel by channel ------------------------------------------------------

// Some channels of an image, some rows at a time: what the reader reads is in
// the first-level cache then.
static void planes_run(const packed_convolution *s, int64_t image,
                       int64_t channel, int64_t count, int32_t worker) {
  const og_tensor *x = s->x, *bias = s->io.in[2], *y = s->y;
  const int64_t width = s->of.out[1];
  float *scratch = (float *)(void *)scratch_of(s, worker);
  og_conv_channels c = {
      .x = plane_at(x, image, 0),
      .x_stride = x->strides[1],
      .first = channel,
      .count = count,
      .each = s->out_channels,
      .w = (const float *)(const void *)og_bytes(s->io.in[1]) + channel * s->k};
  if (bias != NULL) {
    c.bias_stride = bias->strides[0];
    c.bias =
        (const float *)(const void *)og_bytes(bias) + channel * c.bias_stride;
  }
  for (; c.begin < s->of.out[0]; c.begin = c.end) {
    const int64_t left = s->of.out[0] - c.begin;
    c.end = c.begin + (left < s->plane_rows ? left : s->plane_rows);
    const int64_t pixels = (c.end - c.begin) * width;
    c.y = keeps_result(s) ? plane_at(y, image, channel) + c.begin * width
                          : scratch + s->plane_floats;
    c.y_stride = keeps_result(s) ? y->strides[1] : pixels;
    og_conv_kernels_used()->channels(&s->of, &c, scratch);
    part_read(s,
              &(og_tile){.data = c.y,
                         .row_bytes = c.y_stride * (int64_t)sizeof(float),
                         .row = image * s->groups * s->out_channels + channel,
                         .rows = count,
                         .column = c.begin * width,
                         .columns = pixels},
              worker);
  }
}

static void share_planes(void *state, int64_t begin, int64_t end,
                         int32_t worker) {
  const packed_convolution *s = state;
  const int64_t channels = s->groups * s->out_channels;
  for (int64_t i = begin, count; i < end; i += count) {
    const int64_t channel = i % channels;
    count = end - i < s->plane_channels ? end - i : s->plane_channels;
    if (count > channels - channel) count = channels - channel;
    planes_run(s, i / channels, channel, count, worker);
  }
}

// --- Dot products ------------------------------------------------------------

static void share_dots(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  const packed_convolution *s = state;
  const og_tensor *x = s->x;
  const float *w = (const float *)(const void *)og_bytes(s->io.in[1]);
  float *sums = (float *)(void *)scratch_of(s, worker);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t first = i % s->channel_tasks * s->task_channels;
    const int64_t left = s->out_channels - first;
    const int64_t rows = left < s->task_channels ? left : s->task_channels;
    part p = {.of = s, .image = i / s->channel_tasks, .channel = first};
    float *y = keeps_result(s) ? plane_at(s->y, p.image, first) : sums;
    og_conv_kernels_used()->dots(plane_at(x, p.image, 0), w + first * s->k,
                                 rows, s->k, y);
    part_finish(&p, y, 1, 0, rows, 0, 1, worker);
  }
}

// --- Channels side by side ---------------------------------------------------

enum { TURNED_PIXELS = 64 };  // of a task

typedef struct turned {
  const og_tensor *pixels, *planes;
  bool to_planes;
  int64_t count, tasks;  // pixels of an image, and their tasks
} turned;

static void share_turned(void *state, int64_t begin, int64_t end,
                         int32_t worker) {
  const turned *t = state;
  const int64_t channels = t->pixels->shape[1];
  const int64_t step = t->pixels->strides[t->pixels->ndim - 1];
  (void)worker;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t image = i / t->tasks, first = i % t->tasks * TURNED_PIXELS;
    const int64_t left = t->count - first;
    const int64_t count = left < TURNED_PIXELS ? left : TURNED_PIXELS;
    float *pixels = plane_at(t->pixels, image, 0) + first * step;
    float *planes = plane_at(t->planes, image, 0) + first;
    if (t->to_planes)
      og_gemm(OG_F32)->transpose(pixels, step, channels, count, planes,
                                 t->count);
    else
      og_gemm(OG_F32)->transpose(planes, t->count, count, channels, pixels,
                                 step);
  }
}

static og_status images_turn(const og_run *run, const og_tensor *pixels,
                             const og_tensor *planes, bool to_planes) {
  turned t = {.pixels = pixels, .planes = planes, .to_planes = to_planes};
  t.count = planes->strides[1];
  t.tasks = parts_of(t.count, TURNED_PIXELS);
  return og_run_parallel(
      run, t.tasks * pixels->shape[0],
      og_grain(OG_GRAIN_LIGHT, TURNED_PIXELS * pixels->shape[1]), share_turned,
      &t);
}

static og_status run_planes(packed_convolution *s, const og_run *run) {
  const int64_t planes = s->images * s->groups * s->out_channels;
  if (s->plane_floats > 0)
    return og_run_parallel(run, planes,
                           og_grain(OG_GRAIN_PRODUCTS, s->pixels * s->k),
                           share_planes, s);
  if (s->is_dotted)
    return og_run_parallel(
        run, s->images * s->channel_tasks,
        og_grain(OG_GRAIN_PRODUCTS, DOT_TIMES * s->task_channels * s->k),
        share_dots, s);
  if (s->is_shared) return run_shared(s, run);
  return og_run_parallel(
      run, s->images * s->groups * s->pixel_tasks,
      og_grain(OG_GRAIN_PRODUCTS, s->task_pixels * s->k * s->out_channels),
      share_pixels, s);
}

static og_status run_packed_convolution(void *state, const og_run *run) {
  packed_convolution *s = state;
  if (s->x_copy != NULL) OG_TRY(images_turn(run, s->io.in[0], s->x_copy, true));
  OG_TRY(run_planes(s, run));
  return s->y_copy == NULL ? OG_OK
                           : images_turn(run, s->io.out[0], s->y_copy, false);
}

// --- Preparation -------------------------------------------------------------

static void sizes_take(packed_convolution *s) {
  const og_convolution *c = &s->sizes;
  for (int d = 0; d < 2; ++d) {
    s->of.in[d] = c->large[d + 1];
    s->of.out[d] = c->small[d + 1];
    s->of.taps[d] = c->taps[d + 1];
    s->of.stride[d] = c->stride[d + 1];
    s->of.padding[d] = c->padding[d + 1];
    s->of.dilation[d] = c->dilation[d + 1];
  }
  s->of.other_steps = (c->taps[0] - 1) * og_conv_taps(&s->of);
  s->images = c->batch * c->small[0];
  s->groups = c->groups;
  s->out_channels = c->small_channels;
  s->in_channels = c->large_channels;
  s->k = s->in_channels * og_conv_steps(&s->of);
  s->pixels = og_conv_pixels(&s->of);
}

// Pixels of a task: as many as the cache keeps, fewer where there are workers
// to be kept busy.
static void pixels_cut(packed_convolution *s, int64_t workers) {
  const int64_t others = s->images * s->groups;
  const int64_t wanted = workers > 1 ? workers * TASKS_PER_WORKER : 1;
  int64_t pixels = PIXEL_BYTES / ((int64_t)sizeof(float) * s->k);
  if (pixels > PIXELS_MOST) pixels = PIXELS_MOST;
  const int64_t even = s->pixels * others / wanted;
  if (pixels > even) pixels = even;
  pixels = pixels / PIXELS_LEAST * PIXELS_LEAST;
  s->task_pixels = pixels > PIXELS_LEAST ? pixels : PIXELS_LEAST;
  s->pixel_tasks = parts_of(s->pixels, s->task_pixels);
  const int64_t bytes = (int64_t)og_packed_bytes(s->pixels, s->k, OG_F32);
  s->is_shared = others * s->pixel_tasks < wanted && bytes <= SHARED_BYTES &&
                 s->out_channels >= 2 * CHANNELS_LEAST;
  if (!s->is_shared) return;
  // As many for each worker, where there are more than workers.
  const int64_t most = s->out_channels / CHANNELS_LEAST;
  const int64_t busy = workers > 1 ? workers * SHARED_TASKS_PER_WORKER : 1;
  int64_t tasks = busy < most ? busy : most;
  if (tasks > workers) tasks -= tasks % workers;
  s->task_channels = parts_of(s->out_channels, tasks);
  s->channel_tasks = parts_of(s->out_channels, s->task_channels);
}

static void planes_cut(packed_convolution *s) {
  const int64_t rows = PLANE_FLOATS / s->of.out[1];
  const int64_t rounds = parts_of(s->of.out[0], rows > 1 ? rows : 1);
  s->plane_rows = parts_of(s->of.out[0], rounds);
  s->plane_channels = rounds == 1 ? PLANE_FLOATS / s->pixels : 1;
  if (s->plane_channels < 1) s->plane_channels = 1;
}

// A single pixel of all channels, which stand together.
static bool dots_cut(packed_convolution *s) {
  const og_conv *of = &s->of;
  if (s->groups != 1 || s->pixels != 1 || og_conv_steps(of) != 1 ||
      s->sizes.small[0] != 1 || s->sizes.large[0] != 1 ||
      of->in[0] * of->in[1] != 1 || of->padding[0] + of->padding[1] != 0 ||
      s->x->strides[1] != 1 || s->y->strides[1] != 1)
    return false;
  s->task_channels = CHANNELS_DOTTED;
  s->channel_tasks = parts_of(s->out_channels, s->task_channels);
  return true;
}

static int64_t floats_bytes(const og_tensor *t) {
  return (og_numel(t) * (int64_t)sizeof(float) + 63) / 64 * 64;
}

static bool memory_take(og_prep *prep, packed_convolution *s) {
  const int64_t workers = prep->executable->threads;
  int64_t shared = 0;
  if (s->is_dotted) {
    s->worker_bytes = CHANNELS_DOTTED * (int64_t)sizeof(float);
  } else if (s->plane_floats > 0) {
    s->worker_bytes =
        (s->plane_floats + s->plane_channels * s->plane_rows * s->of.out[1]) *
        (int64_t)sizeof(float);
  } else {
    const int64_t pixels = s->is_shared ? s->pixels : s->task_pixels;
    const int64_t bytes =
        (int64_t)og_packed_bytes(pixels, s->k, panels_type(s));
    s->worker_bytes = OG_GEMM_SCRATCH + (s->is_shared ? 0 : bytes);
    shared = s->is_shared ? bytes : 0;
    s->panel_offset = s->worker_bytes;
    if (s->is_rounded)
      s->worker_bytes += (int64_t)og_packed_bytes(OG_PANEL, s->k, OG_F32);
  }
  s->worker_bytes = (s->worker_bytes + 63) / 64 * 64;
  const int64_t own = (shared + workers * s->worker_bytes + 63) / 64 * 64;
  const int64_t x_bytes = s->x_copy != NULL ? floats_bytes(s->x_copy) : 0;
  const int64_t y_bytes = s->y_copy != NULL ? floats_bytes(s->y_copy) : 0;
  char *memory = og_prep_scratch(prep, (size_t)(own + x_bytes + y_bytes + 64));
  if (memory == NULL) return false;
  s->panels = memory + -(uintptr_t)memory % 64;
  s->scratch = s->panels + shared;
  if (s->x_copy != NULL) s->x_copy->data = s->panels + own;
  if (s->y_copy != NULL) s->y_copy->data = s->panels + own + x_bytes;
  return true;
}

bool og_convolution_is_narrow(const og_step *step) {
  const packed_convolution *s = step->state;
  return step->run == run_packed_convolution && s->is_rounded;
}

og_tile_reader *og_convolution_reader(const og_step *step) {
  packed_convolution *s = step->state;
  return step->run == run_packed_convolution && s->y_copy == NULL ? &s->reader
                                                                  : NULL;
}

// What stands for a tensor whose channels are side by side, row-major in
// scratch; false where none can.
static bool planes_make(og_prep *prep, og_tensor *of, const og_tensor **out,
                        og_tensor **out_copy) {
  const og_conv_layout layout = og_convolution_layout(of);
  *out = of;
  if (layout == OG_CONV_PLANES) return true;
  og_tensor *copy = og_prep_alloc(prep, sizeof *copy);
  int64_t *strides = og_prep_alloc(prep, (size_t)of->ndim * sizeof *strides);
  if (layout != OG_CONV_PIXELS || copy == NULL || strides == NULL) return false;
  og_row_major(of->shape, of->ndim, strides);
  *copy = *of;
  copy->strides = strides;
  copy->byte_offset = 0;
  *out = *out_copy = copy;
  return true;
}

og_status og_prepare_packed_convolution(og_prep *prep) {
  packed_convolution *s =
      og_state_begin(prep, sizeof *s, run_packed_convolution);
  if (s == NULL) return OG_MEMORY;
  const og_convolution *c = &s->sizes;
  OG_TRY(og_convolution_read(prep, prep->in[0], prep->in[1], prep->out[0],
                             &s->sizes));
  OG_TRY(og_convolution_bias(prep, prep->in[2], c->small_channels * c->groups));
  if (!og_convolution_is_f32(prep, c) ||
      !planes_make(prep, prep->in[0], &s->x, &s->x_copy) ||
      !planes_make(prep, prep->out[0], &s->y, &s->y_copy))
    return OG_UNSUPPORTED;
  sizes_take(s);
  if (s->in_channels == 1 && s->groups > 1) {
    if (c->taps[0] * c->small[0] * c->large[0] != 1) return OG_UNSUPPORTED;
    s->plane_floats = og_conv_scratch(&s->of);
    planes_cut(s);
  }
  if (s->plane_floats < 0 || s->k > OG_GEMM_MAX_K) return OG_UNSUPPORTED;
  s->is_dotted = dots_cut(s);
  s->is_rounded =
      !s->is_dotted && s->plane_floats == 0 && og_is_rounded(prep, false);
  if (!s->is_dotted) pixels_cut(s, prep->executable->threads);
  if (!memory_take(prep, s)) return OG_UNSUPPORTED;  // the plain one needs less
  og_prep_work(prep, s->images * s->pixels, og_numel(prep->in[1]));
  return OG_OK;
}
