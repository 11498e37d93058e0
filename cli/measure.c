// SPDX-License-Identifier: Apache-2.0
// Timing calls of sampled sizes.
//
// Invariants: kernels run in a child process, so that one that crashes or
// hangs is a line of the report. What the child finds lies in memory that both
// share; `at` says which case it was in when it ended.

#define _GNU_SOURCE
#include "measure.h"
#include "clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// --- Cases -------------------------------------------------------------------

static int64_t tensor_bytes(const og_tensor *tensor) {
  return tensor == NULL ? 0 : og_numel(tensor) * tensor->dtype.bits / 8;
}

static int64_t list_bytes(const og_tensor_list *list) {
  int64_t bytes = 0;
  for (int64_t i = 0; i < list->count; ++i)
    bytes += tensor_bytes(list->tensors[i]);
  return bytes;
}

// Every argument is read and every result written once, whatever the kernel
// does; what it mutates is both.
static int64_t call_bytes(const opgraft_frame *frame) {
  opgraft_param_info param = {.struct_size = sizeof param};
  int64_t bytes = 0;
  for (int32_t p = 0; opgraft_op_get_param(frame->op, p, &param) == OG_OK;
       ++p) {
    const int32_t t = param.tensor;
    if (t < 0) continue;
    const int64_t one =
        tensor_bytes(frame->in[t]) + list_bytes(&frame->in_list[t]);
    bytes += param.flags & OPGRAFT_PARAM_MUTATED ? 2 * one : one;
  }
  for (int32_t i = 0; i < frame->fresh_count; ++i)
    bytes += frame->fresh_list[i].tensors != NULL
                 ? list_bytes(&frame->fresh_list[i])
                 : tensor_bytes(&frame->fresh[i]);
  return bytes;
}

static void kernel_describe(bench_case *c, const opgraft_frame *frame) {
  const og_kernel *kernel = frame->kernel;
  if (kernel == NULL) return;
  snprintf(c->kernel, sizeof c->kernel, "%s, %s",
           kernel->dtypes != NULL ? kernel->dtypes : "all types",
           kernel->isa != NULL ? kernel->isa : "any machine");
}

// Infers once, to know the results' sizes and the kernel.
static og_status case_prepare(bench_case *c) {
  opgraft_op_info info = {.struct_size = sizeof info};
  opgraft_op_get_info(c->op, &info);
  opgraft_frame *frame = cli_alloc(1, sizeof *frame);
  opgraft_frame_init(frame, c->op);
  opgraft_sample_bind(c->sample, frame);
  const og_status status = opgraft_frame_infer(frame, &c->error);
  if (status == OG_OK) {
    c->bytes = call_bytes(frame);
    c->is_mutating = info.mutated_count > 0;
    c->has_lists = (info.flags & OPGRAFT_OP_LISTS) != 0;
    kernel_describe(c, frame);
    for (int32_t i = 0; i < frame->fresh_count; ++i) {
      if (frame->fresh_list[i].tensors != NULL) continue;
      const size_t bytes = (size_t)tensor_bytes(&frame->fresh[i]) + 64;
      c->results[i] = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
      if (c->results[i] == NULL) cli_alloc(SIZE_MAX / 2, 2);
    }
  }
  opgraft_frame_reset(frame);
  free(frame);
  return status;
}

static void case_reset(bench_case *c) {
  for (int i = 0; i < OPGRAFT_OUT_MAX; ++i) free(c->results[i]);
  opgraft_sample_destroy(c->sample);
}

void bench_cases_reset(bench *b) {
  for (int32_t i = 0; i < b->count; ++i) case_reset(&b->cases[i]);
  free(b->cases);
  b->cases = NULL;
  b->count = 0;
}

static void case_add(bench *b, const opgraft_op *op, int32_t type_choice,
                     bool is_reference) {
  if (b->count == b->capacity) {
    b->capacity = b->capacity * 2 + 16;
    b->cases = cli_realloc(b->cases, (size_t)b->capacity, sizeof *b->cases);
  }
  bench_case *c = &b->cases[b->count++];
  *c = (bench_case){.op = op, .is_reference = is_reference};
  b->options.type_choice = type_choice;
  og_status status =
      opgraft_sample_create(op, &b->options, &c->sample, &c->error);
  if (status == OG_OK) status = case_prepare(c);
  if (status != OG_OK) {
    opgraft_sample_destroy(c->sample);
    c->sample = NULL;
  }
}

