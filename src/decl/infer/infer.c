// SPDX-License-Identifier: Apache-2.0
// Inference on the integers of one call: check the arguments, bind the dims,
// size the results. This is on the path of every call, so it allocates nothing
// (but list results) and formats text only to refuse.

#include "decl/infer/infer.h"

#include <stdio.h>
#include <string.h>

#include "decl/infer/eval.h"
#include "decl/infer/match.h"
#include "decl/infer/quick.h"
#include "decl/infer/result.h"
#include "decl/parse/names.h"
#include "decl/parse/parser.h"
#include "decl/parse/schema.h"
#include "decl/types.h"

// What the tensors seen so far have in common.
typedef struct common {
  const og_tensor *first;
  int32_t first_tensor;           // which argument that is
  int32_t type[OG_VARIABLE_MAX];  // of each free type, -1 before it is bound
  const og_tensor *typed[OG_VARIABLE_MAX];
  int32_t typed_by[OG_VARIABLE_MAX];
} common;

// --- Refusals ----------------------------------------------------------------

static const char *tensor_name(const og_decl *decl, int32_t t) {
  return og_tensor_param(decl, t)->name;
}

static og_status refuse_missing(const og_decl *decl, int32_t t,
                                opgraft_error *error) {
  const char *name = tensor_name(decl, t);
  return og_error_set(error, OG_INVALID, decl->name, name,
                      "%s: %s: found no tensor, expected one; only Tensor? may "
                      "be None",
                      decl->name, name);
}

static void set_text(og_type_set set, char *buffer, size_t size) {
  size_t used = 0;
  buffer[0] = '\0';
  for (int32_t i = 0; i < og_dtype_table_count(); ++i) {
    if (!(set >> i & 1u)) continue;
    const char *name = og_dtype_name(og_dtype_at(i));
    if (used + strlen(name) + 3 > size) return;
    if (used > 0) buffer[used++] = '|';
    memcpy(buffer + used, name, strlen(name) + 1);
    used += strlen(name);
  }
}

static og_status refuse_type(const og_decl *decl, int32_t t,
                             const og_tensor *tensor, opgraft_error *error) {
  char wanted[160];
  const char *name = tensor_name(decl, t);
  set_text(decl->types[t].set, wanted, sizeof wanted);
  return og_error_set(error, OG_DTYPE, decl->name, name,
                      "%s: %s is %s here, expected %s; convert it first",
                      decl->name, name, og_dtype_name(tensor->dtype), wanted);
}

static og_status refuse_unequal(const og_decl *decl, int32_t t,
                                const og_tensor *tensor, const common *c,
                                opgraft_error *error) {
  const int32_t v = decl->types[t].variable;
  const char *name = tensor_name(decl, t);
  return og_error_set(error, OG_DTYPE, decl->name, name,
                      "%s: %s is %s here, but %s is %s; expected one type, "
                      "convert one of them",
                      decl->name, name, og_dtype_name(tensor->dtype),
                      tensor_name(decl, c->typed_by[v]),
                      og_dtype_name(c->typed[v]->dtype));
}

// cuda:0
static void device_text(og_device device, char *buffer, size_t size) {
  char unnamed[OG_DEVICE_TEXT];
  snprintf(buffer, size, "%s:%d", og_device_text(device.type, unnamed),
           (int)device.id);
}

static og_status refuse_device(const og_decl *decl, int32_t t,
                               const og_tensor *tensor, const common *c,
                               opgraft_error *error) {
  char here[48], there[48];
  const char *name = tensor_name(decl, t);
  device_text(tensor->device, here, sizeof here);
  device_text(c->first->device, there, sizeof there);
  return og_error_set(error, OG_DEVICE, decl->name, name,
                      "%s: %s is on %s here, but %s is on %s; expected one "
                      "device, move one of them",
                      decl->name, name, here,
                      tensor_name(decl, c->first_tensor), there);
}

static og_status refuse_rank(const og_decl *decl, int32_t t,
                             const og_tensor *tensor, opgraft_error *error) {
  const char *name = tensor_name(decl, t);
  return og_error_set(error, OG_SHAPE, decl->name, name,
                      "%s: %s has %d dims, expected 0 to %d", decl->name, name,
                      (int)tensor->ndim, OPGRAFT_RANK_MAX);
}

// --- Types and devices -------------------------------------------------------

