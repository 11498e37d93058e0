// SPDX-License-Identifier: Apache-2.0
// linear: y = act(x w^T + bias), with weights as they are or packed once, of
// floats, or of the codes and scales of a quantised checkpoint.
// Source: panels as in GotoBLAS (Goto and van de Geijn, 2008).

#include <opgraft/op.h>
#include <stdatomic.h>
#include <string.h>

#include "base/grain.h"
#include "kernel/kernel.h"

enum { N, I, O };  // dims of linear's rules

static og_status act_read(const og_call *call, const og_attr *attr,
                          int32_t *out_act) {
  static const struct {
    const char *name;
    int32_t act;
  } acts[] = {
      {"none", OG_ACT_NONE}, {"silu", OG_ACT_SILU},
      {"gelu", OG_ACT_GELU}, {"gelu_tanh", OG_ACT_GELU_TANH},
      {"relu", OG_ACT_RELU},
  };
  for (size_t i = 0; i < sizeof acts / sizeof *acts; ++i)
    if (strcmp(attr->s, acts[i].name) == 0) {
      *out_act = acts[i].act;
      return OG_OK;
    }
  return og_failf(
      call, OG_INVALID,
      "activation is \"%.40s\", expected none, silu, gelu, gelu_tanh or "
      "relu",
      attr->s);
}

// --- Packed weights

static void panels_pack(void *state, int64_t begin, int64_t end,
                        int32_t worker) {
  const og_call *call = state;
  const og_tensor *w = call->in[0];
  (void)worker;
  const og_gemm_weights of = {.data = og_data(w),
                              .n = w->shape[0],
                              .k = w->shape[1],
                              .n_stride = w->strides[0],
                              .k_stride = 1,
                              .element = og_element_of(w)};
  og_gemm_pack(&of, begin, end,
               (char *)og_data(call->out[0]) +
                   og_packed_bytes(begin * OG_PANEL, of.k, of.element));
}

static og_status linear_prepack(const og_call *call) {
  return og_parallel_tasks(call, call->out[0]->shape[0], OG_GRAIN_PANELS,
                           panels_pack, (void *)(uintptr_t)call);
}

// Few rows are multiplied by up to so many panels at a time (kernel/gemm.inc).
enum { FEW_ROWS = 6, FEW_PANELS = 8 };

typedef struct product {
  const og_call *call;
  const void *x, *packed;
  void *y;
  og_epilogue epilogue;
  int64_t m, n, k;
  int64_t x_stride;
  int64_t chunk;         // panels of a task
  int element, weights;  // of x and y, and of the panels
} product;

static int64_t panels_of(int64_t n) { return (n + OG_PANEL - 1) / OG_PANEL; }

static void panels_run(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  const product *p = state;
  const int64_t panels = panels_of(p->n);
  int64_t last = end * p->chunk;
  if (last > panels) last = panels;
  const void *next =
      last < panels ? (const char *)p->packed +
                          og_packed_bytes(last * OG_PANEL, p->k, p->weights)
                    : NULL;
  og_gemm(p->weights >= OG_I8 ? OG_I8 : p->element)
      ->run(p->x, p->x_stride, p->packed, p->m, p->n, p->k, begin * p->chunk,
            last, next, p->y, p->n, p->epilogue,
            (char *)p->call->workspace + (int64_t)worker * OG_GEMM_SCRATCH,
            p->element, p->weights);
}

static og_status packed_read(const og_call *call, product *out) {
  const og_tensor *x = call->in[0], *bias = call->in[2];
  const int64_t k = x->shape[x->ndim - 1];
  *out = (product){.call = call,
                   .x = og_data(x),
                   .packed = og_data(call->in[1]),
                   .y = og_data(call->out[0]),
                   .epilogue.bias = bias != NULL ? og_data(bias) : NULL,
                   .m = call->dim[N],
                   .n = call->attr[0].i,
                   .k = k,
                   .x_stride = k,
                   .element = og_element_of(x),
                   .weights = og_element_of(x)};
  return act_read(call, &call->attr[1], &out->epilogue.act);
}

