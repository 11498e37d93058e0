// SPDX-License-Identifier: Apache-2.0
// A plan as JSON: nodes, who runs them, and when memory is in use.

#include "base/json.h"
#include "exec/choose/rules.h"
#include "graph/op.h"
#include "graph/print.h"

typedef struct schedule {
  const opgraft_graph *graph;
  const og_plan_entry *entry;
  int32_t *numbers;  // of unnamed values
  int32_t *steps;    // by node: its position in the plan's order
  og_text *out;
} schedule;

static bool is_shown(const schedule *s, opgraft_value id) {
  if (id < 0) return false;
  const og_value *value = &s->graph->values[id];
  if (value->kind == OG_VALUE_LITERAL) return false;
  return value->kind != OG_VALUE_RESULT ||
         (value->node >= 0 && !s->graph->nodes[value->node].is_removed);
}

// --- Values ------------------------------------------------------------------

static void type_add(const schedule *s, opgraft_value id, og_text *out) {
  const og_tensor *tensor = &s->entry->plan->tensors[id];
  og_text_addf(out, "%s[", og_dtype_name(tensor->dtype));
  for (int32_t d = 0; d < tensor->ndim; ++d)
    og_text_addf(out, d > 0 ? ", %lld" : "%lld", (long long)tensor->shape[d]);
  og_text_add(out, "]");
}

static void value_add(const schedule *s, opgraft_value id) {
  static const char *const kinds[] = {[OG_VALUE_INPUT] = "input",
                                      [OG_VALUE_CONSTANT] = "constant",
                                      [OG_VALUE_RESULT] = "result"};
  static const char *const places[] = {[OG_PLACE_NONE] = "none",
                                       [OG_PLACE_ARENA] = "arena",
                                       [OG_PLACE_INPUT] = "input",
                                       [OG_PLACE_STORAGE] = "output",
                                       [OG_PLACE_CONSTANT] = "constant"};
  og_text name = {0}, type = {0};
  og_graph_print_value(s->graph, s->numbers, id, &name);
  type_add(s, id, &type);
  s->out->failed |= name.failed || type.failed;
  og_json_begin(s->out, NULL, '{');
  og_json_int(s->out, "id", id);
  og_json_text(s->out, "name", name.data);
  og_json_text(s->out, "type", type.data);
  og_json_text(s->out, "kind", kinds[s->graph->values[id].kind]);
  og_json_text(s->out, "place", places[s->entry->plan->places[id].kind]);
  og_json_end(s->out, '}');
  og_text_reset(&name);
  og_text_reset(&type);
}

static void values_add(const schedule *s) {
  og_json_begin(s->out, "values", '[');
  for (int32_t v = 0; v < s->graph->value_count; ++v)
    if (is_shown(s, v)) value_add(s, v);
  og_json_end(s->out, ']');
}

static void ids_add(const schedule *s, const char *key,
                    const opgraft_value *ids, int32_t count) {
  og_json_begin(s->out, key, '[');
  for (int32_t i = 0; i < count; ++i)
    if (is_shown(s, ids[i])) og_json_int(s->out, NULL, ids[i]);
  og_json_end(s->out, ']');
}

// --- Nodes -------------------------------------------------------------------

static void runner_add(const schedule *s, int32_t n) {
  const og_node *node = &s->graph->nodes[n];
  const og_chosen *chosen = &s->entry->chosen[n];
  const char *by = og_candidate_name(chosen->by), *reason = chosen->reason;
  if (og_op_is(node, OG_OP_VIEW)) {
    by = "view";
    reason = "it shares its operand's memory";
  } else if (og_op_is(node, OG_OP_FOREIGN)) {
    const bool is_module = node->origin->module_op != NULL;
    by = is_module ? "module" : "host";
    reason = is_module              ? "a module has this operator"
             : node->origin->reason ? node->origin->reason
                                    : "the engine has no such operator";
  }
  og_json_text(s->out, "by", by);
  og_json_text(s->out, "reason", reason);
}

