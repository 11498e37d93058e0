// SPDX-License-Identifier: Apache-2.0
// Any bytes as a batch of attention: sizes, indptr, page table, mask, and edits
// of the plan. The plan is made, checked against plan_max, perhaps damaged,
// and run. Every buffer ends at a page that may not be touched, and inputs may
// not be written.
//
// A plan as it was made has to run, and to leave the rows that it does not name
// alone; a damaged one may be refused.

#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/bytes.h"
#include "kernel/attention_grad.h"
#include "kernel/attention_plan.h"
#include "kernel/kernel.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
  BATCH_MAX = 6,
  Q_MAX = 64,  // rows of a tensor
  KV_MAX = 512,
  THREADS_MAX = 3,
  REGION_BYTES = 8 << 20,
  CANARY = 0x5a,
};

// --- Buffers that end at a guard page

enum { PLAN, Q, K, V, OUT, LSE, PAGES, MASK, WORK, GRAD, TO_Q, TO_K, TO_V };
enum { REGIONS = TO_V + 1 };
static char *regions[REGIONS];

static bool is_input(int role) {
  return role == PLAN || (role >= Q && role <= V) || role == PAGES ||
         role == MASK || role == GRAD;
}

// Bytes that are a number of moderate size in all three types.
static void region_open(int role) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *map = mmap(NULL, REGION_BYTES + page, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED || mprotect(map + REGION_BYTES, page, PROT_NONE) != 0)
    abort();
  uint16_t *numbers = (uint16_t *)(void *)map;
  for (size_t i = 0; i < REGION_BYTES / 2; ++i)
    numbers[i] =
        (uint16_t)(0x3c00 + i * 40503 % 511 + (i % 3 == 0 ? 0x8000u : 0));
  regions[role] = map;
}

static void *buffer(int role, int64_t size, int64_t alignment) {
  if (regions[role] == NULL) region_open(role);
  if (size > REGION_BYTES) abort();
  const int64_t room = (size + alignment - 1) / alignment * alignment;
  char *at = regions[role] + REGION_BYTES - room;
  mprotect(regions[role], REGION_BYTES, PROT_READ | PROT_WRITE);
  ASAN_UNPOISON_MEMORY_REGION(regions[role], REGION_BYTES);
  ASAN_POISON_MEMORY_REGION(regions[role], (size_t)(at - regions[role]));
  ASAN_POISON_MEMORY_REGION(at + size, (size_t)(room - size));
  return at;
}

static void inputs_protect(void) {
  for (int role = 0; role < REGIONS; ++role)
    if (regions[role] != NULL && is_input(role))
      mprotect(regions[role], REGION_BYTES, PROT_READ);
}

// --- The batch

typedef struct subject {
  og_attention_problem problem;
  int32_t q_indptr[BATCH_MAX + 1], kv_indptr[BATCH_MAX + 1];
  int32_t last_page_len[BATCH_MAX];
  bool is_honest;  // tensors hold what the indptrs say, nothing is damaged
} subject;

// Lengths; now and then any integer in place of an entry.
static void take_indptr(bytes *in, subject *s, int32_t *indptr, uint32_t most) {
  for (int32_t i = 0; i < s->problem.batch; ++i) {
    const uint32_t kind = take(in, 32);
    const int32_t length = (int32_t)take(in, most);
    indptr[i + 1] = kind == 31   ? (int32_t)take_bits(in, 4)
                    : kind == 30 ? indptr[i]
                                 : indptr[i] + length;
    if (indptr[i + 1] < indptr[i] || kind == 31) s->is_honest = false;
  }
}

