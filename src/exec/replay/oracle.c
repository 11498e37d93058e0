// SPDX-License-Identifier: Apache-2.0
// Runs a graph as its text says. Shares no code with src/plan and the passes.
//
// Invariants: a storage is kept for each root, with a mark for each element
// that was written; a value is gathered from its root's storage each time it
// is read, and a node's results are scattered to theirs when it has run. So no
// two values share memory while a node runs.

#include <opgraft/plain.h>
#include <string.h>

#include "exec/choose/rules.h"
#include "exec/replay/instance.h"
#include "exec/runners/framed.h"
#include "exec/runners/hosted.h"
#include "exec/step/device.h"
#include "exec/step/reloc.h"
#include "graph/verify.h"

enum {
  MARK_WRITTEN = 1,
  MARK_VALUE = 2,  // by the value that is being scattered
  MARK_PART = 4,   // by an earlier result of the node, of another root
};

// What a root's storage holds.
typedef struct image {
  char *bytes;
  uint8_t *is_written;  // by element: a sum of MARK_*
  int64_t elements;
} image;

typedef struct output {
  int32_t kind;
  int64_t size;
  og_tensor tensor;
} output;

struct opgraft_plain {
  const opgraft_graph *graph;
  opgraft_executable executable;  // what kernels ask for: one thread, limits
  og_plan plan;         // sizes, and each value dense in a storage of its own
  og_plan_entry entry;  // of that
  og_instance instance;
  og_tensor *layouts;  // by value: as the graph has it
  image *images;       // by value, of roots
  bool *is_needed;     // by node
  output *outputs;
  int64_t held_bytes;  // of images and what is dense now
  int64_t moved;       // elements gathered and scattered
  int32_t value_count, output_count;
  og_arena memory;
  opgraft_error *error;
};

typedef struct opgraft_plain plain;

// Nothing but plain kernels.
static og_rule plain_rule = {"*", OG_BY_PLAIN};
static const og_rules always_plain = {.rules = &plain_rule, .count = 1};

static og_status no_memory(const plain *p) {
  return og_error_set(p->error, OG_MEMORY, NULL, NULL,
                      "graph %s: not enough memory, or more than the limit of "
                      "%lld bytes, to run it plainly",
                      p->graph->name, (long long)p->executable.host.max_bytes);
}

static og_status wrong(const plain *p, opgraft_value id, const char *what) {
  const og_value *value = &p->graph->values[id];
  const og_node *node = value->node >= 0 ? &p->graph->nodes[value->node] : NULL;
  return og_error_set(p->error, OG_SHAPE, NULL, NULL,
                      "graph %s: value %d of %s%s %s", p->graph->name, (int)id,
                      node ? og_node_name(node) : "the inputs",
                      og_node_source(node, &(og_source){{0}}), what);
}

// Memory that counts against the limit; freed as it was taken.
static void *hold(plain *p, int64_t bytes) {
  const int64_t most = p->executable.host.max_bytes;
  if (most > 0 && bytes > most - p->held_bytes) return NULL;
  void *memory = og_alloc(bytes > 0 ? (size_t)bytes : 1);
  if (memory != NULL) p->held_bytes += bytes;
  return memory;
}

static void drop(plain *p, void *memory, int64_t bytes) {
  if (memory != NULL) p->held_bytes -= bytes;
  og_free(memory);
}

// --- Symbols -----------------------------------------------------------------

typedef struct known {
  int64_t *numbers;  // by expression
  bool *is_known;
} known;

// Works out whatever follows from what is known.
static og_status sizes_follow(const plain *p, const known *k) {
  const og_sizes *sizes = &p->graph->sizes;
  for (int32_t i = 0; i < sizes->count; ++i) {
    const og_size_expr *expr = &sizes->exprs[i];
    if (k->is_known[i] || expr->op == OG_SIZE_SYMBOL) continue;
    if (og_size_ops[expr->op].operand_count == 0) {
      k->is_known[i] = true;
      k->numbers[i] = expr->value;
      continue;
    }
    k->is_known[i] = k->is_known[expr->a] && k->is_known[expr->b];
    if (k->is_known[i] &&
        !og_size_apply((og_size_op)expr->op, k->numbers[expr->a],
                       k->numbers[expr->b], &k->numbers[i]))
      return og_error_set(p->error, OG_SHAPE, NULL, NULL,
                          "graph %s: a size overflows, divides by zero or is "
                          "not defined",
                          p->graph->name);
  }
  return OG_OK;
}

