// SPDX-License-Identifier: Apache-2.0
// The checking child: limits, signals, the loop over calls and probes.

#define _GNU_SOURCE
#include "check/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "check/derive.h"
#include "check/value.h"
#include "check/watch.h"

// The child's own; a signal handler has nothing else.
static struct {
  int32_t pipe;
  int32_t run_limit_ms;
  int64_t memory_base;
  int64_t memory_limit;
  const opgraft_op *op;
  char stack[1 << 16];
  og_record crash;
} child_state;

static void send(og_record *record) {
  const char *at = (const char *)record;
  size_t left = sizeof *record;
  while (left > 0) {
    const ssize_t wrote = write(child_state.pipe, at, left);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) _exit(3);
    at += wrote;
    left -= (size_t)wrote;
  }
}

void og_trial_report(og_trial *trial, int32_t kind, bool is_note,
                     const char *argument, const char *format, ...) {
  og_record record = {.kind = OG_RECORD_FINDING,
                      .finding = kind,
                      .is_note = is_note,
                      .op = trial->op};
  va_list args;
  snprintf(record.name, sizeof record.name, "%s", argument);
  va_start(args, format);
  vsnprintf(record.text, sizeof record.text, format, args);
  va_end(args);
  send(&record);
}

void og_trial_tell_use(og_trial *trial, const char *argument, bool is_used) {
  og_record record = {
      .kind = OG_RECORD_USE, .is_used = is_used, .op = trial->op};
  snprintf(record.name, sizeof record.name, "%s", argument);
  send(&record);
}

void og_trial_tell_ends(og_trial *trial, const char *argument, uint32_t used) {
  og_record record = {
      .kind = OG_RECORD_ENDS, .is_used = (int32_t)used, .op = trial->op};
  snprintf(record.name, sizeof record.name, "%s", argument);
  send(&record);
}

void og_trial_tell_order(og_trial *trial, int32_t fresh, int32_t item,
                         uint32_t fits) {
  og_record record = {.kind = OG_RECORD_ORDER,
                      .index = fresh,
                      .step = item,
                      .is_used = (int32_t)fits,
                      .op = trial->op};
  send(&record);
}

// --- Limits and signals ------------------------------------------------------

// Pages of data and stack, from /proc/self/statm, without allocating.
static int64_t data_bytes(void) {
  char text[256];
  const int fd = open("/proc/self/statm", O_RDONLY);
  if (fd < 0) return 0;
  const ssize_t size = read(fd, text, sizeof text - 1);
  close(fd);
  int64_t value = 0;
  int32_t field = 0;
  for (ssize_t i = 0; i < size; ++i) {
    if (text[i] == ' ') {
      ++field;
    } else if (field == 5) {
      value = value * 10 + (text[i] - '0');
    }
  }
  return value * 4096;
}

void og_child_watch(const opgraft_op *op) {
  child_state.op = op;
  const int32_t ms = child_state.run_limit_ms;
  const struct itimerval limit = {
      .it_value = {ms / 1000, (suseconds_t)(ms % 1000) * 1000}};
  setitimer(ITIMER_PROF, &limit, NULL);
}

#if defined(__x86_64__)
// Whether the fault is a return to no address: at the instruction, or behind
// it.
static bool is_lost_return(uintptr_t at) {
  const int64_t shifted = (int64_t)((uint64_t)at << 16) >> 16;
  if ((uint64_t)shifted != at) return true;
  const unsigned char code = *(const unsigned char *)at;
  return code == 0xc3 || code == 0xc2;
}
#endif

