// SPDX-License-Identifier: Apache-2.0
// TensorFlow's calls of one node.

#ifndef OG_HOSTS_TENSORFLOW_KERNEL_H
#define OG_HOSTS_TENSORFLOW_KERNEL_H

// A node's attributes are `op`, the operator's name, and `call` (node.h).
void *og_tf_kernel_create(void *construction);
void og_tf_kernel_compute(void *kernel, void *context);
void og_tf_kernel_delete(void *kernel);

#endif  // OG_HOSTS_TENSORFLOW_KERNEL_H
