// SPDX-License-Identifier: Apache-2.0
// Records: what a child tells the parent.

#define _POSIX_C_SOURCE 200809L
#include "check/run/record.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "decl/parse/expect.h"

static_assert(sizeof(og_record) <= PIPE_BUF, "a record is written at once");

static int32_t record_pipe;
static struct {
  og_record_fn fn;
  void *state;
} record_hand;

void og_record_open(int32_t pipe) { record_pipe = pipe; }

void og_record_hand(og_record_fn fn, void *state) {
  record_hand.fn = fn;
  record_hand.state = state;
}

void og_record_send(const og_record *record) {
  if (record_hand.fn != NULL) {
    record_hand.fn(record_hand.state, record);
    return;
  }
  const char *at = (const char *)record;
  size_t left = sizeof *record;
  while (left > 0) {
    const ssize_t wrote = write(record_pipe, at, left);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) _exit(3);
    at += wrote;
    left -= (size_t)wrote;
  }
}

void og_tell_finding(const opgraft_op *op, int32_t kind, bool is_note,
                     const char *argument, const char *format, ...) {
  og_record record = {.kind = OG_RECORD_FINDING, .op = op};
  og_record_finding *f = &record.finding;
  va_list args;
  f->kind = kind;
  f->is_note = is_note;
  snprintf(f->argument, sizeof f->argument, "%s", argument);
  va_start(args, format);
  vsnprintf(f->text, sizeof f->text, format, args);
  va_end(args);
  og_record_send(&record);
}

void og_tell_end(const opgraft_op *op, int32_t kind, bool is_note,
                 const char *text) {
  og_record record = {
      .kind = OG_RECORD_FINDING,
      .op = op,
      .finding = {.kind = kind, .is_note = is_note, .is_end = true}};
  snprintf(record.finding.text, sizeof record.finding.text, "%s", text);
  og_record_send(&record);
}

static void tell_effect(og_record_kind kind, const opgraft_op *op,
                        const char *argument, uint32_t used) {
  og_record record = {.kind = kind, .op = op};
  og_record_effect *e = &record.effect;
  e->used = used;
  snprintf(e->argument, sizeof e->argument, "%s", argument);
  og_record_send(&record);
}

void og_tell_use(const opgraft_op *op, const char *argument, uint32_t used) {
  tell_effect(OG_RECORD_USE, op, argument, used);
}

void og_tell_ends(const opgraft_op *op, const char *argument, uint32_t used) {
  tell_effect(OG_RECORD_ENDS, op, argument, used);
}

void og_tell_order(const opgraft_op *op, int32_t fresh, int32_t item,
                   uint32_t fits) {
  const og_record record = {
      .kind = OG_RECORD_ORDER, .op = op, .order = {fresh, item, fits}};
  og_record_send(&record);
}

void og_tell_expect(const opgraft_op *op, og_expect_kind kind, const char *name,
                    bool holds) {
  if (!og_decl_expects(op->decl, kind, name)) return;
  og_record record = {.kind = OG_RECORD_EXPECT,
                      .op = op,
                      .expect = {.kind = kind, .holds = holds}};
  snprintf(record.expect.name, sizeof record.expect.name, "%.*s",
           (int)strcspn(name, "["), name);
  og_record_send(&record);
}
