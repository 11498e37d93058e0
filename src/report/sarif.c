// SPDX-License-Identifier: Apache-2.0
// The SARIF 2.1.0 form: one result per root, one rule per id or stage.

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "report/form.h"

static const char *rule_of(const og_root *root) {
  return root->id[0] != '\0' ? root->id : root->stage;
}

// A relative path or a file URI; what a URI may not hold is percent-encoded.
static void uri_add(og_text *out, const char *file) {
  static const char safe[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
  og_text_add(out, file[0] == '/' ? "\"file://" : "\"");
  for (const unsigned char *c = (const unsigned char *)file; *c != '\0'; ++c) {
    if (strchr(safe, *c) != NULL)
      og_text_add_n(out, (const char *)c, 1);
    else
      og_text_addf(out, "%%%02X", *c);
  }
  og_text_add(out, "\"");
}

static void rules(og_text *out, const og_joined *j) {
  for (int32_t i = 0; i < j->root_count; ++i) {
    bool is_said = false;
    for (int32_t k = 0; !is_said && k < i; ++k)
      is_said = strcmp(rule_of(&j->root[k]), rule_of(&j->root[i])) == 0;
    if (is_said) continue;
    og_json_line(out, 8);
    og_json_begin(out, NULL, '{');
    og_json_text(out, "id", rule_of(&j->root[i]));
    og_json_begin(out, "shortDescription", '{');
    og_json_text(out, "text", j->root[i].cause->title);
    og_text_add(out, "}}");
  }
}

static void message(og_text *out, const og_root *root) {
  og_text text = {0};
  const og_advice advice = og_advice_find(root);
  og_text_add(&text, root->cause->title);
  if (root->steady_ns.count > 0) {
    og_text_add(&text, "; ");
    og_text_add_fixed(&text, root->steady_ns.median / 1e3, 1);
    og_text_add(&text, " us a step");
  }
  og_text_add(&text, "; fix (");
  og_text_add(&text, root->fix != NULL ? root->fix->class_ : advice.class_);
  og_text_add(&text, "): ");
  og_text_add(&text, root->fix != NULL ? root->fix->title : advice.text);
  if (root->fix != NULL) {
    og_text_add(&text, "; ");
    og_text_add(&text, root->fix->status);
    og_text_add(&text, root->fix->text[0] != '\0' ? ": " : "");
    og_text_add(&text, root->fix->text);
  }
  og_json_text(out, "text", text.data != NULL ? text.data : "");
  out->failed |= text.failed;
  og_text_reset(&text);
}

static void result(og_text *out, const opgraft_report *report,
                   const og_root *root) {
  og_text file = {0};
  og_json_begin(out, NULL, '{');
  og_json_text(out, "ruleId", rule_of(root));
  og_json_text(out, "level", "warning");
  og_json_begin(out, "message", '{');
  message(out, root);
  og_json_end(out, '}');
  og_json_key(out, "locations");
  og_text_add(out, "[{\"physicalLocation\": {\"artifactLocation\": {\"uri\": ");
  uri_add(out, og_report_file(report, root->cause->file, &file));
  og_json_end(out, '}');
  // SARIF counts lines from 1; a cause without a line stands at the file.
  og_json_begin(out, "region", '{');
  og_json_int(out, "startLine", root->cause->line > 0 ? root->cause->line : 1);
  og_text_add(out, "}}}]");
  og_json_begin(out, "properties", '{');
  og_json_text(out, "stage", root->stage);
  og_json_int(out, "hits", root->hits);
  og_json_text(out, "owner", root->cause->owner);
  og_json_number(out, "cold_s", root->cold_ns / 1e9, 6);
  og_json_number(
      out, "steady_us",
      root->steady_ns.count > 0 ? root->steady_ns.median / 1e3 : (double)NAN,
      3);
  og_text_add(out, "}}");
  out->failed |= file.failed;
  og_text_reset(&file);
}

void og_report_sarif(og_text *out, const opgraft_report *report,
                     const opgraft_report_options *options) {
  const og_joined *j = &report->joined;
  (void)options;
  og_text_add(out,
              "{\n  \"$schema\": \"https://json.schemastore.org/"
              "sarif-2.1.0.json\",\n  \"version\": \"2.1.0\",\n"
              "  \"runs\": [{\n    \"tool\": {\"driver\": {\"name\": "
              "\"opgraft doctor\",\n      \"rules\": [");
  rules(out, j);
  og_text_add(out, "]}},\n    \"results\": [");
  for (int32_t i = 0; i < j->root_count; ++i) {
    og_json_line(out, 6);
    result(out, report, &j->root[i]);
  }
  og_text_add(out, "]\n  }]\n}\n");
}
