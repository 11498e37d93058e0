// SPDX-License-Identifier: Apache-2.0
// Mutating operators made functional: bases, the views of them that are
// written, and the record that says so.
//
// A base that one argument writes whole is that argument. The views of another
// are made before the operator; the base follows the operator's arguments, and
// the views become parts of the new base.

#include <string.h>

#include "import/builder.h"

// --- What the host says ------------------------------------------------------

static og_status functional(const opgraft_builder *b, opgraft_error *error) {
  OG_TRY(og_builder_ready(b, error));
  if (b->is_functional) return OG_OK;
  return og_builder_wrong(b, OG_INVALID,
                          "it writes, but was not begun as functional", error);
}

// Whether a tensor is of the type and device of a value that it shares memory
// with.
static og_status kin_check(const opgraft_builder *b, const og_value *value,
                           const opgraft_value_info *info,
                           opgraft_error *error) {
  if (info->ndim < 0)
    return og_builder_wrong(b, OG_INVALID, "what it writes is None", error);
  if (!og_dtype_equal(value->dtype, info->dtype))
    return og_builder_wrong(b, OG_DTYPE, "it changes the type of a base",
                            error);
  if (!og_device_equal(value->device, info->device))
    return og_builder_wrong(b, OG_DEVICE, "it changes the device of a base",
                            error);
  return OG_OK;
}

og_status opgraft_builder_add_base(opgraft_builder *b, int32_t node,
                                   const opgraft_value_info *info,
                                   opgraft_error *error) {
  opgraft_arg found;
  og_base base = {.value = -1};
  OG_TRY(functional(b, error));
  OG_TRY(opgraft_builder_get(b, node, &found, error));
  if (found.kind != OPGRAFT_ARG_VALUE)
    return og_builder_wrong(b, OG_UNSUPPORTED, "a base is not a tensor", error);
  for (int32_t i = 0; i < b->base_count; ++i)
    if (b->bases[i].value == found.value)
      return og_builder_wrong(b, OG_INVALID, "two of its bases are one tensor",
                              error);
  OG_TRY(og_builder_info(b, info, &base.info, error));
  OG_TRY(kin_check(b, &b->graph->values[found.value], &base.info, error));
  if (!og_array_reserve((void **)&b->bases, b->base_count + 1,
                        &b->base_capacity, sizeof *b->bases))
    return og_graph_no_memory(error);
  base.value = found.value;
  b->bases[b->base_count++] = base;
  return OG_OK;
}

og_status opgraft_builder_add_written_arg(opgraft_builder *b, const char *name,
                                          int32_t base,
                                          const opgraft_value_info *view,
                                          opgraft_error *error) {
  og_written written = {.base = base, .is_view = view != NULL};
  opgraft_arg arg = {.kind = OPGRAFT_ARG_VALUE,
                     .written = OPGRAFT_WRITTEN_PART,
                     .value = b->written_count};
  OG_TRY(functional(b, error));
  if (base < 0 || base >= b->base_count)
    return og_builder_wrong(b, OG_INVALID, "it writes a base that it lacks",
                            error);
  og_base *of = &b->bases[base];
  if (view != NULL) {
    OG_TRY(og_builder_info(b, view, &written.info, error));
    OG_TRY(kin_check(b, &b->graph->values[of->value], &written.info, error));
  }
  if (!og_array_reserve((void **)&b->written, b->written_count + 1,
                        &b->written_capacity, sizeof *b->written))
    return og_graph_no_memory(error);
  if (name != NULL) {
    arg.name = og_arena_strndup(&b->memory, name, strlen(name));
    if (arg.name == NULL) return og_graph_no_memory(error);
  }
  OG_TRY(og_tree_add(b, &b->args, &arg, error));
  of->is_whole = of->writers++ == 0 && view == NULL && b->args.depth == 0;
  b->written[b->written_count++] = written;
  return OG_OK;
}

// --- The record --------------------------------------------------------------

// Views are views of the new base too, so that lies as the old one did.
static og_status layout_check(opgraft_builder *b, const og_base *base,
                              opgraft_error *error) {
  const og_value *value = &b->graph->values[base->value];
  const opgraft_value_info *info = &base->info;
  opgraft_size strides[OPGRAFT_RANK_MAX];
  bool same = info->ndim == value->ndim;
  if (same && info->strides == NULL)
    OG_TRY(og_graph_strides(b->graph, info->shape, info->ndim, strides, error));
  const opgraft_size *found = info->strides != NULL ? info->strides : strides;
  for (int32_t d = 0; same && d < info->ndim; ++d)
    same = info->shape[d] == value->shape[d] && found[d] == value->strides[d];
  return same ? OG_OK
              : og_builder_wrong(b, OG_UNSUPPORTED,
                                 "it changes the layout of a base of views",
                                 error);
}