static void describe_fault(og_record *r, const siginfo_t *info,
                           const ucontext_t *context) {
  const uintptr_t address = (uintptr_t)info->si_addr;
  r->address = address;
  r->signal_code = info->si_code;
#if defined(__x86_64__)
  r->is_write = (context->uc_mcontext.gregs[REG_ERR] & 2) != 0;
  const uintptr_t sp = (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
  if (info->si_code == SI_KERNEL)  // no page is at fault
    r->is_return =
        is_lost_return((uintptr_t)context->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  const uintptr_t sp = (uintptr_t)context->uc_mcontext.sp;
#else
  const uintptr_t sp = 0;
  (void)context;
#endif
  const uintptr_t distance = address > sp ? address - sp : sp - address;
  r->is_near_stack = distance < 65536;
  const og_place place = og_buffer_find(address);
  if (place.buffer == NULL) return;
  r->buffer_role = (int32_t)place.buffer->role;
  r->buffer_index = place.buffer->index;
  r->buffer_entry = place.buffer->entry;
  r->is_released = place.buffer->is_released;
  r->before = place.before;
  r->after = place.after;
  r->bytes = (int64_t)place.buffer->bytes;
}

static void on_signal(int number, siginfo_t *info, void *context) {
  if (og_watch_on_signal(number, (uintptr_t)info->si_addr, context)) return;
  og_record *r = &child_state.crash;
  *r = (og_record){.kind = OG_RECORD_CRASH,
                   .signal_number = number,
                   .buffer_role = -1,
                   .op = child_state.op};
  if (number == SIGSEGV || number == SIGBUS) describe_fault(r, info, context);
  r->is_memory_short =
      data_bytes() - child_state.memory_base > child_state.memory_limit / 2;
  send(r);
  _exit(2);
}

static void catch_signals(void) {
  static const int numbers[] = {SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,
                                SIGABRT, SIGTRAP, SIGPROF, SIGSYS};
  const stack_t stack = {.ss_sp = child_state.stack,
                         .ss_size = sizeof child_state.stack};
  struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
  action.sa_sigaction = on_signal;
  sigemptyset(&action.sa_mask);
  sigaltstack(&stack, NULL);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i)
    sigaction(numbers[i], &action, NULL);
}

static void set_limits(const opgraft_check_options *options) {
  const struct rlimit none = {0, 0};
  // A keyboard's interrupt reaches the whole group: the parent ends the child.
  signal(SIGINT, SIG_IGN);
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  setrlimit(RLIMIT_CORE, &none);
  child_state.run_limit_ms = options->run_limit_ms;
  child_state.memory_base = data_bytes();
  child_state.memory_limit = options->memory_limit_bytes;
  const rlim_t most =
      (rlim_t)(child_state.memory_base + child_state.memory_limit);
  const struct rlimit data = {most, most};
  setrlimit(RLIMIT_DATA, &data);
  // What a kernel prints is no part of a report.
  const int nowhere = open("/dev/null", O_RDWR);
  if (nowhere < 0) return;
  dup2(nowhere, STDIN_FILENO);
  dup2(nowhere, STDOUT_FILENO);
  dup2(nowhere, STDERR_FILENO);
  close(nowhere);
}

// --- Calls -------------------------------------------------------------------

static og_profile profile_of(int32_t index) {
  static const og_profile profiles[] = {
      OG_PROFILE_TINY,  OG_PROFILE_SMOOTH, OG_PROFILE_ZERO, OG_PROFILE_ONES,
      OG_PROFILE_MIXED, OG_PROFILE_SMOOTH, OG_PROFILE_EDGE, OG_PROFILE_MIXED,
      OG_PROFILE_EDGE,  OG_PROFILE_LARGE,
  };
  if (index > 0 && index % 10 == 0) return OG_PROFILE_ZERO;
  return profiles[index % 10];
}

static og_float_values floats_of(int32_t index) {
  if (index % 13 == 12) return OG_FLOAT_ZERO;
  if (index % 11 == 10) return OG_FLOAT_WIDE;
  return index % 9 == 8 ? OG_FLOAT_POSITIVE : OG_FLOAT_NORMAL;
}

static uint64_t name_seed(const char *name) {
  uint64_t seed = 14695981039346656037u;
  for (; *name != '\0'; ++name)
    seed = (seed ^ (unsigned char)*name) * 1099511628211u;
  return seed;
}

bool og_call_draw(const opgraft_op *op, const opgraft_check_options *options,
                  int32_t index, og_sample *out, opgraft_error *error) {
  enum { COMBINATIONS = 24 };
  int32_t types[COMBINATIONS][OG_VARIABLE_MAX];
  const int32_t count = og_sample_types(op, COMBINATIONS, types);
  if (count == 0) {
    og_error_set(error, OG_UNSUPPORTED, op->decl->name, NULL,
                 "it has no kernel for this machine's processor");
    return false;
  }
  const uint64_t seed =
      og_seed_mix(options->seed ^ name_seed(op->decl->name), (uint64_t)index);
  if (!og_sample_draw(op, profile_of(index),
                      types[(index + index / 10) % count], seed, out, error))
    return false;
  out->float_values = floats_of(index);
  if (index % 4 == 3) out->index_values = OG_INDEX_DISTINCT;
  return true;
}

// An empty dim beside an index that is there: no value of it is in range.
static bool has_index_hazard(const og_sample *s) {
  const og_decl *decl = s->op->decl;
  bool has_index = false, has_empty = false;
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      if (!og_sample_has(s, t, e)) continue;
      int64_t n = 1;
      for (int32_t d = 0; d < s->shape[t][e].rank; ++d)
        n *= s->shape[t][e].size[d];
      const bool is_int = og_is_integral(s->type[t]);
      has_index |= is_int && n > 0;
      has_empty |= !is_int && n == 0;
    }
  return has_index && has_empty;
}

