// SPDX-License-Identifier: Apache-2.0
// What an executable did, as a struct and as JSON.

#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/sized.h"
#include "exec/choose/rules.h"
#include "exec/fast/narrow.h"
#include "exec/fast/packs.h"
#include "exec/replay/lease.h"
#include "exec/runners/hosted.h"
#include "exec/step/looped.h"
#include "graph/op.h"

og_status opgraft_executable_stats(const opgraft_executable *executable,
                                   opgraft_stats *out_stats,
                                   opgraft_error *error) {
  opgraft_executable *own = (opgraft_executable *)(uintptr_t)executable;
  OG_TRY(og_size_check("opgraft_stats", out_stats->struct_size,
                       sizeof(uint32_t), sizeof *out_stats, error));
  pthread_mutex_lock(&own->mutex);
  own->stats.plans = own->plan_count;
  own->stats.shared_bytes = og_lease_shared_bytes();
  opgraft_stats copy = own->stats;
  copy.replays = __atomic_load_n(&own->stats.replays, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&own->mutex);
  og_fill_sized(&copy, sizeof copy, out_stats);
  return OG_OK;
}

static void site_add(const og_node *node, const char *reason, og_text *out) {
  og_json_begin(out, NULL, '{');
  og_json_text(out, "operator", og_node_name(node));
  og_json_text(out, "reason", reason);
  og_json_text(out, "file", node->file ? node->file : "");
  og_json_int(out, "line", node->line);
  og_json_end(out, '}');
}

static void fallbacks_add(const opgraft_graph *graph, og_text *out) {
  og_json_begin(out, "fallbacks", '[');
  for (int32_t n = 0; n < graph->node_count; ++n) {
    const og_node *node = &graph->nodes[n];
    if (node->is_removed || !og_op_is(node, OG_OP_FOREIGN) ||
        node->origin->module_op != NULL)
      continue;
    site_add(node, node->origin->reason ? node->origin->reason : "no row", out);
  }
  og_json_end(out, ']');
}

static void clones_add(const opgraft_graph *graph, og_text *out) {
  og_json_begin(out, "clones", '[');
  for (int32_t n = 0; n < graph->node_count; ++n) {
    const og_node *node = &graph->nodes[n];
    for (int32_t r = 0;
         !node->is_removed && node->clone_reason != NULL && r < node->out_count;
         ++r)
      if (node->clone_reason[r] != NULL)
        site_add(node, node->clone_reason[r], out);
  }
  og_json_end(out, ']');
}

// How a node's program was compiled in the plan that ran last; nothing while
// all its instances are in calls.
static void compiled_add(const opgraft_executable *executable,
                         const og_node *node, og_text *out) {
  const og_plan_entry *entry = executable->plans;
  const og_loop *loop = entry != NULL && entry->idle != NULL
                            ? og_loop_of(entry->idle, node)
                            : NULL;
  og_loop_info info;
  if (loop == NULL) return;
  og_loop_describe(loop, &info);
  og_json_text(out, "by", info.by);
  og_json_text(out, "reason", info.reason ? info.reason : "");
  og_json_int(out, "passes", info.phases);
  og_json_int(out, "instructions", info.instructions);
  og_json_int(out, "code_bytes", (int64_t)info.code_bytes);
  og_json_int(out, "encode_ns", info.encode_ns);
}

static void programs_add(const opgraft_executable *executable, og_text *out) {
  opgraft_executable *own = (opgraft_executable *)(uintptr_t)executable;
  const opgraft_graph *graph = executable->graph;
  og_json_begin(out, "programs", '[');
  pthread_mutex_lock(&own->mutex);
  for (int32_t n = 0; n < graph->node_count; ++n) {
    const og_node *node = &graph->nodes[n];
    if (node->is_removed || node->op != OG_IR_fused) continue;
    og_json_begin(out, NULL, '{');
    og_json_int(out, "nodes", node->member_count);
    og_json_text(out, "text", og_node_attr(node, 0)->s);
    og_json_int(out, "line", node->line);
    og_json_text(out, "file", node->file != NULL ? node->file : "");
    compiled_add(executable, node, out);
    og_json_end(out, '}');
  }
  og_json_end(out, ']');
  const og_plan_entry *entry = executable->plans;
  og_json_int(out, "programs_compiled",
              entry != NULL && entry->idle != NULL
                  ? og_loops_compiled(entry->idle)
                  : 0);
  pthread_mutex_unlock(&own->mutex);
}

// What pass fuse made, and what it left although a row program could hold its
// operator.
static void fused_add(const opgraft_graph *graph, og_text *out) {
  int32_t programs = 0, members = 0;
  og_json_begin(out, "unfused", '[');
  for (int32_t n = 0; n < graph->node_count; ++n) {
    const og_node *node = &graph->nodes[n];
    if (node->is_removed) continue;
    programs += node->op == OG_IR_fused;
    members += node->member_count;
    if (node->unfused_reason != NULL) site_add(node, node->unfused_reason, out);
  }
  og_json_end(out, ']');
  og_json_int(out, "row_programs", programs);
  og_json_int(out, "fused_nodes", members);
}

