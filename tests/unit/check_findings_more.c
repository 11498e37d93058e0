// SPDX-License-Identifier: Apache-2.0
// The other half of check_wrong's operators, those whose pack elements meet,
// and nothing said of those of check_right.

#include "check_seen.h"

TEST(names_each_other_mistake) { see_wrong(1); }

TEST(every_operator_whose_pack_elements_meet_is_found) {
  static seen s;
  int32_t findings = 0, wrong = 0;
  opgraft_module *module = NULL;
  REQUIRE(module_load("check_pack", &module) == OG_OK);
  REQUIRE(check(module, NULL, &s, &findings) == OG_OK);
  for (int32_t i = 0; i < opgraft_module_op_count(module); ++i) {
    const char *op = opgraft_op_name(opgraft_module_op(module, i));
    const bool is_right = strncmp(op, "right_", 6) == 0;
    wrong += !is_right;
    const bool meets =
        has(&s, op, "mixed_pack") || has(&s, op, "wrong_batch_rule");
    if (!CHECK(meets == !is_right)) printf("%s\n", op);
  }
  CHECK(wrong >= 8);
done:
  if (module != NULL) opgraft_module_release(module);
}

TEST_MAIN("check_findings_more", CASE_NO_FAULTS(names_each_other_mistake),
          CASE_NO_FAULTS(every_operator_whose_pack_elements_meet_is_found))