// Draws the call, or the forward call that it follows from.
static bool draw(og_trial *trial, const og_job *job, int32_t index,
                 opgraft_error *error) {
  trial->op = job->op;
  trial->options = job->options;
  trial->forward = og_forward_of(job->op, index);
  if (trial->forward == NULL)
    return og_call_draw(job->op, job->options, index, &trial->sample, error);
  return og_call_draw(trial->forward, job->options, index,
                      &trial->forward_sample, error);
}

// Once its values are there a derived call has shapes.
static bool settle_call(og_trial *trial, opgraft_error *error) {
  if (trial->forward == NULL || og_trial_derive(trial)) return true;
  og_error_set(error, OG_KERNEL, trial->op->decl->name, NULL,
               "%s gives it nothing to work on: %s", trial->forward->decl->name,
               trial->refusal);
  return false;
}

static void send_undrawn(const og_job *job, int32_t index,
                         const opgraft_error *error) {
  og_record record = {.kind = OG_RECORD_UNDRAWN, .index = index, .op = job->op};
  snprintf(record.text, sizeof record.text, "%.400s", error->text);
  send(&record);
}

// The only argument that is absent, an empty list, or one with holes.
static void name_missing(const og_sample *s, char *out, size_t size) {
  const og_decl *decl = s->op->decl;
  int32_t found = 0;
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    if (s->is_given[t] && s->list_count[t] > 0 && s->absent[t] == 0) continue;
    snprintf(out, size, "%.63s", decl->params[decl->tensor_params[t]].name);
    ++found;
  }
  if (found != 1) out[0] = '\0';
}

static void send_call(const og_trial *trial, og_record_kind kind, int32_t index,
                      int32_t step) {
  og_record record = {.kind = kind,
                      .index = index,
                      .step = step,
                      .numel = og_sample_numel(&trial->sample),
                      .has_index_hazard = trial->forward == NULL &&
                                          has_index_hazard(&trial->sample),
                      .op = trial->op};
  og_text text = {0};
  og_sample_describe(&trial->sample, &text);
  snprintf(record.text, sizeof record.text, "%s",
           text.data != NULL ? text.data : "");
  if (trial->op->decl->tensor_count > 0)
    snprintf(record.name, sizeof record.name, "%s",
             og_dtype_name(trial->sample.type[0]));
  og_text_reset(&text);
  name_missing(&trial->sample, record.missing, sizeof record.missing);
  send(&record);
}

// A kernel that refuses a word often says which ones it takes, in quotes.
static void learn_words(og_trial *trial) {
  const char *at = trial->refusal;
  while (trial->word_count < OG_WORDS_MAX && (at = strchr(at, '"')) != NULL) {
    const char *end = strchr(++at, '"');
    if (end == NULL) return;
    char *word = trial->word[trial->word_count];
    const size_t length = (size_t)(end - at);
    bool is_known = length >= sizeof trial->word[0];
    for (int32_t i = 0; i < trial->word_count && !is_known; ++i)
      is_known = strncmp(trial->word[i], at, length) == 0 &&
                 trial->word[i][length] == '\0';
    if (!is_known) {
      memcpy(word, at, length);
      word[length] = '\0';
      ++trial->word_count;
    }
    at = end + 1;
  }
}