static og_status packed_run(product *p) {
  const int64_t panels = panels_of(p->n), threads = p->call->threads;
  // A few chunks for each thread, none of which cuts a tile in two; of no
  // panels, none.
  const int64_t tile =
      p->m <= FEW_ROWS && panels >= FEW_PANELS * threads ? FEW_PANELS : 2;
  p->chunk = ((panels - 1) / (threads * 8 * tile) + 1) * tile;
  return og_parallel_tasks(p->call, (panels + p->chunk - 1) / p->chunk, 1,
                           panels_run, p);
}

static og_status linear_packed(const og_call *call) {
  product p;
  const og_status status = packed_read(call, &p);
  return status == OG_OK ? packed_run(&p) : status;
}

// --- Weights that come quantised: panels, and behind them a line of scales for
// each

enum { LINE = OG_PANEL * sizeof(float), QUAD = 4 };

// Of codes in groups.
static int codes_type(int64_t bits, int64_t group) {
  const int first = bits == 4 ? OG_U4_32 : OG_U8_32;
  return first + (group == 64) + 2 * (group == 128);
}

// Column n of a panel of int8, whose place has 4 bytes of every quad.
static void int8_column(const og_tensor *codes, int64_t n, uint8_t *panel) {
  enum { ZERO = 128 };
  const int64_t k = codes->shape[1];
  const int8_t *from = (const int8_t *)og_data(codes) + n * k;
  uint8_t *to = panel + n % OG_PANEL * QUAD;
  for (int64_t i = 0; i < k; ++i)
    to[i / QUAD * QUAD * OG_PANEL + i % QUAD] = (uint8_t)(from[i] + ZERO);
}

static void int8_pack(void *state, int64_t begin, int64_t end, int32_t worker) {
  const og_call *call = state;
  const og_tensor *codes = call->in[0];
  const int64_t n = codes->shape[0], k = codes->shape[1];
  const size_t each = og_packed_bytes(OG_PANEL, k, OG_I8);
  char *to = og_data(call->out[0]);
  float *scales = (float *)(void *)(to + og_packed_bytes(n, k, OG_I8));
  (void)worker;
  memset(to + (size_t)begin * each, 0, (size_t)(end - begin) * each);
  memset(scales + begin * OG_PANEL, 0, (size_t)(end - begin) * LINE);
  for (int64_t i = begin * OG_PANEL; i < end * OG_PANEL && i < n; ++i) {
    int8_column(codes, i, (uint8_t *)to + (size_t)(i / OG_PANEL) * each);
    scales[i] = og_f32(call->in[1])[i];
  }
}

static og_status linear_int8_prepack(const og_call *call) {
  return og_parallel_tasks(call, call->out[0]->shape[0], OG_GRAIN_PANELS,
                           int8_pack, (void *)(uintptr_t)call);
}

typedef struct coding {
  const og_call *call;
  og_gemm_codes of;
  int type;
  atomic_int is_refused;
} coding;

static void codes_pack(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  coding *c = state;
  const og_gemm_codes *of = &c->of;
  char *to = og_data(c->call->out[0]);
  const og_gemm_narrow panels = {
      .type = c->type,
      .begin = begin,
      .end = end,
      .packed =
          (uint8_t *)to + og_packed_bytes(begin * OG_PANEL, of->k, c->type),
      .scales = (float *)(void *)(to + og_packed_bytes(of->n, of->k, c->type) +
                                  begin * LINE)};
  (void)worker;
  if (!og_gemm_codes_pack(of, &panels)) atomic_store(&c->is_refused, 1);
}

static og_status linear_codes_prepack(const og_call *call) {
  const og_tensor *codes = call->in[0], *zeros = call->in[2];
  const int64_t bits = call->attr[0].i, group = call->attr[1].i;
  coding c = {.call = call,
              .of = {.data = og_data(codes),
                     .n = codes->shape[0],
                     .k = codes->shape[1],
                     .n_stride = codes->shape[1],
                     .k_stride = 1,
                     .scales = og_f32(call->in[1]),
                     .zeros = zeros != NULL ? og_f32(zeros) : NULL,
                     .group = group},
              .type = codes_type(bits, group)};
  const og_status status = og_parallel_tasks(call, call->out[0]->shape[0],
                                             OG_GRAIN_PANELS, codes_pack, &c);
  return status == OG_OK && c.is_refused
             ? og_failf(call, OG_INVALID,
                        "a scale or zero is not finite, or a zero is over "
                        "65504 from the codes")
             : status;
}