static void node_add(const schedule *s, int32_t n) {
  const og_node *node = &s->graph->nodes[n];
  og_json_begin(s->out, NULL, '{');
  og_json_text(s->out, "operator", og_node_name(node));
  if (node->op == OG_IR_fused)
    og_json_text(s->out, "program", og_node_attr(node, 0)->s);
  runner_add(s, n);
  og_json_int(s->out, "step", s->steps[n]);
  if (s->entry->node_ns != NULL)
    og_json_int(s->out, "ns",
                __atomic_load_n(&s->entry->node_ns[n], __ATOMIC_RELAXED));
  og_json_text(s->out, "file", node->file != NULL ? node->file : "");
  og_json_int(s->out, "line", node->line);
  ids_add(s, "reads", node->in, node->in_count);
  ids_add(s, "makes", node->out, node->out_count);
  og_json_end(s->out, '}');
}

static void steps_find(schedule *s) {
  const og_lanes *lanes = &s->entry->plan->lanes;
  for (int32_t n = 0; n < s->graph->node_count; ++n) s->steps[n] = -1;
  for (int32_t i = 0; i < lanes->count; ++i) s->steps[lanes->order[i]] = i;
}

// --- Memory ------------------------------------------------------------------

static void arena_add(const og_plan_arena *arena, og_text *out) {
  const char *device = og_device_name(arena->device.type);
  og_json_begin(out, NULL, '{');
  og_json_text(out, "device", device != NULL ? device : "unnamed");
  og_json_int(out, "bytes", (int64_t)arena->size_bytes);
  og_json_int(out, "lower_bound_bytes", (int64_t)arena->lower_bound_bytes);
  og_json_int(out, "unshared_bytes", (int64_t)arena->unshared_bytes);
  og_json_end(out, '}');
}

static void buffer_add(const og_plan_buffer *at, og_text *out) {
  og_json_begin(out, NULL, '{');
  og_json_int(out, "value", at->root);
  og_json_int(out, "arena", at->arena);
  og_json_int(out, "offset", at->buffer.offset);
  og_json_int(out, "bytes", at->buffer.bytes);
  og_json_int(out, "first", at->buffer.first);
  og_json_int(out, "last", at->buffer.last);
  og_json_end(out, '}');
}

// --- All of it ---------------------------------------------------------------

static void symbols_add(const schedule *s) {
  const og_sizes *sizes = &s->graph->sizes;
  og_json_begin(s->out, "symbols", '[');
  for (int32_t i = 0; i < sizes->symbol_count; ++i) {
    og_json_begin(s->out, NULL, '{');
    og_json_text(s->out, "name", sizes->symbols[i]);
    og_json_int(s->out, "value", s->entry->plan->symbols[i]);
    og_json_end(s->out, '}');
  }
  og_json_end(s->out, ']');
}

static void plan_add(schedule *s) {
  const opgraft_graph *graph = s->graph;
  const og_plan *plan = s->entry->plan;
  s->numbers = og_graph_numbers(graph);
  s->steps = og_alloc_zeroed((size_t)graph->node_count + 1, sizeof *s->steps);
  if (s->numbers == NULL || s->steps == NULL) {
    s->out->failed = true;
    return;
  }
  steps_find(s);
  symbols_add(s);
  values_add(s);
  og_json_begin(s->out, "nodes", '[');
  for (int32_t n = 0; n < graph->node_count; ++n)
    if (!graph->nodes[n].is_removed) node_add(s, n);
  og_json_end(s->out, ']');
  og_json_begin(s->out, "arenas", '[');
  for (int32_t a = 0; a < plan->arena_count; ++a)
    arena_add(&plan->arenas[a], s->out);
  og_json_end(s->out, ']');
  og_json_begin(s->out, "buffers", '[');
  for (int32_t b = 0; b < plan->buffer_count; ++b)
    buffer_add(&plan->buffers[b], s->out);
  og_json_end(s->out, ']');
}

size_t opgraft_executable_schedule(const opgraft_executable *executable,
                                   char *buffer, size_t size) {
  opgraft_executable *own = (opgraft_executable *)(uintptr_t)executable;
  og_text out = {0};
  schedule s = {.graph = own->graph, .out = &out};
  og_json_begin(&out, NULL, '{');
  og_json_text(&out, "graph", own->graph->name);
  pthread_mutex_lock(&own->mutex);
  s.entry = own->plans;
  if (s.entry != NULL && s.entry->chosen != NULL) {
    plan_add(&s);
  } else {
    og_json_begin(&out, "nodes", '[');
    og_json_end(&out, ']');
  }
  pthread_mutex_unlock(&own->mutex);
  og_json_end(&out, '}');
  og_free(s.numbers);
  og_free(s.steps);
  return og_text_give(&out, buffer, size);
}
