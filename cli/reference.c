// SPDX-License-Identifier: Apache-2.0
// The client of a reference in Python. It runs in the children of check, each
// call in a connection of its own: a child may be ended at any point.

#define _GNU_SOURCE
#include "reference.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <opgraft/info.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bind.h"
#include "cli.h"
#include "output.h"
#include "places.h"

extern char **environ;

enum {
  ANSWER_S = 10,  // check takes a child that is silent for 20 s for blocked
  END_MS = 2000,  // that the process may take to end
};

// --- The process -------------------------------------------------------------

static const char *function_of(const char *text) {
  const char *at = strrchr(text, ':');
  return at != NULL && at > text && strchr(at, '/') == NULL ? at + 1 : NULL;
}

static size_t file_length(const char *text) {
  const char *function = function_of(text);
  return function != NULL ? (size_t)(function - 1 - text) : strlen(text);
}

bool cli_is_python_reference(const char *text) {
  const size_t length = file_length(text);
  return length > 3 && strncmp(text + length - 3, ".py", 3) == 0;
}

bool cli_has_reference_function(const char *text) {
  return function_of(text) != NULL;
}

// Ctrl-C at a keyboard is sent to the whole group; check ends the process.
static int spawn(char *const *argv, int input, int output, pid_t *out_child) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGINT);
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &blocked);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  fflush(NULL);
  const int failed =
      posix_spawnp(out_child, argv[0], &actions, &attributes, argv, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return failed;
}

static bool start(char *const *argv, cli_reference *r, int *out_output) {
  int input[2], output[2];
  pid_t child;
  if (pipe2(input, O_CLOEXEC) != 0) return false;
  if (pipe2(output, O_CLOEXEC) != 0) {
    close(input[0]);
    close(input[1]);
    return false;
  }
  const int failed = spawn(argv, input[0], output[1], &child);
  close(input[0]);
  close(output[1]);
  if (failed != 0) {
    close(input[1]);
    close(output[0]);
    return false;
  }
  r->pid = (int32_t)child;
  r->input = input[1];
  *out_output = output[0];
  return true;
}

// Waits for the line that says it listens.
static bool wait_ready(int output) {
  char line[8] = "";
  size_t used = 0;
  while (used < sizeof line - 1) {
    const ssize_t size = read(output, line + used, sizeof line - 1 - used);
    if (size <= 0) break;
    used += (size_t)size;
    if (strchr(line, '\n') != NULL) break;
  }
  close(output);
  return strncmp(line, "ready", 5) == 0;
}

bool cli_reference_open(const char *text, cli_reference *out) {
  const char *python = cli_python(), *function = function_of(text);
  int output;
  *out = (cli_reference){.input = -1};
  if (python == NULL) {
    cli_error(
        "check: a reference in Python needs a Python with opgraft and "
        "torch; none is beside the program or on PATH");
    return false;
  }
  snprintf(out->folder, sizeof out->folder, "/tmp/opgraft-check-XXXXXX");
  if (mkdtemp(out->folder) == NULL) {
    cli_error("check: could not make a folder for the reference in /tmp: %s",
              strerror(errno));
    return false;
  }
  snprintf(out->path, sizeof out->path, "%s/socket", out->folder);
  void *shared = mmap(NULL, sizeof *out->late, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared != MAP_FAILED) out->late = shared;
  char *file = cli_strndup(text, file_length(text));
  const char *argv[] = {python,
                        "-m",
                        "opgraft.check_reference",
                        file,
                        function != NULL ? function : "",
                        out->path,
                        NULL};
  const bool started =
      start((char *const *)(uintptr_t)argv, out, &output) && wait_ready(output);
  free(file);
  if (started) return true;
  cli_error("check: the reference %s does not start; its messages stand above",
            text);
  cli_reference_close(out);
  return false;
}

// Waits for its end; a function that never returns is killed.
static void process_end(pid_t pid) {
  const struct timespec step = {.tv_nsec = 10000000};
  int status = 0;
  for (int32_t waited = 0; waited < END_MS; waited += 10) {
    const pid_t got = waitpid(pid, &status, WNOHANG);
    if (got == pid && WIFSIGNALED(status))
      cli_error(
          "check: the reference ended by signal %d; calls after that are "
          "not compared",
          WTERMSIG(status));
    if (got == pid || (got < 0 && errno != EINTR)) return;
    nanosleep(&step, NULL);
  }
  kill(pid, SIGKILL);
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
}

