// SPDX-License-Identifier: Apache-2.0
// The static data of an operator's module.

#ifndef OG_CHECK_RUN_STATIC_DATA_H
#define OG_CHECK_RUN_STATIC_DATA_H

#include "module/module.h"

typedef struct og_data_span {
  char *data;
  size_t bytes;
} og_data_span;

// The module's own static data, as regions, at most `max`; none where the
// operator is linked into the process.
int32_t og_static_spans(const og_kernel *kernel, og_data_span *out,
                        int32_t max);

#endif  // OG_CHECK_RUN_STATIC_DATA_H
