// SPDX-License-Identifier: Apache-2.0
// What the examples share: a kernel, tensors, and a module of one operator
// that is linked into the program, loaded, called and released.

#ifndef ERRORS_EXAMPLE_H
#define ERRORS_EXAMPLE_H

#include <opgraft/opgraft.h>
#include <stdio.h>

// y = 2 * x, for any operator whose first dim counts elements.
static inline og_status twice(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[0]; ++i) y[i] = 2 * x[i];
  return OG_OK;
}

static const og_kernel twice_f32[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = twice}};

// A row of floats in the caller's memory.
static inline og_tensor floats(float *data, int64_t *size, int64_t *stride) {
  return (og_tensor){.data = data,
                     .device = {OG_CPU, 0},
                     .ndim = 1,
                     .dtype = {OG_CODE_FLOAT, 32, 1},
                     .shape = size,
                     .strides = stride};
}

// Prints the code's name and text, and the error; the program's exit status.
static inline int tell(og_status status, const opgraft_error *error) {
#define NAME(name, value, text) #name,
  static const char *const names[] = {OG_STATUS_LIST(NAME)};
#undef NAME
  if (status == OG_OK) {
    puts("OG_OK");
    return 0;
  }
  printf("%s (%s): %s\n", names[status], opgraft_status_text(status),
         error->text);
  return 1;
}

// A module of one operator. One a process: the record is static.
static inline og_status load(const og_op *op, uint32_t abi_version,
                             opgraft_module **out_module,
                             opgraft_error *error) {
  static og_module record;
  record = (og_module){.struct_size = sizeof record,
                       .abi_version = abi_version,
                       .name = "example",
                       .ops = op,
                       .op_count = 1,
                       .op_size = sizeof *op};
  return opgraft_module_wrap(&record, out_module, error);
}

// Loads the operator and calls it on one or two rows of at most 8 floats.
static inline int load_and_call(const og_op *op, const og_tensor *x,
                                const og_tensor *y) {
  static float result[8];
  static opgraft_frame frame;
  opgraft_module *module = NULL;
  opgraft_error error = {0};
  og_status status = load(op, OG_ABI_VERSION, &module, &error);
  if (status != OG_OK) return tell(status, &error);
  opgraft_frame_init(&frame, opgraft_module_op(module, 0));
  frame.in[0] = x;
  frame.in[1] = y;
  status = opgraft_frame_infer(&frame, &error);
  if (status == OG_OK) {
    frame.fresh[0].data = result;
    status = opgraft_frame_run(&frame, &error);
  }
  opgraft_frame_reset(&frame);
  opgraft_module_release(module);
  return tell(status, &error);
}

#endif  // ERRORS_EXAMPLE_H
