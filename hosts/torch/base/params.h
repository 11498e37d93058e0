// SPDX-License-Identifier: Apache-2.0
// What a host_op has from its declaration: parameters and results.

#ifndef OG_TORCH_PARAMS_H
#define OG_TORCH_PARAMS_H

#include "torch/base/host.h"

// Fill a zeroed operator whose `op` is set; -1 with an exception set, and what
// was filled until then is the operator's to free. `order` is None, or a tuple
// of schema positions: a form that takes them in this order, all by position.
int params_fill(host_op *self, PyObject *order);
// `results` is a tuple of (fresh result, parameter), one of which is -1.
int results_fill(host_op *self, PyObject *results);

#endif  // OG_TORCH_PARAMS_H