void bench_cases_make(bench *b, const opgraft_module *module,
                      const opgraft_op *wanted,
                      const opgraft_module *reference) {
  cli_progress bar = {.label = "sampling"};
  const int32_t count = opgraft_module_op_count(module);
  for (int32_t i = 0; i < count; ++i) {
    const opgraft_op *op = opgraft_module_op(module, i);
    if (wanted != NULL && op != wanted) continue;
    cli_progress_set(&bar, i, count);
    const opgraft_op *other =
        reference != NULL
            ? opgraft_module_find_op(reference, opgraft_op_name(op))
            : NULL;
    const int32_t types = opgraft_sample_type_count(op);
    for (int32_t t = 0; t < types || t == 0; ++t) {
      case_add(b, op, t, false);
      if (other != NULL) case_add(b, other, t, true);
    }
  }
  cli_progress_clear(&bar);
}

// --- One call ----------------------------------------------------------------

// The memory of list results is the frame's own business in a host; here it
// is one block for each, made for the call.
static void *lists_place(opgraft_frame *frame) {
  int64_t total = 0;
  for (int32_t i = 0; i < frame->fresh_count; ++i)
    for (int64_t e = 0; e < frame->fresh_list[i].count; ++e)
      total += (tensor_bytes(frame->fresh_list[i].tensors[e]) + 63) & ~63LL;
  if (total == 0) return NULL;
  char *memory = cli_alloc((size_t)total, 1), *at = memory;
  for (int32_t i = 0; i < frame->fresh_count; ++i)
    for (int64_t e = 0; e < frame->fresh_list[i].count; ++e) {
      og_tensor *tensor = frame->fresh_list[i].tensors[e];
      tensor->data = at;
      at += (tensor_bytes(tensor) + 63) & ~63LL;
    }
  return memory;
}

// What a host does for one call: match, infer, choose the kernel, run.
static og_status call_once(const bench_case *c, opgraft_team *team,
                           opgraft_frame *frame, opgraft_error *error) {
  opgraft_frame_init(frame, c->op);
  opgraft_frame_set_team(frame, team);
  opgraft_sample_bind(c->sample, frame);
  og_status status = opgraft_frame_infer(frame, error);
  if (status == OG_OK) {
    for (int32_t i = 0; i < frame->fresh_count; ++i)
      frame->fresh[i].data = c->results[i];
    // Without lists nothing sets fresh_list, which the frame's last call left.
    void *lists = c->has_lists ? lists_place(frame) : NULL;
    status = opgraft_frame_run(frame, error);
    free(lists);
  }
  opgraft_frame_reset(frame);
  return status;
}

// --- The child ---------------------------------------------------------------

typedef struct runner {
  bench *b;
  opgraft_team *team;
  opgraft_frame *frame;
} runner;

// `repeats` calls; their time, or -1 when one failed.
static double block_run(runner *r, int32_t index, int64_t repeats) {
  const bench_case *c = &r->b->cases[index];
  case_result *result = &r->b->found->result[index];
  opgraft_error error = {0};
  if (c->is_mutating) opgraft_sample_refill(c->sample, c->index_order);
  alarm(HANG_SECONDS);
  const int64_t begin = cli_now_ns();
  for (int64_t i = 0; i < repeats; ++i)
    if (call_once(c, r->team, r->frame, &error) != OG_OK) {
      result->state = CASE_REFUSED;
      snprintf(result->text, sizeof result->text, "%s", error.text);
      return -1;
    }
  const int64_t end = cli_now_ns();
  alarm(0);
  return (double)(end - begin);
}