static void subject_take(bytes *in, subject *s) {
  static const int32_t dims[] = {64, 2, 32, 33, 80, 128, 256};
  static const int32_t groups[] = {1, 2, 4, 9};
  static const int32_t splits[] = {0, -1, 16, 100, 256};
  *s = (subject){.is_honest = true};
  og_attention_problem *p = &s->problem;
  p->batch = (int32_t)take(in, BATCH_MAX + 1);
  p->kv_heads = 1 + (int32_t)take(in, 3);
  p->q_heads = p->kv_heads * groups[take(in, 4)];
  p->dim_qk = dims[take(in, 7)];
  p->dim_vo = dims[take(in, 7)];
  p->page_size = take(in, 3) == 0 ? 1 + (int32_t)take(in, 17) : 0;
  p->causal = (int32_t)take(in, 2);
  p->window_left = (int32_t)take(in, 255) - 1;
  if (p->window_left > 60) p->window_left = -1;
  if (take(in, 8) == 7) p->window_left = INT32_MAX - (int32_t)take(in, 256);
  p->threads = 1 + (int32_t)take(in, THREADS_MAX);
  p->heads_first = (int32_t)take(in, 2);
  const bool is_decode = take(in, 4) == 0;
  p->q_indptr = is_decode ? NULL : s->q_indptr;
  p->kv_indptr = s->kv_indptr;
  p->last_page_len = s->last_page_len;
  s->kv_indptr[0] = (int32_t)take(in, 3);
  s->q_indptr[0] = (int32_t)take(in, 3);
  take_indptr(in, s, s->kv_indptr, p->page_size > 0 ? 8 : 200);
  if (!is_decode) take_indptr(in, s, s->q_indptr, 20);
  for (int32_t i = 0; i < p->batch; ++i) {
    const bool is_wrong = take(in, 64) == 63;
    const int32_t last = (int32_t)take(in, 17);
    s->last_page_len[i] =
        is_wrong || p->page_size == 0 ? last - 2 : 1 + last % p->page_size;
    if (is_wrong && p->page_size > 0) s->is_honest = false;
  }
  p->fixed_split = splits[take(in, 5)];
}

// --- The call

static og_status serial_for(const og_kernel_env *env, int64_t total,
                            int64_t grain, og_task_fn fn, void *state) {
  (void)grain;
  for (int32_t w = env->threads - 1; w >= 0; --w) {
    const int64_t begin = total * w / env->threads;
    const int64_t end = total * (w + 1) / env->threads;
    if (end > begin) fn(state, begin, end, w);
  }
  return OG_OK;
}

static char refusal[256];

static og_status keep_refusal(const og_kernel_env *env, og_status code,
                              const char *text) {
  (void)env;
  snprintf(refusal, sizeof refusal, "%s", text);
  return code;
}

static int64_t keys_of(const subject *s) {
  return s->kv_indptr[s->problem.batch];
}

// Tensors that hold what the indptrs reach, or what fits.
static og_attention_args args_take(bytes *in, subject *s) {
  const og_attention_problem *p = &s->problem;
  og_attention_args a = {
      .q_heads = p->q_heads,
      .kv_heads = p->kv_heads,
      .dim_qk = p->dim_qk,
      .dim_vo = p->dim_vo,
      .page_size = p->page_size,
      .sm_scale = take(in, 8) == 7 ? 1e30f : 0.1f,
      .soft_cap = take(in, 4) == 3 ? 5 : 0,
      .pos_mode = (int32_t)take(in, 3),
      .rope_scale = 1,
      .rope_theta = 1e4f,
      .natural_lse = (int32_t)take(in, 2),
      .element = (int)take(in, 3),
  };
  if (a.pos_mode == OG_POS_ROPE && p->dim_qk % 2 != 0) a.pos_mode = OG_POS_NONE;
  const int64_t rows = p->q_indptr != NULL ? p->q_indptr[p->batch] : p->batch;
  a.q_rows = rows + take(in, 3);
  a.kv_rows = keys_of(s) + take(in, 3);
  if (take(in, 32) == 31) --a.q_rows, s->is_honest = false;
  if (p->page_size > 0) {
    a.page_index_count = a.kv_rows;
    a.kv_rows = 1 + take(in, KV_MAX / 17);
  }
  if (a.q_rows < 0 || a.q_rows > Q_MAX) a.q_rows = 0, s->is_honest = false;
  if (a.kv_rows < 0 || a.kv_rows > KV_MAX) a.kv_rows = 0, s->is_honest = false;
  if (a.page_index_count < 0 || a.page_index_count > KV_MAX)
    a.page_index_count = 0, s->is_honest = false;
  return a;
}

