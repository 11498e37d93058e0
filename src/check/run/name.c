// SPDX-License-Identifier: Apache-2.0
// What a buffer or a result is called in a report.

#include "check/run/name.h"

#include <stdio.h>

#include "check/run/guard.h"
#include "decl/parse/expect.h"

void og_name_of(const opgraft_op *op, og_role role, int32_t index,
                int32_t entry, char *out, size_t size) {
  const og_decl *decl = op->decl;
  static const char *const arrays[OG_ARRAY_COUNT] = {
      [OG_ARRAY_IN] = "in",           [OG_ARRAY_OUT] = "out",
      [OG_ARRAY_IN_LIST] = "in_list", [OG_ARRAY_OUT_LIST] = "out_list",
      [OG_ARRAY_ATTR] = "attr",       [OG_ARRAY_DIM] = "dim"};
  if (role == OG_ROLE_WORKSPACE) {
    snprintf(out, size, "workspace");
    return;
  }
  if (role == OG_ROLE_ARRAY) {
    snprintf(out, size, "call->%s", arrays[index]);
    return;
  }
  if (role == OG_ROLE_ATTR_LIST) {
    snprintf(out, size, "%s",
             op->decl->params[op->decl->attr_params[index]].name);
    return;
  }
  const bool is_result = role == OG_ROLE_RESULT;
  const int32_t result = is_result ? decl->fresh_results[index] : -1;
  const bool is_list = is_result
                           ? decl->results[result].is_list
                           : decl->params[decl->tensor_params[index]].is_list;
  char plain[56];
  if (is_result)
    og_result_name(decl, result, plain, sizeof plain);
  else
    snprintf(plain, sizeof plain, "%s",
             decl->params[decl->tensor_params[index]].name);
  if (is_list)
    snprintf(out, size, "%s[%d]", plain, (int)entry);
  else
    snprintf(out, size, "%s", plain);
}