// Follows an expression that has the value `found` down to the one symbol that
// is not known. True if a symbol became known.
static bool size_solve(const og_sizes *sizes, opgraft_size size, int64_t found,
                       const known *k) {
  while (!k->is_known[size]) {
    const og_size_expr *expr = &sizes->exprs[size];
    if (expr->op == OG_SIZE_SYMBOL) {
      k->numbers[size] = found;
      k->is_known[size] = true;
      return true;
    }
    const bool has_a = k->is_known[expr->a], has_b = k->is_known[expr->b];
    const int64_t other = k->numbers[has_a ? expr->a : expr->b];
    if (has_a == has_b) return false;
    if (expr->op == OG_SIZE_MUL) {
      if (other <= 0 || found % other != 0) return false;
      found /= other;
    } else if (expr->op == OG_SIZE_ADD) {
      if (!og_i64_sub(found, other, &found)) return false;
    } else if (expr->op == OG_SIZE_SUB) {
      if (!(has_a ? og_i64_sub(other, found, &found)
                  : og_i64_add(found, other, &found)))
        return false;
    } else {
      return false;
    }
    size = has_a ? expr->b : expr->a;
  }
  return false;
}

// One round over all that the inputs say.
static bool inputs_solve(const plain *p, const og_tensor *const *in,
                         const int64_t *ints, const known *k) {
  const opgraft_graph *graph = p->graph;
  bool is_new = false;
  for (int32_t i = 0; i < graph->input_count; ++i) {
    if (in[i] == NULL) {
      is_new |= size_solve(&graph->sizes, graph->inputs[i].size, ints[i], k);
      continue;
    }
    const og_value *value = &graph->values[graph->inputs[i].value];
    for (int32_t d = 0; d < value->ndim; ++d)
      is_new |= size_solve(&graph->sizes, value->shape[d], in[i]->shape[d], k);
    for (int32_t d = 0; in[i]->strides != NULL && d < value->ndim; ++d)
      if (in[i]->shape[d] > 1)
        is_new |=
            size_solve(&graph->sizes, value->strides[d], in[i]->strides[d], k);
  }
  return is_new;
}

static og_status sizes_find(plain *p, const og_tensor *const *in,
                            const int64_t *ints) {
  const og_sizes *sizes = &p->graph->sizes;
  const size_t count = (size_t)sizes->count;
  known k = {.numbers = og_arena_array(&p->memory, count, sizeof *k.numbers),
             .is_known = og_arena_array(&p->memory, count, sizeof *k.is_known)};
  if (k.numbers == NULL || k.is_known == NULL) return no_memory(p);
  do OG_TRY(sizes_follow(p, &k));
  while (inputs_solve(p, in, ints, &k));
  for (int32_t s = 0; s < sizes->symbol_count; ++s)
    if (!k.is_known[sizes->symbol_ids[s]])
      return og_error_set(p->error, OG_UNSUPPORTED, NULL, NULL,
                          "graph %s: no input has the size %s", p->graph->name,
                          sizes->symbols[s]);
  p->plan.sizes = k.numbers;
  return OG_OK;
}

// --- Inputs ------------------------------------------------------------------

static og_status input_wrong(const plain *p, int32_t index, const char *what) {
  return og_error_set(p->error, OG_SHAPE, NULL, p->graph->inputs[index].name,
                      "graph %s: input %d: its %s differs from the graph's",
                      p->graph->name, (int)index, what);
}

// Before sizes are known: kinds, types and ranks.
static og_status inputs_match(const plain *p, const og_tensor *const *in,
                              const int64_t *ints, int32_t count) {
  if (!og_is_cpu(og_graph_device(p->graph)))
    return og_error_set(p->error, OG_DEVICE, NULL, NULL,
                        "graph %s has values on a device, expected the CPU's "
                        "alone: a plain run is the CPU's",
                        p->graph->name);
  if (count != p->graph->input_count)
    return og_error_set(p->error, OG_INVALID, NULL, NULL,
                        "graph %s: %d input%s here, expected %d",
                        p->graph->name, (int)count, og_plural(count),
                        (int)p->graph->input_count);
  for (int32_t i = 0; i < count; ++i) {
    const opgraft_value id = p->graph->inputs[i].value;
    if ((id < 0) != (in[i] == NULL) || (id < 0 && ints == NULL))
      return input_wrong(p, i, "kind");
    if (id < 0) continue;
    const og_value *value = &p->graph->values[id];
    if (!og_device_equal(in[i]->device, value->device))
      return input_wrong(p, i, "device");
    if (!og_dtype_equal(in[i]->dtype, value->dtype) ||
        in[i]->ndim != value->ndim)
      return input_wrong(p, i, "type or rank");
  }
  return OG_OK;
}