// Words for string arguments: the default, or one that was learnt.
static void change_words(og_trial *trial, uint64_t salt) {
  og_random r = {og_seed_mix(trial->sample.seed, salt)};
  const og_decl *decl = trial->op->decl;
  for (int32_t p = 0; p < decl->param_count; ++p) {
    const og_param *param = &decl->params[p];
    og_attr *a = &trial->sample.attr[param->index];
    if (param->type != OG_TYPE_STR || param->is_list) continue;
    if (param->has_default && (salt % 2 == 1 || trial->word_count == 0)) {
      *a = param->default_value;
    } else if (trial->word_count > 0) {
      a->kind = OG_ATTR_STR;
      a->s = trial->word[og_random_below(&r, trial->word_count)];
      a->count = (int64_t)strlen(a->s);
    }
  }
}

// Values that the kernel takes: other kinds of indices and numbers are tried
// before it is said to refuse the call.
static og_ran run_base(og_trial *trial) {
  og_ran ran = OG_RAN_FAILED;
  for (int32_t i = 0; i < 2 * OG_INDEX_COUNT; ++i) {
    if (i > 0) {
      learn_words(trial);
      change_words(trial, (uint64_t)i);
      trial->sample.index_values =
          (og_index_values)((trial->sample.index_values + 1) % OG_INDEX_COUNT);
    }
    if (i == OG_INDEX_COUNT) trial->sample.float_values = OG_FLOAT_UNIT;
    if (i > 0 || trial->forward == NULL) {
      og_inputs_reset(&trial->inputs);
      if (!og_trial_fill(trial, &trial->sample, &trial->inputs)) continue;
    }
    ran = og_trial_run(trial, &trial->sample, &trial->inputs, &og_mode_plain,
                       &trial->base);
    if (ran != OG_RAN_REFUSED) return ran;
  }
  return ran;
}

enum { SLOW_MS = 4 };

static bool is_slow_since(clock_t begin) {
  return (clock() - begin) * 1000 / CLOCKS_PER_SEC >= SLOW_MS;
}

// Whether the base run takes long, not its first touch of memory or its search
// for values. What is run again for that is not counted.
static bool is_slow_again(og_trial *trial) {
  const int32_t runs = trial->run_count;
  int32_t layouts[sizeof trial->layout_count / sizeof(int32_t)];
  memcpy(layouts, trial->layout_count, sizeof layouts);
  const clock_t begin = clock();
  run_base(trial);
  memcpy(trial->layout_count, layouts, sizeof layouts);
  trial->run_count = runs;
  return is_slow_since(begin);
}

static og_ran begin_trial(og_trial *trial, const og_job *job) {
  const clock_t begin = clock();
  const og_ran ran = run_base(trial);
  trial->has_base = ran == OG_RAN;
  trial->is_slow =
      trial->has_base && is_slow_since(begin) && is_slow_again(trial);
  if (ran != OG_RAN_REFUSED) return ran;
  og_record record = {.kind = OG_RECORD_REFUSED,
                      .status = trial->refusal_status,
                      .op = job->op};
  snprintf(record.text, sizeof record.text, "%s", trial->refusal);
  send(&record);
  return ran;
}

static void end_trial(og_trial *trial) {
  og_inputs_reset(&trial->inputs);
  og_outputs_reset(&trial->base);
  trial->has_base = false;
}

// What is tried where a single run takes long.
static bool is_for_slow(int32_t probe) {
  return probe == OG_PROBE_arrays_ || probe == OG_PROBE_left_ ||
         probe == OG_PROBE_read_only_ || probe == OG_PROBE_poison_ ||
         probe == OG_PROBE_shares_ || probe == OG_PROBE_strided_ ||
         probe == OG_PROBE_reference_ || probe == OG_PROBE_ends_ ||
         probe == OG_PROBE_order_;
}

