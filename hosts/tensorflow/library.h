// SPDX-License-Identifier: Apache-2.0
// TensorFlow in the process.

#ifndef OG_HOSTS_TENSORFLOW_LIBRARY_H
#define OG_HOSTS_TENSORFLOW_LIBRARY_H

#include <opgraft/op.h>

#include "tensorflow/abi.h"

typedef struct og_tf_library {
#define FIELD(name, result, parameters) result(*name) parameters;
  TF_FUNCTION_LIST(FIELD)
#undef FIELD
} og_tf_library;

// NULL where the process has no TensorFlow with these functions.
const og_tf_library *og_tf_library_get(void);
// The type of TensorFlow's number; lanes is 0 where we have none.
og_dtype og_tf_dtype(int number);
// 0 where TensorFlow has no such type.
int og_tf_number(og_dtype dtype);

#endif  // OG_HOSTS_TENSORFLOW_LIBRARY_H