void cli_reference_close(cli_reference *r) {
  if (r->input >= 0) close(r->input);
  if (r->pid > 0) process_end((pid_t)r->pid);
  if (r->late != NULL && *r->late > 0)
    cli_error(
        "check: the reference took longer than %d s for %d call%s not "
        "compared",
        ANSWER_S, (int)*r->late, *r->late == 1 ? ", which is" : "s, which are");
  if (r->late != NULL) munmap(r->late, sizeof *r->late);
  if (r->folder[0] != '\0') {
    unlink(r->path);
    rmdir(r->folder);
  }
  *r = (cli_reference){.input = -1};
}

// --- Requests ----------------------------------------------------------------

static void write_double(FILE *to, double v) {
  if (v != v)
    fputs("NaN", to);
  else if (v > 1.7976931348623157e308 || v < -1.7976931348623157e308)
    fputs(v > 0 ? "Infinity" : "-Infinity", to);
  else  // 2 would be an int to Python
    fprintf(to, v == rint(v) && fabs(v) < 1e15 ? "%.1f" : "%.17g", v);
}

static void write_tensor(FILE *to, const og_tensor *t) {
  if (t == NULL) {
    fputs("null", to);
    return;
  }
  fprintf(to, "{\"dtype\": \"%s\", \"shape\": [", cli_dtype_name(t->dtype));
  for (int32_t d = 0; d < t->ndim; ++d)
    fprintf(to, "%s%lld", d > 0 ? ", " : "", (long long)t->shape[d]);
  fputs("]}", to);
}

static void write_list(FILE *to, const og_attr *a) {
  fputc('[', to);
  for (int64_t i = 0; i < a->count; ++i) {
    if (i > 0) fputs(", ", to);
    if (a->kind == OG_ATTR_FLOATS)
      write_double(to, a->floats[i]);
    else if (a->kind == OG_ATTR_BOOLS)
      fputs(a->ints[i] ? "true" : "false", to);
    else if (a->kind == OG_ATTR_STRS)
      cli_json_string(to, a->strs[i]);
    else
      fprintf(to, "%lld", (long long)a->ints[i]);
  }
  fputc(']', to);
}

static void write_attr(FILE *to, const og_attr *a) {
  switch (a->kind) {
    case OG_ATTR_NONE:
      fputs("null", to);
      break;
    case OG_ATTR_INT:
      fprintf(to, "%lld", (long long)a->i);
      break;
    case OG_ATTR_BOOL:
      fputs(a->i ? "true" : "false", to);
      break;
    case OG_ATTR_FLOAT:
      write_double(to, a->f);
      break;
    case OG_ATTR_COMPLEX:
      fputs("{\"complex\": [", to);
      write_double(to, a->f);
      fputs(", ", to);
      write_double(to, a->imag);
      fputs("]}", to);
      break;
    case OG_ATTR_STR:
      cli_json_string(to, a->s);
      break;
    case OG_ATTR_DTYPE:
      fprintf(to, "{\"type\": \"%s\"}", cli_dtype_name(a->dtype));
      break;
    case OG_ATTR_DEVICE:
      fputs("\"cpu\"", to);
      break;
    default:
      write_list(to, a);
  }
}

static void write_bytes(FILE *to, const og_tensor *t) {
  if (t == NULL || ferror(to)) return;  // each try would wait again
  size_t bytes = (size_t)t->dtype.bits * t->dtype.lanes / 8;
  for (int32_t d = 0; d < t->ndim; ++d) bytes *= (size_t)t->shape[d];
  if (bytes > 0) fwrite(og_data(t), 1, bytes, to);
}

static void write_params(FILE *to, const opgraft_reference_call *call) {
  opgraft_param_info info = {.struct_size = sizeof info};
  for (int32_t p = 0; opgraft_op_get_param(call->op, p, &info) == OG_OK; ++p) {
    if (p > 0) fputs(", ", to);
    if (info.tensor < 0) {
      write_attr(to, &call->attr[info.attr]);
    } else if (!(info.flags & OPGRAFT_PARAM_LIST)) {
      write_tensor(to, call->in[info.tensor]);
    } else {
      const og_tensor_list *list = &call->in_list[info.tensor];
      fputc('[', to);
      for (int64_t e = 0; e < list->count; ++e) {
        if (e > 0) fputs(", ", to);
        write_tensor(to, list->tensors[e]);
      }
      fputc(']', to);
    }
  }
}