static bool is_wanted(const og_job *job, const og_trial *trial, int32_t probe,
                      int32_t index) {
  if (job->is_shrinking)
    return probe == job->probe ||
           (probe == OG_PROBE_poison_ && job->probe != OG_PROBE_repeat_);
  if (job->disabled >> probe & 1u) return false;
  if (job->options->probe != NULL)
    return strcmp(job->options->probe, og_probes[probe].name) == 0;
  if (trial->is_slow && !is_for_slow(probe)) return false;
  return (index * 7 + probe) % 10 < og_probes[probe].share;
}

static void send_probe(int32_t probe) {
  og_record record = {.kind = OG_RECORD_PROBE, .probe = probe};
  send(&record);
}

static void run_probes(og_trial *trial, const og_job *job, int32_t index,
                       int32_t begin) {
  for (int32_t p = begin; p < OG_PROBE_COUNT; ++p) {
    if (!is_wanted(job, trial, p, index)) continue;
    send_probe(p);
    og_child_watch(job->op);
    og_probes[p].run(trial);
  }
}

static void run_trial(og_trial *trial, const og_job *job, int32_t index,
                      int32_t begin) {
  const int32_t runs = trial->run_count;
  send_probe(OG_PROBE_base_);
  const og_ran ran = begin_trial(trial, job);
  if (ran == OG_RAN || ran == OG_RAN_WRONG)
    run_probes(trial, job, index, begin > 1 ? begin : 1);
  else if (ran == OG_RAN_REFUSED)
    og_probe_reference(trial);
  og_record end = {.kind = OG_RECORD_END,
                   .index = index,
                   .run_count = trial->run_count - runs};
  memcpy(end.layout_count, trial->layout_count, sizeof end.layout_count);
  end.offset_count = trial->offset_count;
  memset(trial->layout_count, 0, sizeof trial->layout_count);
  trial->offset_count = 0;
  send(&end);
  end_trial(trial);
}

// The call that is being drawn, which may crash as well.
static void send_begin(int32_t index) {
  og_record record = {.kind = OG_RECORD_BEGIN, .index = index};
  send(&record);
}

static void check_calls(og_trial *trial, const og_job *job) {
  for (int32_t i = job->call_begin; i < job->call_end; ++i) {
    opgraft_error error = {.code = OG_OK};
    og_child_watch(job->op);
    send_begin(i);
    if (!draw(trial, job, i, &error) || !settle_call(trial, &error)) {
      send_undrawn(job, i, &error);
      end_trial(trial);
      continue;
    }
    send_call(trial, OG_RECORD_CALL, i, 0);
    run_trial(trial, job, i, i == job->call_begin ? job->probe_begin : 0);
    trial->is_settled = false;
  }
}

// What shrinking works on: the sample itself, or the forward operator's.
static og_sample *shrinkable(og_trial *trial) {
  return trial->forward != NULL ? &trial->forward_sample : &trial->sample;
}

static bool follow_path(og_trial *trial, const og_job *job, og_sample *from) {
  opgraft_error error;
  if (!draw(trial, job, job->call_begin, &error)) return false;
  *from = *shrinkable(trial);
  for (int32_t i = 0; i < job->path_count; ++i) {
    og_sample next;
    if (!og_sample_shrink(from, job->path[i], &next) ||
        !og_sample_is_valid(&next, INT64_MAX, &error))
      return false;
    *from = next;
  }
  return true;
}

static void check_smaller(og_trial *trial, const og_job *job) {
  og_sample from;
  opgraft_error error;
  if (!follow_path(trial, job, &from)) return;
  og_sample *now = shrinkable(trial);
  for (int32_t step = job->step; og_sample_shrink(&from, step, now); ++step) {
    if (!og_sample_is_valid(now, INT64_MAX, &error) ||
        memcmp(&from, now, sizeof from) == 0 ||
        og_sample_numel(now) > og_sample_numel(&from))
      continue;
    trial->is_settled = trial->is_erratic = false;
    og_child_watch(job->op);
    if (settle_call(trial, &error)) {
      send_call(trial, OG_RECORD_SHRUNK, job->call_begin, step);
      run_trial(trial, job, job->call_begin, 0);
    }
    end_trial(trial);
  }
}

