// SPDX-License-Identifier: Apache-2.0
// The verifier's entry points: what the caller gave is checked here.

#include "check/check.h"

#include "base/sized.h"
#include "check/verdict/finding.h"

og_status opgraft_check(const opgraft_module *module,
                        const opgraft_check_options *options,
                        const opgraft_check_sink *sink, int32_t *out_findings,
                        opgraft_error *error) {
  opgraft_check_options all;
  opgraft_check_sink to;
  if (out_findings != NULL) *out_findings = 0;
  if (module == NULL)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "check: module is NULL; load one first");
  OG_TRY(
      og_copy_sized("opgraft_check_options", options, &all, sizeof all, error));
  OG_TRY(og_copy_sized("opgraft_check_sink", sink, &to, sizeof to, error));
  return og_check(module, &all, &to, out_findings, error);
}

const char *opgraft_finding_name(int32_t kind) { return og_finding_name(kind); }