static og_status view_make(opgraft_builder *b, og_written *written,
                           opgraft_error *error) {
  const opgraft_arg arg = {.kind = OPGRAFT_ARG_VALUE,
                           .value = b->bases[written->base].value};
  opgraft_value_info info = written->info;
  written->value = arg.value;
  if (!written->is_view) return OG_OK;
  info.view_of = 1;
  const opgraft_record record = {.struct_size = sizeof record,
                                 .name = "aten.as_strided.default",
                                 .args = &arg,
                                 .arg_count = 1,
                                 .results = &info,
                                 .result_count = 1,
                                 .result_size = sizeof info};
  return opgraft_graph_add_node(b->graph, &record, &written->value, error);
}

// Positions become the views' values.
static void written_name(const opgraft_builder *b, opgraft_arg *args,
                         int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    if (args[i].kind == OPGRAFT_ARG_LIST)
      written_name(b, (opgraft_arg *)(uintptr_t)args[i].list, args[i].count);
    if (args[i].written == 0) continue;
    const og_written *written = &b->written[args[i].value];
    args[i].value = written->value;
    if (b->bases[written->base].is_whole) args[i].written = OPGRAFT_WRITTEN;
  }
}

// The operator's name, its arguments, the bases that are not among these.
static og_status args_make(opgraft_builder *b, opgraft_record *record,
                           opgraft_error *error) {
  const size_t count = (size_t)b->args.count;
  opgraft_arg *args = og_arena_array(
      &b->memory, 1 + count + (size_t)b->base_count, sizeof *args);
  if (args == NULL) return og_graph_no_memory(error);
  args[0] = (opgraft_arg){.kind = OPGRAFT_ARG_STR, .s = record->name};
  if (count > 0) memcpy(args + 1, b->args.items, count * sizeof *args);
  written_name(b, args + 1, b->args.count);
  record->args = args;
  record->arg_count = 1 + b->args.count;
  for (int32_t i = 0; i < b->base_count; ++i)
    if (!b->bases[i].is_whole)
      args[record->arg_count++] = (opgraft_arg){.kind = OPGRAFT_ARG_VALUE,
                                                .written = OPGRAFT_WRITTEN_BASE,
                                                .value = b->bases[i].value};
  return OG_OK;
}

// The returns, then what bases become: of those that are arguments in the order
// of these, then of the others.
static og_status results_make(opgraft_builder *b, opgraft_record *record,
                              int32_t *out_base, opgraft_error *error) {
  const size_t returns = (size_t)b->info_count;
  opgraft_value_info *infos = og_arena_array(
      &b->memory, returns + (size_t)b->base_count + 1, sizeof *infos);
  if (infos == NULL) return og_graph_no_memory(error);
  if (returns > 0) memcpy(infos, b->infos, returns * sizeof *infos);
  int32_t count = b->info_count;
  for (int32_t w = 0; w < b->written_count; ++w) {
    const int32_t base = b->written[w].base;
    if (!b->bases[base].is_whole) continue;
    infos[count] = b->bases[base].info;
    out_base[base] = count++;
  }
  for (int32_t i = 0; i < b->base_count; ++i) {
    if (b->bases[i].is_whole) continue;
    infos[count] = b->bases[i].info;
    out_base[i] = count++;
  }
  record->results = infos;
  record->result_count = count;
  return OG_OK;
}

og_status og_builder_functional(opgraft_builder *b, opgraft_record *record,
                                int32_t *out_base, opgraft_error *error) {
  for (int32_t i = 0; i < b->base_count; ++i)
    if (!b->bases[i].is_whole) OG_TRY(layout_check(b, &b->bases[i], error));
  for (int32_t w = 0; w < b->written_count; ++w)
    OG_TRY(view_make(b, &b->written[w], error));
  OG_TRY(args_make(b, record, error));
  OG_TRY(results_make(b, record, out_base, error));
  record->name = "auto_functionalized";
  return OG_OK;
}
