// SPDX-License-Identifier: Apache-2.0
// The own module's declarations, read by whoever asks first.
//
// Invariant: after og_own_get has returned, nothing changes until the file is
// unmapped.

#include "shared/own.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "shared/record.h"

static og_own own;
static opgraft_module *module;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void no_memory(void) {
  own.error.code = OG_MEMORY;
  snprintf(own.error.text, sizeof own.error.text,
           "not enough memory to read the module's declarations");
}

static void op_fill(og_own_op *op) {
  for (int32_t i = 0; i < op->info.param_count; ++i) {
    opgraft_param_info *param = &op->params[i];
    param->struct_size = sizeof *param;
    opgraft_op_get_param(op->op, i, param);
    if (param->tensor >= 0) op->tensor_params[param->tensor] = param;
    if (param->attr >= 0) op->attr_params[param->attr] = param;
    if (param->out >= 0) op->mutated_tensors[param->out] = param->tensor;
  }
  for (int32_t i = 0; i < op->info.tensor_count; ++i) {
    op->tensors[i].struct_size = sizeof op->tensors[i];
    opgraft_op_get_tensor(op->op, i, &op->tensors[i]);
  }
  for (int32_t i = 0; i < op->info.result_count; ++i) {
    opgraft_result_info *result = &op->results[i];
    result->struct_size = sizeof *result;
    opgraft_op_get_result(op->op, i, result);
    if (result->fresh >= 0) op->fresh[result->fresh] = result;
  }
}

static int op_read(og_own_op *op) {
  op->info.struct_size = sizeof op->info;
  opgraft_op_get_info(op->op, &op->info);
  op->params = calloc((size_t)op->info.param_count + 1, sizeof *op->params);
  op->tensors = calloc((size_t)op->info.tensor_count + 1, sizeof *op->tensors);
  op->results = calloc((size_t)op->info.result_count + 1, sizeof *op->results);
  if (op->params == NULL || op->tensors == NULL || op->results == NULL)
    return 0;
  op_fill(op);
  return 1;
}

static void own_read(void) {
  if (opgraft_module_wrap(og_own_record(), &module, &own.error) != OG_OK)
    return;
  const int32_t count = opgraft_module_op_count(module);
  own.name = opgraft_module_name(module);
  own.ops = calloc((size_t)count, sizeof *own.ops);
  for (int32_t i = 0; own.ops != NULL && i < count; ++i) {
    own.ops[i].op = opgraft_module_op(module, i);
    own.op_count = i + 1;
    if (!op_read(&own.ops[i])) {
      no_memory();
      return;
    }
  }
  if (own.ops == NULL) no_memory();
}

const og_own *og_own_get(void) {
  pthread_once(&once, own_read);
  return &own;
}

// When the file is unmapped: a host may load and drop it many times.
__attribute__((destructor)) static void own_drop(void) {
  for (int32_t i = 0; i < own.op_count; ++i) {
    free(own.ops[i].params);
    free(own.ops[i].tensors);
    free(own.ops[i].results);
  }
  free(own.ops);
  if (module != NULL) opgraft_module_release(module);
}

const char *og_own_dtype_name(og_dtype dtype) {
  static const struct {
    og_dtype dtype;
    const char *name;
  } table[] = {
      {{OG_CODE_FLOAT, 16, 1}, "f16"},     {{OG_CODE_BFLOAT, 16, 1}, "bf16"},
      {{OG_CODE_FLOAT, 32, 1}, "f32"},     {{OG_CODE_FLOAT, 64, 1}, "f64"},
      {{OG_CODE_INT, 8, 1}, "i8"},         {{OG_CODE_INT, 16, 1}, "i16"},
      {{OG_CODE_INT, 32, 1}, "i32"},       {{OG_CODE_INT, 64, 1}, "i64"},
      {{OG_CODE_UINT, 8, 1}, "u8"},        {{OG_CODE_UINT, 16, 1}, "u16"},
      {{OG_CODE_UINT, 32, 1}, "u32"},      {{OG_CODE_UINT, 64, 1}, "u64"},
      {{OG_CODE_BOOL, 8, 1}, "bool"},      {{OG_CODE_COMPLEX, 64, 1}, "c64"},
      {{OG_CODE_COMPLEX, 128, 1}, "c128"},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; ++i)
    if (table[i].dtype.code == dtype.code && table[i].dtype.bits == dtype.bits)
      return table[i].name;
  return NULL;
}

const char *og_own_op_limit(const og_own_op *op) {
  for (int32_t i = 0; i < op->info.result_count; ++i)
    if (op->results[i].type == OPGRAFT_TYPE_INT)
      return "a result is a number, not a tensor";
  for (int32_t i = 0; i < op->info.attr_count; ++i)
    if (op->attr_params[i]->type == OPGRAFT_TYPE_DEVICE &&
        (op->attr_params[i]->flags & OPGRAFT_PARAM_OPTIONAL) == 0)
      return "an argument is a device, which the host chooses";
  return NULL;
}