static og_status sizes_match(const plain *p, const og_tensor *const *in,
                             const int64_t *ints) {
  for (int32_t i = 0; i < p->graph->input_count; ++i) {
    const og_input *input = &p->graph->inputs[i];
    if (input->value < 0) {
      if (ints[i] != p->plan.sizes[input->size])
        return input_wrong(p, i, "value");
      continue;
    }
    for (int32_t d = 0; d < in[i]->ndim; ++d)
      if (in[i]->shape[d] != p->layouts[input->value].shape[d])
        return input_wrong(p, i, "size");
  }
  return OG_OK;
}

// --- Layouts -----------------------------------------------------------------

// A value as the graph has it, and as a kernel sees it: dense.
static og_status layout_make(plain *p, opgraft_value id) {
  const og_value *value = &p->graph->values[id];
  const size_t rank = (size_t)value->ndim;
  int64_t *sizes = og_arena_array(&p->memory, 3 * rank + 1, sizeof *sizes);
  int64_t stride = 1;
  if (sizes == NULL) return no_memory(p);
  for (size_t d = rank; d-- > 0;) {
    sizes[d] = p->plan.sizes[value->shape[d]];
    sizes[rank + d] = p->plan.sizes[value->strides[d]];
    sizes[2 * rank + d] = stride;
    if (sizes[d] > 1 && !og_i64_mul(stride, sizes[d], &stride))
      stride = INT64_MAX;  // told when the value is used
  }
  p->layouts[id] = (og_tensor){.device = value->device,
                               .ndim = value->ndim,
                               .dtype = value->dtype,
                               .shape = sizes,
                               .strides = sizes + rank};
  p->plan.tensors[id] = p->layouts[id];
  p->plan.tensors[id].strides = sizes + 2 * rank;
  p->plan.places[id] =
      (og_place){.kind = value->kind == OG_VALUE_LITERAL ? OG_PLACE_CONSTANT
                                                         : OG_PLACE_STORAGE,
                 .index = id};
  p->instance.tensors[id] = p->plan.tensors[id];
  if (value->kind == OG_VALUE_LITERAL)
    p->instance.tensors[id].data = (void *)(uintptr_t)&value->number;
  return OG_OK;
}

// The elements of a value that is read or written; what cannot be counted, or
// is more than the limit on work allows, fails.
static og_status elements_count(plain *p, opgraft_value id, int64_t *out) {
  const og_tensor *layout = &p->layouts[id];
  const int64_t most = p->executable.host.max_work;
  bool is_empty = false;
  *out = 1;
  for (int32_t d = 0; d < layout->ndim; ++d) {
    if (layout->shape[d] < 0) return wrong(p, id, "has a negative size");
    is_empty |= layout->shape[d] == 0;
    if (layout->shape[d] > 1 && !og_i64_mul(*out, layout->shape[d], out))
      return wrong(p, id, "is larger than memory can be");
  }
  if (is_empty) *out = 0;
  if (*out > INT64_MAX / 64)
    return wrong(p, id, "is larger than memory can be");
  if (!og_i64_add(p->moved, *out, &p->moved) || (most > 0 && p->moved > most))
    return og_error_set(p->error, OG_UNSUPPORTED, NULL, NULL,
                        "graph %s: it moves more elements than the limit of "
                        "%lld operations",
                        p->graph->name, (long long)most);
  return OG_OK;
}

// Element by element, in the order of the indices.
typedef struct walk {
  int64_t index[OPGRAFT_RANK_MAX];
  int64_t at;
} walk;

static bool walk_step(walk *w, const og_tensor *layout) {
  for (int32_t d = layout->ndim - 1; d >= 0; --d) {
    if (w->index[d] + 1 < layout->shape[d]) {
      ++w->index[d];
      return og_i64_add(w->at, layout->strides[d], &w->at);
    }
    if (w->index[d] > 0) w->at -= w->index[d] * layout->strides[d];
    w->index[d] = 0;
  }
  return true;
}

