// SPDX-License-Identifier: Apache-2.0
// Reports on an event file of `opgraft doctor`: what split, skipped, recompiled
// or fell back in a compiled model, at which line, and what it cost.
//
// No framework is needed. A report belongs to one thread at a time. Errors are
// as in opgraft.h.

#ifndef OPGRAFT_REPORT_H
#define OPGRAFT_REPORT_H

#include <opgraft/opgraft.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct opgraft_report opgraft_report;

// The forms of a report; each is one row of src/report/forms.def.
enum {
  OPGRAFT_REPORT_TEXT = 0,   // for a terminal, at most 40 lines
  OPGRAFT_REPORT_JSON = 1,   // docs/doctor.schema.json
  OPGRAFT_REPORT_SARIF = 2,  // SARIF 2.1.0
  OPGRAFT_REPORT_HTML = 3,   // one page that needs nothing beside it
  OPGRAFT_REPORT_ROW = 4,    // one line of a table over many models
};

// Zero means the default, in every field.
typedef struct opgraft_report_options {
  uint32_t struct_size;
  int32_t form;       // OPGRAFT_REPORT_TEXT, ...
  int32_t is_colour;  // escape sequences in the text form
  int32_t width;      // of the text form, in columns; 80
} opgraft_report_options;

// Limits that a report is held to. Zero-filled with struct_size set: none.
typedef struct opgraft_gate {
  uint32_t struct_size;
  int32_t has_max_roots;
  int32_t has_max_recompiles;
  int32_t has_max_lost_ms;
  int32_t has_min_captured;
  int32_t reserved;
  int64_t max_roots;
  int64_t max_recompiles;
  double max_lost_ms;   // per step, of all roots together
  double min_captured;  // percent of a step's operators
  // A root that is not in this report too, by site and id, is a finding.
  const opgraft_report *baseline;  // NULL: none
} opgraft_gate;

typedef void (*opgraft_report_write_fn)(void *user, const char *text,
                                        size_t length);

// Reads and joins an event file; the bytes may be freed afterwards.
// OG_INVALID (the text names the line), OG_VERSION, OG_MEMORY.
OPGRAFT_API og_status opgraft_report_read(const char *bytes, size_t size,
                                          opgraft_report **out_report,
                                          opgraft_error *error);
OPGRAFT_API void opgraft_report_release(opgraft_report *report);
// Writes the report in one form. OG_INVALID, OG_VERSION, OG_MEMORY.
OPGRAFT_API og_status opgraft_report_write(
    const opgraft_report *report, const opgraft_report_options *options,
    opgraft_report_write_fn write, void *user, opgraft_error *error);
// Writes a line for every limit that the report is beyond; *out_findings is
// their number. OG_INVALID, OG_VERSION, OG_MEMORY.
OPGRAFT_API og_status opgraft_report_gate(const opgraft_report *report,
                                          const opgraft_gate *gate,
                                          opgraft_report_write_fn write,
                                          void *user, int32_t *out_findings,
                                          opgraft_error *error);
// Writes what became of each root of `before` in `after`, and of the times.
OPGRAFT_API og_status opgraft_report_compare(const opgraft_report *before,
                                             const opgraft_report *after,
                                             opgraft_report_write_fn write,
                                             void *user, opgraft_error *error);
OPGRAFT_API int32_t opgraft_report_root_count(const opgraft_report *report);

#ifdef __cplusplus
}
#endif

#endif  // OPGRAFT_REPORT_H
