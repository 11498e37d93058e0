// SPDX-License-Identifier: Apache-2.0
// CUDA kernels of the operator library, run by their host forms through a
// libcuda of which only launches work, against the CPU kernels of the same
// operators: random sizes, strides and types.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <opgraft/opgraft.h>
#include <stdlib.h>

#include "kernel/attention_plan.h"
#include "kernel/kernel.h"
#include "tests/unit/test.h"

// Code that a module has loaded stays for the process, also when the module is
// unloaded (devices/cuda/module.c): a leak checker would find that alone.
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_leaks=0"; }

// Kernels as loops of the host's take ten times as long under a sanitizer.
#ifdef __SANITIZE_ADDRESS__
enum { ROUNDS = 2, GROUPED_STEP = 5 };
#else
enum { ROUNDS = 8, GROUPED_STEP = 1 };
#endif
enum { ARGS_MAX = 9, RANK_MAX = 4 };

static uint64_t state = 7;

static int32_t draw(int32_t limit) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int32_t)((state >> 33) % (uint64_t)limit);
}

// A size that pieces of eight divide, or one beside it, or 1.
static int32_t draw_width(int32_t most) {
  const int32_t kind = draw(4);
  if (kind == 0) return 1 + draw(9);
  if (kind == 1) return 1 + draw(most);
  return 8 * (1 + draw(most / 8));
}

// --- Tensors -----------------------------------------------------------------

static const og_dtype float_types[] = {
    {OG_CODE_FLOAT, 32, 1}, {OG_CODE_BFLOAT, 16, 1}, {OG_CODE_FLOAT, 16, 1}};
static const og_dtype i32 = {OG_CODE_INT, 32, 1}, i64 = {OG_CODE_INT, 64, 1};

typedef struct array {
  og_tensor tensor;
  int64_t shape[RANK_MAX], strides[RANK_MAX];
  char *memory;
  size_t bytes;
} array;

static size_t size_of(og_dtype type) { return type.bits / 8u; }

// Row-major, or with room between rows; the last dim is dense. Values are
// small numbers that each type has.
static void array_init(array *a, og_dtype type, int32_t rank,
                       const int64_t *shape, int is_spread) {
  int64_t stride = 1;
  for (int32_t i = rank - 1; i >= 0; --i) {
    a->shape[i] = shape[i];
    a->strides[i] = stride;
    stride *= shape[i];
    if (is_spread && i > 0) stride += draw(3) * (draw(2) ? 8 : 1);
  }
  // A tensor may begin anywhere that its elements may.
  const size_t offset = is_spread ? size_of(type) * (size_t)draw(3) * 4 : 0;
  a->bytes = (size_t)stride * size_of(type) + offset;
  a->memory = calloc(1, a->bytes + 16);
  a->tensor = (og_tensor){.data = a->memory,
                          .device = {OG_CPU, 0},
                          .ndim = rank,
                          .dtype = type,
                          .shape = a->shape,
                          .strides = a->strides,
                          .byte_offset = offset};
}

static void array_copy(const array *from, array *to) {
  *to = *from;
  to->memory = malloc(from->bytes + 16);
  memcpy(to->memory, from->memory, from->bytes);
  to->tensor.data = to->memory;
  to->tensor.shape = to->shape;
  to->tensor.strides = to->strides;
}

static void array_fill(array *a) {
  const size_t size = size_of(a->tensor.dtype);
  for (size_t i = 0; i + size <= a->bytes; i += size) {
    const float x = (float)(draw(4001) - 2000) / 1000;
    const int element = og_element_of(&a->tensor);
    if (element == OG_F32)
      memcpy(a->memory + i, &x, 4);
    else if (element == OG_BF16)
      *(og_bfloat *)(void *)(a->memory + i) = og_bfloat_from_float(x);
    else
      *(og_half *)(void *)(a->memory + i) = og_half_from_float(x);
  }
}

static float value_at(const char *memory, size_t i, og_dtype type) {
  float x;
  if (type.bits == 32) {
    memcpy(&x, memory + 4 * i, 4);
    return x;
  }
  const uint16_t bits = ((const uint16_t *)(const void *)memory)[i];
  return type.code == OG_CODE_BFLOAT ? og_bfloat_to_float((og_bfloat){bits})
                                     : og_half_to_float((og_half){bits});
}

