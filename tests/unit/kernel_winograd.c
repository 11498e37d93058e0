// SPDX-License-Identifier: Apache-2.0
// The transforms of 3x3 convolutions of every instruction set that the machine
// has: weights, elements and pixels together against sums of taps in double.
// Sizes and paddings are drawn; operands lie between guard pages.

#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>

#include "kernel/tables.h"
#include "tests/unit/loop_make.h"
#include "tests/unit/test.h"

typedef struct set {
  og_isa isa;
  const og_winograd_kernels *kernels;
} set;

static const set sets[] = {
#define OG_ISA(name, level, machine, test) \
  machine({OG_ISA_##level, &og_winograd_##name}, )
#include "base/isa.def"
#undef OG_ISA
};
enum {
  SETS = sizeof sets / sizeof *sets,
  CHANNELS_MOST = 40,
  SIDE_MOST = 20,
  PIXELS_MOST = (SIDE_MOST + 6) * (SIDE_MOST + 6),
  FLOATS_MOST = CHANNELS_MOST * PIXELS_MOST,
};

static uint32_t seed = 1;
static int64_t draw(int64_t begin, int64_t end) {
  seed = seed * 1664525u + 1013904223u;
  return begin + (int64_t)(seed >> 8) % (end - begin);
}

static void fill(float *x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) x[i] = (float)draw(-1000, 1001) / 512;
}

static og_conv conv_draw(void) {
  og_conv c = {.taps = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}};
  for (int d = 0; d < 2; ++d) {
    c.padding[d] = draw(0, 4);
    c.in[d] = draw(1, SIDE_MOST);
    if (c.in[d] + 2 * c.padding[d] < 3) c.in[d] = 3;
    c.out[d] = c.in[d] + 2 * c.padding[d] - 2;
  }
  return c;
}

// A convolution of one image.
typedef struct scene {
  og_conv c;
  int64_t channels, n;
  const float *x, *w, *bias;
  float *y;
  int64_t begin, end;  // rows of tiles
  // What the kernels leave between them.
  float *weights, *scratch;
  og_winograd_tiles elements, sums;
} scene;

static bool scene_alloc(scene *s) {
  const int64_t tiles = (s->end - s->begin) * og_winograd_columns(&s->c);
  const int64_t channels = (s->channels + 15) / 16 * 16;
  s->elements = (og_winograd_tiles){NULL, tiles * channels + 3, channels};
  s->sums = (og_winograd_tiles){NULL, tiles * s->n + 5, s->n};
  s->weights = malloc(og_winograd_bytes(s->n, s->channels));
  s->scratch = calloc((size_t)og_winograd_scratch(&s->c, s->end - s->begin),
                      sizeof(float));
  s->elements.data =
      calloc((size_t)(OG_WINOGRAD_POINTS * s->elements.point), sizeof(float));
  s->sums.data =
      calloc((size_t)(OG_WINOGRAD_POINTS * s->sums.point), sizeof(float));
  return s->weights != NULL && s->scratch != NULL && s->elements.data != NULL &&
         s->sums.data != NULL;
}

static void scene_free(scene *s) {
  free(s->weights);
  free(s->scratch);
  free(s->elements.data);
  free(s->sums.data);
}

// Weight of a result and a channel at a point, where the panels have it.
static float weight_at(const scene *s, int64_t point, int64_t n, int64_t c) {
  const int64_t even = (s->channels + 1) / 2 * 2;
  return s->weights[point * og_winograd_point(s->n, s->channels) +
                    (n / OG_PANEL * even + c) * OG_PANEL + n % OG_PANEL];
}

static void points_sum(const scene *s) {
  const int64_t tiles = (s->end - s->begin) * og_winograd_columns(&s->c);
  for (int64_t p = 0; p < OG_WINOGRAD_POINTS; ++p)
    for (int64_t t = 0; t < tiles; ++t)
      for (int64_t n = 0; n < s->n; ++n) {
        const float *x =
            s->elements.data + p * s->elements.point + t * s->elements.tile;
        float sum = 0;
        for (int64_t c = 0; c < s->channels; ++c)
          sum += x[c] * weight_at(s, p, n, c);
        s->sums.data[p * s->sums.point + t * s->sums.tile + n] = sum;
      }
}

