// SPDX-License-Identifier: Apache-2.0
// Shared objects: a file's bytes, and a private copy of them, mapped.

#define _GNU_SOURCE
#include "module/object.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/float_env.h"
#include "base/memory.h"

static og_status io_error(opgraft_error *error, const char *path,
                          const char *what) {
  return og_error_set(error, OG_IO, NULL, NULL, "%s: %s: %s", path, what,
                      strerror(errno));
}

static og_status read_all(int file, size_t size, unsigned char *bytes,
                          const char *path, opgraft_error *error) {
  for (size_t done = 0; done < size;) {
    const ssize_t got = read(file, bytes + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_error(error, path, "could not read");
    if (got == 0)
      return og_error_set(error, OG_IO, NULL, NULL,
                          "%s: became shorter while it was read; build it, "
                          "then load it",
                          path);
    done += (size_t)got;
  }
  return OG_OK;
}

og_status og_object_read(const char *path, unsigned char **out_bytes,
                         size_t *out_size, opgraft_error *error) {
  *out_bytes = NULL;
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return io_error(error, path, "could not open");
  struct stat info;
  og_status status = OG_OK;
  if (fstat(file, &info) != 0)
    status = io_error(error, path, "could not read");
  else if (!S_ISREG(info.st_mode))
    status = og_error_set(error, OG_IO, NULL, NULL,
                          "%s: is not a file, expected a shared object", path);
  if (status == OG_OK) {
    *out_size = (size_t)info.st_size;
    *out_bytes = og_alloc(*out_size + 1);
    status = *out_bytes == NULL
                 ? og_error_set(error, OG_MEMORY, NULL, NULL,
                                "%s: not enough memory to load it", path)
                 : read_all(file, *out_size, *out_bytes, path, error);
  }
  close(file);
  if (status != OG_OK) {
    og_free(*out_bytes);
    *out_bytes = NULL;
  }
  return status;
}

static og_status write_all(int file, const unsigned char *bytes, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t put = write(file, bytes + done, size - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return OG_IO;
    done += (size_t)put;
  }
  return OG_OK;
}

og_status og_object_patch(const char *path, size_t at, const void *bytes,
                          size_t size, opgraft_error *error) {
  const int file = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
  const bool is_there = file >= 0 && lseek(file, (off_t)at, SEEK_SET) >= 0;
  const og_status status = is_there && write_all(file, bytes, size) == OG_OK
                               ? OG_OK
                               : io_error(error, path, "could not write");
  if (file >= 0) close(file);
  return status;
}

og_status og_object_open(const char *path, const unsigned char *bytes,
                         size_t size, void **out_object, opgraft_error *error) {
  const char *folder = getenv("TMPDIR");
  char copy[4096];
  const int length = snprintf(copy, sizeof copy, "%s/opgraft-XXXXXX.so",
                              folder != NULL ? folder : "/tmp");
  if (length < 0 || (size_t)length >= sizeof copy)
    return og_error_set(error, OG_IO, NULL, NULL,
                        "TMPDIR is longer than %zu bytes", sizeof copy);
  const int file = mkstemps(copy, 3);
  if (file < 0) return io_error(error, copy, "could not create a copy");
  og_status status = write_all(file, bytes, size);
  if (status != OG_OK) status = io_error(error, copy, "could not write a copy");
  close(file);
  if (status == OG_OK) {
    *out_object = dlopen(copy, RTLD_NOW | RTLD_LOCAL);
    if (*out_object == NULL) {
      // The text starts with the copy's path, which nobody knows.
      const char *text = dlerror();
      const size_t prefix = strlen(copy);
      if (text != NULL && strncmp(text, copy, prefix) == 0) text += prefix;
      status = og_error_set(error, OG_IO, NULL, NULL,
                            "%s: could not be loaded as a shared object%s%s",
                            path, text != NULL && text[0] == ':' ? "" : ": ",
                            text != NULL ? text : "no reason given");
    }
  }
  unlink(copy);
  return status;
}

// Destructors run here, as constructors run when it is opened.
void og_object_close(void *object) {
  const og_float_env env = og_float_env_get();
  dlclose(object);
  og_float_env_set(env);
}

void *og_object_find(void *object, const char *name) {
  return dlsym(object, name);
}