// Which row programs are epilogues in the plan that ran last, and why others
// that read a contraction are not.
static void epilogues_add(opgraft_executable *own, og_text *out) {
  const opgraft_graph *graph = own->graph;
  int32_t count = 0;
  og_json_begin(out, "epilogues_refused", '[');
  pthread_mutex_lock(&own->mutex);
  const og_chosen *chosen = own->plans != NULL ? own->plans->chosen : NULL;
  for (int32_t n = 0; chosen != NULL && n < graph->node_count; ++n) {
    const og_node *node = &graph->nodes[n];
    if (node->op != OG_IR_fused || chosen[n].reason == NULL ||
        og_contraction_read_by(graph, node) < 0)
      continue;
    if (chosen[n].by == OG_BY_EPILOGUE)
      ++count;
    else
      site_add(node, chosen[n].reason, out);
  }
  pthread_mutex_unlock(&own->mutex);
  og_json_end(out, ']');
  og_json_int(out, "epilogues", count);
}

static const char *threads_name(const opgraft_executable *executable,
                                const og_instance *instance) {
  if (executable->threads <= 1) return "one";
  return executable->team != NULL || instance->has_team ? "engine" : "host";
}

// Whose threads the plan that ran last uses, and the nodes because of which
// these are the host's.
static void threads_add(opgraft_executable *own, og_text *out) {
  const opgraft_graph *graph = own->graph;
  pthread_mutex_lock(&own->mutex);
  const og_plan_entry *entry = own->plans;
  const og_instance *idle = entry != NULL ? entry->idle : NULL;
  const char *name = idle != NULL ? threads_name(own, idle) : "";
  const bool is_host = strcmp(name, "host") == 0;
  og_json_text(out, "threads", name);
  og_json_begin(out, "host_loops", '[');
  for (int32_t n = 0; is_host && n < graph->node_count; ++n) {
    const og_node *node = &graph->nodes[n];
    if (node->is_removed || !og_hosted_needs_threads(idle, node)) continue;
    const char *why = og_op_is(node, OG_OP_FOREIGN) ? node->origin->reason
                      : entry->chosen != NULL       ? entry->chosen[n].reason
                                                    : NULL;
    site_add(node, why != NULL ? why : "no row", out);
  }
  og_json_end(out, ']');
  pthread_mutex_unlock(&own->mutex);
}

// Whether a contraction's weight is to have 8 or 4 bits.
static bool is_asked_narrow(const opgraft_graph *graph, const og_node *node) {
  if (node->is_removed || !og_is_contraction(node)) return false;
  const opgraft_value id = node->in[node->in_count - 1];
  const og_value *weight = &graph->values[graph->values[id].root];
  return og_narrow_type(og_precision_of(graph, node)) != 0 &&
         (weight->kind == OG_VALUE_CONSTANT ||
          (weight->flags & OPGRAFT_INPUT_STATIC) != 0);
}

// Of the plan that ran last: contractions whose weights stay what they were.
static void wide_add(const opgraft_executable *own, og_text *out) {
  const og_plan_entry *entry = own->plans;
  const og_instance *idle = entry != NULL ? entry->idle : NULL;
  const opgraft_graph *graph = own->graph;
  og_json_begin(out, "unquantised", '[');
  for (int32_t n = 0; idle != NULL && n < graph->node_count; ++n) {
    bool is_narrow = false;
    const char *why = entry->chosen != NULL ? entry->chosen[n].reason : NULL;
    for (int32_t i = 0; i < idle->step_count; ++i) {
      if (idle->step_infos[i].node != n) continue;
      is_narrow |= og_matmul_is_narrow(&idle->steps[i]);
      if (og_matmul_is_given_up(&idle->steps[i]))
        why = "its type cannot hold the weight, or it is written too often";
    }
    if (is_narrow || !is_asked_narrow(graph, &graph->nodes[n])) continue;
    site_add(&graph->nodes[n], why != NULL ? why : "no kernel packs it", out);
  }
  og_json_end(out, ']');
}

// Contractions of the plan that ran last which a precision that was asked for
// has narrowed, and what int8 does to weights.
static void precision_add(opgraft_executable *own, og_text *out) {
  int64_t narrow = 0, weights;
  double error;
  pthread_mutex_lock(&own->mutex);
  const og_instance *idle = own->plans != NULL ? own->plans->idle : NULL;
  for (int32_t i = 0; idle != NULL && i < idle->step_count; ++i)
    narrow += og_matmul_is_narrow(&idle->steps[i]) ||
              og_convolution_is_narrow(&idle->steps[i]);
  og_packs_narrow(own, &weights, &error);
  wide_add(own, out);
  pthread_mutex_unlock(&own->mutex);
  og_json_int(out, "narrow_contractions", narrow);
  og_json_int(out, "quantised_weights", weights);
  og_json_number(out, "quantised_error", error, 6);
}