// --- Calls -------------------------------------------------------------------

typedef struct both {
  opgraft_module *module;
  array in[2][ARGS_MAX];  // the CPU's, CUDA's
  array out[2][2];
  opgraft_frame frame[2];
  void *workspace[2];
  int32_t count;
  int is_int[ARGS_MAX];
} both;

static void both_open(both *b, const char *module) {
  char path[512];
  opgraft_error error = {0};
  memset(b, 0, sizeof *b);
  snprintf(path, sizeof path, "%s/%s.so", TEST_OPS_DIR, module);
  if (opgraft_module_load(path, &b->module, &error) != OG_OK)
    printf("%s\n", error.text);
}

static array *argument(both *b, og_dtype type, int32_t rank,
                       const int64_t *shape, int is_spread) {
  array *a = &b->in[0][b->count];
  array_init(a, type, rank, shape, is_spread);
  b->is_int[b->count++] = type.code == OG_CODE_INT || type.code == OG_CODE_UINT;
  if (!b->is_int[b->count - 1]) array_fill(a);
  return a;
}

static og_status side_run(both *b, int side, const char *op,
                          const og_attr *attr, int32_t attr_count,
                          opgraft_error *error) {
  opgraft_frame *f = &b->frame[side];
  opgraft_frame_init(f, opgraft_module_find_op(b->module, op));
  for (int32_t i = 0; i < b->count; ++i) {
    b->in[side][i].tensor.device.type = side ? OG_CUDA : OG_CPU;
    f->in[i] = &b->in[side][i].tensor;
  }
  for (int32_t i = 0; i < attr_count; ++i) f->attr[i] = attr[i];
  og_status status = opgraft_frame_infer(f, error);
  if (status != OG_OK) return status;
  for (int32_t i = 0; i < f->fresh_count; ++i) {
    array *out = &b->out[side][i];
    array_init(out, f->fresh[i].dtype, f->fresh[i].ndim, f->fresh[i].shape, 0);
    f->fresh[i].data = out->memory;
  }
  b->workspace[side] =
      aligned_alloc(64, (f->call.workspace_bytes + 64) / 64 * 64);
  f->call.workspace = b->workspace[side];
  if (side == 0) return opgraft_frame_run(f, error);
  f->error = error;
  return f->kernel->device == OG_CUDA ? f->kernel->run(&f->call) : OG_INTERNAL;
}

// How far the two are apart, over all results and arguments.
static float apart(const array *a, const array *b) {
  float most = 0;
  const size_t count = a->bytes / size_of(a->tensor.dtype);
  for (size_t i = 0; i < count; ++i) {
    const float x = value_at(a->memory, i, a->tensor.dtype);
    const float y = value_at(b->memory, i, a->tensor.dtype);
    if (x == y || (isnan(x) && isnan(y))) continue;
    const float unit = a->tensor.dtype.bits == 32               ? 1e-5f
                       : a->tensor.dtype.code == OG_CODE_BFLOAT ? 8e-3f
                                                                : 1e-3f;
    const float difference = fabsf(x - y) / (unit * (fabsf(x) + 0.3f));
    if (!(difference <= most)) most = difference;
  }
  return most;
}

// Runs both kernels and compares; false where either failed.
static bool both_run(both *b, const char *op, const og_attr *attr,
                     int32_t attr_count) {
  opgraft_error error = {0};
  for (int32_t i = 0; i < b->count; ++i) array_copy(&b->in[0][i], &b->in[1][i]);
  for (int side = 0; side < 2; ++side)
    if (!CHECK_EQ(side_run(b, side, op, attr, attr_count, &error), OG_OK)) {
      printf("%s, side %d: %s\n", op, side, error.text);
      return false;
    }
  bool is_right = true;
  for (int32_t i = 0; i < b->count; ++i)
    if (!b->is_int[i]) is_right &= CHECK(apart(&b->in[0][i], &b->in[1][i]) < 2);
  for (int32_t i = 0; i < b->frame[0].fresh_count; ++i)
    is_right &= CHECK(apart(&b->out[0][i], &b->out[1][i]) < 2);
  return is_right;
}