static og_status gather(plain *p, opgraft_value id, char *to) {
  const og_tensor *layout = &p->layouts[id];
  const image *from = &p->images[p->graph->values[id].root];
  const size_t item = og_dtype_bytes(layout->dtype);
  walk w = {.at = p->plan.sizes[p->graph->values[id].offset]};
  int64_t count;
  OG_TRY(elements_count(p, id, &count));
  for (int64_t i = 0; i < count; ++i) {
    if (w.at < 0 || w.at >= from->elements || !from->is_written[w.at])
      return wrong(p, id, "reads elements that nothing wrote");
    memcpy(to + (size_t)i * item, from->bytes + (size_t)w.at * item, item);
    if (!walk_step(&w, layout)) return wrong(p, id, "reaches too far");
  }
  return OG_OK;
}

static og_status scatter(plain *p, opgraft_value id, const char *bytes) {
  const og_tensor *layout = &p->layouts[id];
  const image *to = &p->images[p->graph->values[id].root];
  const size_t item = og_dtype_bytes(layout->dtype);
  walk w = {.at = p->plan.sizes[p->graph->values[id].offset]};
  int64_t count;
  OG_TRY(elements_count(p, id, &count));
  for (int64_t i = 0; i < count; ++i) {
    if (w.at < 0 || w.at >= to->elements)
      return wrong(p, id, "leaves its storage");
    if (to->is_written[w.at] & MARK_VALUE)
      return wrong(p, id, "has several elements at one place");
    if (to->is_written[w.at] & MARK_PART)
      return wrong(p, id, "overlaps another result of the node");
    to->is_written[w.at] |= MARK_VALUE;
    memcpy(to->bytes + (size_t)w.at * item, bytes + (size_t)i * item, item);
    if (!walk_step(&w, layout)) return wrong(p, id, "reaches too far");
  }
  // A base holds the parts that come after it.
  const bool is_base = p->graph->values[id].root == id;
  const int settled = MARK_WRITTEN | (is_base ? 0 : MARK_PART);
  for (int64_t i = 0; i < to->elements; ++i)
    if (to->is_written[i] & MARK_VALUE) to->is_written[i] = (uint8_t)settled;
  return OG_OK;
}

// The storage of a root reaches to behind its last element. Memory in front of
// an input, or between its elements, is the caller's: it reads as zeros.
static og_status image_make(plain *p, opgraft_value id, bool is_written) {
  const og_tensor *layout = &p->layouts[id];
  image *to = &p->images[id];
  int64_t high = p->plan.sizes[p->graph->values[id].offset], count, bytes;
  OG_TRY(elements_count(p, id, &count));
  if (high < 0) return wrong(p, id, "leaves its storage");
  for (int32_t d = 0; count > 0 && d < layout->ndim; ++d) {
    int64_t reach;
    if (layout->shape[d] <= 1 || layout->strides[d] <= 0) continue;
    if (!og_i64_mul(layout->shape[d] - 1, layout->strides[d], &reach) ||
        !og_i64_add(high, reach, &high))
      return wrong(p, id, "is larger than memory can be");
  }
  to->elements = 0;
  const int64_t item = (int64_t)og_dtype_bytes(layout->dtype);
  if (count == 0) high = -1;
  if (!og_i64_mul(high + 1, item + 1, &bytes)) return no_memory(p);
  to->bytes = hold(p, bytes);
  if (to->bytes == NULL) return no_memory(p);
  memset(to->bytes, 0, (size_t)bytes);
  to->elements = high + 1;
  to->is_written = (uint8_t *)to->bytes + to->elements * item;
  memset(to->is_written, is_written, (size_t)to->elements);
  return OG_OK;
}

// --- What there is before the first node -------------------------------------

// An input may say one element twice, so it is not scattered.
static og_status input_take(plain *p, opgraft_value id, const og_tensor *from) {
  const size_t item = og_dtype_bytes(from->dtype);
  walk read = {0}, write = {0};
  og_tensor source = *from;
  int64_t count;
  OG_TRY(image_make(p, id, true));
  OG_TRY(elements_count(p, id, &count));
  if (source.strides == NULL) source.strides = p->plan.tensors[id].strides;
  for (int64_t i = 0; i < count; ++i) {
    if (write.at < 0 || write.at >= p->images[id].elements)
      return wrong(p, id, "leaves its storage");
    memcpy(p->images[id].bytes + (size_t)write.at * item,
           og_data(from) + read.at * (int64_t)item, item);
    if (!walk_step(&read, &source) || !walk_step(&write, &p->layouts[id]))
      return wrong(p, id, "reaches too far");
  }
  return OG_OK;
}

