// SPDX-License-Identifier: Apache-2.0
// Limits of a child, and the signals that tell of a kernel beyond them.

#define _GNU_SOURCE
#include "check/run/limits.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "check/run/guard.h"
#include "check/run/record.h"
#include "check/run/watchpoint.h"

enum { LOAD_SECONDS = 10 };

// The child's own; a signal handler has nothing else.
static struct {
  bool is_bare;  // signals end the process
  int32_t run_limit_ms;
  int64_t memory_base;
  int64_t memory_limit;
  const opgraft_op *op;
  char stack[1 << 16];
  og_record record;
} limits;

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

static void arm(const opgraft_op *op, int32_t ms) {
  limits.op = op;
  const struct itimerval limit = {
      .it_value = {ms / 1000, (suseconds_t)(ms % 1000) * 1000}};
  setitimer(ITIMER_PROF, &limit, NULL);
}

void og_limits_arm(const opgraft_op *op) { arm(op, limits.run_limit_ms); }

void og_limits_arm_for(const opgraft_op *op, int32_t ms) {
  arm(op, limits.run_limit_ms > 0 ? ms : 0);
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

static void describe_fault(og_record_crash *r, const siginfo_t *info,
                           const ucontext_t *context) {
  const uintptr_t address = (uintptr_t)info->si_addr;
  r->address = address;
  r->signal_code = info->si_code;
#if defined(__x86_64__)
  r->is_write = (context->uc_mcontext.gregs[REG_ERR] & 2) != 0;
  const uintptr_t sp = (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
  r->code[0] = (uint64_t)context->uc_mcontext.gregs[REG_RIP];
  if (info->si_code == SI_KERNEL)  // no page is at fault
    r->is_return =
        is_lost_return((uintptr_t)context->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  const uintptr_t sp = (uintptr_t)context->uc_mcontext.sp;
  r->code[0] = context->uc_mcontext.pc;
  r->code[1] = context->uc_mcontext.regs[30] - 1;
#else
  const uintptr_t sp = 0;
  (void)context;
#endif
  const uintptr_t distance = address > sp ? address - sp : sp - address;
  r->is_near_stack = distance < 65536;
  const og_guard_place place = og_guard_find(address);
  if (place.buffer == NULL) return;
#if defined(__x86_64__)
  r->code[1] = *(const uint64_t *)sp - 1;  // the stack is in order
#endif
  r->role = (int32_t)place.buffer->role;
  r->index = place.buffer->index;
  r->entry = place.buffer->entry;
  r->is_released = place.buffer->is_released;
  r->before = place.before;
  r->after = place.after;
  r->bytes = (int64_t)place.buffer->bytes;
  r->item_bytes = (int64_t)place.buffer->alignment;
}

static void on_signal(int number, siginfo_t *info, void *context) {
  if (og_watch_on_signal(number, (uintptr_t)info->si_addr, context)) return;
  if (limits.is_bare) {  // the instruction is run again, and ends the process
    signal(number, SIG_DFL);
    return;
  }
  limits.record = (og_record){.kind = OG_RECORD_CRASH, .op = limits.op};
  og_record_crash *r = &limits.record.crash;
  r->signal_number = number;
  r->role = -1;
  if (number == SIGSEGV || number == SIGBUS) describe_fault(r, info, context);
  r->is_memory_short =
      data_bytes() - limits.memory_base > limits.memory_limit / 2;
  og_record_send(&limits.record);
  _exit(2);
}

static void catch_signals(void) {
  static const int numbers[] = {SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,
                                SIGABRT, SIGTRAP, SIGPROF, SIGSYS};
  const stack_t stack = {.ss_sp = limits.stack, .ss_size = sizeof limits.stack};
  struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
  action.sa_sigaction = on_signal;
  sigemptyset(&action.sa_mask);
  sigaltstack(&stack, NULL);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i)
    sigaction(numbers[i], &action, NULL);
}

void og_limits_watch(void) {
  limits.is_bare = true;
  catch_signals();
}

// What a kernel or driver prints does not belong in a report.
static void print_nowhere(void) {
  const int nowhere = open("/dev/null", O_RDWR);
  if (nowhere < 0) return;
  dup2(nowhere, STDIN_FILENO);
  dup2(nowhere, STDOUT_FILENO);
  dup2(nowhere, STDERR_FILENO);
  close(nowhere);
}

void og_limits_set(const opgraft_check_options *options) {
  const struct rlimit none = {0, 0};
  // A keyboard's interrupt reaches the whole group: the parent ends the child.
  signal(SIGINT, SIG_IGN);
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  setrlimit(RLIMIT_CORE, &none);
  limits.run_limit_ms = options->run_limit_ms;
  limits.memory_base = data_bytes();
  limits.memory_limit = options->memory_limit_bytes;
  const rlim_t most = (rlim_t)(limits.memory_base + limits.memory_limit);
  const struct rlimit data = {most, most};
  setrlimit(RLIMIT_DATA, &data);
  print_nowhere();
  catch_signals();
}

void og_limits_bound(void) {
  const struct itimerval limit = {.it_value = {LOAD_SECONDS, 0}};
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  print_nowhere();
  setitimer(ITIMER_PROF, &limit, NULL);
}
