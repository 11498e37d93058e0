// SPDX-License-Identifier: Apache-2.0
// libtorch in the process.

#ifndef OG_HOSTS_AOTI_LIBRARY_H
#define OG_HOSTS_AOTI_LIBRARY_H

#include "aoti/abi.h"

#define AOTI_COUNT(name, long_name, code, bits) +1
enum { AOTI_DTYPES = 0 OG_DTYPE_LIST(AOTI_COUNT) };
#undef AOTI_COUNT

typedef struct og_aoti_library {
#define FIELD(name, result, parameters) result(*name) parameters;
  AOTI_FUNCTION_LIST(FIELD)
#undef FIELD
  int32_t cpu;
  int32_t dtypes[AOTI_DTYPES];  // in the order of OG_DTYPE_LIST
} og_aoti_library;

// NULL where the process has no libtorch_cpu with these functions.
const og_aoti_library *og_aoti_library_get(void);
// The type of libtorch's number; lanes is 0 where we have none.
og_dtype og_aoti_dtype(const og_aoti_library *library, int32_t number);
// 0 where libtorch has no such type.
int og_aoti_number(const og_aoti_library *library, og_dtype dtype,
                   int32_t *out_number);

#endif  // OG_HOSTS_AOTI_LIBRARY_H