// How many calls make a block of the intended length. The first call also pays
// for fresh memory, and is not looked at.
static void case_calibrate(runner *r, int32_t index) {
  case_result *result = &r->b->found->result[index];
  const double wanted_ns = (double)r->b->time_ms * 1e6 / BLOCKS;
  int64_t repeats = 1;
  double ns = block_run(r, index, 1);
  if (ns < 0) {
    // What was refused may want offsets where it got indices in any order.
    bench_case *c = &r->b->cases[index];
    c->index_order = OPGRAFT_INDEX_SORTED;
    opgraft_sample_refill(c->sample, c->index_order);
    ns = block_run(r, index, 1);
    if (ns >= 0) result->state = CASE_TODO;
  }
  while (ns >= 0) {
    ns = block_run(r, index, repeats);
    if (ns < 0 || ns * 4 >= wanted_ns || repeats > (int64_t)1 << 40) break;
    repeats *= 4;
  }
  if (ns < 0) return;
  const double call_ns = ns > 1 ? ns / (double)repeats : 1;
  result->repeats = (int64_t)(wanted_ns / call_ns);
  result->blocks = BLOCKS;
  if (result->repeats < 1) {
    // One call is longer than a block is to be: fewer of them then.
    const double fitting = wanted_ns * BLOCKS / call_ns;
    result->repeats = 1;
    result->blocks = fitting < BLOCKS_LEAST ? BLOCKS_LEAST : (int32_t)fitting;
  }
  result->state = CASE_READY;
}

// Blocks of all cases in turns, so that what disturbs the machine for a while
// does not fall on one of them.
static void blocks_run(runner *r) {
  shared *found = r->b->found;
  for (int32_t round = 0; round < BLOCKS; ++round)
    for (int32_t i = 0; i < r->b->count; ++i) {
      case_result *result = &found->result[i];
      if (result->state != CASE_READY || result->block_count > round) continue;
      found->at = i;
      const double ns = block_run(r, i, result->repeats);
      if (ns < 0) continue;
      result->block_ns[result->block_count++] = ns / (double)result->repeats;
      if (result->block_count == result->blocks) result->state = CASE_DONE;
    }
}

static _Noreturn void child_run(bench *b) {
  opgraft_error error;
  runner r = {.b = b, .frame = cli_alloc(1, sizeof *r.frame)};
  if (opgraft_team_create(b->threads, &r.team, &error) != OG_OK)
    _exit(CLI_FAILED);
  for (int32_t i = 0; i < b->count; ++i) {
    if (b->cases[i].sample == NULL || b->found->result[i].state != CASE_TODO)
      continue;
    b->found->at = i;
    case_calibrate(&r, i);
  }
  blocks_run(&r);
  _exit(CLI_OK);
}

// --- The parent --------------------------------------------------------------

static int32_t blocks_done(const bench *b) {
  int32_t done = 0;
  for (int32_t i = 0; i < b->count; ++i) {
    const case_result *result = &b->found->result[i];
    const bool is_over =
        result->state == CASE_REFUSED || result->state == CASE_DIED;
    const bool is_done = is_over || result->state == CASE_DONE;
    done += is_done ? BLOCKS : result->block_count;
  }
  return done;
}

// The child's wait status; a bar is drawn meanwhile.
static int child_wait(const bench *b, pid_t child, cli_progress *bar) {
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    const struct timespec pause = {0, 20 * 1000 * 1000};
    cli_progress_set(bar, blocks_done(b), b->count * BLOCKS);
    nanosleep(&pause, NULL);
  }
  return status;
}

// A child that dies costs its case; another child takes the rest over.
int bench_measure(bench *b) {
  cli_progress bar = {.label = "bench"};
  for (;;) {
    fflush(NULL);
    const pid_t child = fork();
    if (child < 0)
      return cli_error("bench: could not start a process: %s", strerror(errno));
    if (child == 0) child_run(b);
    const int status = child_wait(b, child, &bar);
    cli_progress_clear(&bar);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CLI_OK) return CLI_OK;
    if (!WIFSIGNALED(status))
      return cli_error(
          "bench: an operator ended its process; `opgraft check` "
          "says which and why");
    case_result *result = &b->found->result[b->found->at];
    result->state = CASE_DIED;
    result->died_of = WTERMSIG(status);
  }
}
