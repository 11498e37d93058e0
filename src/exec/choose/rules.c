// SPDX-License-Identifier: Apache-2.0
// Which kernel runs which node, as text.

#include "exec/choose/rules.h"

#include <string.h>

#include "base/text.h"
#include "graph/op.h"

static const char *const candidates[OG_BY_COUNT] = {
    [OG_BY_PLAIN] = "plain",       [OG_BY_FAST] = "fast",
    [OG_BY_HOST] = "host",         [OG_BY_PACKED] = "packed",
    [OG_BY_EPILOGUE] = "epilogue", [OG_BY_WINOGRAD] = "winograd"};

// --- Printing ----------------------------------------------------------------

static void tensor_print(const og_plan *plan, opgraft_value id, og_text *out) {
  if (id < 0) {
    og_text_add(out, " none");
    return;
  }
  const og_tensor *tensor = &plan->tensors[id];
  og_text_addf(out, " %s[", og_dtype_name(tensor->dtype));
  for (int32_t d = 0; d < tensor->ndim; ++d)
    og_text_addf(out, d > 0 ? ",%lld" : "%lld", (long long)tensor->shape[d]);
  og_text_add(out, "]");
}

const char *og_candidate_name(og_candidate by) { return candidates[by]; }

void og_rule_node_print(const og_plan *plan, const og_node *node,
                        og_text *out) {
  og_text_add(out, og_ops[node->op].name);
  for (int32_t i = 0; i < node->in_count; ++i)
    tensor_print(plan, node->in[i], out);
  og_text_add(out, " ->");
  for (int32_t r = 0; r < node->out_count; ++r)
    tensor_print(plan, node->out[r], out);
}

void og_rule_print(const og_plan *plan, const og_node *node,
                   const og_chosen *chosen, og_text *out) {
  og_rule_node_print(plan, node, out);
  og_text_addf(out, ": %s  # %s\n", candidates[chosen->by], chosen->reason);
}

// --- Reading -----------------------------------------------------------------

static char *trimmed(char *begin, char *end) {
  while (begin < end && (*begin == ' ' || *begin == '\t')) ++begin;
  while (end > begin && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
    --end;
  *end = '\0';
  return begin;
}

bool og_candidate_find(const char *word, og_candidate *out) {
  for (int32_t by = 0; by < OG_BY_COUNT; ++by)
    if (strcmp(candidates[by], word) == 0) {
      *out = (og_candidate)by;
      return true;
    }
  return false;
}

// One line, which it cuts up.
static og_status rule_read(og_rules *rules, char *line, int32_t number,
                           opgraft_error *error) {
  char *end = line + strcspn(line, "#");
  *end = '\0';
  char *colon = strrchr(line, ':');
  if (colon == NULL) {
    if (*trimmed(line, end) == '\0') return OG_OK;
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "rules, line %d: found \"%.40s\", expected \"operator: "
                        "plain\", fast, packed, winograd, epilogue or host",
                        (int)number, trimmed(line, end));
  }
  const char *word = trimmed(colon + 1, end);
  const char *nodes = trimmed(line, colon);
  const size_t length = strcspn(nodes, " ");
  og_rule *rule = &rules->rules[rules->count];
  rule->nodes = nodes;
  if (!og_candidate_find(word, &rule->by))
    return og_error_set(
        error, OG_INVALID, NULL, NULL,
        "rules, line %d: found \"%.40s\" behind \":\", expected "
        "plain, fast, packed, winograd, epilogue or host",
        (int)number, word);
  if (strcmp(nodes, "*") != 0 && og_op_find(nodes, length) < 0)
    return og_error_set(
        error, OG_INVALID, NULL, NULL,
        "rules, line %d: found \"%.*s\", which is not an operator "
        "of the graph engine (docs/ir.md), and not *",
        (int)number, (int)(length < 40 ? length : 40), nodes);
  ++rules->count;
  return OG_OK;
}

static og_status rules_read(og_rules *rules, opgraft_error *error) {
  int32_t number = 1;
  for (char *at = rules->text; at != NULL; ++number) {
    char *next = strchr(at, '\n');
    if (next != NULL) *next++ = '\0';
    OG_TRY(rule_read(rules, at, number, error));
    at = next;
  }
  return OG_OK;
}

og_status og_rules_create(const char *text, og_rules **out_rules,
                          opgraft_error *error) {
  const size_t length = strlen(text);
  size_t lines = 1;
  for (size_t i = 0; i < length; ++i) lines += text[i] == '\n';
  og_rules *rules = og_alloc_zeroed(1, sizeof *rules);
  if (rules == NULL) return og_graph_no_memory(error);
  rules->text = og_alloc(length + 1);
  rules->rules = og_alloc_zeroed(lines, sizeof *rules->rules);
  og_status status = OG_MEMORY;
  if (rules->text != NULL && rules->rules != NULL) {
    memcpy(rules->text, text, length + 1);
    status = rules_read(rules, error);
  } else {
    og_graph_no_memory(error);
  }
  if (status != OG_OK) {
    og_rules_destroy(rules);
    rules = NULL;
  }
  *out_rules = rules;
  return status;
}

void og_rules_destroy(og_rules *rules) {
  if (rules == NULL) return;
  og_free(rules->text);
  og_free(rules->rules);
  og_free(rules);
}

bool og_rule_find(const og_prep *prep, og_candidate *out) {
  const og_rules *rules = prep->executable->rules;
  const og_rule *found = NULL;
  og_text own = {0};
  if (rules == NULL) return false;
  og_rule_node_print(prep->plan, prep->node, &own);
  for (int32_t i = 0; !own.failed && found == NULL && i < rules->count; ++i) {
    const char *nodes = rules->rules[i].nodes;
    if (strcmp(nodes, "*") == 0 || strcmp(nodes, own.data) == 0 ||
        strcmp(nodes, og_ops[prep->node->op].name) == 0)
      found = &rules->rules[i];
  }
  if (found != NULL) *out = found->by;
  og_text_reset(&own);
  return found != NULL;
}