static og_status constant_take(plain *p, opgraft_value id) {
  const og_value *value = &p->graph->values[id];
  int64_t count;
  OG_TRY(image_make(p, id, false));
  OG_TRY(elements_count(p, id, &count));
  if ((uint64_t)count * og_dtype_bytes(value->dtype) > value->data_bytes)
    return wrong(p, id, "has fewer numbers than elements");
  OG_TRY(og_blocks_check(&p->graph->blocks, value->data, value->data_bytes,
                         p->error));
  return scatter(p, id, value->data);
}

// --- What has to run ---------------------------------------------------------

static void node_need(const plain *p, const og_node *node, bool *is_read) {
  for (int32_t i = 0; i < node->in_count; ++i) {
    if (node->in[i] < 0) continue;
    is_read[node->in[i]] = true;
    // Whoever wrote to the storage before.
    is_read[p->graph->values[node->in[i]].root] = true;
  }
}

// Backwards from the outputs and from what overwrites an input.
static og_status needs_find(plain *p) {
  const opgraft_graph *graph = p->graph;
  bool *is_read = og_arena_array(&p->memory, (size_t)graph->value_count + 1,
                                 sizeof *is_read);
  if (is_read == NULL) return no_memory(p);
  for (int32_t i = 0; i < graph->output_count; ++i)
    if (graph->outputs[i].value >= 0) {
      is_read[graph->outputs[i].value] = true;
      is_read[graph->values[graph->outputs[i].value].root] = true;
    }
  for (int32_t n = graph->node_count - 1; n >= 0; --n) {
    const og_node *node = &graph->nodes[n];
    bool needs = ((node->flags | og_ops[node->op].flags) &
                  (OG_OP_EFFECT | OG_OP_RANDOM)) != 0;
    for (int32_t r = 0; r < node->out_count; ++r) {
      if (node->out[r] < 0) continue;
      const og_value *root = &graph->values[graph->values[node->out[r]].root];
      const bool overwrites = !og_op_is(node, OG_OP_VIEW) &&
                              graph->values[node->out[r]].root != node->out[r];
      needs |= is_read[node->out[r]];
      needs |= overwrites && root->kind == OG_VALUE_INPUT;
    }
    p->is_needed[n] = needs && !node->is_removed;
    if (p->is_needed[n]) node_need(p, node, is_read);
  }
  return OG_OK;
}

// --- Nodes -------------------------------------------------------------------

// Dense memory for a value of the node that runs; a value that stands twice
// among the operands has it already.
static og_status dense_make(plain *p, opgraft_value id, bool is_read) {
  og_tensor *tensor = &p->instance.tensors[id];
  int64_t count, bytes;
  if (tensor->data != NULL) return OG_OK;
  OG_TRY(elements_count(p, id, &count));
  if (!og_i64_mul(count, (int64_t)og_dtype_bytes(tensor->dtype), &bytes))
    return no_memory(p);
  tensor->data = hold(p, bytes);
  if (tensor->data == NULL) return no_memory(p);
  // Numbers that nobody expects, for a kernel that leaves elements out.
  if (!is_read) memset(tensor->data, 0xa5, (size_t)bytes);
  return is_read ? gather(p, id, tensor->data) : OG_OK;
}

static void dense_drop(plain *p, opgraft_value id) {
  og_tensor *tensor = &p->instance.tensors[id];
  if (id < 0 || p->graph->values[id].kind == OG_VALUE_LITERAL) return;
  drop(p, tensor->data,
       tensor->data != NULL
           ? og_numel(tensor) * (int64_t)og_dtype_bytes(tensor->dtype)
           : 0);
  tensor->data = NULL;
  p->instance.storages[id] = (og_reloc_list){0};
}

static og_status values_make(plain *p, const og_node *node) {
  // copy_to does not read what it overwrites, unless it copies that.
  const bool writes = og_op_is(node, OG_OP_WRITE);
  for (int32_t i = writes; i < node->in_count; ++i)
    if (node->in[i] >= 0) OG_TRY(dense_make(p, node->in[i], true));
  if (writes) OG_TRY(dense_make(p, node->in[0], false));
  for (int32_t r = 0; r < node->out_count; ++r)
    if (node->out[r] >= 0) OG_TRY(dense_make(p, node->out[r], false));
  return OG_OK;
}

