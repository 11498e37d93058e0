// SPDX-License-Identifier: Apache-2.0
// opgraft.freeze: a graph behind guards of its own, with no Dynamo on the way.

#ifndef OG_TORCH_FROZEN_H
#define OG_TORCH_FROZEN_H

#include "torch/base/host.h"

extern PyTypeObject *frozen_type;
int frozen_setup(void);

#endif  // OG_TORCH_FROZEN_H
