// SPDX-License-Identifier: Apache-2.0
// Simulated time: when each work would start and end on a device whose copies
// and kernels take as long as their bytes say, and the file that says so.
//
// Invariants: a time is computed when the work is given, from what was given
// before, so it does not depend on when the work is done; an engine does its
// work in the order in which it was given.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "npu_sim.h"

// The model of the device; docs/devices.md states it.
enum {
  COPY_NS = 1000,  // before the first byte
  COPY_BYTES_PER_NS = 16,
  KERNEL_NS = 1000,
  KERNEL_BYTES_PER_NS = 64,
  HOST_FUNCTION_NS = 1000,
};

// One for each direction of copies; the cores do all that stays on the device.
enum {
  NO_ENGINE = -1,
  ENGINE_TO_DEVICE,
  ENGINE_TO_HOST,
  ENGINE_CORE,
  CORES = 4,
  ENGINES = ENGINE_CORE + CORES,
};

enum { PATH_MOST = 1023 };

struct npu_trace {
  FILE *file;
  uint64_t line_count;
  int64_t host_ns;  // what the host gives next starts no earlier
  int64_t free_ns[ENGINES];
  char path[PATH_MOST + 1];
};

typedef struct span {
  int64_t begin_ns, end_ns;
  uint64_t bytes;
  int32_t engine;
} span;

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

// --- The file ----------------------------------------------------------------

// "%p" in the name is the process's number. False where it is too long.
static bool path_read(npu_trace *trace, const char *text, size_t length) {
  size_t used = 0;
  for (size_t i = 0; i < length && used <= PATH_MOST; ++i) {
    const size_t room = sizeof trace->path - used;
    if (text[i] != '%' || i + 1 == length || text[i + 1] != 'p') {
      trace->path[used++] = text[i];
      continue;
    }
    used += (size_t)snprintf(trace->path + used, room, "%d", (int)getpid());
    ++i;
  }
  if (used > PATH_MOST) return false;
  trace->path[used] = '\0';
  return true;
}