static char *quads_of(const product *p) {
  return (char *)p->call->workspace +
         (int64_t)p->call->threads * OG_GEMM_SCRATCH;
}

static void rows_quantize(void *state, int64_t begin, int64_t end,
                          int32_t worker) {
  const product *p = state;
  const int64_t bytes = og_gemm_row_bytes(p->k);
  (void)worker;
  for (int64_t r = begin; r < end; ++r)
    og_gemm(OG_I8)->quantize(
        og_at(p->x, r * p->k, p->element), p->k, p->element,
        p->epilogue.has_short_rows ? p->weights : 0, quads_of(p) + r * bytes);
}

static og_status codes_run(const og_call *call, int type, int64_t x_bits) {
  product p;
  og_status status = packed_read(call, &p);
  if (status != OG_OK) return status;
  p.weights = type;
  p.epilogue.has_short_rows = x_bits == 8;
  status = og_parallel_tasks(call, p.m, og_grain(OG_GRAIN_LIGHT, p.k),
                             rows_quantize, &p);
  if (status != OG_OK) return status;
  p.x = quads_of(&p);
  p.x_stride = og_gemm_row_bytes(p.k);
  p.epilogue.scales =
      (const float *)(const void *)((const char *)p.packed +
                                    og_packed_bytes(p.n, p.k, type));
  return packed_run(&p);
}

static og_status linear_int8(const og_call *call) {
  return codes_run(call, OG_I8, call->attr[2].i);
}

static og_status linear_codes(const og_call *call) {
  return codes_run(call, codes_type(call->attr[2].i, call->attr[3].i),
                   call->attr[4].i);
}

// --- Weights as they are

// A task packs a few panels and runs them; for few rows it reads the weights
// where they lie.
enum {
  TASK_PANELS = 4,
  DIRECT_ROWS = 4,
  DIRECT_STAGE = 4096,  // steps that are added up before they meet the total
  TASK_COLUMNS = TASK_PANELS * OG_PANEL,
};

// What a worker's share of the workspace holds.
static int64_t worker_bytes(int64_t k) {
  return OG_GEMM_SCRATCH + (k + 32) * TASK_COLUMNS * 4;
}

// sums[m, 4] of up to 4 columns: long ones of stages, as og_gemm's are.
static void direct_sums(const product *p, const float *rows, int64_t stride,
                        const void *const *columns, float *sums) {
  const og_rows_ahead nothing = {0};
  float stage[DIRECT_ROWS * 4];
  for (int64_t k = 0; k == 0 || k < p->k; k += DIRECT_STAGE) {
    const int64_t steps = p->k - k < DIRECT_STAGE ? p->k - k : DIRECT_STAGE;
    const size_t offset = (size_t)k * og_element_bytes(p->element);
    og_attention(OG_F32)->dots(rows + k, stride, p->m, columns, offset, steps,
                               k == 0 ? sums : stage, 4, p->element, &nothing);
    if (k > 0) og_rows()->accumulate(stage, 1, sums, p->m * 4);
  }
}

static void columns_direct(const product *p, const void *w, int64_t begin,
                           int64_t end, float *rows) {
  const int64_t stride = (p->k + 31) / 16 * 16;
  const og_tensor *bias = p->call->in[2];
  for (int64_t r = 0; r < p->m; ++r) {
    memset(rows + r * stride, 0, (size_t)stride * 4);
    og_rows()->to_f32(og_at(p->x, r * p->k, p->element), rows + r * stride,
                      p->k, p->element);
  }
  for (int64_t n = begin; n < end; n += 4) {
    const int64_t count = end - n < 4 ? end - n : 4;
    const void *columns[4];
    float sums[DIRECT_ROWS * 4], shift[4] = {0};
    for (int64_t j = 0; j < 4; ++j)
      columns[j] = og_at(w, (j < count ? n + j : n) * p->k, p->element);
    direct_sums(p, rows, stride, columns, sums);
    if (bias != NULL)
      og_rows()->to_f32(og_at(og_data(bias), n, p->element), shift, count,
                        p->element);
    for (int64_t r = 0; r < p->m; ++r) {
      og_rows()->accumulate(shift, 1, sums + r * 4, count);
      og_rows()->from_f32(sums + r * 4, og_at(p->y, r * p->n + n, p->element),
                          count, p->element);
    }
  }
}