static inline og_status check_tensor(const og_decl *decl, int32_t t,
                                     const og_tensor *tensor, common *c,
                                     opgraft_error *error) {
  const og_type_rule *rule = &decl->types[t];
  const int32_t type = og_dtype_index(tensor->dtype);
  if (OG_UNLIKELY(type < 0 || !(rule->set >> type & 1u)))
    return refuse_type(decl, t, tensor, error);
  if (rule->variable >= 0) {
    const int32_t bound = c->type[rule->variable];
    if (bound < 0) {
      c->type[rule->variable] = type;
      c->typed[rule->variable] = tensor;
      c->typed_by[rule->variable] = t;
    } else if (OG_UNLIKELY(bound != type)) {
      return refuse_unequal(decl, t, tensor, c, error);
    }
  }
  if (OG_UNLIKELY((uint32_t)tensor->ndim > OPGRAFT_RANK_MAX))
    return refuse_rank(decl, t, tensor, error);
  if (c->first == NULL) {
    c->first = tensor;
    c->first_tensor = t;
  } else if (OG_UNLIKELY(c->first->device.type != tensor->device.type ||
                         c->first->device.id != tensor->device.id)) {
    return refuse_device(decl, t, tensor, c, error);
  }
  return OG_OK;
}

static og_status check_list(const og_decl *decl, int32_t t,
                            const og_tensor_list *list, common *c,
                            opgraft_error *error) {
  const og_param *param = og_tensor_param(decl, t);
  const og_tensor *first = NULL;
  if (list->count < 0 || (list->count > 0 && list->tensors == NULL))
    return refuse_missing(decl, t, error);
  for (int64_t i = 0; i < list->count; ++i) {
    const og_tensor *tensor = list->tensors[i];
    if (tensor == NULL) {
      if (param->is_element_optional) continue;
      return og_error_set(error, OG_INVALID, decl->name, param->name,
                          "%s: %s[%lld]: found no tensor, expected one; only "
                          "entries of Tensor?[] may be None",
                          decl->name, param->name, (long long)i);
    }
    if (first == NULL) first = tensor;
    if (!og_dtype_equal(first->dtype, tensor->dtype))
      return og_error_set(error, OG_DTYPE, decl->name, param->name,
                          "%s: %s[%lld] is %s here, but the entries before it "
                          "are %s; expected one type, convert one of them",
                          decl->name, param->name, (long long)i,
                          og_dtype_name(tensor->dtype),
                          og_dtype_name(first->dtype));
    OG_TRY(check_tensor(decl, t, tensor, c, error));
  }
  return OG_OK;
}

static og_status check_tensors(const og_decl *decl, const opgraft_frame *frame,
                               common *c, opgraft_error *error) {
  c->first = NULL;
  for (int32_t v = 0; v < decl->type_variable_count; ++v) c->type[v] = -1;
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    const og_tensor *tensor = frame->in[t];
    if (decl->has_lists && og_tensor_param(decl, t)->is_list) {
      OG_TRY(check_list(decl, t, &frame->in_list[t], c, error));
    } else if (OG_LIKELY(tensor != NULL)) {
      OG_TRY(check_tensor(decl, t, tensor, c, error));
    } else if (!og_tensor_param(decl, t)->is_optional) {
      return refuse_missing(decl, t, error);
    }
  }
  return OG_OK;
}

// Where no tensor was given, an argument may say where results go.
static og_device default_device(const og_decl *decl,
                                const opgraft_frame *frame) {
  for (int32_t a = 0; a < decl->attr_count; ++a)
    if (frame->attr[a].kind == OG_ATTR_DEVICE) return frame->attr[a].device;
  return og_cpu;
}

// --- Conditions --------------------------------------------------------------

static og_status refuse_condition(const og_decl *decl,
                                  const og_condition *condition,
                                  const og_scope *scope, opgraft_error *error) {
  char values[400];
  const og_expr *expr = &condition->expr;
  og_expr_values(decl, expr, scope, values, sizeof values);
  return og_error_at(error, OG_SHAPE, decl->name, "where", expr->begin,
                     expr->end, "%s: where: expected %s%s%s", decl->name,
                     condition->text, values[0] != '\0' ? ", but " : "",
                     values);
}

