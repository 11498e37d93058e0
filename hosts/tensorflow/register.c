// SPDX-License-Identifier: Apache-2.0
// Makes operators known to TensorFlow, and what Python asks the module.
//
// Registration is a call, not a constructor: TensorFlow ends the process where
// a name is registered twice, so who registers asks for the name before.

#include <stdio.h>

#include "tensorflow/kernel.h"
#include "tensorflow/library.h"
#include "tensorflow/node.h"

#define API OG_EXPORT

// Registers operator `op` as `name`, which TensorFlow must not have yet. 0, or
// -1 and why in `text`.
API int32_t opgraft_tensorflow_register(int32_t op, const char *name,
                                        char *text, size_t size);
// The words of the results, how many are returned; -1 and why in `text`. The
// call's words are those of node.h, then each given tensor: words.h.
API int64_t opgraft_tensorflow_infer(int32_t op, const int64_t *words,
                                     int64_t count, int64_t *out,
                                     int64_t out_size, char *text, size_t size);
// Why operator `op` is not offered; NULL where it is.
API const char *opgraft_limit_tensorflow(int32_t op);

OG_OWN_EXPORTS(tensorflow)

const char *opgraft_limit_tensorflow(int32_t op) {
  const og_own *own = og_own_get();
  return op < 0 || op >= own->op_count ? "there is no such operator"
                                       : og_own_op_limit(&own->ops[op]);
}

// --- Registration ------------------------------------------------------------

// An attribute may depend on values that inference is not given; Python says
// the shapes that are known.
static void shapes_unknown(void *context, void *status) {
  og_tf_library_get()->ShapeInferenceContextSetUnknownShape(context, status);
}

static void definition_add(const og_tf_library *tf, const og_own_op *op,
                           const char *name, void *status) {
  char attr[512];
  void *builder = tf->NewOpDefinitionBuilder(name);
  snprintf(attr, sizeof attr, "op: string = '%s'", op->info.name);
  tf->OpDefinitionBuilderAddInput(builder, "inputs: Tin");
  tf->OpDefinitionBuilderAddOutput(builder, "outputs: Tout");
  tf->OpDefinitionBuilderAddAttr(builder, "Tin: list(type) >= 0");
  tf->OpDefinitionBuilderAddAttr(builder, "Tout: list(type) >= 0");
  tf->OpDefinitionBuilderAddAttr(builder, "call: list(int) >= 0");
  tf->OpDefinitionBuilderAddAttr(builder, attr);
  // Else TensorFlow merges equal calls.
  if ((opgraft_op_record(op->op)->flags & (OG_RANDOM | OG_SIDE_EFFECT)) != 0)
    tf->OpDefinitionBuilderSetIsStateful(builder, 1);
  tf->OpDefinitionBuilderSetShapeInferenceFunction(builder, shapes_unknown);
  tf->RegisterOpDefinition(builder, status);
}

int32_t opgraft_tensorflow_register(int32_t op, const char *name, char *text,
                                    size_t size) {
  const og_tf_library *tf = og_tf_library_get();
  const char *limit = opgraft_limit_tensorflow(op);
  if (tf == NULL)
    limit =
        "the process has no TensorFlow with its C operator API; import "
        "TensorFlow 2.21 before";
  if (limit != NULL) {
    snprintf(text, size, "%s: %s", name, limit);
    return -1;
  }
  void *status = tf->NewStatus();
  definition_add(tf, &og_own_get()->ops[op], name, status);
  if (tf->GetCode(status) == TF_CODE_OK)
    tf->RegisterKernelBuilder(
        name,
        tf->NewKernelBuilder(name, "CPU", og_tf_kernel_create,
                             og_tf_kernel_compute, og_tf_kernel_delete),
        status);
  const int is_done = tf->GetCode(status) == TF_CODE_OK;
  if (!is_done) snprintf(text, size, "%s: %s", name, tf->Message(status));
  tf->DeleteStatus(status);
  return is_done ? 0 : -1;
}

// --- Results of a call -------------------------------------------------------

typedef struct query {
  og_words words;
  og_host_call call;
} query;

static og_status input_give(void *state, int32_t t, int32_t index, int is_list,
                            opgraft_error *error) {
  (void)index;
  query *q = state;
  const og_tensor tensor = og_words_tensor(&q->words);
  if (is_list) return og_host_entry(&q->call, t, &tensor, error);
  og_host_input(&q->call, t, &tensor);
  return OG_OK;
}

static og_status query_infer(query *q, og_tf_node *node, const og_own_op *op,
                             opgraft_error *error) {
  og_status status = og_tf_node_read(node, op, &q->words, error);
  if (status == OG_OK)
    status = og_tf_node_inputs(node, &q->call, input_give, q, error);
  if (status != OG_OK) return status;
  if (q->words.is_short) return og_words_short(&q->words, op, error);
  for (int32_t a = 0; a < op->info.attr_count; ++a)
    q->call.frame.attr[a] = node->attr[a];
  return og_host_infer(&q->call, error);
}

int64_t opgraft_tensorflow_infer(int32_t op, const int64_t *words,
                                 int64_t count, int64_t *out, int64_t out_size,
                                 char *text, size_t size) {
  const og_own *own = og_own_get();
  if (op < 0 || op >= own->op_count) {
    snprintf(text, size, "there is no operator %d", (int)op);
    return -1;
  }
  query q = {.words = {.word = words, .count = count}};
  og_tf_node node;
  opgraft_error error = {.code = OG_OK};
  int64_t used = -1;
  og_host_begin(&q.call, &own->ops[op]);
  if (query_infer(&q, &node, &own->ops[op], &error) == OG_OK)
    used = og_words_results(&q.call, out, out_size);
  else
    snprintf(text, size, "%s", error.text);
  og_host_end(&q.call);
  og_tf_node_reset(&node);
  return used;
}
