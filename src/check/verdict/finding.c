// SPDX-License-Identifier: Apache-2.0
// Findings: one of a kind for each argument.

#include "check/verdict/finding.h"

#include <stdio.h>
#include <string.h>

#include "check/probe/table.h"
#include "check/run/record.h"

static const struct {
  const char *name;
  const char *fix;
} kinds[OPGRAFT_FINDING_COUNT] = {
#define OPGRAFT_FINDING_ROW(name, text, fix) {text, fix},
    OPGRAFT_FINDING_LIST(OPGRAFT_FINDING_ROW)
#undef OPGRAFT_FINDING_ROW
};

const char *og_finding_name(int32_t kind) {
  return kind >= 0 && kind < OPGRAFT_FINDING_COUNT ? kinds[kind].name : NULL;
}

const char *og_finding_fix(int32_t kind) { return kinds[kind].fix; }

// --- Adding ------------------------------------------------------------------

void og_finding_set(og_finding *f, const char *op, const char *name,
                    const char *text, const og_found_at *at) {
  f->call = at->call;
  f->probe = at->probe;
  f->numel = at->numel;
  memcpy(f->code, at->code, sizeof f->code);
  snprintf(f->op, sizeof f->op, "%s", op);
  snprintf(f->name, sizeof f->name, "%s", name);
  snprintf(f->text, sizeof f->text, "%s", text);
  snprintf(f->call_text, sizeof f->call_text, "%s", at->call_text);
}

void og_findings_add(og_findings *all, int32_t kind, bool is_note,
                     const char *op, const char *name, const char *text,
                     const og_found_at *at) {
  for (int32_t i = 0; i < all->count; ++i) {
    og_finding *f = &all->entry[i];
    if (f->kind != kind || f->is_note != is_note ||
        strcmp(f->name, name) != 0 || strcmp(f->op, op) != 0)
      continue;
    f->count += f->last != at->call;
    f->last = at->call;
    if (at->numel < f->numel) og_finding_set(f, op, name, text, at);
    return;
  }
  if (all->count == OG_FINDINGS_MAX) return;
  og_finding *f = &all->entry[all->count++];
  *f = (og_finding){
      .kind = kind, .is_note = is_note, .count = 1, .last = at->call};
  og_finding_set(f, op, name, text, at);
}

// In quotes where a shell would take it apart.
static void write_word(const char *word, og_text *out) {
  const char *plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+=:,";
  const bool is_plain = word[0] != '\0' && word[strspn(word, plain)] == '\0';
  if (is_plain) {
    og_text_add(out, word);
    return;
  }
  og_text_add(out, "'");
  for (const char *c = word; *c != '\0'; ++c)
    og_text_addf(out, *c == '\'' ? "'\\%c'" : "%c", *c);
  og_text_add(out, "'");
}

static void write_option(const char *name, const char *value, og_text *out) {
  if (value == NULL) return;
  og_text_addf(out, " %s ", name);
  write_word(value, out);
}

void og_finding_write_again(const og_finding *f, const opgraft_op *op,
                            const opgraft_check_options *options,
                            og_text *out) {
  if (options->subject == NULL || f->call < 0 || f->call_text[0] == '\0')
    return;
  og_text_add(out, "opgraft check ");
  write_word(options->subject, out);
  og_text_addf(out, " --op %s --seed %llu --call %d", op->decl->name,
               (unsigned long long)options->seed, (int)f->call);
  for (int32_t i = 0; i < f->path_count; ++i)
    og_text_addf(out, "%s%d", i == 0 ? " --as-shown " : ",", (int)f->path[i]);
  og_text_addf(out, " --probe %s", og_probes[f->probe].name);
  write_option("--device", options->device, out);
  write_option("--device-options", options->device_options, out);
  write_option("--reference", options->reference_name, out);
}

int32_t og_findings_faults(const og_findings *all) {
  int32_t count = 0;
  for (int32_t i = 0; i < all->count; ++i) count += !all->entry[i].is_note;
  return count;
}
