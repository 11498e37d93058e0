// SPDX-License-Identifier: Apache-2.0
// What the forms of a report share.

#include "report/form.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "report/plain.h"

og_status og_report_flush(og_text *out, opgraft_report_write_fn write,
                          void *user, opgraft_error *error) {
  const bool failed = out->failed;
  if (!failed && out->length > 0) write(user, out->data, out->length);
  og_text_reset(out);
  if (!failed) return OG_OK;
  return og_error_set(error, OG_MEMORY, NULL, NULL, "report: out of memory");
}

void og_form_add(og_text *out, og_foreign_fn foreign, const char *format, ...) {
  va_list rest;
  va_start(rest, format);
  for (const char *at = format; *at != '\0'; at += 2) {
    int32_t width = INT32_MAX;
    const size_t plain = strcspn(at, "%");
    og_text_add_n(out, at, plain);
    at += plain;
    if (*at == '\0') break;
    if (at[1] == '*') {
      width = va_arg(rest, int);
      ++at;
    }
    switch (at[1]) {
      case 's':
        foreign(out, va_arg(rest, const char *), width);
        break;
      case 'd':
        og_text_addf(out, "%d", va_arg(rest, int));
        break;
      case 'l':
        og_text_addf(out, "%lld", (long long)va_arg(rest, int64_t));
        break;
      case 't':
        og_time_add(out, va_arg(rest, double));
        break;
      case 'b':
        og_bytes_add(out, va_arg(rest, double));
        break;
      case 'm':
        og_spread_add(out, va_arg(rest, const og_spread *));
        break;
      case 'f':
        og_text_add_fixed(out, va_arg(rest, double), 1);
        break;
      default:
        og_text_add(out, "%");
    }
  }
  va_end(rest);
}

static const struct {
  const char *id;
  og_advice advice;
} advice_rows[] = {
#define ADVICE(id, class_, text) {id, {class_, text}},
#include "report/advice.def"
#undef ADVICE
};

og_advice og_advice_find(const og_root *root) {
  // Rows without an id are for a stage.
  for (size_t i = 0; i < sizeof advice_rows / sizeof *advice_rows; ++i)
    if (root->id[0] != '\0' && strcmp(advice_rows[i].id, root->id) == 0)
      return advice_rows[i].advice;
  for (size_t i = 0; i < sizeof advice_rows / sizeof *advice_rows; ++i)
    if (strcmp(advice_rows[i].id, root->stage) == 0 ||
        (strpbrk(advice_rows[i].id, ":(") != NULL &&
         strstr(root->cause->title, advice_rows[i].id) != NULL))
      return advice_rows[i].advice;
  return (og_advice){"accept", ""};
}

bool og_is_mended(const og_root *root) {
  return root->fix != NULL && strcmp(root->fix->status, "verified") == 0;
}

// Whether two roots are left for one reason.
static bool is_left_alike(const og_root *a, const og_root *b) {
  if (a->fix == NULL || b->fix == NULL) return a->fix == b->fix;
  return strcmp(a->fix->status, b->fix->status) == 0 &&
         strcmp(a->fix->text, b->fix->text) == 0;
}

// The roots from `first` on that are left for its reason, and the reason;
// returns how many, 0 where an earlier one has named it.
static int32_t left_add(og_text *out, const og_joined *j, int32_t first,
                        const char *before) {
  const og_root *root = &j->root[first];
  int32_t count = 0;
  for (int32_t i = 0; i < j->root_count; ++i) {
    if (og_is_mended(&j->root[i]) || !is_left_alike(&j->root[i], root))
      continue;
    if (i < first) return 0;
    const og_trace_cause *cause = j->root[i].cause;
    const char *file = strrchr(cause->file, '/');
    og_text_addf(out, "%s%s:%lld", count++ == 0 ? before : ", ",
                 file != NULL ? file + 1 : cause->file, (long long)cause->line);
  }
  og_text_add(out, ": ");
  og_text_add(out, root->fix != NULL ? root->fix->status : "nothing to try");
  if (root->fix == NULL || root->fix->text[0] == '\0') return count;
  og_text_add(out, ": ");
  og_text_add(out, root->fix->text);
  return count;
}