static void values_bind(plain *p, const og_node *node) {
  for (int32_t k = 0; k < node->in_count + node->out_count; ++k) {
    const opgraft_value id = og_node_value(node, k);
    if (id >= 0)
      og_relocs_set(&p->instance.storages[id], p->instance.tensors[id].data);
  }
}

static og_status kernel_run(plain *p, const og_node *node) {
  og_prep prep = {.executable = &p->executable,
                  .plan = &p->plan,
                  .instance = &p->instance,
                  .node = node,
                  .error = p->error};
  const og_run run = {.executable = &p->executable, .error = p->error};
  og_tensor **operands = og_arena_array(
      &p->instance.memory, (size_t)(node->in_count + node->out_count) + 1,
      sizeof *operands);
  if (operands == NULL) return no_memory(p);
  p->instance.step_count = 0;
  OG_TRY(og_node_prepare(&prep, operands));
  if (p->instance.step_count == 0) return OG_OK;  // nothing to do
  values_bind(p, node);
  if (p->error != NULL) p->error->code = OG_OK;
  return p->instance.steps[0].run(p->instance.steps[0].state, &run);
}

// The first that is in a storage of its own makes that. No element is written
// as two results.
static og_status results_keep(plain *p, const og_node *node) {
  for (int32_t r = 0; r < node->out_count; ++r) {
    if (node->out[r] < 0) continue;
    const image *to = &p->images[p->graph->values[node->out[r]].root];
    for (int64_t i = 0; i < to->elements; ++i)
      to->is_written[i] &= MARK_WRITTEN;
  }
  for (int32_t r = 0; r < node->out_count; ++r) {
    const opgraft_value id = node->out[r];
    if (id < 0) continue;
    if (p->graph->values[id].root == id) OG_TRY(image_make(p, id, false));
    OG_TRY(scatter(p, id, p->instance.tensors[id].data));
  }
  return OG_OK;
}

static og_status node_run_once(plain *p, const og_node *node) {
  if (og_op_is(node, OG_OP_VIEW)) return OG_OK;  // gathered when it is read
  og_status status = values_make(p, node);
  if (status == OG_OK) status = kernel_run(p, node);
  if (status == OG_OK) status = results_keep(p, node);
  for (int32_t i = 0; i < node->in_count; ++i) dense_drop(p, node->in[i]);
  for (int32_t r = 0; r < node->out_count; ++r) dense_drop(p, node->out[r]);
  og_framed_release(&p->instance);
  og_arena_destroy(&p->instance.memory);
  p->instance.framed = NULL;
  p->instance.held_bytes = 0;
  memset(p->instance.scratch, 0, sizeof p->instance.scratch);
  return status;
}

// --- A run -------------------------------------------------------------------

static og_status outputs_keep(plain *p) {
  for (int32_t i = 0; i < p->graph->output_count; ++i) {
    const og_output *from = &p->graph->outputs[i];
    output *to = &p->outputs[i];
    if (from->size >= 0)
      *to = (output){.kind = OPGRAFT_OUTPUT_SIZE,
                     .size = p->plan.sizes[from->size]};
    if (from->value < 0) continue;
    const og_value *value = &p->graph->values[from->value];
    int64_t count;
    to->tensor = p->plan.tensors[from->value];
    OG_TRY(elements_count(p, from->value, &count));
    to->tensor.data = hold(p, count * (int64_t)og_dtype_bytes(value->dtype));
    if (to->tensor.data == NULL) return no_memory(p);
    to->kind = OPGRAFT_OUTPUT_STORAGE;
    if (value->kind == OG_VALUE_LITERAL)
      memcpy(to->tensor.data, &value->number, og_dtype_bytes(value->dtype));
    else
      OG_TRY(gather(p, from->value, to->tensor.data));
  }
  return OG_OK;
}

