// SPDX-License-Identifier: Apache-2.0
// Runs the passes, and the verifier between them.

#include "pass/pass.h"

#include <opgraft/graph_file.h>
#include <string.h>

#include "base/clock.h"
#include "base/sized.h"
#include "graph/print.h"
#include "graph/verify.h"

#define OG_PASS(name) &og_pass_##name,
static const og_pass *const passes[] = {
#include "pass/passes.def"
};
#undef OG_PASS
enum { PASS_COUNT = (int)(sizeof passes / sizeof *passes) };

enum {
  OPTION_FLAGS = OPGRAFT_OPTION_FALLBACK_ERROR | OPGRAFT_OPTION_CLONE_ERROR |
                 OPGRAFT_OPTION_MAX_AUTOTUNE | OPGRAFT_OPTION_MATH_STRICT |
                 OG_PRECISION_FLAGS
};

const char *opgraft_pass_name(int32_t index) {
  return index >= 0 && index < PASS_COUNT ? passes[index]->name : NULL;
}

// Whether `name` stands in "a, b c".
static bool list_has(const char *list, const char *name) {
  const size_t length = strlen(name);
  while (list != NULL && *list != '\0') {
    list += strspn(list, ", ");
    const size_t n = strcspn(list, ", ");
    if (n == length && memcmp(list, name, n) == 0) return true;
    list += n;
  }
  return false;
}

static og_status check_names(const char *list, opgraft_error *error) {
  while (list != NULL && *list != '\0') {
    list += strspn(list, ", ");
    const size_t n = strcspn(list, ", ");
    bool is_known = n == 0;
    for (int i = 0; i < PASS_COUNT; ++i)
      is_known |=
          strlen(passes[i]->name) == n && memcmp(passes[i]->name, list, n) == 0;
    if (!is_known) {
      og_text names = {0};
      for (int i = 0; i < PASS_COUNT; ++i)
        og_text_addf(&names, "%s%s", i > 0 ? ", " : "", passes[i]->name);
      og_error_set(error, OG_INVALID, NULL, NULL,
                   "there is no pass \"%.*s\"; the passes are %s", (int)n, list,
                   names.failed ? "(no memory to list them)" : names.data);
      og_text_reset(&names);
      return OG_INVALID;
    }
    list += n;
  }
  return OG_OK;
}

static og_status dump(const opgraft_graph *graph,
                      const opgraft_options *options, const char *pass,
                      opgraft_error *error) {
  if (options->dump == NULL) return OG_OK;
  og_text text = {0};
  og_graph_print(graph, &text);
  const og_status status = text.failed ? og_graph_no_memory(error) : OG_OK;
  if (status == OG_OK) options->dump(options->context, pass, text.data);
  og_text_reset(&text);
  return status;
}

static og_status pass_run(opgraft_graph *graph, const og_pass *pass,
                          uint32_t *facts, opgraft_error *error) {
  if ((*facts & pass->needs) != pass->needs)
    return og_error_set(error, OG_INTERNAL, pass->name, NULL,
                        "pass %s stands after one that breaks what it needs",
                        pass->name);
  og_pass_stat *stat = &graph->pass_stats[graph->pass_stat_count++];
  stat->name = pass->name;
  const int64_t begun_ns = og_now_ns();
  OG_TRY(pass->run(graph, &stat->changes, error));
  stat->time_ns = og_now_ns() - begun_ns;
  *facts &= ~pass->breaks;
  const og_status status = og_graph_verify(graph, error);
  if (status != OG_OK && status != OG_MEMORY && error != NULL) {
    char text[sizeof error->text];
    memcpy(text, error->text, sizeof text);
    return og_error_set(error, OG_INTERNAL, pass->name, NULL,
                        "after pass %s: %.800s", pass->name, text);
  }
  return status;
}

static og_status check_fallbacks(const opgraft_graph *graph,
                                 opgraft_error *error) {
  for (int32_t n = 0; n < graph->node_count; ++n) {
    const og_node *node = &graph->nodes[n];
    if (node->is_removed || !og_op_is(node, OG_OP_FOREIGN) ||
        node->origin->module_op != NULL)
      continue;
    return og_error_set(
        error, OG_UNSUPPORTED, node->origin->name, NULL,
        "%s%s falls back to the host: %s", node->origin->name,
        og_node_source(node, &(og_source){{0}}),
        node->origin->reason ? node->origin->reason : "there is no row for it");
  }
  return OG_OK;
}