static int scene_run(const scene *s, const og_winograd_kernels *kernels) {
  const int64_t plane = s->c.in[0] * s->c.in[1];
  kernels->pack(s->w, s->n, s->channels, 0, (s->n + OG_PANEL - 1) / OG_PANEL,
                og_winograd_point(s->n, s->channels), s->weights);
  kernels->read(&s->c, s->x, plane, s->channels, s->begin, s->end, s->elements,
                s->scratch);
  points_sum(s);
  return kernels->write(&s->c, s->sums, s->bias, s->n, s->begin, s->end, s->y,
                        og_conv_pixels(&s->c), s->scratch);
}

static double exact_of(const scene *s, int64_t n, int64_t pixel) {
  const og_conv *c = &s->c;
  double sum = s->bias != NULL ? s->bias[n] : 0;
  for (int64_t i = 0; i < s->channels; ++i)
    for (int64_t t = 0; t < OG_WINOGRAD_TAPS; ++t) {
      const int64_t y = pixel / c->out[1] - c->padding[0] + t / 3;
      const int64_t x = pixel % c->out[1] - c->padding[1] + t % 3;
      if (y >= 0 && y < c->in[0] && x >= 0 && x < c->in[1])
        sum += (double)s->x[(i * c->in[0] + y) * c->in[1] + x] *
               s->w[(n * s->channels + i) * OG_WINOGRAD_TAPS + t];
    }
  return sum;
}

// Pixels of the rows; others are not written.
static bool results_hold(const scene *s) {
  const int64_t width = s->c.out[1], first = s->begin * 2 * width;
  int64_t last = s->end * 2 * width;
  if (last > og_conv_pixels(&s->c)) last = og_conv_pixels(&s->c);
  for (int64_t n = 0; n < s->n; ++n)
    for (int64_t i = first; i < last; ++i) {
      const float found = s->y[n * og_conv_pixels(&s->c) + i - first];
      const double exact = exact_of(s, n, i);
      // Infinite and NaN ones are for the caller to compute again.
      if (isfinite(exact) && isfinite(found) && fabs(found - exact) > 1e-3)
        return false;
      if (!isfinite(exact) && isfinite(found)) return false;
    }
  return true;
}

typedef struct memories {
  guarded x, w, y, bias;
} memories;

static scene scene_draw(const memories *m, int round) {
  scene s = {.c = conv_draw(),
             .channels = draw(1, CHANNELS_MOST),
             .n = draw(1, CHANNELS_MOST)};
  const int64_t rows = og_winograd_rows(&s.c);
  const int64_t elements = s.channels * s.c.in[0] * s.c.in[1];
  const int64_t taps = s.n * s.channels * OG_WINOGRAD_TAPS;
  s.begin = draw(0, rows);
  s.end = draw(s.begin + 1, rows + 1);
  // The first row that is written stands at the front.
  const int64_t pixels = s.n * og_conv_pixels(&s.c) - s.begin * 2 * s.c.out[1];
  float *x =
      (float *)(void *)(round % 2
                            ? guarded_end(&m->x, (size_t)elements * sizeof *x)
                            : guarded_begin(&m->x));
  float *w = (float *)(void *)guarded_end(&m->w, (size_t)taps * sizeof *w);
  float *bias =
      (float *)(void *)guarded_end(&m->bias, (size_t)s.n * sizeof *bias);
  fill(x, elements);
  fill(w, taps);
  fill(bias, s.n);
  s.x = x;
  s.w = w;
  s.bias = round % 3 ? bias : NULL;
  s.y = (float *)(void *)guarded_end(&m->y, (size_t)pixels * sizeof *s.y);
  return s;
}

static bool memories_init(memories *m) {
  return guarded_init(&m->x, FLOATS_MOST * sizeof(float)) &&
         guarded_init(&m->w, CHANNELS_MOST * CHANNELS_MOST * OG_WINOGRAD_TAPS *
                                 sizeof(float)) &&
         guarded_init(&m->y, FLOATS_MOST * sizeof(float)) &&
         guarded_init(&m->bias, CHANNELS_MOST * sizeof(float));
}

static void memories_reset(memories *m) {
  guarded_reset(&m->x);
  guarded_reset(&m->w);
  guarded_reset(&m->y);
  guarded_reset(&m->bias);
}