static void strides_take(bytes *in, og_attention_args *a, int64_t *out_tokens) {
  const int64_t tokens =
      a->page_size > 0 ? a->kv_rows * a->page_size : a->kv_rows;
  const bool heads_first = a->page_size == 0 && take(in, 2) == 1;
  a->q_row = (int64_t)a->q_heads * a->dim_qk;
  a->q_head = a->dim_qk;
  a->out_row = (int64_t)a->q_heads * a->dim_vo;
  a->out_head = a->dim_vo;
  a->k_token = heads_first ? a->dim_qk : (int64_t)a->kv_heads * a->dim_qk;
  a->v_token = heads_first ? a->dim_vo : (int64_t)a->kv_heads * a->dim_vo;
  a->k_head = heads_first ? tokens * a->dim_qk : a->dim_qk;
  a->v_head = heads_first ? tokens * a->dim_vo : a->dim_vo;
  a->k_page = a->k_token * a->page_size;
  a->v_page = a->v_token * a->page_size;
  *out_tokens = tokens;
}

static void tensors_place(bytes *in, subject *s, og_attention_args *a) {
  const int64_t es = (int64_t)og_element_bytes(a->element);
  int64_t tokens;
  strides_take(in, a, &tokens);
  a->q = buffer(Q, a->q_rows * a->q_row * es, es);
  a->k = buffer(K, tokens * a->kv_heads * a->dim_qk * es, es);
  a->v = buffer(V, tokens * a->kv_heads * a->dim_vo * es, es);
  a->out = buffer(OUT, a->q_rows * a->out_row * es, es);
  a->lse = buffer(LSE, a->q_rows * a->q_heads * 4, 4);
  memset(a->out, CANARY, (size_t)(a->q_rows * a->out_row * es));
  memset(a->lse, CANARY, (size_t)(a->q_rows * a->q_heads * 4));
  int32_t *pages = buffer(PAGES, a->page_index_count * 4, 4);
  for (int64_t i = 0; i < a->page_index_count; ++i) {
    const bool is_wrong = take(in, 128) == 127;
    pages[i] = is_wrong ? (int32_t)take_bits(in, 4)
                        : (int32_t)take(in, (uint32_t)a->kv_rows);
    if (is_wrong) s->is_honest = false;
  }
  a->page_indices = pages;
}

static void mask_take(bytes *in, subject *s, og_attention_args *a) {
  const og_plan_header *h = a->plan;
  const uint32_t kind = take(in, 8);
  if (kind < 5 || h->mask_bytes > REGION_BYTES) return;
  a->mask_bytes = h->mask_bytes - (kind == 7 && h->mask_bytes > 0);
  if (a->mask_bytes < h->mask_bytes) s->is_honest = false;
  a->mask = buffer(MASK, a->mask_bytes, 1);
}

// A few bytes of the plan, or its last ones cut off.
static void plan_damage(bytes *in, subject *s, char *plan, int64_t *size) {
  if (take(in, 3) != 2) return;
  s->is_honest = false;
  for (uint32_t edits = 1 + take(in, 4); edits > 0; --edits) {
    const int64_t at = (int64_t)(take(in, 256) * 256 + take(in, 256)) % *size;
    const int64_t word = at / 4 * 4;
    if (take(in, 2) == 0) {
      plan[at] = (char)take(in, 256);
    } else if (word + 4 <= *size) {
      const int32_t value = (int32_t)take_bits(in, 4);
      memcpy(plan + word, &value, 4);
    }
  }
  if (take(in, 16) == 15) *size -= 8;
}

// --- What must hold

static void require(bool holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "attention: %s\n", what);
  abort();
}

static bool is_canary(const void *at, int64_t size) {
  const unsigned char *p = at;
  for (int64_t i = 0; i < size; ++i)
    if (p[i] != CANARY) return false;
  return true;
}

