// SPDX-License-Identifier: Apache-2.0
// The module's operators as ONNX Runtime has them. An operator whose types are
// free is one custom operator for each choice of them, all of one name.
//
// Inputs are the tensor arguments in order, outputs the fresh results and then
// the new value of each argument that is written.

#ifndef OG_HOSTS_ONNXRUNTIME_FORMS_H
#define OG_HOSTS_ONNXRUNTIME_FORMS_H

#include "onnxruntime/abi.h"
#include "shared/own.h"

enum { OG_ORT_FORMS_MAX = 64 };  // custom operators of one operator

typedef struct og_ort_op {
  ort_custom_op custom;  // first: ONNX Runtime passes its address
  const og_own_op *op;
  ort_api api;
  int has_shapes;  // the runtime has the functions of ORT_LEVEL_SHAPE
  int input_types[OPGRAFT_ARG_MAX];
  int output_types[OPGRAFT_OUT_MAX];
  int32_t output_count;
  // The custom operators of the same operator, of which this is one.
  const struct og_ort_op *forms;
  int32_t form_count;
} og_ort_op;

og_dtype og_ort_dtype(int type);
// 0 where ONNX has no such type.
int og_ort_type(og_dtype dtype);
// Why the operator is not offered, or NULL.
const char *og_ort_op_limit(const og_own_op *op);
// The types of each custom operator of `op`, in out_forms; their number.
int32_t og_ort_forms(const og_own_op *op, og_ort_op *out_forms);

#endif  // OG_HOSTS_ONNXRUNTIME_FORMS_H