void og_report_mended_add(og_text *out, const opgraft_report *report) {
  enum { MOST = 3 };  // reasons
  const og_joined *j = &report->joined;
  int32_t mended = 0, tried = 0, named = 0, reasons = 0;
  for (int32_t i = 0; i < j->root_count; ++i) {
    mended += og_is_mended(&j->root[i]);
    tried += j->root[i].fix != NULL;
  }
  if (tried == 0) return;
  const int32_t left = j->root_count - mended;
  og_text_addf(out, "%d of %d mended", (int)mended, (int)j->root_count);
  if (left > 0) og_text_addf(out, ", %d left: ", (int)left);
  for (int32_t i = 0; i < j->root_count && reasons < MOST; ++i) {
    if (og_is_mended(&j->root[i])) continue;
    const int32_t alike = left_add(out, j, i, named > 0 ? "; " : "");
    reasons += alike > 0;
    named += alike;
  }
  if (left > named) og_text_addf(out, "; and %d more", (int)(left - named));
}

const char *og_report_file(const opgraft_report *report, const char *file,
                           og_text *scratch) {
  const int32_t runs = og_trace_run_count(&report->trace);
  const char *home =
      runs > 0 ? og_trace_run_at(&report->trace, runs - 1)->home : "";
  const size_t length = strlen(home);
  if (length < 2 || strncmp(file, home, length) != 0 || file[length] != '/')
    return file;
  og_text_reset(scratch);
  og_text_add(scratch, "~");
  og_text_add(scratch, file + length);
  return scratch->data != NULL ? scratch->data : "";
}

const char *og_report_site(const opgraft_report *report, const og_root *root,
                           og_text *scratch) {
  og_text file = {0};
  const char *name = og_report_file(report, root->cause->file, &file);
  og_text_reset(scratch);
  og_text_addf(scratch, "%s:%lld", name, (long long)root->cause->line);
  scratch->failed |= file.failed;
  og_text_reset(&file);
  return scratch->data != NULL ? scratch->data : "";
}

bool og_report_is_degraded(const opgraft_report *report) {
  for (int32_t i = 0; i < og_trace_hook_count(&report->trace); ++i)
    if (strcmp(og_trace_hook_at(&report->trace, i)->state, "gone") == 0)
      return true;
  return false;
}

const char *og_report_eager(const opgraft_report *report) {
  return report->joined.has_hlo ? "LazyTensor" : "eager";
}

void og_report_times_add(og_text *out, const opgraft_report *report) {
  const og_joined *j = &report->joined;
  og_form_add(out, NULL, " %m, now %m", &j->eager_ns, &j->compiled_ns);
  if (j->reachable_ns > 0)
    og_form_add(out, NULL, ", reachable %t", j->reachable_ns);
  og_text_add(out, " a step: ");
}

bool og_report_is_loss(const opgraft_report *report) {
  const og_joined *joined = &report->joined;
  return og_joined_times(joined) == OG_TIMES_DIFFERENT &&
         joined->compiled_ns.median > joined->eager_ns.median;
}

void og_report_verdict_add(og_text *out, const opgraft_report *report) {
  const og_joined *joined = &report->joined;
  const og_times times = og_joined_times(joined);
  if (times == OG_TIMES_BUSY) {
    og_form_add(
        out, NULL,
        "too noisy: the machine is busy (one in ten runs of fixed work took %f "
        "times its processor time)",
        joined->stretch);
  } else if (times == OG_TIMES_SPREAD) {
    og_text_add(out, "too noisy: the spread is larger than the difference");
  } else if (og_report_is_loss(report)) {
    og_text_add(out, "compiling is a net loss");
  } else {
    og_text_add_fixed(out, joined->eager_ns.median / joined->compiled_ns.median,
                      2);
    og_text_addf(out, " times %s's speed", og_report_eager(report));
  }
}

void og_spread_add(og_text *out, const og_spread *spread) {
  og_time_add(out, spread->median);
  if (spread->high <= spread->low || spread->median <= 0) return;
  og_text_add(out, " +- ");
  og_text_add_fixed(out, (spread->high - spread->low) / spread->median * 50, 0);
  og_text_add(out, " %");
}
