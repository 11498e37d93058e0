// SPDX-License-Identifier: Apache-2.0
// The convolution kernels of every instruction set that the machine has: packed
// pixels equal to the elements that the taps read, channels and single pixels
// against sums in double, and the largest of windows with its place. Sizes,
// strides, paddings and dilations are drawn; operands lie between guard pages.

#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>

#include "kernel/tables.h"
#include "tests/unit/loop_make.h"
#include "tests/unit/test.h"

typedef struct set {
  og_isa isa;
  const og_conv_kernels *kernels;
} set;

static const set sets[] = {
#define OG_ISA(name, level, machine, test) \
  machine({OG_ISA_##level, &og_conv_##name}, )
#include "base/isa.def"
#undef OG_ISA
};
enum { SETS = sizeof sets / sizeof *sets, CHANNELS_MOST = 3, SIDE_MOST = 40 };
enum { WIDE_MOST = 140 };  // of a side that is more than one band

static uint32_t seed = 1;
static int64_t draw(int64_t begin, int64_t end) {
  seed = seed * 1664525u + 1013904223u;
  return begin + (int64_t)(seed >> 8) % (end - begin);
}

static void fill(float *x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) x[i] = (float)draw(-1000, 1001) / 512;
}

static og_conv conv_draw(void) {
  og_conv c;
  for (int d = 0; d < 2; ++d) {
    c.taps[d] = draw(1, 6);
    c.stride[d] = draw(0, 4) == 0 ? 3 : draw(1, 3);
    c.dilation[d] = draw(1, 3);
    c.padding[d] = draw(0, 5);
    const int64_t reach = (c.taps[d] - 1) * c.dilation[d] + 1;
    c.in[d] = draw(1, draw(0, 8) == 0 ? WIDE_MOST : SIDE_MOST);
    if (c.in[d] + 2 * c.padding[d] < reach) c.in[d] = reach;
    c.out[d] = (c.in[d] + 2 * c.padding[d] - reach) / c.stride[d] + 1;
  }
  return c;
}

static og_conv pointwise_draw(void) {
  og_conv c;
  for (int d = 0; d < 2; ++d) {
    c.taps[d] = c.stride[d] = 1;
    c.dilation[d] = draw(1, 3);
    c.padding[d] = 0;
    c.in[d] = c.out[d] = draw(1, SIDE_MOST);
  }
  return c;
}

// What a tap of a pixel reads of a channel.
static float element_of(const og_conv *c, const float *x, int64_t pixel,
                        int64_t tap) {
  const int64_t y = pixel / c->out[1] * c->stride[0] - c->padding[0] +
                    tap / c->taps[1] * c->dilation[0];
  const int64_t at = pixel % c->out[1] * c->stride[1] - c->padding[1] +
                     tap % c->taps[1] * c->dilation[1];
  return y >= 0 && y < c->in[0] && at >= 0 && at < c->in[1]
             ? x[y * c->in[1] + at]
             : 0;
}

// Steps of other planes stay as they are.
static bool pack_holds(const og_conv_kernels *kernels, const og_conv *of,
                       const float *x, int64_t channels, float *to) {
  const float untouched = 12345;
  og_conv c = *of;
  c.other_steps = draw(0, og_conv_taps(of) + 1);
  c.steps_before = draw(0, c.other_steps + 1);
  const int64_t taps = og_conv_taps(of), steps = og_conv_steps(&c);
  const int64_t k = channels * steps, plane = c.in[0] * c.in[1];
  const int64_t pixels = og_conv_pixels(&c);
  const int64_t panels = (pixels + OG_PANEL - 1) / OG_PANEL;
  const int64_t panel = (k + 1) / 2 * 2 * OG_PANEL, begin = draw(0, panels);
  if (draw(0, 8) == 0) x = NULL;
  for (int64_t i = 0; i < (panels - begin) * panel; ++i) to[i] = untouched;
  kernels->pack(&c, x, plane, channels, begin, panels, to);
  for (int64_t i = begin * OG_PANEL; i < panels * OG_PANEL; ++i)
    for (int64_t step = 0; step < panel / OG_PANEL; ++step) {
      const float found =
          to[(i / OG_PANEL - begin) * panel + step * OG_PANEL + i % OG_PANEL];
      const int64_t tap = step % steps - c.steps_before;
      const bool is_other = step < k && (tap < 0 || tap >= taps);
      const float expected =
          is_other ? untouched
          : x != NULL && i < pixels && step < k
              ? element_of(&c, x + step / steps * plane, i, tap)
              : 0;
      if (found != expected) return false;
    }
  return true;
}

// Some rows of channels, two of the result for each of x; rows of the result
// beside them and what lies between its channels stay as they are.
static bool channels_hold(const og_conv_kernels *kernels, const og_conv *c,
                          const float *x, int64_t channels, const float *w,
                          float *y, float *scratch) {
  enum { EACH = 2, GAP = 3 };
  const float bias[] = {0.5f, -1, 0.25f, -2, 2, 0, 1, 0}, untouched = 12345;
  const int64_t pixels = og_conv_pixels(c), begin = draw(0, c->out[0]);
  const int64_t end = draw(begin, c->out[0]) + 1, first = draw(0, channels);
  const int64_t taps = og_conv_taps(c);
  const og_conv_channels part = {
      .x = x,
      .x_stride = c->in[0] * c->in[1],
      .first = first,
      .count = EACH * channels - first,
      .each = EACH,
      .w = w + first * taps,
      .bias = draw(0, 3) == 0 ? NULL : bias + first,
      .bias_stride = 1,
      .begin = begin,
      .end = end,
      .y = y + first * (pixels + GAP) + begin * c->out[1],
      .y_stride = pixels + GAP};
  const int64_t floats = EACH * channels * (pixels + GAP) - GAP;
  for (int64_t i = 0; i < floats; ++i) y[i] = untouched;
  kernels->channels(c, &part, scratch);
  for (int64_t i = 0; i < floats; ++i) {
    const int64_t channel = i / (pixels + GAP), pixel = i % (pixels + GAP);
    const int64_t row = pixel / c->out[1];
    if (channel < first || row < begin || row >= end || pixel >= pixels) {
      if (y[i] != untouched) return false;
      continue;
    }
    double sum = part.bias != NULL ? bias[channel] : 0;
    for (int64_t t = 0; t < taps; ++t)
      sum +=
          (double)element_of(c, x + channel / EACH * part.x_stride, pixel, t) *
          w[channel * taps + t];
    if (fabs(y[i] - sum) > 1e-4) return false;
  }
  return true;
}

static bool dots_hold(const og_conv_kernels *kernels, const float *x,
                      const float *w, int64_t rows, int64_t k, float *y) {
  kernels->dots(x, w, rows, k, y);
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < k; ++i) sum += (double)x[i] * w[r * k + i];
    if (fabs(y[r] - sum) > 1e-3) return false;
  }
  return true;
}