static void columns_run(void *state, int64_t begin, int64_t end,
                        int32_t worker) {
  const product *p = state;
  const void *w = og_data(p->call->in[1]);
  char *scratch = (char *)p->call->workspace + worker * worker_bytes(p->k);
  void *packed = scratch + OG_GEMM_SCRATCH;
  for (int64_t t = begin; t < end; ++t) {
    const int64_t n = t * TASK_COLUMNS;
    const int64_t count = p->n - n < TASK_COLUMNS ? p->n - n : TASK_COLUMNS;
    const int64_t panels = (count + OG_PANEL - 1) / OG_PANEL;
    if (p->m <= DIRECT_ROWS) {
      columns_direct(p, w, n, n + count, packed);
      continue;
    }
    const og_gemm_weights of = {.data = og_at(w, n * p->k, p->element),
                                .n = count,
                                .k = p->k,
                                .n_stride = p->k,
                                .k_stride = 1,
                                .element = p->element};
    og_gemm_pack(&of, 0, panels, packed);
    og_epilogue e = p->epilogue;
    if (e.bias != NULL) e.bias = og_at(e.bias, n, p->element);
    og_gemm(p->element)
        ->run(p->x, p->k, packed, p->m, count, p->k, 0, panels, NULL,
              og_at(p->y, n, p->element), p->n, e, scratch, p->element,
              p->element);
  }
}

static og_status linear(const og_call *call) {
  product p = {
      .call = call,
      .x = og_data(call->in[0]),
      .y = og_data(call->out[0]),
      .m = call->dim[N],
      .n = call->dim[O],
      .k = call->dim[I],
      .element = og_element_of(call->in[0]),
  };
  p.epilogue.bias = call->in[2] != NULL ? og_data(call->in[2]) : NULL;
  return og_parallel_tasks(call, (p.n + TASK_COLUMNS - 1) / TASK_COLUMNS, 1,
                           columns_run, &p);
}

// --- Gradient

// c[rows, columns] = sum over k of a(row, k) * b[k, column], by tiles of f32.
// Both gradients have this form: grad_x = grad w, grad_w = grad^T x.
enum {
  GRAD_ROWS = 84,
  GRAD_COLUMNS = 64,
  GRAD_STEP = OG_ATTENTION_BLOCK,
  GRAD_STAGE = 16 * GRAD_STEP,  // that is added up before it meets the total
};

typedef struct grad_scratch {
  float a[GRAD_ROWS * GRAD_STEP];
  float b[GRAD_STEP * GRAD_COLUMNS];
  float c[GRAD_ROWS * GRAD_COLUMNS];
  float total[GRAD_ROWS * GRAD_COLUMNS];
  float line[GRAD_STEP];
} grad_scratch;

typedef struct contraction {
  const og_call *call;
  const void *a, *b;
  void *c;
  int64_t rows, columns, depth;
  int64_t a_row, a_step;  // strides of a; one of them is 1
  int element;
} contraction;

static void a_load(const contraction *g, int64_t row, int64_t rows, int64_t k,
                   int64_t steps, grad_scratch *s) {
  if (g->a_step == 1) {
    for (int64_t r = 0; r < rows; ++r)
      og_rows()->to_f32(og_at(g->a, (row + r) * g->a_row + k, g->element),
                        s->a + r * GRAD_STEP, steps, g->element);
    return;
  }
  for (int64_t i = 0; i < steps; ++i) {
    og_rows()->to_f32(og_at(g->a, (k + i) * g->a_step + row, g->element),
                      s->line, rows, g->element);
    for (int64_t r = 0; r < rows; ++r) s->a[r * GRAD_STEP + i] = s->line[r];
  }
}

// The stage in c joins the total, which is kept in c where it was the last.
static void stage_end(grad_scratch *s, int64_t rows, int is_last) {
  float *from = is_last ? s->total : s->c, *to = is_last ? s->c : s->total;
  og_rows()->accumulate(from, 1, to, rows * GRAD_COLUMNS);
  if (!is_last) memset(s->c, 0, sizeof s->c);
}

