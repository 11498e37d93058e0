// SPDX-License-Identifier: Apache-2.0
// Files: mapped to be read, written whole or not at all.

#define _GNU_SOURCE
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

static og_status io_error(const char *path, const char *what,
                          opgraft_error *error) {
  return og_error_set(error, OG_IO, NULL, NULL, "%s: could not be %s: %s", path,
                      what, strerror(errno));
}

// --- Mapped ------------------------------------------------------------------

static og_status descriptor_map(int file, const char *path, og_mapping *out,
                                opgraft_error *error) {
  struct stat info;
  if (fstat(file, &info) != 0) return io_error(path, "read", error);
  if (!S_ISREG(info.st_mode))
    return og_error_set(error, OG_IO, NULL, NULL, "%s: is %s, expected a file",
                        path, S_ISDIR(info.st_mode) ? "a folder" : "no file");
  out->bytes = "";
  out->size_bytes = (size_t)info.st_size;
  if (out->size_bytes == 0) return OG_OK;
  void *bytes = mmap(NULL, out->size_bytes, PROT_READ, MAP_PRIVATE, file, 0);
  if (bytes == MAP_FAILED) {
    *out = (og_mapping){0};
    return io_error(path, "mapped", error);
  }
  out->bytes = bytes;
  return OG_OK;
}

og_status og_file_map(const char *path, og_mapping *out, opgraft_error *error) {
  *out = (og_mapping){0};
  // A pipe without a writer would keep the caller.
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return io_error(path, "opened", error);
  const og_status status = descriptor_map(file, path, out, error);
  close(file);
  return status;
}

void og_file_unmap(og_mapping *mapping) {
  if (mapping->size_bytes > 0)
    munmap((void *)(uintptr_t)mapping->bytes, mapping->size_bytes);
  *mapping = (og_mapping){0};
}

// --- Written -----------------------------------------------------------------

// mkstemp makes a private file; a written one is like any other.
static bool mode_set(int file) {
  const mode_t mask = umask(0);
  umask(mask);
  return fchmod(file, 0666 & ~mask) == 0;
}

og_status og_file_begin(const char *path, og_file_out *out,
                        opgraft_error *error) {
  static const char suffix[] = ".XXXXXX";
  const size_t length = strlen(path);
  *out = (og_file_out){.path = path};
  out->temporary = og_alloc(length + sizeof suffix);
  if (out->temporary == NULL)
    return og_error_set(error, OG_MEMORY, NULL, NULL,
                        "%s: not enough memory to write it", path);
  memcpy(out->temporary, path, length);
  memcpy(out->temporary + length, suffix, sizeof suffix);
  const int file = mkstemp(out->temporary);
  if (file >= 0 && mode_set(file)) out->stream = fdopen(file, "wb");
  if (out->stream != NULL) return OG_OK;
  io_error(path, "written", error);
  if (file >= 0) {
    close(file);
    unlink(out->temporary);
  }
  og_free(out->temporary);
  *out = (og_file_out){0};
  return OG_IO;
}

void og_file_put(og_file_out *out, const void *bytes, size_t size_bytes) {
  if (size_bytes > 0 && out->cause == 0 &&
      fwrite(bytes, 1, size_bytes, out->stream) != size_bytes)
    out->cause = errno != 0 ? errno : EIO;
}

// Else errno says why.
static bool is_flushed(const og_file_out *out) {
  errno = 0;
  const bool is_whole = fflush(out->stream) == 0 && !ferror(out->stream);
  if (out->cause != 0) errno = out->cause;
  return is_whole && out->cause == 0;
}

og_status og_file_flush(og_file_out *out, opgraft_error *error) {
  if (is_flushed(out)) return OG_OK;
  return io_error(out->path, "written", error);
}

og_status og_file_end(og_file_out *out, og_status status,
                      opgraft_error *error) {
  if (out->stream == NULL) return status;
  const bool is_whole = is_flushed(out);
  const int cause = errno;
  const bool is_closed = fclose(out->stream) == 0;
  if (!is_whole) errno = cause;
  if (status == OG_OK &&
      !(is_whole && is_closed && rename(out->temporary, out->path) == 0))
    status = io_error(out->path, "written", error);
  if (status != OG_OK) unlink(out->temporary);
  og_free(out->temporary);
  *out = (og_file_out){0};
  return status;
}