// Of the elements that a pixel reads, as PyTorch says it: of equal ones the
// first, of NaNs the last. -1: none is above -inf, and any may be named.
static int64_t largest_of(const og_conv *c, const float *x, int64_t pixel) {
  int64_t place = -1;
  float top = -INFINITY;
  for (int64_t t = 0; t < og_conv_taps(c); ++t) {
    const int64_t row = pixel / c->out[1] * c->stride[0] - c->padding[0] +
                        t / c->taps[1] * c->dilation[0];
    const int64_t column = pixel % c->out[1] * c->stride[1] - c->padding[1] +
                           t % c->taps[1] * c->dilation[1];
    if (row < 0 || row >= c->in[0] || column < 0 || column >= c->in[1])
      continue;
    const float value = x[row * c->in[1] + column];
    if (value > top || isnan(value)) {
      top = value;
      place = row * c->in[1] + column;
    }
  }
  return place;
}

static bool largest_holds(const og_conv_kernels *kernels, const og_conv *c,
                          const float *x, float *y, int64_t *index,
                          float *scratch) {
  kernels->largest(c, x, y, index, scratch);
  for (int64_t i = 0; i < og_conv_pixels(c); ++i) {
    const int64_t place = largest_of(c, x, i);
    const float value = place < 0 ? -INFINITY : x[place];
    if (memcmp(&y[i], &value, sizeof value) != 0) return false;
    if (index != NULL && place >= 0 && index[i] != place) return false;
  }
  return true;
}

// Equal ones, NaN, infinities and zeros of both signs are common.
static void fill_with_specials(float *x, int64_t count) {
  static const float specials[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f};
  for (int64_t i = 0; i < count; ++i)
    x[i] = draw(0, 6) == 0 ? specials[draw(0, 5)] : (float)draw(-4, 5);
}