// Opens the file for this device alone, and empties it.
static og_status file_open(npu_trace *trace, og_device_error *error) {
  const int file = open(trace->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  const bool is_ours = file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0;
  const bool is_other = file >= 0 && !is_ours && errno == EWOULDBLOCK;
  const int cut = is_ours ? ftruncate(file, 0) : 0;
  (void)cut;  // a pipe or a terminal cannot be
  trace->file = is_ours ? fdopen(file, "w") : NULL;
  if (trace->file != NULL) {
    setvbuf(trace->file, NULL, _IOLBF, BUFSIZ);
    return OG_OK;
  }
  const int reason = errno;
  if (file >= 0) close(file);
  if (is_other)
    return npu_fail(error, OG_INVALID,
                    "trace: another device writes %s; put %%p into the name "
                    "for the process's number",
                    trace->path);
  return npu_fail(error, OG_IO, "trace: %s: %s", trace->path, strerror(reason));
}

og_status npu_trace_open(const char *path, size_t length, npu_trace **out_trace,
                         og_device_error *error) {
  npu_trace *trace = calloc(1, sizeof *trace);
  if (trace == NULL) return npu_fail(error, OG_MEMORY, "no memory");
  const og_status status =
      path_read(trace, path, length)
          ? file_open(trace, error)
          : npu_fail(error, OG_INVALID,
                     "trace: the file's name has more than %d bytes",
                     (int)PATH_MOST);
  if (status == OG_OK)
    *out_trace = trace;
  else
    free(trace);
  return status;
}

void npu_trace_close(npu_trace *trace, const og_device_host *host) {
  if (trace == NULL) return;
  const bool has_failed = ferror(trace->file) != 0;
  char text[PATH_MOST + 128];
  if (fclose(trace->file) != 0 || has_failed) {
    snprintf(text, sizeof text,
             "trace: %s could not be written: lines are missing", trace->path);
    host->report(host->user, OG_IO, text);
  }
  free(trace);
}

// --- Lines -------------------------------------------------------------------

static void text_write(FILE *file, const char *text) {
  fputc('"', file);
  for (; *text != '\0'; ++text) {
    const unsigned char c = (unsigned char)*text;
    if (c < ' ' || c > '~' || c == '"' || c == '\\')
      fprintf(file, "\\u%04x", c);
    else
      fputc(c, file);
  }
  fputc('"', file);
}

static void engine_write(FILE *file, int32_t engine) {
  if (engine == NO_ENGINE)
    fputs("null", file);
  else if (engine >= ENGINE_CORE)
    fprintf(file, "\"core %d\"", (int)(engine - ENGINE_CORE));
  else
    fputs(engine == ENGINE_TO_HOST ? "\"to host\"" : "\"to device\"", file);
}

static void line_write(const npu_trace *trace, const npu_row *row,
                       const npu_work *work, const span *time) {
  FILE *file = trace->file;
  fprintf(file,
          "{\"id\":%llu,\"device\":\"npu:0\",\"stream\":%d,\"lane\":%d,"
          "\"replay\":%llu,\"kind\":\"%s\",\"name\":",
          (unsigned long long)trace->line_count, (int)row->stream,
          (int)row->lane, (unsigned long long)row->replay,
          npu_kind_name(work->kind));
  text_write(file, npu_work_name(work));
  fputs(",\"engine\":", file);
  engine_write(file, time->engine);
  fprintf(file, ",\"bytes\":%llu,\"start_ns\":%lld,\"end_ns\":%lld,\"waits\":[",
          (unsigned long long)time->bytes, (long long)time->begin_ns,
          (long long)time->end_ns);
  if (work->kind == NPU_WAIT)
    fprintf(file, "%llu", (unsigned long long)work->record->line);
  fputs("]}\n", file);
}

// --- The model ---------------------------------------------------------------

static uint64_t tensor_bytes(const og_tensor *tensor) {
  uint64_t bytes = (tensor->dtype.bits * tensor->dtype.lanes + 7u) / 8u;
  for (int32_t d = 0; d < tensor->ndim; ++d)
    bytes *= (uint64_t)tensor->shape[d];
  return bytes;
}

// That it reads and writes, on the device where it stays there.
static uint64_t work_bytes(const npu_work *work) {
  if (work->kind == NPU_COPY_ON_DEVICE) return 2 * work->size_bytes;
  if (work->kind != NPU_LAUNCH) return work->size_bytes;
  uint64_t bytes = 0;
  for (int32_t t = 0; t < work->call->operand_count; ++t)
    bytes += tensor_bytes(&work->call->operands[t].own);
  return bytes;
}

// The core that was free last, of those that are by then; else the first to be.
static int32_t core_pick(const npu_trace *trace, int64_t ready_ns) {
  int32_t best = ENGINE_CORE;
  for (int32_t e = ENGINE_CORE + 1; e < ENGINES; ++e) {
    const int64_t now = trace->free_ns[best], next = trace->free_ns[e];
    const bool is_better =
        next <= ready_ns ? now > ready_ns || next > now : next < now;
    if (is_better) best = e;
  }
  return best;
}

static int32_t engine_pick(const npu_trace *trace, npu_kind kind,
                           int64_t ready_ns) {
  switch (kind) {
    case NPU_COPY_TO_DEVICE:
      return ENGINE_TO_DEVICE;
    case NPU_COPY_TO_HOST:
      return ENGINE_TO_HOST;
    case NPU_COPY_ON_DEVICE:
    case NPU_SET:
    case NPU_LAUNCH:
      return core_pick(trace, ready_ns);
    default:
      return NO_ENGINE;
  }
}

static int64_t bytes_ns(int32_t engine, uint64_t bytes) {
  return engine >= ENGINE_CORE
             ? KERNEL_NS + (int64_t)(bytes / KERNEL_BYTES_PER_NS)
             : COPY_NS + (int64_t)(bytes / COPY_BYTES_PER_NS);
}

static span work_place(npu_trace *trace, const npu_work *work,
                       int64_t ready_ns) {
  const int32_t engine = engine_pick(trace, work->kind, ready_ns);
  span time = {.begin_ns = ready_ns, .end_ns = ready_ns, .engine = engine};
  if (work->kind == NPU_WAIT)
    time.end_ns = later(ready_ns, work->record->simulated_ns);
  if (work->kind == NPU_HOST_FUNCTION) time.end_ns += HOST_FUNCTION_NS;
  if (engine == NO_ENGINE) return time;
  time.bytes = work_bytes(work);
  time.begin_ns = later(ready_ns, trace->free_ns[engine]);
  time.end_ns = time.begin_ns + bytes_ns(engine, time.bytes);
  trace->free_ns[engine] = time.end_ns;
  return time;
}

void npu_trace_work(npu_trace *trace, const npu_row *row, const npu_work *work,
                    int64_t *end_ns) {
  const span time = work_place(trace, work, later(*end_ns, trace->host_ns));
  ++trace->line_count;
  if (work->kind == NPU_RECORD) {
    work->record->line = trace->line_count;
    work->record->simulated_ns = time.end_ns;
  }
  line_write(trace, row, work, &time);
  *end_ns = time.end_ns;
}

void npu_trace_host(npu_trace *trace, int64_t end_ns) {
  if (trace != NULL) trace->host_ns = later(trace->host_ns, end_ns);
}