static void write_request(FILE *to, const opgraft_reference_call *call) {
  opgraft_param_info info = {.struct_size = sizeof info};
  fprintf(to, "{\"op\": \"%s\", \"args\": [", opgraft_op_name(call->op));
  write_params(to, call);
  fputs("]}\n", to);
  for (int32_t p = 0; opgraft_op_get_param(call->op, p, &info) == OG_OK; ++p) {
    if (info.tensor < 0) continue;
    const og_tensor_list *list = &call->in_list[info.tensor];
    if (!(info.flags & OPGRAFT_PARAM_LIST))
      write_bytes(to, call->in[info.tensor]);
    else
      for (int64_t e = 0; e < list->count; ++e)
        write_bytes(to, list->tensors[e]);
  }
}

// --- Answers -----------------------------------------------------------------

// {"shapes": [[2, 3], []]} into the sizes of out; false where it says why not.
static bool read_shapes(const char *line, const opgraft_reference_call *call,
                        int32_t *out_count) {
  const char *at = strstr(line, "\"shapes\": [");
  *out_count = 0;
  if (at == NULL) return false;
  at += strlen("\"shapes\": [");
  while (*at == '[' && *out_count < call->out_max) {
    opgraft_reference_array *a = &call->out[(*out_count)++];
    *a = (opgraft_reference_array){.rank = 0};
    for (++at; *at != ']' && a->rank < OPGRAFT_RANK_MAX;) {
      char *end;
      a->size[a->rank++] = strtoll(at, &end, 10);
      at = *end == ',' ? end + 2 : end;
    }
    at += at[1] == ',' ? 3 : 1;
  }
  return true;
}

static bool read_array(FILE *from, opgraft_reference_array *a) {
  size_t count = 1;
  for (int32_t d = 0; d < a->rank; ++d) count *= (size_t)a->size[d];
  a->data = malloc((count > 0 ? count : 1) * sizeof *a->data);
  return a->data != NULL &&
         fread(a->data, sizeof *a->data, count, from) == count;
}

static int32_t read_answer(FILE *from, const opgraft_reference_call *call) {
  char line[4096];
  int32_t count;
  if (fgets(line, sizeof line, from) == NULL ||
      !read_shapes(line, call, &count))
    return 0;
  for (int32_t i = 0; i < count; ++i)
    if (!read_array(from, &call->out[i])) {
      for (int32_t k = 0; k <= i; ++k) free(call->out[k].data);
      return 0;
    }
  return count;
}

// The process may be busy with a call for long, or have ended.
static int32_t ask(FILE *stream, const cli_reference *r,
                   const opgraft_reference_call *call) {
  write_request(stream, call);
  errno = 0;
  const int32_t count = fflush(stream) == 0 ? read_answer(stream, call) : 0;
  if (count == 0 && (errno == EAGAIN || errno == EWOULDBLOCK) &&
      r->late != NULL)
    ++*r->late;
  return count;
}

static FILE *stream_open(const cli_reference *r) {
  const struct timeval limit = {.tv_sec = ANSWER_S};
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  snprintf(at.sun_path, sizeof at.sun_path, "%s", r->path);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return NULL;
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  FILE *stream = NULL;
  if (connect(fd, (const struct sockaddr *)&at, sizeof at) == 0)
    stream = fdopen(fd, "r+");
  if (stream == NULL) close(fd);
  return stream;
}

int32_t cli_reference_compute(void *state, const opgraft_reference_call *call) {
  const cli_reference *r = state;
  const struct sigaction ignored = {.sa_handler = SIG_IGN};
  struct sigaction before;
  FILE *stream = stream_open(r);
  if (stream == NULL) return 0;
  sigaction(SIGPIPE, &ignored, &before);  // where the process has ended
  const int32_t count = ask(stream, r, call);
  shutdown(fileno(stream), SHUT_RDWR);  // what was not written stays so
  fclose(stream);
  sigaction(SIGPIPE, &before, NULL);
  return count;
}
