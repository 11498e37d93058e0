// SPDX-License-Identifier: Apache-2.0
// Makes operators known to TensorFlow, and what Python asks the module.
//
// Registration is a call, not a constructor: TensorFlow ends the process where
// a name is registered twice, so who registers asks for the name before.

#include <stdio.h>

#include "shared/packed.h"
#include "tensorflow/kernel.h"
#include "tensorflow/library.h"

#define API OG_EXPORT

// Registers operator `op` as `name`, which TensorFlow must not have yet. 0, or
// -1 and why in `text`.
API int32_t opgraft_tensorflow_register(int32_t op, const char *name,
                                        char *text, size_t size);
// Why operator `op` is not offered; NULL where it is.
API const char *opgraft_limit_tensorflow(int32_t op);

OG_OWN_EXPORTS(tensorflow)
OG_PACKED_EXPORTS(tensorflow)

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
