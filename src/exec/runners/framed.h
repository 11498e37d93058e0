// SPDX-License-Identifier: Apache-2.0
// Operators of modules, called directly.

#ifndef OG_EXEC_RUNNERS_FRAMED_H
#define OG_EXEC_RUNNERS_FRAMED_H

#include "exec/step/prep.h"

// Prepares a node whose operator a module has.
og_status og_prepare_module(og_prep *prep);
// Frees what the modules prepared.
void og_framed_release(og_instance *instance);

#endif  // OG_EXEC_RUNNERS_FRAMED_H