// Weights that were packed, those whose packed form the file has, and what
// instances, packing and timing took.
static void packs_add(opgraft_executable *own, og_text *out) {
  int64_t packed, mapped;
  pthread_mutex_lock(&own->mutex);
  og_packs_count(own, &packed, &mapped);
  pthread_mutex_unlock(&own->mutex);
  og_json_int(out, "packed_bytes", packed);
  og_json_int(out, "mapped_bytes", mapped);
  og_json_int(out, "prepare_ns",
              __atomic_load_n(&own->prepare_ns, __ATOMIC_RELAXED));
  og_json_int(out, "pack_ns", __atomic_load_n(&own->pack_ns, __ATOMIC_RELAXED));
  og_json_int(out, "tune_ns", __atomic_load_n(&own->tune_ns, __ATOMIC_RELAXED));
}

static void passes_add(const opgraft_graph *graph, og_text *out) {
  og_json_begin(out, "passes", '[');
  for (int32_t i = 0; i < graph->pass_stat_count; ++i) {
    const og_pass_stat *stat = &graph->pass_stats[i];
    og_json_begin(out, NULL, '{');
    og_json_text(out, "name", stat->name);
    og_json_int(out, "changes", stat->changes);
    og_json_int(out, "time_ns", stat->time_ns);
    og_json_end(out, '}');
  }
  og_json_end(out, ']');
}

size_t opgraft_executable_describe(const opgraft_executable *executable,
                                   char *buffer, size_t size) {
  const opgraft_graph *graph = executable->graph;
  opgraft_stats stats = {.struct_size = sizeof stats};
  og_text out = {0};
  opgraft_executable_stats(executable, &stats, NULL);
  og_json_begin(&out, NULL, '{');
  og_json_text(&out, "graph", graph->name);
  const struct {
    const char *name;
    int64_t value;
  } numbers[] = {
      {"nodes", stats.nodes},
      {"views", stats.views},
      {"native", stats.native},
      {"host_nodes", stats.host_nodes},
      {"fast_nodes", stats.fast_nodes},
      {"clone_bytes", stats.clone_bytes},
      {"plans", stats.plans},
      {"replays", stats.replays},
      {"replans_shape", stats.replans_shape},
      {"replans_lanes", stats.replans_lanes},
      {"rebinds_input", stats.rebinds_input},
      {"rebinds_arena", stats.rebinds_arena},
      {"instances", stats.instances},
      {"arena_bytes", stats.arena_bytes},
      {"lower_bound_bytes", stats.lower_bound_bytes},
      {"shared_bytes", stats.shared_bytes},
      {"import_ns", stats.import_ns},
      {"passes_ns", stats.passes_ns},
      {"plan_ns", stats.plan_ns},
      {"lanes", stats.lanes},
      {"sections", stats.sections},
      {"serial_ns", stats.serial_ns},
      {"lanes_ns", stats.lanes_ns},
      {"launches", stats.launches},
      {"captures", stats.captures},
      {"recaptures", stats.recaptures},
      {"device_waits", stats.device_waits},
  };
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i)
    og_json_int(&out, numbers[i].name, numbers[i].value);
  packs_add((opgraft_executable *)(uintptr_t)executable, &out);
  precision_add((opgraft_executable *)(uintptr_t)executable, &out);
  fallbacks_add(graph, &out);
  clones_add(graph, &out);
  programs_add(executable, &out);
  fused_add(graph, &out);
  epilogues_add((opgraft_executable *)(uintptr_t)executable, &out);
  threads_add((opgraft_executable *)(uintptr_t)executable, &out);
  passes_add(graph, &out);
  og_json_end(&out, '}');
  return og_text_give(&out, buffer, size);
}

size_t opgraft_executable_rules(const opgraft_executable *executable,
                                char *buffer, size_t size) {
  opgraft_executable *own = (opgraft_executable *)(uintptr_t)executable;
  const opgraft_graph *graph = executable->graph;
  og_text out = {0};
  pthread_mutex_lock(&own->mutex);
  for (const og_plan_entry *at = own->plans; at != NULL; at = at->next) {
    if (at->chosen == NULL) continue;
    og_text_addf(&out, "# graph %s", graph->name);
    for (int32_t s = 0; s < graph->sizes.symbol_count; ++s)
      og_text_addf(&out, ", %s = %" PRId64, graph->sizes.symbols[s],
                   at->plan->symbols[s]);
    og_text_add(&out, "\n");
    for (int32_t n = 0; n < graph->node_count; ++n)
      if (at->chosen[n].reason != NULL)
        og_rule_print(at->plan, &graph->nodes[n], &at->chosen[n], &out);
  }
  pthread_mutex_unlock(&own->mutex);
  return og_text_give(&out, buffer, size);
}