static void both_close(both *b) {
  for (int side = 0; side < 2; ++side) {
    for (int32_t i = 0; i < b->count; ++i) free(b->in[side][i].memory);
    for (int32_t i = 0; i < b->frame[side].fresh_count; ++i)
      free(b->out[side][i].memory);
    free(b->workspace[side]);
    if (b->frame[side].op != NULL) opgraft_frame_reset(&b->frame[side]);
  }
  if (b->module != NULL) opgraft_module_release(b->module);
}

static og_attr real(double x) {
  return (og_attr){.kind = OG_ATTR_FLOAT, .f = x};
}
static og_attr whole(int64_t x) {
  return (og_attr){.kind = OG_ATTR_INT, .i = x};
}
static og_attr text(const char *x) {
  return (og_attr){.kind = OG_ATTR_STR, .s = x, .count = (int64_t)strlen(x)};
}

// --- Norms and gates ---------------------------------------------------------

TEST(norms) {
  static const char *const ops[] = {"rms_norm", "gemma_rms_norm",
                                    "fused_add_rms_norm",
                                    "gemma_fused_add_rms_norm"};
  static const char *const modules[] = {
      "rms_norm", "gemma_rms_norm", "fused_add_rms_norm", "fused_add_rms_norm"};
  for (int round = 0; round < 4 * ROUNDS; ++round) {
    const int which = round % 4;
    both b;
    both_open(&b, modules[which]);
    const int32_t most = draw(8) == 0 ? 20000 : draw(3) == 0 ? 3000 : 300;
    const int64_t shape[] = {draw(4) == 0 ? 0 : draw(20), draw_width(most)};
    const og_dtype type = float_types[draw(3)];
    const og_attr attr[] = {real(1e-5)};
    argument(&b, type, 2, shape, 0);
    if (which >= 2) argument(&b, type, 2, shape, 0);
    argument(&b, type, 1, shape + 1, 0);
    if (!both_run(&b, ops[which], attr, 1))
      printf("%s [%d, %d] of %d bits\n", ops[which], (int)shape[0],
             (int)shape[1], type.bits);
    both_close(&b);
  }
}

TEST(gates) {
  static const char *const ops[] = {"silu_and_mul", "gelu_and_mul",
                                    "gelu_tanh_and_mul"};
  for (int round = 0; round < 3 * ROUNDS; ++round) {
    both b;
    both_open(&b, "gated_activations");
    const int64_t shape[] = {draw(9), 2 * draw_width(900)};
    argument(&b, float_types[draw(3)], 2, shape, 0);
    both_run(&b, ops[round % 3], NULL, 0);
    both_close(&b);
  }
}

// --- Rotation and caches -----------------------------------------------------

TEST(rope) {
  static const char *const ops[] = {"apply_rope", "apply_rope_inplace",
                                    "apply_rope_backward"};
  for (int round = 0; round < 3 * ROUNDS; ++round) {
    both b;
    both_open(&b, "apply_rope");
    const int64_t width = draw_width(256), tokens = draw(7);
    const int64_t q[] = {tokens, draw(5), width},
                  k[] = {tokens, draw(4), width};
    const og_dtype type = float_types[draw(3)];
    const int is_long = draw(2);
    argument(&b, type, 3, q, draw(2));
    argument(&b, type, 3, k, draw(2));
    array *p = argument(&b, is_long ? i64 : i32, 1, &tokens, 0);
    for (int64_t i = 0; i < tokens; ++i) {
      const int32_t position = draw(2) ? draw(100) : draw(1 << 20);
      if (is_long)
        ((int64_t *)(void *)p->memory)[i] = position;
      else
        ((int32_t *)(void *)p->memory)[i] = position;
    }
    const og_attr attr[] = {draw(3) == 0
                                ? whole(2 * draw((int32_t)width / 2 + 1))
                            : width % 2 ? whole(width - 1)
                                        : (og_attr){.kind = OG_ATTR_NONE},
                            {.kind = OG_ATTR_BOOL, .i = draw(2)},
                            real(draw(2) ? 1 : 8),
                            real(10000),
                            real(1),
                            real(4),
                            whole(draw(2) * 8192)};
    if (!both_run(&b, ops[round % 3], attr, 7))
      printf("%s [%d, %d|%d, %d]\n", ops[round % 3], (int)tokens, (int)q[1],
             (int)k[1], (int)width);
    both_close(&b);
  }
}