TEST(convolutions) {
  enum { ROUNDS = 200 };
  memories m = {0};
  scene s = {0};
  REQUIRE(memories_init(&m));
  for (int round = 0; round < ROUNDS; ++round) {
    s = scene_draw(&m, round);
    REQUIRE(scene_alloc(&s));
    for (int k = 0; k < SETS; ++k) {
      if (sets[k].isa > og_isa_used()) continue;
      CHECK(scene_run(&s, sets[k].kernels) == 0);
      CHECK(results_hold(&s));
    }
    scene_free(&s);
    s = (scene){0};
  }
done:
  scene_free(&s);
  memories_reset(&m);
}

// Every pixel whose taps read one that is not finite is not finite either, and
// the kernel says that there are some.
TEST(not_finite) {
  enum { ROUNDS = 100 };
  static const float specials[] = {NAN, INFINITY, -INFINITY};
  memories m = {0};
  scene s = {0};
  REQUIRE(memories_init(&m));
  for (int round = 0; round < ROUNDS; ++round) {
    s = scene_draw(&m, round);
    REQUIRE(scene_alloc(&s));
    const int64_t elements = s.channels * s.c.in[0] * s.c.in[1];
    ((float *)(uintptr_t)s.x)[draw(0, elements)] = specials[draw(0, 3)];
    for (int k = 0; k < SETS; ++k) {
      if (sets[k].isa > og_isa_used()) continue;
      const int seen = scene_run(&s, sets[k].kernels);
      CHECK(results_hold(&s));
      int64_t last = s.end * 2 < s.c.out[0] ? s.end * 2 : s.c.out[0];
      last = (last - s.begin * 2) * s.c.out[1];
      int is_any = 0;
      for (int64_t n = 0; n < s.n; ++n)
        for (int64_t i = 0; i < last; ++i)
          is_any |= !isfinite(s.y[n * og_conv_pixels(&s.c) + i]);
      CHECK_EQ(seen, is_any);
    }
    scene_free(&s);
    s = (scene){0};
  }
done:
  scene_free(&s);
  memories_reset(&m);
}

// Files take packed weights from one machine to another (docs/graph-file.md).
TEST(every_set_packs_the_same_bits) {
  enum { N = 35, CHANNELS = 37, TAPS = OG_WINOGRAD_TAPS };
  static float w[N * CHANNELS * TAPS];
  const size_t bytes = og_winograd_bytes(N, CHANNELS);
  const int64_t point = og_winograd_point(N, CHANNELS);
  float *first = malloc(bytes), *packed = malloc(bytes);
  REQUIRE(first != NULL && packed != NULL);
  fill(w, N * CHANNELS * TAPS);
  // Halves of these are not exact.
  for (int64_t i = 0; i < N * CHANNELS * TAPS; i += 5) w[i] *= 1e-41f;
  for (int k = 0; k < SETS; ++k) {
    if (sets[k].isa > og_isa_used()) continue;
    float *to = k == 0 ? first : packed;
    memset(to, 0xff, bytes);
    sets[k].kernels->pack(w, N, CHANNELS, 0, (N + OG_PANEL - 1) / OG_PANEL,
                          point, to);
    CHECK(k == 0 || memcmp(first, packed, bytes) == 0);
  }
done:
  free(first);
  free(packed);
}

TEST(what_it_takes) {
  og_conv c = {.in = {9, 8},
               .out = {7, 6},
               .taps = {3, 3},
               .stride = {1, 1},
               .dilation = {1, 1}};
  CHECK(og_winograd_takes(&c));
  CHECK_EQ(og_winograd_rows(&c), 4);
  CHECK_EQ(og_winograd_columns(&c), 3);
  c.stride[1] = 2;
  CHECK(!og_winograd_takes(&c));
  c.stride[1] = 1;
  c.dilation[0] = 2;
  CHECK(!og_winograd_takes(&c));
  c.dilation[0] = 1;
  c.taps[0] = 1;
  CHECK(!og_winograd_takes(&c));
}

TEST_MAIN("kernel_winograd", CASE_NO_FAULTS(convolutions),
          CASE_NO_FAULTS(not_finite),
          CASE_NO_FAULTS(every_set_packs_the_same_bits),
          CASE_NO_FAULTS(what_it_takes))