static og_status check_conditions(const og_decl *decl,
                                  const opgraft_frame *frame,
                                  const og_binding *binding,
                                  opgraft_error *error) {
  const og_scope scope = og_scope_of(frame, binding);
  for (int32_t i = 0; i < decl->condition_count; ++i) {
    const og_condition *condition = &decl->conditions[i];
    int64_t holds;
    OG_TRY(og_eval_or_refuse(decl, &condition->expr, &scope, 0, &holds, error));
    if (OG_UNLIKELY(!holds))
      return refuse_condition(decl, condition, &scope, error);
  }
  return OG_OK;
}

// --- The whole ---------------------------------------------------------------

static void point_out(const og_decl *decl, opgraft_frame *frame) {
  const int32_t mutated = decl->mutated_count;
  for (int32_t j = 0; j < mutated; ++j) {
    const int32_t t = decl->mutated_tensors[j];
    const bool is_list = og_tensor_param(decl, t)->is_list;
    // The schema says that the kernel writes it.
    frame->out[j] = is_list ? NULL : (og_tensor *)(uintptr_t)frame->in[t];
    frame->out_list[j] = is_list ? frame->in_list[t] : (og_tensor_list){0};
  }
  for (int32_t i = 0; i < decl->fresh_count; ++i) {
    const bool is_list = decl->shapes[i].kind == OG_SHAPE_LIST;
    frame->out[mutated + i] = is_list ? NULL : &frame->fresh[i];
    frame->out_list[mutated + i] = frame->fresh_list[i];
  }
}

static og_status refuse_attr(const og_decl *decl, int32_t a,
                             const og_attr *attr, opgraft_error *error) {
  static const char *const kinds[] = {"None",    "int",     "float",  "bool",
                                      "complex", "str",     "type",   "device",
                                      "int[]",   "float[]", "bool[]", "str[]"};
  const bool is_known = (uint32_t)attr->kind < sizeof kinds / sizeof *kinds;
  const og_param *param = og_attr_param(decl, a);
  return og_error_set(error, OG_INVALID, decl->name, param->name,
                      "%s: %s: found %s, expected %s%s%s", decl->name,
                      param->name,
                      is_known ? kinds[attr->kind] : "an unknown kind",
                      og_type_name(param->type), param->is_list ? "[]" : "",
                      param->is_optional ? " or None" : "");
}

static inline int32_t find_wrong_attr(const og_decl *decl,
                                      const opgraft_frame *frame) {
  for (int32_t a = 0; a < decl->attr_count; ++a) {
    const uint32_t kind = (uint32_t)frame->attr[a].kind;
    if (OG_UNLIKELY(kind > 15 || !((uint32_t)decl->attr_kinds[a] >> kind & 1u)))
      return a;
  }
  return -1;
}

og_status og_infer(const og_decl *decl, opgraft_frame *frame,
                   opgraft_error *error) {
  const int32_t wrong = find_wrong_attr(decl, frame);
  if (OG_UNLIKELY(wrong >= 0))
    return refuse_attr(decl, wrong, &frame->attr[wrong], error);
  if (OG_LIKELY(decl->quick != NULL && og_quick_infer(decl, frame)))
    return OG_OK;
  return og_infer_general(decl, frame, error);
}

og_status og_infer_general(const og_decl *decl, opgraft_frame *frame,
                           opgraft_error *error) {
  og_binding binding;
  common c;
  frame->sizes_used = 0;
  frame->fresh_count = decl->fresh_count;
  OG_TRY(check_tensors(decl, frame, &c, error));
  OG_TRY(og_match(decl, frame, &binding, error));
  if (decl->condition_count > 0)
    OG_TRY(check_conditions(decl, frame, &binding, error));
  const og_device device =
      c.first != NULL ? c.first->device : default_device(decl, frame);
  OG_TRY(og_type_results(decl, frame, device, error));
  OG_TRY(og_size_results(decl, frame, &binding, error));
  point_out(decl, frame);
  return OG_OK;
}

og_status og_expr_eval(const og_decl *decl, const og_expr *expr,
                       const opgraft_frame *frame, int64_t index,
                       int64_t *out_value, opgraft_error *error) {
  og_binding binding;
  binding.bound = 0;
  if (expr->needs_packs) OG_TRY(og_match_again(decl, frame, &binding));
  const og_scope scope = og_scope_of(frame, &binding);
  return og_eval_or_refuse(decl, expr, &scope, index, out_value, error);
}