static void outside_check(const subject *s, const og_attention_args *a) {
  const og_attention_problem *p = &s->problem;
  const int64_t es = (int64_t)og_element_bytes(a->element);
  const int64_t first = p->q_indptr != NULL ? p->q_indptr[0] : 0;
  const int64_t last = p->q_indptr != NULL ? p->q_indptr[p->batch] : p->batch;
  const char *out = a->out;
  require(is_canary(out, first * a->out_row * es) &&
              is_canary(out + last * a->out_row * es,
                        (a->q_rows - last) * a->out_row * es),
          "rows outside the indptr were touched");
}

static void gradient_run(og_kernel_env *env, const og_attention_args *a) {
  const int64_t es = (int64_t)og_element_bytes(a->element);
  env->workspace_bytes =
      OG_ATTENTION_SHARED + (size_t)env->threads * OG_ATTENTION_GRAD_SCRATCH;
  env->workspace = buffer(WORK, (int64_t)env->workspace_bytes, 64);
  const void *grad = buffer(GRAD, a->q_rows * a->out_row * es, es);
  void *to_q = buffer(TO_Q, a->q_rows * a->q_row * es, es);
  void *to_k = buffer(TO_K, a->kv_rows * a->kv_heads * a->dim_qk * es, es);
  void *to_v = buffer(TO_V, a->kv_rows * a->kv_heads * a->dim_vo * es, es);
  inputs_protect();
  og_attention_grad(env, a, grad, to_q, to_k, to_v);
}

static void run(bytes *in, subject *s, char *plan, int64_t size) {
  og_attention_args a = args_take(in, s);
  a.plan = plan;
  tensors_place(in, s, &a);
  mask_take(in, s, &a);
  const og_plan_header header = *(const og_plan_header *)(const void *)plan;
  plan_damage(in, s, plan, &size);
  a.plan_bytes = size;
  og_kernel_env env = {.threads = s->problem.threads,
                       .parallel_for = serial_for,
                       .fail = keep_refusal};
  const int64_t fixed =
      OG_ATTENTION_SHARED + (int64_t)env.threads * OG_ATTENTION_SCRATCH;
  int64_t split_bytes = header.split_bytes;
  if (split_bytes > REGION_BYTES - 64 - fixed) {
    split_bytes = 0;  // too much for a region, so the run has to refuse
    s->is_honest = false;
  }
  env.workspace_bytes = (size_t)(fixed + split_bytes);
  env.workspace = buffer(WORK, (int64_t)env.workspace_bytes, 64);
  inputs_protect();
  const og_status status = og_attention_run(&env, &a);
  if (status != OG_OK && s->is_honest) fprintf(stderr, "%s\n", refusal);
  require(status == OG_OK || !s->is_honest, "an honest plan was refused");
  if (s->is_honest) outside_check(s, &a);
  const bool is_rowwise = a.k_head == a.dim_qk;  // what gradients ask for
  if (status == OG_OK && a.page_size == 0 && is_rowwise && take(in, 2) == 1)
    gradient_run(&env, &a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  bytes in = {data, size};
  subject s;
  char text[256];
  int64_t plan_size;
  subject_take(&in, &s);
  og_status status =
      og_attention_plan_size(&s.problem, &plan_size, text, sizeof text);
  require(status == OG_OK || !s.is_honest, "an honest batch was refused");
  if (status != OG_OK || plan_size > REGION_BYTES) return 0;
  char *plan = buffer(PLAN, plan_size, 8);
  status = og_attention_plan(&s.problem, plan, plan_size, text, sizeof text);
  require(status == OG_OK, "plan_size is less than plan takes");
  int64_t longest = 0;
  for (int32_t i = 0; i < s.problem.batch; ++i) {
    const og_plan_header *h = (const og_plan_header *)(const void *)plan;
    const og_plan_request *r = (const og_plan_request *)(const void *)(h + 1);
    if (r[i].kv_len > longest) longest = r[i].kv_len;
  }
  const int64_t rows = s.problem.q_indptr != NULL ? s.q_indptr[s.problem.batch]
                                                  : s.problem.batch;
  require(plan_size <= og_attention_plan_max(&s.problem, rows, longest),
          "plan_max is less than a plan takes");
  run(&in, &s, plan, plan_size);
  return 0;
}
