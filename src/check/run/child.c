// SPDX-License-Identifier: Apache-2.0
// Child processes, as their parent sees them.

#define _GNU_SOURCE
#include "check/run/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check/run/record.h"

static void tell_fork(const opgraft_check_sink *sink, int32_t phase) {
  if (sink->fork != NULL) sink->fork(sink->user, phase);
}

og_status og_child_start(const opgraft_check_sink *sink, og_child_main run,
                         const void *job, og_child *out_child,
                         opgraft_error *error) {
  int ends[2];
  if (pipe(ends) != 0)
    return og_error_set(error, OG_IO, NULL, NULL, "check: no pipe: %s",
                        strerror(errno));
  fflush(NULL);  // a kernel that calls exit() would write it again
  tell_fork(sink, OPGRAFT_FORK_BEFORE);
  const pid_t pid = fork();
  tell_fork(sink, pid == 0 ? OPGRAFT_FORK_CHILD : OPGRAFT_FORK_PARENT);
  if (pid < 0) {
    close(ends[0]);
    close(ends[1]);
    return og_error_set(error, OG_IO, NULL, NULL, "check: no child: %s",
                        strerror(errno));
  }
  if (pid == 0) {
    close(ends[0]);
    og_record_open(ends[1]);
    run(job);
    _exit(0);
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