// Tokens of `batch` requests, whose pages are the cache's in another order.
static void append_fill(both *b, int64_t tokens, int64_t batch, int64_t pages,
                        int64_t page_size) {
  const int64_t bounds = batch + 1;
  int32_t *requests = (void *)argument(b, i32, 1, &tokens, 0)->memory;
  int32_t *positions = (void *)argument(b, i32, 1, &tokens, 0)->memory;
  // The caches come between, so the arguments are put in order by the caller.
  array *indices = argument(b, i32, 1, &pages, 0);
  array *indptr = argument(b, i32, 1, &bounds, 0);
  argument(b, i32, 1, &batch, 0);
  const int64_t of_request = pages / batch;
  for (int64_t i = 0; i < pages; ++i)
    ((int32_t *)(void *)indices->memory)[i] = (int32_t)(pages - 1 - i);
  for (int64_t i = 0; i <= batch; ++i)
    ((int32_t *)(void *)indptr->memory)[i] = (int32_t)(i * of_request);
  for (int64_t i = 0; i < tokens; ++i) {
    requests[i] = (int32_t)(i % batch);
    positions[i] = (int32_t)((i / batch) % (of_request * page_size));
  }
}

static void arguments_move(both *b, int32_t from, int32_t count, int32_t to) {
  array moved[ARGS_MAX];
  int is_int[ARGS_MAX];
  for (int32_t i = 0; i < count; ++i) {
    moved[i] = b->in[0][from + i];
    is_int[i] = b->is_int[from + i];
  }
  for (int32_t i = from; i > to; --i) {
    b->in[0][i - 1 + count] = b->in[0][i - 1];
    b->is_int[i - 1 + count] = b->is_int[i - 1];
  }
  for (int32_t i = 0; i < count; ++i) {
    b->in[0][to + i] = moved[i];
    b->is_int[to + i] = is_int[i];
  }
  for (int32_t i = 0; i < b->count; ++i) {
    b->in[0][i].tensor.shape = b->in[0][i].shape;
    b->in[0][i].tensor.strides = b->in[0][i].strides;
  }
}

TEST(caches) {
  for (int round = 0; round < 2 * ROUNDS; ++round) {
    both b;
    both_open(&b, "kv_cache");
    const og_dtype type = float_types[draw(3)];
    const int64_t batch = 1 + draw(3), size = 1 + draw(6);
    const int64_t pages = batch * (1 + draw(4)), heads = draw(4);
    // No place twice: the order of blocks is not that of tokens.
    const int64_t most = batch * (pages / batch) * size;
    const int64_t tokens = draw((int32_t)most + 1);
    const int64_t width = draw_width(64), width_v = draw_width(64);
    const int64_t key[] = {tokens, heads, width};
    const int64_t value[] = {tokens, heads, width_v};
    const int64_t k_cache[] = {pages, size, heads, width};
    const int64_t v_cache[] = {pages, size, heads, width_v};
    argument(&b, type, 3, key, draw(2));
    argument(&b, type, 3, value, draw(2));
    if (round % 2) {
      append_fill(&b, tokens, batch, pages, size);
      argument(&b, type, 4, k_cache, draw(2));
      argument(&b, type, 4, v_cache, draw(2));
      arguments_move(&b, 7, 2, 4);
      both_run(&b, "append_paged_kv_cache", NULL, 0);
    } else {
      argument(&b, type, 4, k_cache, draw(2));
      argument(&b, type, 4, v_cache, draw(2));
      int64_t *slots = (void *)argument(&b, i64, 1, &tokens, 0)->memory;
      for (int64_t i = 0; i < tokens; ++i)
        slots[i] = draw(5) == 0 ? -1 : most - 1 - i;
      both_run(&b, "reshape_and_cache", NULL, 0);
    }
    both_close(&b);
  }
}