static void child_main(const og_job *job) {
#ifdef __GLIBC__
  mallopt(M_TRIM_THRESHOLD, 64 << 20);  // runs ask for the same memory again
#endif
  set_limits(job->options);
  catch_signals();
  og_trial *trial = calloc(1, sizeof *trial);
  if (trial == NULL) _exit(4);
  og_statics_begin(job->op);
  if (job->is_shrinking)
    check_smaller(trial, job);
  else
    check_calls(trial, job);
  og_record done = {.kind = OG_RECORD_DONE};
  send(&done);
  _exit(0);
}

// --- The parent's side -------------------------------------------------------

static void tell_fork(const og_job *job, int32_t phase) {
  if (job->sink->fork != NULL) job->sink->fork(job->sink->user, phase);
}

og_status og_child_start(const og_job *job, og_child *out_child,
                         opgraft_error *error) {
  int ends[2];
  if (pipe(ends) != 0)
    return og_error_set(error, OG_IO, NULL, NULL, "check: no pipe: %s",
                        strerror(errno));
  fflush(NULL);  // a kernel that calls exit() would write it again
  tell_fork(job, OPGRAFT_FORK_BEFORE);
  const pid_t pid = fork();
  tell_fork(job, pid == 0 ? OPGRAFT_FORK_CHILD : OPGRAFT_FORK_PARENT);
  if (pid < 0) {
    close(ends[0]);
    close(ends[1]);
    return og_error_set(error, OG_IO, NULL, NULL, "check: no child: %s",
                        strerror(errno));
  }
  if (pid == 0) {
    close(ends[0]);
    child_state.pipe = ends[1];
    child_main(job);
  }
  close(ends[1]);
  *out_child = (og_child){pid, ends[0]};
  return OG_OK;
}

static int32_t reap(og_child *child) {
  int status = 0;
  close(child->pipe);
  while (waitpid((pid_t)child->pid, &status, 0) < 0 && errno == EINTR) continue;
  child->pid = 0;
  return status;
}

int32_t og_child_read(og_child *child, int32_t timeout_ms, og_record *out,
                      int32_t *out_exit) {
  char *at = (char *)out;
  size_t left = sizeof *out;
  while (left > 0) {
    struct pollfd ready = {.fd = child->pipe, .events = POLLIN};
    const int polled = poll(&ready, 1, timeout_ms);
    if (polled < 0 && errno == EINTR) continue;
    if (polled == 0) return 0;
    const ssize_t size = read(child->pipe, at, left);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) {
      *out_exit = reap(child);
      return -1;
    }
    at += size;
    left -= (size_t)size;
  }
  return 1;
}

int64_t og_child_cpu_ms(const og_child *child) {
  clockid_t clock;
  struct timespec used;
  if (clock_getcpuclockid((pid_t)child->pid, &clock) != 0 ||
      clock_gettime(clock, &used) != 0)
    return -1;
  return (int64_t)used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

// 'R' in the third field of a thread's stat, behind its name in parentheses.
static bool is_task_runnable(const og_child *child, const char *task) {
  char path[96], text[512];
  snprintf(path, sizeof path, "/proc/%lld/task/%.16s/stat",
           (long long)child->pid, task);
  const int fd = open(path, O_RDONLY);
  if (fd < 0) return false;
  const ssize_t size = read(fd, text, sizeof text - 1);
  close(fd);
  text[size > 0 ? size : 0] = '\0';
  const char *name_end = strrchr(text, ')');
  return name_end != NULL && strncmp(name_end, ") R", 3) == 0;
}

bool og_child_is_runnable(const og_child *child) {
  char path[64];
  bool is_runnable = false;
  snprintf(path, sizeof path, "/proc/%lld/task", (long long)child->pid);
  DIR *tasks = opendir(path);
  if (tasks == NULL) return false;
  for (const struct dirent *task; (task = readdir(tasks)) != NULL;)
    if (task->d_name[0] != '.')
      is_runnable |= is_task_runnable(child, task->d_name);
  closedir(tasks);
  return is_runnable;
}

void og_child_stop(og_child *child) {
  if (child->pid == 0) return;
  kill((pid_t)child->pid, SIGKILL);
  reap(child);
}