TEST(largest_elements) {
  enum { ROUNDS = 500, FLOATS = 1 << 16 };
  guarded x = {0}, y = {0}, index = {0};
  REQUIRE(guarded_init(&x, FLOATS * sizeof(float)));
  REQUIRE(guarded_init(&y, FLOATS * sizeof(float)));
  REQUIRE(guarded_init(&index, FLOATS * sizeof(int64_t)));
  for (int round = 0; round < ROUNDS; ++round) {
    const og_conv c = conv_draw();
    const size_t pixels = (size_t)og_conv_pixels(&c);
    const size_t elements = (size_t)(c.in[0] * c.in[1]);
    float *in = (float *)(void *)(round % 2 ? guarded_end(&x, elements * 4)
                                            : guarded_begin(&x));
    float *out = (float *)(void *)guarded_end(&y, pixels * 4);
    int64_t *places = (int64_t *)(void *)guarded_end(&index, pixels * 8);
    float *scratch = malloc((size_t)og_conv_scratch(&c) * sizeof *scratch);
    REQUIRE(scratch != NULL);
    if (round % 4 < 2)
      fill(in, (int64_t)elements);
    else
      fill_with_specials(in, (int64_t)elements);
    for (int s = 0; s < SETS; ++s) {
      if (sets[s].isa > og_isa_used()) continue;
      CHECK(largest_holds(sets[s].kernels, &c, in, out, NULL, scratch));
      CHECK(largest_holds(sets[s].kernels, &c, in, out, places, scratch));
    }
    free(scratch);
  }
done:
  guarded_reset(&x);
  guarded_reset(&y);
  guarded_reset(&index);
}

TEST(convolutions) {
  enum { ROUNDS = 1000, FLOATS = 1 << 18, TAPS = 25 };
  guarded x = {0}, y = {0};
  float *w = calloc(2 * CHANNELS_MOST * TAPS, sizeof *w);
  REQUIRE(w != NULL);
  REQUIRE(guarded_init(&x, FLOATS * sizeof(float)));
  REQUIRE(guarded_init(&y, FLOATS * sizeof(float)));
  for (int round = 0; round < ROUNDS; ++round) {
    const og_conv c = round % 8 == 0 ? pointwise_draw() : conv_draw();
    const int64_t channels = draw(1, CHANNELS_MOST + 1);
    const int64_t elements = channels * c.in[0] * c.in[1];
    const int64_t pixels = og_conv_pixels(&c), floats = og_conv_scratch(&c);
    const size_t bytes = (size_t)elements * sizeof(float);
    float *in = (float *)(void *)(round % 2 ? guarded_end(&x, bytes)
                                            : guarded_begin(&x));
    float *out = (float *)(void *)guarded_end(
        &y, (size_t)(2 * channels * (pixels + 3) - 3) * 4);
    float *packed = malloc(
        og_packed_bytes(pixels, 2 * channels * og_conv_taps(&c), OG_F32));
    float *scratch = malloc((size_t)floats * sizeof *scratch);
    REQUIRE(packed != NULL && scratch != NULL);
    fill(in, elements);
    fill(w, 2 * channels * og_conv_taps(&c));
    for (int s = 0; s < SETS; ++s) {
      if (sets[s].isa > og_isa_used()) continue;
      CHECK(pack_holds(sets[s].kernels, &c, in, channels, packed));
      CHECK(channels_hold(sets[s].kernels, &c, in, channels, w, out, scratch));
    }
    free(packed);
    free(scratch);
  }
done:
  guarded_reset(&x);
  guarded_reset(&y);
  free(w);
}

TEST(single_pixels) {
  enum { ROWS = 13, MOST = 200 };
  guarded x = {0}, w = {0};
  float y[ROWS];
  REQUIRE(guarded_init(&x, MOST * sizeof(float)));
  REQUIRE(guarded_init(&w, ROWS * MOST * sizeof(float)));
  for (int64_t k = 1; k <= MOST; k += draw(1, 20))
    for (int s = 0; s < SETS; ++s) {
      if (sets[s].isa > og_isa_used()) continue;
      const int64_t rows = draw(1, ROWS + 1);
      float *in = (float *)(void *)guarded_end(&x, (size_t)k * 4);
      float *factors = (float *)(void *)guarded_end(&w, (size_t)(rows * k) * 4);
      fill(in, k);
      fill(factors, rows * k);
      CHECK(dots_hold(sets[s].kernels, in, factors, rows, k, y));
    }
done:
  guarded_reset(&x);
  guarded_reset(&w);
}

TEST(too_large) {
  const og_conv c = {.in = {1, 1},
                     .out = {1, 1 << 20},
                     .taps = {1, 1},
                     .stride = {1, 2},
                     .dilation = {1, 1}};
  CHECK_EQ(og_conv_scratch(&c), -1);
}

TEST_MAIN("kernel_conv", CASE_NO_FAULTS(convolutions),
          CASE_NO_FAULTS(largest_elements), CASE_NO_FAULTS(single_pixels),
          CASE_NO_FAULTS(too_large))