// --- Decode ------------------------------------------------------------------

enum { REQUESTS_MAX = 5 };

typedef struct requests {
  int32_t indptr[REQUESTS_MAX + 1], last[REQUESTS_MAX];
  og_attention_problem problem;
  int64_t units;  // tokens, or pages
} requests;

// Requests of so many keys, one behind the other.
static void requests_lay(requests *r, const int32_t *keys) {
  const int32_t page = r->problem.page_size, size = page > 0 ? page : 1;
  r->indptr[0] = 0;
  for (int32_t i = 0; i < r->problem.batch; ++i) {
    r->indptr[i + 1] = r->indptr[i] + (keys[i] + size - 1) / size;
    r->last[i] = keys[i] > 0 ? keys[i] - (keys[i] - 1) / size * size : 0;
  }
  r->units = r->indptr[r->problem.batch];
}

static void requests_draw(requests *r, int is_paged) {
  const int32_t heads = 1 + draw(3), group = 1 + draw(draw(2) ? 3 : 11);
  r->problem = (og_attention_problem){
      .batch = draw(6),
      .page_size = is_paged ? 1 + draw(20) : 0,
      .kv_indptr = r->indptr,
      .last_page_len = is_paged ? r->last : NULL,
      .q_heads = heads * group,
      .kv_heads = heads,
      .dim_qk = 2 * draw_width(128),
      .dim_vo = draw_width(256),
      .causal = draw(2),
      .window_left = draw(3) == 0 ? draw(90) : -1,
      .threads = 1 + draw(20),
      .fixed_split = draw(3) == 0 ? 16 + draw(200) : -draw(2),
  };
  int32_t keys[REQUESTS_MAX];
  for (int32_t i = 0; i < r->problem.batch; ++i)
    keys[i] = draw(4) == 0 ? draw(3) : draw(1500);
  requests_lay(r, keys);
}

static void decode_once(const requests *r, og_dtype type, int is_spread) {
  both b;
  char why[256];
  int64_t bytes = 0;
  const og_attention_problem *p = &r->problem;
  const int is_paged = p->page_size > 0;
  both_open(&b, is_paged ? "batch_decode_paged" : "batch_decode_ragged");
  CHECK_EQ(og_attention_plan_size(p, &bytes, why, sizeof why), OG_OK);
  array *plan = argument(&b, (og_dtype){OG_CODE_UINT, 8, 1}, 1, &bytes, 0);
  CHECK_EQ(og_attention_plan(p, plan->memory, bytes, why, sizeof why), OG_OK);
  og_plan_header header;
  memcpy(&header, plan->memory, sizeof header);
  const int64_t q[] = {p->batch, p->q_heads, p->dim_qk};
  const int64_t k[] = {r->units, p->kv_heads, p->dim_qk};
  const int64_t v[] = {r->units, p->kv_heads, p->dim_vo};
  const int64_t k_cache[] = {r->units, p->page_size, p->kv_heads, p->dim_qk};
  const int64_t v_cache[] = {r->units, p->page_size, p->kv_heads, p->dim_vo};
  const int rank = is_paged ? 4 : 3;
  argument(&b, type, 3, q, is_spread && draw(2));
  argument(&b, type, rank, is_paged ? k_cache : k, is_spread && draw(2));
  argument(&b, type, rank, is_paged ? v_cache : v, is_spread && draw(2));
  if (is_paged) {
    int32_t *pages = (void *)argument(&b, i32, 1, &r->units, 0)->memory;
    for (int64_t i = 0; i < r->units; ++i)
      pages[i] = (int32_t)(r->units - 1 - i);
  }
  const og_attr attr[] = {draw(2) ? real(0.2) : (og_attr){.kind = OG_ATTR_NONE},
                          real(draw(2) ? 0 : 5),
                          text("NONE"),
                          real(1),
                          real(10000),
                          text(draw(2) ? "2" : "e"),
                          whole(header.split_bytes)};
  if (!both_run(&b, is_paged ? "batch_decode_paged" : "batch_decode_ragged",
                attr, 7))
    printf("batch %d, heads %d/%d, sizes %d %d, page %d, %d bits, split %d\n",
           p->batch, p->q_heads, p->kv_heads, p->dim_qk, p->dim_vo,
           p->page_size, type.bits, (int)header.split_bytes);
  both_close(&b);
}