static void block_contract(const contraction *g, int64_t row, int64_t rows,
                           int64_t column, grad_scratch *s) {
  const og_attention_kernels *kernels = og_attention(OG_F32);
  const int64_t left = g->columns - column;
  const int64_t columns = left < GRAD_COLUMNS ? left : GRAD_COLUMNS;
  const int64_t tiles = (rows + kernels->tile_rows - 1) / kernels->tile_rows;
  memset(s->c, 0, sizeof s->c);
  if (g->depth > GRAD_STAGE) memset(s->total, 0, sizeof s->total);
  for (int64_t k = 0; k < g->depth; k += GRAD_STEP) {
    if (k > 0 && k % GRAD_STAGE == 0) stage_end(s, rows, 0);
    const int64_t steps = g->depth - k < GRAD_STEP ? g->depth - k : GRAD_STEP;
    const void *lines[GRAD_STEP];
    for (int64_t i = 0; i < steps; ++i)
      lines[i] = og_at(g->b, (k + i) * g->columns + column, g->element);
    kernels->pack_values(lines, 0, steps, columns, s->b, g->element);
    a_load(g, row, rows, k, steps, s);
    for (int64_t d = 0; d < columns; d += kernels->panel)
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t r0 = rows * t / tiles, r1 = rows * (t + 1) / tiles;
        kernels->tile(r1 - r0, s->a + r0 * GRAD_STEP, GRAD_STEP,
                      s->b + d * GRAD_STEP, steps, s->c + r0 * GRAD_COLUMNS + d,
                      GRAD_COLUMNS, 1, NULL);
      }
  }
  if (g->depth > GRAD_STAGE) stage_end(s, rows, 1);
  for (int64_t r = 0; r < rows; ++r)
    og_rows()->from_f32(
        s->c + r * GRAD_COLUMNS,
        og_at(g->c, (row + r) * g->columns + column, g->element), columns,
        g->element);
}

static void blocks_contract(void *state, int64_t begin, int64_t end,
                            int32_t worker) {
  const contraction *g = state;
  grad_scratch *s = (grad_scratch *)g->call->workspace + worker;
  const int64_t across = (g->columns + GRAD_COLUMNS - 1) / GRAD_COLUMNS;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t row = i / across * GRAD_ROWS;
    const int64_t rows = g->rows - row < GRAD_ROWS ? g->rows - row : GRAD_ROWS;
    block_contract(g, row, rows, i % across * GRAD_COLUMNS, s);
  }
}

static og_status contract(contraction *g) {
  const int64_t down = (g->rows + GRAD_ROWS - 1) / GRAD_ROWS;
  const int64_t across = (g->columns + GRAD_COLUMNS - 1) / GRAD_COLUMNS;
  return og_parallel_tasks(g->call, down * across, 1, blocks_contract, g);
}

enum { BIAS_COLUMNS = OG_CARRY_COLUMNS };

static void bias_columns(const og_call *call, int64_t begin, int64_t end) {
  const og_tensor *grad = call->in[0];
  const int element = og_element_of(grad);
  const int64_t width = call->dim[O], rows = call->dim[N];
  for (int64_t c = begin * BIAS_COLUMNS; c < end * BIAS_COLUMNS && c < width;
       c += BIAS_COLUMNS) {
    og_column_sums sums = {.part = {0}};
    float line[BIAS_COLUMNS];
    const int64_t left = width - c;
    const int64_t count = left < BIAS_COLUMNS ? left : BIAS_COLUMNS;
    for (int64_t r = 0; r < rows; ++r) {
      og_rows()->to_f32(og_at(og_data(grad), r * width + c, element), line,
                        count, element);
      og_rows()->accumulate(line, 1, sums.part, count);
      og_column_sums_step(&sums, r, rows, count);
    }
    og_column_sums_store(&sums, og_at(og_data(call->out[2]), c, element), count,
                         element);
  }
}