static og_status tables_make(plain *p) {
  const size_t values = (size_t)p->graph->value_count + 1;
  og_arena *memory = &p->memory;
  p->layouts = og_arena_array(memory, values, sizeof *p->layouts);
  p->images = og_arena_array(memory, values, sizeof *p->images);
  p->plan.tensors = og_arena_array(memory, values, sizeof *p->plan.tensors);
  p->plan.places = og_arena_array(memory, values, sizeof *p->plan.places);
  p->instance.tensors =
      og_arena_array(memory, values, sizeof *p->instance.tensors);
  p->instance.storages =
      og_arena_array(memory, values, sizeof *p->instance.storages);
  p->instance.steps = og_arena_array(memory, 1, sizeof *p->instance.steps);
  p->instance.step_infos =
      og_arena_array(memory, 1, sizeof *p->instance.step_infos);
  p->is_needed = og_arena_array(memory, (size_t)p->graph->node_count + 1,
                                sizeof *p->is_needed);
  p->outputs = og_arena_array(memory, (size_t)p->graph->output_count + 1,
                              sizeof *p->outputs);
  const bool has_all = p->layouts && p->images && p->plan.tensors &&
                       p->plan.places && p->instance.tensors &&
                       p->instance.storages && p->instance.steps &&
                       p->instance.step_infos && p->is_needed && p->outputs;
  return has_all ? OG_OK : no_memory(p);
}

static og_status plain_begin(plain *p, const og_tensor *const *in,
                             const int64_t *ints, int32_t count) {
  const opgraft_graph *graph = p->graph;
  OG_TRY(og_graph_verify(graph, p->error));
  OG_TRY(inputs_match(p, in, ints, count));
  OG_TRY(tables_make(p));
  OG_TRY(sizes_find(p, in, ints));
  for (int32_t v = 0; v < graph->value_count; ++v) OG_TRY(layout_make(p, v));
  OG_TRY(sizes_match(p, in, ints));
  for (int32_t v = 0; v < graph->value_count; ++v) {
    const og_value *value = &graph->values[v];
    if (value->kind == OG_VALUE_INPUT)
      OG_TRY(input_take(p, v, in[value->result]));
    if (value->kind == OG_VALUE_CONSTANT) OG_TRY(constant_take(p, v));
  }
  return needs_find(p);
}

static og_status plain_run(plain *p, const og_tensor *const *in,
                           const int64_t *ints, int32_t count) {
  OG_TRY(plain_begin(p, in, ints, count));
  for (int32_t n = 0; n < p->graph->node_count; ++n)
    if (p->is_needed[n]) OG_TRY(node_run_once(p, &p->graph->nodes[n]));
  return outputs_keep(p);
}

og_status opgraft_plain_run(const opgraft_graph *graph,
                            const opgraft_host *host,
                            const og_tensor *const *in, const int64_t *ints,
                            int32_t count, opgraft_plain **out_plain,
                            opgraft_error *error) {
  opgraft_host limits;
  *out_plain = NULL;
  OG_TRY(og_host_copy(host, &limits, error));
  plain *p = og_alloc_zeroed(1, sizeof *p);
  if (p == NULL) return og_graph_no_memory(error);
  p->graph = graph;
  p->error = error;
  p->value_count = graph->value_count;
  p->output_count = graph->output_count;
  p->plan.graph = graph;
  p->executable.graph = (opgraft_graph *)(uintptr_t)graph;
  p->executable.threads = 1;
  p->executable.host = (opgraft_host){.max_bytes = limits.max_bytes,
                                      .max_work = limits.max_work};
  p->executable.rules = (og_rules *)(uintptr_t)&always_plain;
  p->entry.executable = &p->executable;
  p->entry.plan = &p->plan;
  p->instance.entry = &p->entry;
  const og_status status = plain_run(p, in, ints, count);
  if (status != OG_OK)
    opgraft_plain_destroy(p);
  else
    *out_plain = p;
  return status;
}

int32_t opgraft_plain_output(const opgraft_plain *p, int32_t index,
                             og_tensor *out_tensor, int64_t *out_size) {
  const output *from = &p->outputs[index];
  *out_tensor = from->tensor;
  *out_size = from->size;
  return from->kind;
}

int32_t opgraft_plain_input(const opgraft_plain *p, int32_t index,
                            og_tensor *out_tensor) {
  const opgraft_value id = p->graph->inputs[index].value;
  if (id < 0) return 0;
  *out_tensor = p->layouts[id];
  out_tensor->data = p->images[id].bytes;
  return 1;
}

void opgraft_plain_destroy(opgraft_plain *p) {
  if (p == NULL) return;
  for (int32_t i = 0; p->outputs != NULL && i < p->output_count; ++i)
    og_free(p->outputs[i].tensor.data);
  for (int32_t v = 0; p->images != NULL && v < p->value_count; ++v)
    og_free(p->images[v].bytes);
  og_arena_destroy(&p->memory);
  og_free(p);
}
