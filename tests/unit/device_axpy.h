// SPDX-License-Identifier: Apache-2.0
// A launch of y = a * x + y, over float32, for drivers of any device.

#ifndef OG_TEST_DEVICE_AXPY_H
#define OG_TEST_DEVICE_AXPY_H

#include <opgraft/device.h>

typedef struct axpy_call {
  int64_t shape, stride;
  og_tensor x, y;
  const og_tensor *in[1];
  og_tensor *out[1];
  og_tensor_list none[1];
  og_attr attr;
  og_call call;
  og_launch launch;
} axpy_call;

// On device 0 of the type; what is returned lies in *c.
static inline const og_launch *axpy_make(axpy_call *c, int32_t device_type,
                                         og_status (*run)(const og_call *call),
                                         int64_t count, void *x, void *y,
                                         double a) {
  *c = (axpy_call){.shape = count, .stride = 1};
  c->x = (og_tensor){.data = x,
                     .device = {device_type, 0},
                     .ndim = 1,
                     .dtype = {OG_CODE_FLOAT, 32, 1},
                     .shape = &c->shape,
                     .strides = &c->stride};
  c->y = c->x;
  c->y.data = y;
  c->in[0] = &c->x;
  c->out[0] = &c->y;
  c->attr = (og_attr){.kind = OG_ATTR_FLOAT, .f = a};
  c->call = (og_call){.struct_size = sizeof c->call,
                      .in = c->in,
                      .out = c->out,
                      .in_list = c->none,
                      .out_list = c->none,
                      .attr = &c->attr,
                      .threads = 1};
  c->launch = (og_launch){.struct_size = sizeof c->launch,
                          .name = "axpy",
                          .run = run,
                          .call = &c->call,
                          .in_count = 1,
                          .out_count = 1,
                          .attr_count = 1};
  return &c->launch;
}

#endif  // OG_TEST_DEVICE_AXPY_H