static og_status linear_backward(const og_call *call) {
  enum { GRAD, X, W };
  const int64_t m = call->dim[N], in = call->dim[I], out = call->dim[O];
  const int element = og_element_of(call->in[X]);
  contraction to_x = {
      .call = call,
      .a = og_data(call->in[GRAD]),
      .b = og_data(call->in[W]),
      .c = og_data(call->out[0]),
      .rows = m,
      .columns = in,
      .depth = out,
      .a_row = out,
      .a_step = 1,
      .element = element,
  };
  contraction to_w = {
      .call = call,
      .a = og_data(call->in[GRAD]),
      .b = og_data(call->in[X]),
      .c = og_data(call->out[1]),
      .rows = out,
      .columns = in,
      .depth = m,
      .a_row = 1,
      .a_step = out,
      .element = element,
  };
  og_status status = contract(&to_x);
  if (status == OG_OK) status = contract(&to_w);
  if (status != OG_OK) return status;
  return og_parallel_for(call, (out + BIAS_COLUMNS - 1) / BIAS_COLUMNS, 1,
                         bias_columns);
}

// --- Declaration

OG_KERNELS_BY_ISA(kernels, "f32|bf16|f16", linear);
OG_KERNELS_BY_ISA(backward_kernels, "f32|bf16|f16", linear_backward);
OG_KERNELS_BY_ISA(packed_kernels, "f32|bf16|f16", linear_packed);
OG_KERNELS_BY_ISA(int8_kernels, "f32|bf16|f16", linear_int8);
OG_KERNELS_BY_ISA(codes_kernels, "f32|bf16|f16", linear_codes);
static const og_kernel int8_prepack_kernels[] = {
    {.device = OG_CPU, .dtypes = "i8", .run = linear_int8_prepack}};
static const og_kernel codes_prepack_kernels[] = {
    {.device = OG_CPU, .dtypes = "u8", .run = linear_codes_prepack}};
static const og_kernel prepack_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32|bf16|f16", .run = linear_prepack}};

#define CODES_WHERE                                                       \
  "bits >= 4, bits <= 8, bits % 4 == 0, group_size >= 32, group_size <= " \
  "128, 128 % group_size == 0, "
#define X_BITS_WHERE "x_bits >= 8, x_bits <= 16, x_bits % 8 == 0, "

