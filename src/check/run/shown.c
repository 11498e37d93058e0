// SPDX-License-Identifier: Apache-2.0
// A call as text, with values.

#include "check/run/shown.h"

#include <math.h>
#include <stdio.h>

#include "check/run/array.h"
#include "check/run/record.h"
#include "check/sample/describe.h"
#include "check/sample/sample.h"
#include "check/sample/value.h"

enum { VALUES_MAX = 8 };

static bool has_nan(const og_array *a) {
  for (int64_t i = 0; i < a->count; ++i)
    if (isnan(og_array_get(a, i))) return true;
  return false;
}

static void write_values(const og_array *a, og_text *out) {
  const bool is_float = og_is_floating(a->type);
  if (a->data == NULL || a->count == 0 || a->count > VALUES_MAX ||
      og_is_complex(a->type) || (is_float && !has_nan(a)))
    return;
  og_text_add(out, " = {");
  for (int64_t i = 0; i < a->count; ++i)
    og_text_addf(out, is_float ? "%s%.9g" : "%s%.0f", i > 0 ? ", " : "",
                 og_array_get(a, i));
  og_text_add(out, "}");
}

static void values_of(void *state, int32_t t, int32_t e, og_text *out) {
  const og_inputs *inputs = state;
  write_values(&inputs->tensor[t][e], out);
}

void og_shown_write(const og_sample *sample, const og_inputs *inputs,
                    og_text *out) {
  og_inputs *given = (og_inputs *)(uintptr_t)inputs;
  og_sample_describe_with(sample, inputs != NULL ? values_of : NULL, given,
                          out);
}

static void tell(const og_sample *sample, const og_inputs *inputs,
                 bool is_index_far) {
  og_record record = {.kind = OG_RECORD_SHOWN, .op = sample->op};
  og_text text = {0};
  record.call.is_index_far = is_index_far;
  record.call.numel = og_sample_numel(sample);
  og_shown_write(sample, inputs, &text);
  snprintf(record.call.text, sizeof record.call.text, "%s",
           text.data != NULL ? text.data : "");
  og_text_reset(&text);
  og_record_send(&record);
}

void og_tell_shown(const og_sample *sample, const og_inputs *inputs) {
  tell(sample, inputs, false);
}

void og_tell_index_far(const og_sample *sample, const og_inputs *inputs) {
  tell(sample, inputs, true);
}