static og_status check_clones(const opgraft_graph *graph,
                              opgraft_error *error) {
  for (int32_t n = 0; n < graph->node_count; ++n) {
    const og_node *node = &graph->nodes[n];
    for (int32_t r = 0;
         !node->is_removed && node->clone_reason != NULL && r < node->out_count;
         ++r) {
      if (node->clone_reason[r] == NULL) continue;
      const char *name = og_node_name(node);
      return og_error_set(error, OG_UNSUPPORTED, name, NULL,
                          "%s%s needs a copy of what it writes: %s", name,
                          og_node_source(node, &(og_source){{0}}),
                          node->clone_reason[r]);
    }
  }
  return OG_OK;
}

// Text may hold a graph that was written in place already.
static bool is_functional(const opgraft_graph *graph) {
  for (int32_t n = 0; n < graph->node_count; ++n) {
    const og_node *node = &graph->nodes[n];
    if (node->is_removed || og_op_is(node, OG_OP_VIEW | OG_OP_WRITE)) continue;
    for (int32_t r = 0; r < node->out_count; ++r)
      if (node->out[r] >= 0 &&
          graph->values[node->out[r]].root != node->out[r] &&
          !og_result_is_part(graph, node, r))
        return false;
  }
  return true;
}

static og_status run_all(opgraft_graph *graph, const opgraft_options *options,
                         opgraft_error *error) {
  uint32_t facts = is_functional(graph) ? OG_FACT_FUNCTIONAL : 0;
  const bool was_functional = facts != 0;
  OG_TRY(check_names(options->disable, error));
  OG_TRY(og_graph_verify(graph, error));
  OG_TRY(dump(graph, options, "import", error));
  for (int i = 0; i < PASS_COUNT; ++i) {
    const bool fits = was_functional || passes[i]->needs == 0;
    if (!fits || list_has(options->disable, passes[i]->name)) continue;
    OG_TRY(pass_run(graph, passes[i], &facts, error));
    OG_TRY(dump(graph, options, passes[i]->name, error));
  }
  if (options->flags & OPGRAFT_OPTION_FALLBACK_ERROR)
    OG_TRY(check_fallbacks(graph, error));
  if (options->flags & OPGRAFT_OPTION_CLONE_ERROR)
    OG_TRY(check_clones(graph, error));
  return OG_OK;
}

static og_status precision_check(uint32_t flags, opgraft_error *error) {
  const og_precision *found = og_precision_find(flags);
  const char *name = found != NULL ? found->name : "f32";
  const uint32_t left =
      flags & OG_PRECISION_FLAGS & ~(found != NULL ? found->flag : 0);
  if (left != 0)
    return og_error_set(
        error, OG_INVALID, NULL, NULL,
        "opgraft_options: the flags ask for precision %s and %s, expected one "
        "of them",
        name,
        left == OPGRAFT_OPTION_ACTIVATIONS_INT8 ? "activations of int8"
                                                : og_precision_name(left));
  if (found == NULL) return OG_OK;
  if ((flags & OPGRAFT_OPTION_MAX_AUTOTUNE) == 0)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "opgraft_options: the flags ask for precision %s "
                        "without OPGRAFT_OPTION_MAX_AUTOTUNE: only kernels of "
                        "that mode have it",
                        name);
  return OG_OK;
}

og_status opgraft_graph_finish(opgraft_graph *graph,
                               const opgraft_options *options,
                               opgraft_error *error) {
  opgraft_options own;
  if (graph->is_finished)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "graph %s is finished already", graph->name);
  OG_TRY(og_copy_sized("opgraft_options", options, &own, sizeof own, error));
  OG_TRY(og_flags_check("opgraft_options", own.flags, OPTION_FLAGS, error));
  OG_TRY(precision_check(own.flags, error));
  const int64_t begun_ns = og_now_ns();
  graph->option_flags = own.flags;  // passes read it
  OG_TRY(run_all(graph, &own, error));
  graph->passes_ns = og_now_ns() - begun_ns;
  graph->is_finished = true;
  return OG_OK;
}