static const og_op ops[] = {
    {
        .schema = "linear(Tensor x, Tensor weight, Tensor? bias=None) "
                  "-> Tensor",
        .shape = "x[*N, I], weight[O, I], bias?[O] -> [*N, O]",
        .where = "I <= 131070",
        .dtype = "x: f32|bf16|f16, weight: x, bias: x -> x",
        .backward = "linear_backward(grad, x, weight) -> x, weight, bias",
        .workspace = "threads * (655360 + (I + 32) * 256)",
        .flags = OG_DETERMINISTIC,
        .reduce = "O; I: sum(bias)",
        .doc = "x times the transpose of weight, plus bias.",
        .kernels = OG_KERNELS(kernels),
    },
    {
        .schema = "linear_backward(Tensor grad, Tensor x, Tensor weight) "
                  "-> (Tensor grad_x, Tensor grad_weight, Tensor grad_bias)",
        // x first, so that the dims are numbered as linear's.
        .shape = "x[*N, I], weight[O, I], grad[*N, O] "
                 "-> [*N, I], [O, I], [O]",
        .dtype = "grad: x, x: f32|bf16|f16, weight: x -> x, x, x",
        // a, b, c, its total and a line of grad_scratch.
        .workspace = "threads * (84 * 256 + 256 * 64 + 2 * 84 * 64 + 256) * 4",
        .flags = OG_DETERMINISTIC,
        .reduce = "N, O: sum; I: same",
        .doc = "The gradient of linear for x, weight and bias.",
        .kernels = OG_KERNELS(backward_kernels),
    },
    {
        .schema = "linear_prepack(Tensor weight) -> Tensor",
        .shape = "weight[O, I] -> [ceildiv(O, 16), ceildiv(I, 2) * 2, 16]",
        .dtype = "weight: f32|bf16|f16 -> weight",
        .strides = "weight: last",
        .flags = OG_DETERMINISTIC,
        .reduce = "O / 16; I / 2",
        .expect = "type_dependent: result",
        .doc = "The weights of linear in panels of 16, for linear_packed; the "
               "same for every instruction set. A panel of bf16 is in pairs of "
               "steps, [I / 2, 16, 2].",
        .kernels = OG_KERNELS(prepack_kernels),
    },
    {
        .schema = "linear_packed(Tensor x, Tensor packed, Tensor? bias=None, "
                  "*, int out_features, str activation=\"none\") -> Tensor",
        .shape = "x[*N, I], packed[P, K, 16], bias?[out_features] "
                 "-> [*N, out_features]",
        .where = "out_features >= 0, P == ceildiv(out_features, 16), "
                 "K == ceildiv(I, 2) * 2, I <= 131070",
        .dtype = "x: f32|bf16|f16, packed: x, bias: x -> x",
        .workspace = "threads * 655360",
        .flags = OG_DETERMINISTIC,
        .expect = "type_dependent: result",
        .doc = "linear with weights from linear_prepack, and an activation: "
               "none, silu, gelu, gelu_tanh or relu.",
        .kernels = OG_KERNELS(packed_kernels),
    },
    {
        .schema = "linear_int8_prepack(Tensor codes, Tensor scales) -> Tensor",
        .shape = "codes[O, I], scales[O] "
                 "-> [ceildiv(O, 16), ceildiv(I, 4) * 64 + 64]",
        .dtype = "codes: i8, scales: f32 -> u8",
        .flags = OG_DETERMINISTIC,
        .doc = "Weights that are codes times the scale of their row, for "
               "linear_int8.",
        .kernels = OG_KERNELS(int8_prepack_kernels),
    },
    {
        .schema = "linear_int8(Tensor x, Tensor packed, Tensor? bias=None, *, "
                  "int out_features, str activation=\"none\", int x_bits=16) "
                  "-> Tensor",
        .shape = "x[*N, I], packed[P, B], bias?[out_features] "
                 "-> [*N, out_features]",
        .where = X_BITS_WHERE
        "out_features >= 0, P == ceildiv(out_features, 16), B == ceildiv(I, 4) "
        "* 64 + 64, I <= 131070",
        .dtype = "x: f32|bf16|f16, packed: u8, bias: x -> x",
        .workspace = "threads * 655360 + prod(N) * (I // 32 * 68 + 192)",
        .flags = OG_DETERMINISTIC,
        .doc = "linear with weights from linear_int8_prepack, and an "
               "activation. Rows of x have 16 bits an element: what that "
               "rounds is 1 / 65278 of a row's largest magnitude at most. "
               "With x_bits=8 it is a 254th, and products of many rows are "
               "faster.",
        .kernels = OG_KERNELS(int8_kernels),
    },
    {
        .schema = "linear_codes_prepack(Tensor codes, Tensor scales, "
                  "Tensor? zeros=None, *, int bits=4, int group_size=128) "
                  "-> Tensor",
        .shape = "codes[O, I], scales[O, G], zeros?[O, G] "
                 "-> [ceildiv(O, 16), G * (group_size * bits * 2 + 64) + 64]",
        .where = CODES_WHERE "G == ceildiv(I, group_size)",
        .dtype = "codes: u8, scales: f32, zeros: f32 -> u8",
        .flags = OG_DETERMINISTIC,
        .doc = "Weights that are scale * (code - zero), for linear_codes: "
               "codes of 4 or 8 bits, a byte each, in groups of 32, 64 or 128 "
               "with a scale and a zero. Zeros are 8, of 8 bits 128, where "
               "there are none. Scales of f16 and bf16 and zeros that are "
               "codes stay what they are where a row's scales are within a "
               "factor of 2^14.",
        .kernels = OG_KERNELS(codes_prepack_kernels),
    },
    {
        .schema = "linear_codes(Tensor x, Tensor packed, Tensor? bias=None, *, "
                  "int out_features, str activation=\"none\", int bits=4, "
                  "int group_size=128, int x_bits=16) -> Tensor",
        .shape = "x[*N, I], packed[P, B], bias?[out_features] "
                 "-> [*N, out_features]",
        .where = CODES_WHERE X_BITS_WHERE
        "out_features >= 0, P == ceildiv(out_features, 16), B == ceildiv(I, "
        "group_size) * (group_size * bits * 2 + 64) + 64, I <= 131070",
        .dtype = "x: f32|bf16|f16, packed: u8, bias: x -> x",
        .workspace = "threads * 655360 + prod(N) * (I // 32 * 68 + 192)",
        .flags = OG_DETERMINISTIC,
        .doc = "linear with weights from linear_codes_prepack, as linear_int8.",
        .kernels = OG_KERNELS(codes_kernels),
    },
};
OG_MODULE(linear, ops)