TEST(decode) {
  for (int round = 0; round < 2 * ROUNDS; ++round) {
    requests r;
    requests_draw(&r, round % 2);
    decode_once(&r, float_types[draw(3)], 1);
  }
}

// The kernels of tensor cores: a warp has 16 keys, a block 64, a tile 256.
TEST(decode_grouped) {
  static const int32_t groups[] = {2, 3, 4, 5, 8, 9, 16, 20};
  static const int32_t keys[][REQUESTS_MAX] = {{1, 17, 63, 129, 319},
                                               {7, 0, 64, 255, 321},
                                               {8, 31, 65, 256, 700},
                                               {15, 16, 33, 127, 257}};
  for (int round = 0; round < 8 * 2 * 2 * 2; round += GROUPED_STEP) {
    requests r = {0};
    const int32_t heads = 1 + draw(2), width = round / 16 % 2 ? 64 : 128;
    const int is_paged = round / 32;
    r.problem = (og_attention_problem){
        .batch = REQUESTS_MAX,
        .page_size = is_paged ? 1 + draw(20) : 0,
        .kv_indptr = r.indptr,
        .last_page_len = is_paged ? r.last : NULL,
        .q_heads = heads * groups[round % 8],
        .kv_heads = heads,
        .dim_qk = width,
        .dim_vo = width,
        .causal = draw(2),
        .window_left = draw(4) == 0 ? draw(90) : -1,
        .threads = 1 + draw(20),
        .fixed_split = draw(2) ? 40 + draw(200) : -draw(2),
    };
    // Each group, and each type and width, meets all of them.
    requests_lay(&r, keys[(round / 8 + round) % 4]);
    decode_once(&r, float_types[1 + round / 8 % 2], draw(4) == 0);
  }
}

// What has no CUDA form is refused with the reason.
TEST(refused) {
  both b;
  opgraft_error error = {0};
  both_open(&b, "apply_rope");
  const int64_t q[] = {1, 1, 600}, tokens = 1;
  const og_attr attr[] = {{.kind = OG_ATTR_NONE},
                          {.kind = OG_ATTR_BOOL},
                          real(1),
                          real(10000),
                          real(1),
                          real(4),
                          whole(0)};
  argument(&b, float_types[0], 3, q, 0);
  argument(&b, float_types[0], 3, q, 0);
  argument(&b, i32, 1, &tokens, 0);
  for (int32_t i = 0; i < b.count; ++i) array_copy(&b.in[0][i], &b.in[1][i]);
  CHECK(side_run(&b, 1, "apply_rope", attr, 7, &error) != OG_OK);
  CHECK(strstr(error.text, "apply_rope") != NULL);
  both_close(&b);
}

static void *needed(const char *name) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", TEST_CUDA_DIR, name);
  void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (library == NULL) printf("%s\n", dlerror());
  return library;
}

int main(void) {
  static const test_case cases[] = {
      CASE_NO_FAULTS(norms),  CASE_NO_FAULTS(gates),
      CASE_NO_FAULTS(rope),   CASE_NO_FAULTS(caches),
      CASE_NO_FAULTS(decode), CASE_NO_FAULTS(decode_grouped),
      CASE_NO_FAULTS(refused)};
  // Found by the name libcuda.so.1 from here on.
  if (needed("launch_only/libcuda.so.1") == NULL ||
      needed("cuda_fake_kernels.so") == NULL)
    return 1;
  setenv("OPGRAFT_NVRTC", TEST_CUDA_DIR "/libcuda_fake_nvrtc.so", 0);
  return test_run_all("cuda_ops", cases, sizeof cases / sizeof *cases);
}
