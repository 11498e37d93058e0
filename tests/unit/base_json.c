// SPDX-License-Identifier: Apache-2.0
// Commas, keys and escapes of a JSON text that is written piece by piece.

#include "base/json.h"

#include <math.h>
#include <string.h>

#include "unit/test.h"

TEST(commas_stand_between_neighbours_alone) {
  og_text out = {0};
  og_json_begin(&out, NULL, '{');
  og_json_text(&out, "a", "ends with {");
  og_json_begin(&out, "b", '[');
  og_json_int(&out, NULL, -1);
  og_json_bool(&out, NULL, true);
  og_json_begin(&out, NULL, '[');
  og_json_end(&out, ']');
  og_json_end(&out, ']');
  og_json_begin(&out, "c", '{');
  og_json_end(&out, '}');
  og_json_text(&out, "d", NULL);
  og_json_end(&out, '}');
  CHECK(strcmp(out.data,
               "{\"a\": \"ends with {\", \"b\": [-1, true, []], \"c\": {}, "
               "\"d\": null}") == 0);
  og_text_reset(&out);
}

TEST(lines_keep_the_commas) {
  og_text out = {0};
  og_json_begin(&out, NULL, '[');
  og_json_line(&out, 2);
  og_json_number(&out, NULL, 0.5, 2);
  og_json_line(&out, 2);
  og_json_number(&out, NULL, (double)NAN, 2);
  og_json_end(&out, ']');
  CHECK(strcmp(out.data, "[\n  0.50,\n  null]") == 0);
  og_text_reset(&out);
}

TEST(text_is_escaped) {
  og_text out = {0};
  og_json_text(&out, "k", "\"\\\n\x01\xff");
  CHECK(strcmp(out.data, "\"k\": \"\\\"\\\\\\n\\u0001\\ufffd\"") == 0);
  og_text_reset(&out);
}

TEST_MAIN("json", CASE_NO_FAULTS(commas_stand_between_neighbours_alone),
          CASE_NO_FAULTS(lines_keep_the_commas),
          CASE_NO_FAULTS(text_is_escaped))
