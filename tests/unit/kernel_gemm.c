// SPDX-License-Identifier: Apache-2.0
// The packed contraction of every instruction set that the machine has, against
// sums in double: sizes that fill no tile, strides, types, packing, int8
// weights, the hook, runs of sums, and that a row's result depends on nothing
// but the row.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/tables.h"
#include "tests/unit/test.h"

typedef struct set {
  const char *name;
  og_isa isa;
  const og_gemm_kernels *kernels;
} set;

static const set sets[] = {
#define OG_ISA(name, level, machine, test) \
  machine({#name, OG_ISA_##level, &og_gemm_##name}, )
#include "base/isa.def"
#undef OG_ISA
};
enum { SETS = sizeof sets / sizeof *sets };

// Only bf16 has kernels of the sets with dots.
static bool has_dots(const set *s) { return s->isa >= OG_ISA_AVX512_BF16; }
static bool is_run(const set *s, int element) {
  return s->isa <= og_isa_used() && (element == OG_BF16 || !has_dots(s));
}

static uint32_t seed = 1;
static float draw(void) {
  seed = seed * 1664525u + 1013904223u;
  return (float)(seed >> 8) / (1 << 23) - 1;
}

static float value_at(const void *p, int64_t i, int element) {
  const void *at = og_at(p, i, element);
  if (element == OG_BF16) return og_bfloat_to_float(*(const og_bfloat *)at);
  if (element == OG_F16) return og_half_to_float(*(const og_half *)at);
  return *(const float *)at;
}

static void value_put(void *p, int64_t i, int element, float x) {
  void *at = og_at(p, i, element);
  if (element == OG_BF16)
    *(og_bfloat *)at = og_bfloat_from_float(x);
  else if (element == OG_F16)
    *(og_half *)at = og_half_from_float(x);
  else
    *(float *)at = x;
}

// One contraction and its operands.
typedef struct problem {
  int64_t m, n, k, x_stride, y_stride;
  int element;
  int narrow;  // a type of 8 or 4 bits, or 0
  bool has_short_rows;
  bool is_wide, has_bias;
  bool is_rounded;    // x and w are f32, panels bf16
  bool is_x_rounded;  // by the set that ran
  int32_t act;
  char *x, *w, *bias, *packed, *y, *scratch;
  char *rows;     // x in 16 or 8 bits
  float *scales;  // of 8 and 4 bits
} problem;

static void problem_free(problem *p) {
  free(p->x);
  free(p->w);
  free(p->bias);
  free(p->packed);
  free(p->y);
  free(p->scratch);
  free(p->rows);
  free(p->scales);
}

static int64_t panels_of(const problem *p) {
  return (p->n + OG_PANEL - 1) / OG_PANEL;
}

static int to_of(const problem *p) { return p->is_wide ? OG_F32 : p->element; }

static size_t y_bytes(const problem *p) {
  return (size_t)(p->m * p->y_stride + 1) * 4;
}

static int weights_of(const problem *p) {
  return p->narrow ? p->narrow : p->is_rounded ? OG_BF16 : p->element;
}

// Sets with dots have no kernels of int8.
static int kernels_of(const problem *p) {
  return p->narrow ? OG_F32 : p->is_rounded ? OG_BF16 : p->element;
}

static void values_draw(void *to, int64_t count, int element) {
  for (int64_t i = 0; i < count; ++i) value_put(to, i, element, draw());
}

// Allocates, draws and packs.
static bool problem_make(problem *p) {
  const int packed = weights_of(p);
  const size_t weights = (size_t)(p->n * p->k + 1);
  p->x = malloc((size_t)(p->m * p->x_stride + 1) * 4);
  p->w = malloc(weights * 4);
  p->bias = malloc((size_t)(p->n + 1) * 4);
  p->packed = malloc(og_packed_bytes(p->n, p->k, packed) + 1);
  p->y = malloc(y_bytes(p));
  p->scratch = malloc(OG_GEMM_SCRATCH);
  p->rows = malloc((size_t)(p->m * og_gemm_row_bytes(p->k) + 1));
  p->scales = malloc((size_t)(panels_of(p) * OG_PANEL + 1) * 4);
  if (!p->x || !p->w || !p->bias || !p->packed || !p->y || !p->scratch ||
      !p->rows || !p->scales)
    return false;
  values_draw(p->x, p->m * p->x_stride, p->element);
  values_draw(p->w, p->n * p->k, p->element);
  values_draw(p->bias, p->n, p->element);
  const og_gemm_weights w = {p->w, p->n,       p->k,         p->k,
                             1,    p->element, p->is_rounded};
  double lost = 0, size = 0;
  if (p->narrow)
    og_gemm_quantize(&w,
                     &(og_gemm_narrow){p->narrow, 0, panels_of(p),
                                       (uint8_t *)p->packed, p->scales},
                     &lost, &size);
  else
    og_gemm_pack(&w, 0, panels_of(p), p->packed);
  return true;
}

static void problem_run(const problem *p, const set *s, int64_t row,
                        int64_t rows, int64_t begin, int64_t end, og_epilogue e,
                        void *y) {
  e.bias = p->has_bias ? p->bias : NULL;
  e.act = p->act;
  e.wide = p->is_wide;
  e.scales = p->narrow ? p->scales : NULL;
  e.has_short_rows = p->has_short_rows;
  memset(p->scratch, 0xff, OG_GEMM_SCRATCH);  // NaN: nothing is read unwritten
  const void *x = og_at(p->x, row * p->x_stride, p->element);
  int64_t x_stride = p->x_stride;
  if (p->narrow) {
    x_stride = og_gemm_row_bytes(p->k);
    memset(p->rows, 0xff, (size_t)(rows * x_stride));
    for (int64_t r = 0; r < rows; ++r)
      s->kernels->quantize(og_at(x, r * p->x_stride, p->element), p->k,
                           p->element, p->has_short_rows ? p->narrow : 0,
                           p->rows + r * x_stride);
    x = p->rows;
  }
  s->kernels->run(x, x_stride, p->packed, rows, p->n, p->k, begin, end,
                  p->packed, y, p->y_stride, e, p->scratch, p->element,
                  weights_of(p));
}

static float narrowed(float x) {
  return og_bfloat_to_float(og_bfloat_from_float(x));
}

// Of column n and step k, as it is multiplied.
static float weight_of(const problem *p, int64_t n, int64_t k) {
  const int64_t quads = (p->k + 3) / 4 * OG_PANEL;  // of a panel
  const int64_t quad = n / OG_PANEL * quads + k / 4 * OG_PANEL + n % OG_PANEL;
  const uint8_t *packed = (const uint8_t *)p->packed;
  if (p->narrow == OG_I8)
    return (float)(packed[quad * 4 + k % 4] - 128) * p->scales[n];
  if (og_has_groups(p->narrow)) {
    const int64_t group = og_group_steps(p->narrow);
    const bool is_nibbles = og_is_nibbles(p->narrow);
    const int64_t each = og_has_zeros(p->narrow) ? 2 : 1,
                  steps = is_nibbles ? 8 : 4;
    const void *groups =
        packed + og_packed_bytes(n / OG_PANEL * OG_PANEL, p->k, p->narrow);
    const uint8_t *panel =
        (const uint8_t *)groups + og_group_bytes(p->k, p->narrow);
    const int byte = panel[(k / steps * OG_PANEL + n % OG_PANEL) * 4 + k % 4];
    const int64_t at = k / group * each * OG_PANEL + n % OG_PANEL;
    const int code =
        !is_nibbles ? byte - 128 : (k % 8 < 4 ? byte & 15 : byte >> 4) - 8;
    const float zero = each == 2 ? value_at(groups, at + OG_PANEL, OG_F16) : 0;
    return ((float)code + zero) * p->scales[n] * value_at(groups, at, OG_F16);
  }
  const float w = value_at(p->w, n * p->k + k, p->element);
  return p->is_rounded ? narrowed(w) : w;
}

// The largest magnitude of a row, as its scale has it.
static float row_most(const problem *p, int64_t r) {
  float most = 0x1p-100f;
  for (int64_t k = 0; k < p->k; ++k)
    most = fmaxf(most, fabsf(value_at(p->x, r * p->x_stride + k, p->element)));
  return most;
}

// x as it is multiplied, but for 16 bits: those lose little.
static double x_of(const problem *p, float given, float most) {
  if (p->has_short_rows)
    return (double)rintf(given * (127 / most)) * (double)(most / 127);
  return (double)(p->is_x_rounded ? narrowed(given) : given);
}

static double wanted_at(const problem *p, int64_t r, int64_t n,
                        double *out_size) {
  const float most = p->narrow ? row_most(p, r) : 0;
  double sum = 0, size = 0, weights = 0;
  for (int64_t k = 0; k < p->k; ++k) {
    const double x =
        x_of(p, value_at(p->x, r * p->x_stride + k, p->element), most);
    const double w = (double)weight_of(p, n, k);
    sum += x * w;
    size += fabs(x * w);
    weights += fabs(w);
  }
  // is_right counts 2e-6 of the size.
  if (p->narrow && !p->has_short_rows)
    size += (double)most / 65278 * weights / 2e-6;
  if (p->has_bias) sum += (double)value_at(p->bias, n, p->element);
  *out_size = size + fabs(sum);
  return p->act == OG_ACT_RELU && sum < 0 ? 0 : sum;
}

// y in columns [begin, end), and 0xff everywhere else.
static bool is_right(const problem *p, int64_t begin, int64_t end) {
  const int to = to_of(p);
  const double rounds = to == OG_F32 ? 0 : to == OG_BF16 ? 0.005 : 0.0006;
  const size_t item = og_element_bytes(to);
  for (int64_t r = 0; r < p->m; ++r)
    for (int64_t n = 0; n < p->y_stride; ++n) {
      const int64_t i = r * p->y_stride + n;
      if (n < begin || n >= end) {
        if (memcmp(og_at(p->y, i, to), "\xff\xff\xff\xff", item) != 0)
          return false;
        continue;
      }
      double size;
      const double wanted = wanted_at(p, r, n, &size);
      const double off = fabs((double)value_at(p->y, i, to) - wanted);
      if (!(off <= 2e-6 * size + rounds * fabs(wanted) + 1e-6)) return false;
    }
  return true;
}

static const int elements[] = {OG_F32, OG_BF16, OG_F16};

// --- Sizes

static void problem_check(problem *p, int64_t begin, int64_t end) {
  REQUIRE(problem_make(p));
  for (int i = 0; i < SETS; ++i) {
    if (!is_run(&sets[i], kernels_of(p))) continue;
    p->is_x_rounded = p->is_rounded && has_dots(&sets[i]);
    for (int dots = 0; dots < 2; ++dots) {
      memset(p->y, 0xff, y_bytes(p));
      problem_run(p, &sets[i], 0, p->m, begin, end,
                  (og_epilogue){.dots_last = dots}, p->y);
      const int64_t last = end * OG_PANEL < p->n ? end * OG_PANEL : p->n;
      if (!CHECK(is_right(p, begin * OG_PANEL, last)))
        printf("%s: element %d, panels %d, wide %d, dots %d: %d x %d x %d\n",
               sets[i].name, p->element, weights_of(p), p->is_wide, dots,
               (int)p->m, (int)p->n, (int)p->k);
    }
  }
done:
  problem_free(p);
}

static int narrow_of(int form, int size) {
  if (form == 2 || form == 3 || form == 8) return OG_I8;
  return form >= 6 ? OG_I4_32 + (form + size) % 9 : 0;
}

TEST(sizes) {
  static const int32_t sizes[][4] = {
      // m, n, k, elements between rows of x beyond k
      {0, 5, 3, 0},     {2, 5, 0, 0},      {9, 20, 0, 4},     {1, 1, 1, 0},
      {1, 64, 33, 0},   {1, 200, 300, 3},  {2, 150, 257, 1},  {3, 95, 64, 0},
      {3, 160, 513, 7}, {4, 130, 255, 0},  {5, 64, 256, 2},   {6, 47, 100, 0},
      {7, 16, 700, 0},  {8, 129, 1024, 0}, {13, 33, 17, 5},   {15, 144, 512, 0},
      {29, 70, 259, 0}, {100, 48, 40, 0},  {130, 17, 300, 0}, {4, 48, 100, 0},
      {7, 100, 513, 3}, {8, 96, 770, 0},   {197, 49, 192, 0}, {3, 33, 0, 0}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
    for (int e = 0; e < 3; ++e)
      for (int form = 0; form < 10; ++form) {
        if ((form == 4 || form == 5) && elements[e] != OG_F32) continue;
        const int64_t k = sizes[i][2];
        problem p = {.m = sizes[i][0],
                     .n = sizes[i][1],
                     .k = k,
                     .x_stride = k + sizes[i][3],
                     .y_stride = sizes[i][1] + (form == 1 ? 5 : 0),
                     .element = elements[e],
                     .narrow = narrow_of(form, (int)i),
                     .has_short_rows = form >= 8,
                     .is_rounded = form == 4 || form == 5,
                     .is_wide = form % 2 == 1,
                     .has_bias = form != 3,
                     .act = form == 1 ? OG_ACT_RELU : OG_ACT_NONE};
        problem_check(&p, 0, panels_of(&p));
      }
}

// Some panels of many, and a row as long as a row may be.
TEST(parts) {
  for (int e = 0; e < 3; ++e)
    for (int64_t m = 1; m <= 9; m += 4) {
      problem p = {.m = m, .n = 150, .k = 70, .x_stride = 70, .y_stride = 150};
      p.element = elements[e];
      problem_check(&p, 1, 6);
      p = (problem){.m = 7, .n = 3, .k = OG_GEMM_MAX_K - (m == 1)};
      p.x_stride = p.k;
      p.y_stride = 3;
      p.element = elements[e];
      problem_check(&p, 0, 1);
    }
}

// --- Packing

// Each element where it belongs, zeros around them, and nothing beyond.
static void pack_check(const set *s, const og_gemm_weights *w, char *packed) {
  const int64_t k_even = (w->k + 1) / 2 * 2;
  const int64_t columns = (w->n + OG_PANEL - 1) / OG_PANEL * OG_PANEL;
  const int type = og_panels_type(w);
  const size_t item = og_element_bytes(type);
  const size_t bytes = og_packed_bytes(w->n, w->k, type);
  memset(packed, 0xff, bytes + 1);
  s->kernels->pack(w, 0, columns / OG_PANEL, packed);
  for (int64_t n = 0; n < columns; ++n)
    for (int64_t k = 0; k < k_even; ++k) {
      const int64_t panel = n / OG_PANEL * k_even * OG_PANEL;
      const int64_t place = type == OG_BF16
                                ? (k / 2 * OG_PANEL + n % OG_PANEL) * 2 + k % 2
                                : k * OG_PANEL + n % OG_PANEL;
      const void *at = og_at(packed, panel + place, type);
      const bool is_zero = n >= w->n || k >= w->k;
      const void *from =
          is_zero
              ? "\0\0\0"
              : og_at(w->data, n * w->n_stride + k * w->k_stride, w->element);
      og_bfloat near = {0};
      if (w->is_rounded) {
        near = og_bfloat_from_float(*(const float *)from);
        from = &near;
      }
      if (CHECK(memcmp(at, from, item) == 0)) continue;
      printf("%s: element %d as %d, n %d of %d, k %d of %d\n", s->name,
             w->element, type, (int)n, (int)w->n, (int)k, (int)w->k);
      return;
    }
  CHECK((unsigned char)packed[bytes] == 0xff);
}

// The last element of the weights is the last of its memory.
static void packs_check(int64_t n, int64_t k, int element, int64_t n_stride,
                        int64_t k_stride, int is_rounded) {
  const int64_t places =
      n * k == 0 ? 0 : (n - 1) * n_stride + (k - 1) * k_stride + 1;
  const size_t bytes = (size_t)places * og_element_bytes(element);
  char *data = malloc(bytes),
       *packed = malloc(og_packed_bytes(n, k, OG_F32) + 1);
  REQUIRE(packed != NULL && (data != NULL || bytes == 0));
  for (size_t i = 0; i < bytes; ++i) {
    seed = seed * 1664525u + 1013904223u;
    data[i] = (char)(seed >> 24);
  }
  if (is_rounded) values_draw(data, places, element);  // no NaN
  const og_gemm_weights w = {data,     n,       k,         n_stride,
                             k_stride, element, is_rounded};
  for (int i = 0; i < SETS; ++i)
    if (is_run(&sets[i], og_panels_type(&w))) pack_check(&sets[i], &w, packed);
done:
  free(data);
  free(packed);
}

TEST(packs) {
  static const int32_t ns[] = {1, 7, 15, 16, 17, 48, 53, 130};
  static const int32_t ks[] = {0, 1, 2, 15, 16, 17, 31, 64, 65, 130};
  for (size_t i = 0; i < sizeof ns / sizeof *ns; ++i)
    for (size_t j = 0; j < sizeof ks / sizeof *ks; ++j)
      for (int type = OG_F32; type <= OG_F16 + 1; ++type) {
        const int64_t n = ns[i], k = ks[j];
        const int is_rounded = type > OG_F16;
        const int element = is_rounded ? OG_F32 : type;
        packs_check(n, k, element, k + 3, 1, is_rounded);
        packs_check(n, k, element, 1, n, is_rounded);
        packs_check(n, k, element, 2, 2 * n + 1, is_rounded);
        packs_check(n, k, element, 0, 1, is_rounded);
      }
}

// Every element where it belongs; what lies between two rows stays.
static void transpose_check(const set *s, int64_t rows, int64_t columns,
                            int64_t from_stride, int64_t to_stride) {
  const int64_t places = (columns - 1) * from_stride + rows;
  const int64_t room = (rows - 1) * to_stride + columns;
  float *from = malloc((size_t)places * 4), *to = malloc((size_t)room * 4);
  REQUIRE(from != NULL && to != NULL);
  for (int64_t i = 0; i < places; ++i) from[i] = (float)i;
  for (int64_t i = 0; i < room; ++i) to[i] = -1;
  s->kernels->transpose(from, from_stride, rows, columns, to, to_stride);
  for (int64_t i = 0; i < room; ++i) {
    const int64_t r = i / to_stride, k = i % to_stride;
    const float wanted = k < columns ? (float)(k * from_stride + r) : -1;
    if (CHECK(to[i] == wanted)) continue;
    printf("%s: row %d of %d, column %d of %d\n", s->name, (int)r, (int)rows,
           (int)k, (int)columns);
    break;
  }
done:
  free(from);
  free(to);
}

TEST(transposes) {
  static const int32_t sizes[] = {1, 3, 15, 16, 17, 32, 37, 64};
  enum { COUNT = sizeof sizes / sizeof *sizes };
  for (int i = 0; i < SETS; ++i) {
    if (!is_run(&sets[i], OG_F32)) continue;
    for (size_t r = 0; r < COUNT; ++r)
      for (size_t k = 0; k < COUNT; ++k) {
        transpose_check(&sets[i], sizes[r], sizes[k], sizes[r], sizes[k]);
        transpose_check(&sets[i], sizes[r], sizes[k], sizes[r] + 5,
                        sizes[k] + 1);
      }
  }
}

// --- A row's result depends on the row alone

TEST(rows_stand_alone) {
  for (int e = 0; e < 3; ++e)
    for (int form = 0; form < 9; ++form) {
      // 145 leaves the last column alone in its panel.
      const int32_t n_all = form / 2 == 0 ? 150 : 145;
      // Once sums have stages.
      const int64_t k =
          e == 0 && (form == 1 || form == 5 || form == 8) ? 4700 : 600;
      problem p = {.m = 37, .n = n_all, .k = k, .x_stride = k};
      p.y_stride = p.n;
      p.element = elements[e];
      p.has_short_rows = form >= 7;
      p.narrow = form == 8       ? OG_I4_32 + 4 * e
                 : form == 7     ? OG_I8
                 : form >= 4     ? OG_I4_32 + 3 * (form - 4) + e
                 : form % 2 == 1 ? OG_I8
                                 : 0;
      p.is_wide = true;
      REQUIRE(problem_make(&p));
      for (int i = 0; i < SETS; ++i) {
        if (!is_run(&sets[i], kernels_of(&p))) continue;
        const og_epilogue dots = {.dots_last = 1};
        problem_run(&p, &sets[i], 0, p.m, 0, panels_of(&p), dots, p.y);
        // Heights that take every form of a tile, also in other parts of n.
        static float part[37 * 150];
        for (int64_t rows = 1; rows <= 17; ++rows)
          for (int64_t row = 0; row + rows <= p.m; row += rows) {
            for (int64_t n = 0; n < panels_of(&p); n += 3)
              problem_run(&p, &sets[i], row, rows, n,
                          n + 3 < panels_of(&p) ? n + 3 : panels_of(&p), dots,
                          part);
            CHECK(memcmp(part, p.y + row * p.n * 4, (size_t)(rows * p.n) * 4) ==
                  0);
          }
      }
    done:
      problem_free(&p);
    }
}

// --- The hook

typedef struct hooked {
  const problem *p;
  float *y;  // what the hook saw, [m, n]
  int *times;
  int calls, worker;
} hooked;

static void part_take(void *state, void *y, int64_t y_stride, int64_t row,
                      int64_t rows, int64_t column, int64_t columns,
                      int worker) {
  hooked *h = state;
  ++h->calls;
  h->worker = worker;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t i = (row + r) * h->p->n + column + c;
      ++h->times[i];
      h->y[i] = value_at(y, r * y_stride + c, to_of(h->p));
      value_put(y, r * y_stride + c, to_of(h->p), 7);
    }
}

// Of runs into y and into scratch, with panels far and near: every element
// once, complete, and what the hook writes stays.
static void hook_check(const problem *p, const set *s, hooked *h) {
  const int64_t panels = panels_of(p);
  problem_run(p, s, 0, p->m, 0, panels, (og_epilogue){0}, p->y);
  for (int form = 0; form < (p->is_wide ? 4 : 2); ++form) {
    const int is_near = form % 2, is_lent = form / 2;
    void *y = is_lent ? NULL : malloc(y_bytes(p));
    memset(h->times, 0, (size_t)(p->m * p->n) * sizeof *h->times);
    h->calls = 0;
    const og_epilogue e = {.tile = part_take,
                           .state = h,
                           .worker = 5,
                           .result = is_lent ? h->y : NULL,
                           .result_row_bytes = p->n * (int64_t)sizeof *h->y,
                           .has_near_panels = is_near};
    problem_run(p, s, 0, p->m, 0, panels, e, y);
    for (int64_t i = 0; i < p->m * p->n; ++i) {
      const int64_t at = i / p->n * p->y_stride + i % p->n;
      CHECK_EQ(h->times[i], 1);
      CHECK(h->y[i] == value_at(p->y, at, to_of(p)));
      if (y != NULL) CHECK(value_at(y, at, to_of(p)) == 7);
    }
    CHECK_EQ(h->worker, 5);
    CHECK(h->calls > 1 || p->n <= 128);
    free(y);
  }
}

TEST(hook) {
  static const int32_t sizes[][2] = {{1, 300}, {2, 133}, {3, 300},   {4, 250},
                                     {5, 17},  {9, 260}, {230, 150}, {40, 64}};
  static float seen[230 * 150];
  static int times[230 * 150];
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
    for (int e = 0; e < 3; ++e)
      for (int wide = 0; wide < 2; ++wide) {
        problem p = {.m = sizes[i][0], .n = sizes[i][1], .k = 300};
        p.x_stride = p.k;
        p.y_stride = p.n + 2;
        p.element = elements[e];
        p.is_wide = wide == 1;
        p.has_bias = true;
        REQUIRE(problem_make(&p));
        hooked h = {.p = &p, .y = seen, .times = times};
        for (int s = 0; s < SETS; ++s)
          if (is_run(&sets[s], kernels_of(&p))) hook_check(&p, &sets[s], &h);
      done:
        problem_free(&p);
      }
}

// --- int8

// Of panel 0: what element k of column n became.
static int byte_at(const uint8_t *panel, int64_t n, int64_t k) {
  return panel[k / 4 * 4 * OG_PANEL + n * 4 + k % 4] - 128;
}

static void panel_check(const og_gemm_weights *w, int is_odd) {
  enum { K_WHOLE = 52 };
  uint8_t panel[K_WHOLE * OG_PANEL];
  float scales[OG_PANEL];
  double lost = 0, size = 0, wanted = 0;
  memset(panel, 7, sizeof panel);
  og_gemm_quantize(w, &(og_gemm_narrow){OG_I8, 0, 1, panel, scales}, &lost,
                   &size);
  if (is_odd) CHECK(isnan(lost) && isnan(size));
  if (is_odd) return;
  for (int64_t n = 0; n < OG_PANEL; ++n)
    for (int64_t k = 0; k < K_WHOLE; ++k) {
      const int byte = byte_at(panel, n, k);
      const float x =
          n < w->n && k < w->k ? ((const float *)w->data)[k * w->n + n] : 0;
      CHECK(fabsf((float)byte * scales[n] - x) <= 0.5001f * scales[n]);
      wanted += pow((double)x - (double)byte * (double)scales[n], 2);
    }
  CHECK(scales[1] == 0);
  CHECK(scales[2] == 9.0f / 127);
  CHECK_EQ(byte_at(panel, 2, 1), -127);
  CHECK(fabs(lost - wanted) <= 1e-5 * wanted);
  CHECK(size > lost);
}

TEST(quantize) {
  enum { N = 3, K = 50 };
  float w[K * N];  // [k][n]
  for (int i = 0; i < K * N; ++i) w[i] = i % N == 1 ? 0 : draw() * 3;
  w[2] = NAN;
  w[5] = -9;
  const og_gemm_weights of = {w, N, K, 1, N, OG_F32, 0};
  panel_check(&of, 1);
  w[2] = 1;
  panel_check(&of, 0);
}

// Beside the product of what was given: a format loses what its weights lose.
static void format_check(int narrow, bool has_short_rows, double most) {
  static const int32_t sizes[][2] = {{1, 64}, {1, 2048}, {5, 4096}, {9, 33}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    problem p = {.m = sizes[i][0], .n = 96, .k = sizes[i][1], .narrow = narrow};
    p.x_stride = p.k;
    p.y_stride = p.n;
    p.has_short_rows = has_short_rows;
    REQUIRE(problem_make(&p));
    for (int s = 0; s < SETS; ++s) {
      if (!is_run(&sets[s], OG_F32)) continue;
      double off = 0, format = 0, rows = 0, all = 0;
      problem_run(&p, &sets[s], 0, p.m, 0, panels_of(&p), (og_epilogue){0},
                  p.y);
      for (int64_t at = 0; at < p.m * p.n; ++at) {
        double exact = 0, rounded = 0, size;
        for (int64_t k = 0; k < p.k; ++k) {
          const double x = (double)((float *)p.x)[at / p.n * p.k + k];
          exact += x * (double)((float *)p.w)[at % p.n * p.k + k];
          rounded += x * (double)weight_of(&p, at % p.n, k);
        }
        rows += pow(wanted_at(&p, at / p.n, at % p.n, &size) - rounded, 2);
        off += pow((double)((float *)p.y)[at] - exact, 2);
        format += pow(rounded - exact, 2);
        all += exact * exact;
      }
      printf(
          "%s, type %d: %d x 96 x %d: error %.4e, the format's own %.4e, "
          "the rows' %.4e\n",
          sets[s].name, narrow, (int)p.m, (int)p.k, sqrt(off / all),
          sqrt(format / all), sqrt(rows / all));
      CHECK(sqrt(off) <= 1.005 * (sqrt(format) + sqrt(rows)));
      CHECK(rows <= (has_short_rows ? 5e-5 : 1e-20) * all);
      CHECK(format < most * most * all);
    }
  done:
    problem_free(&p);
  }
}

TEST(formats_beside_double) {
  for (int is_short = 0; is_short < 2; ++is_short)
    for (int type = OG_I8; type <= OG_U8_128; ++type)
      format_check(type, is_short == 1, og_is_nibbles(type) ? 0.1 : 0.006);
}

// Weights that came as codes, whose groups span several of the type's: they are
// multiplied bit for bit.
static void codes_check(int type, int64_t n, int64_t k, int64_t group,
                        bool has_zeros, bool is_turned) {
  const int last = og_is_nibbles(type) ? 15 : 255;
  const int64_t groups = (k + group - 1) / group;
  problem p = {.m = 1, .n = n, .k = k, .x_stride = k, .y_stride = n};
  p.narrow = type;
  uint8_t *codes = malloc((size_t)(n * k));
  float *scales = malloc((size_t)(n * groups) * 8),
        *zeros = scales + n * groups;
  REQUIRE(problem_make(&p) && codes != NULL && scales != NULL);
  for (int64_t i = 0; i < n * k; ++i)
    codes[i] = (uint8_t)((draw() + 1) * 0.5f * ((float)last + 0.999f));
  for (int64_t i = 0; i < n * groups; ++i) {
    scales[i] = og_half_to_float(og_half_from_float(draw() * 0.01f + 0.02f));
    zeros[i] = floorf((draw() + 1) * 0.5f * (float)last);
  }
  const og_gemm_codes of = {.data = codes,
                            .n = n,
                            .k = k,
                            .n_stride = is_turned ? 1 : k,
                            .k_stride = is_turned ? n : 1,
                            .scales = scales,
                            .zeros = has_zeros ? zeros : NULL,
                            .group = group};
  const og_gemm_narrow to = {type, 0, panels_of(&p), (uint8_t *)p.packed,
                             p.scales};
  for (int s = 0; s < SETS; ++s) {
    if (!is_run(&sets[s], OG_F32)) continue;
    memset(p.packed, 0xff, og_packed_bytes(n, k, type));
    CHECK(sets[s].kernels->codes_pack(&of, &to));
    bool is_same = true;
    for (int64_t i = 0; i < n * k; ++i) {
      const int64_t at = i / k * of.n_stride + i % k * of.k_stride;
      const int64_t g = i / k * groups + i % k / group;
      const float zero = has_zeros ? zeros[g] : (float)(last / 2 + 1);
      is_same &=
          weight_of(&p, i / k, i % k) == scales[g] * ((float)codes[at] - zero);
    }
    if (!CHECK(is_same))
      printf("%s: codes of type %d, %d x %d\n", sets[s].name, type, (int)n,
             (int)k);
  }
  CHECK(og_gemm_codes_pack(&of, &to));
  zeros[0] = 1e6f;
  CHECK_EQ(og_gemm_codes_pack(&of, &to), !has_zeros);
  zeros[0] = 0;
  scales[n * groups - 1] = NAN;
  CHECK(!og_gemm_codes_pack(&of, &to));
done:
  problem_free(&p);
  free(codes);
  free(scales);
}

TEST(codes) {
  for (int type = OG_U4_32; type <= OG_U8_128; ++type) {
    codes_check(type, 37, 300, og_group_steps(type), true, false);
    codes_check(type, 16, 512, 256, true, true);
    codes_check(type, 5, 70, 4 * og_group_steps(type), false, false);
  }
}

// Every instruction set makes the same panels, and the same ones of weights
// that stand in rows, in columns and apart.
TEST(narrow_panels) {
  enum { N = 21, K = 200, BYTES = 2 * 16 * 320 };
  static uint8_t wanted[BYTES], found[BYTES];
  static float rows[N * K], columns[N * K], apart[N * K * 3];
  for (int i = 0; i < N * K; ++i) {
    const float x = draw() * powf(2, floorf(draw() * 9));
    rows[i] = columns[i % K * N + i / K] = apart[i * 3] = i / K == 2 ? 0 : x;
  }
  const og_gemm_weights of[] = {{rows, N, K, K, 1, OG_F32, 0},
                                {columns, N, K, 1, N, OG_F32, 0},
                                {apart, N, K, 3 * K, 3, OG_F32, 0}};
  for (int type = OG_I8; type <= OG_U8_128; ++type)
    for (int i = 0; i < SETS; ++i)
      for (int form = 0; is_run(&sets[i], OG_F32) && form < 3; ++form) {
        float own[32], first[32];
        double lost = 0, size = 0;
        const bool is_first = i == 0 && form == 0;
        memset(is_first ? wanted : found, 0xff, BYTES);
        sets[i].kernels->narrow(
            &of[form],
            &(og_gemm_narrow){type, 0, 2, is_first ? wanted : found,
                              is_first ? first : own},
            &lost, &size);
        CHECK(og_packed_bytes(N, K, type) <= BYTES);
        if (is_first) continue;
        if (!CHECK(memcmp(own, first, sizeof own) == 0 &&
                   memcmp(wanted, found, BYTES) == 0))
          printf("%s: type %d, form %d\n", sets[i].name, type, form);
      }
}

// Rows that 16 bits do not hold: those beside them are right.
static void odd_rows_check(int narrow, bool has_short_rows) {
  enum { M = 6, N = 20, K = 70 };
  problem p = {.m = M, .n = N, .k = K, .x_stride = K, .y_stride = N};
  p.narrow = narrow;
  p.has_short_rows = has_short_rows;
  REQUIRE(problem_make(&p));
  float *x = (float *)p.x;
  x[3] = NAN;
  x[K + 5] = INFINITY;
  x[2 * K + 6] = -INFINITY;
  for (int k = 0; k < K; ++k) x[3 * K + k] *= 1e-42f;
  for (int k = 0; k < K; ++k) x[4 * K + k] *= 1e37f;
  for (int s = 0; s < SETS; ++s) {
    if (!is_run(&sets[s], OG_F32)) continue;
    problem_run(&p, &sets[s], 0, M, 0, panels_of(&p), (og_epilogue){0}, p.y);
    const float *y = (const float *)p.y;
    for (int n = 0; n < N; ++n) {
      const float sign = weight_of(&p, n, 5), other = weight_of(&p, n, 6);
      CHECK(isnan(y[n]));
      CHECK(sign == 0 ? isnan(y[N + n]) : y[N + n] == INFINITY * sign);
      CHECK(other == 0 ? isnan(y[2 * N + n])
                       : y[2 * N + n] == -INFINITY * other);
      for (int r = 3; r < M; ++r) {
        double size;
        const double wanted = wanted_at(&p, r, n, &size);
        if (!CHECK(fabs((double)y[r * N + n] - wanted) <= 1e-4 * size + 1e-28))
          printf("%s: row %d: %g %g\n", sets[s].name, r, y[r * N + n], wanted);
      }
    }
  }
done:
  problem_free(&p);
}

// y[m, n] over steps [begin, end) of x[m, k] and w[n, k], in runs of
// `run_steps`.
enum { RUN_M = 23, RUN_N = 37, RUN_K = 150 };
static void steps_run(const og_gemm_kernels *kernels, const float *x,
                      const float *w, int64_t begin, int64_t end,
                      int32_t run_steps, void *scratch, float *y) {
  enum { PANELS = (RUN_N + OG_PANEL - 1) / OG_PANEL };
  float packed[PANELS * RUN_K * OG_PANEL];
  const int64_t k = end - begin;
  kernels->pack(&(og_gemm_weights){.data = w + begin,
                                   .n = RUN_N,
                                   .k = k,
                                   .n_stride = RUN_K,
                                   .k_stride = 1,
                                   .element = OG_F32},
                0, PANELS, packed);
  kernels->run(x + begin, RUN_K, packed, RUN_M, RUN_N, k, 0, PANELS, NULL, y,
               RUN_N, (og_epilogue){.wide = 1, .run_steps = run_steps}, scratch,
               OG_F32, OG_F32);
}

// Runs are sums of their own, which are added up.
TEST(runs) {
  enum { STEPS = 64, COUNT = RUN_M * RUN_N };
  static float x[RUN_M * RUN_K], w[RUN_N * RUN_K];
  static float found[COUNT], part[COUNT], sum[COUNT];
  void *scratch = malloc(OG_GEMM_SCRATCH);
  REQUIRE(scratch != NULL);
  for (int i = 0; i < RUN_M * RUN_K; ++i) x[i] = draw();
  for (int i = 0; i < RUN_N * RUN_K; ++i) w[i] = draw();
  for (int s = 0; s < SETS; ++s) {
    if (!is_run(&sets[s], OG_F32)) continue;
    steps_run(sets[s].kernels, x, w, 0, RUN_K, STEPS, scratch, found);
    for (int64_t k = 0; k < RUN_K; k += STEPS) {
      const int64_t end = k + STEPS < RUN_K ? k + STEPS : RUN_K;
      steps_run(sets[s].kernels, x, w, k, end, 0, scratch, part);
      for (int i = 0; i < COUNT; ++i)
        sum[i] = k > 0 ? sum[i] + part[i] : part[i];
    }
    CHECK(memcmp(found, sum, sizeof sum) == 0);
    steps_run(sets[s].kernels, x, w, 0, RUN_K, 0, scratch, found);
    CHECK(memcmp(found, sum, sizeof sum) != 0);
  }
done:
  free(scratch);
}

TEST(odd_rows) {
  odd_rows_check(OG_I8, false);
  odd_rows_check(OG_I8, true);
  odd_rows_check(OG_I4_32, true);
}

TEST_MAIN("kernel_gemm", CASE_NO_FAULTS(sizes), CASE_NO_FAULTS(runs),
          CASE_NO_FAULTS(parts), CASE_NO_FAULTS(packs),
          CASE_NO_FAULTS(transposes), CASE_NO_FAULTS(rows_stand_alone),
          CASE_NO_FAULTS(hook), CASE_NO_FAULTS(quantize),
          CASE_NO_FAULTS(formats_beside_double), CASE_NO_FAULTS(odd_rows),
          CASE_NO_FAULTS(codes), CASE_NO_FAULTS(narrow_panels))
