// SPDX-License-Identifier: Apache-2.0
// Arguments that are not tensors, from XLA's attributes.
//
// An attribute has its argument's name: int and bool a 64-bit number or a
// truth value, float an f64 or f32, lists an array of them, str and ScalarType
// ("f32") a string, a complex Scalar an array of two. NAME.none stands for
// None, where that is not the default, NAME.empty for an empty list. Without
// either the default stands. Any other name is an error.

#ifndef OG_HOSTS_JAX_ATTRS_H
#define OG_HOSTS_JAX_ATTRS_H

#include "jax/abi.h"
#include "shared/call.h"

// Memory of one call's lists and texts.
typedef struct og_jax_room {
  size_t used;
  int is_full;  // something did not fit
  _Alignas(16) char bytes[4096];
} og_jax_room;

// Of an XLA type; with 0 bits where no operator has it.
og_dtype og_jax_dtype(int32_t type);
// Which tensors the buffers are: "opgraft.given", an array with an entry for
// each tensor argument (0: absent, 1: given) and, for a list, its length and
// then an entry for each of its tensors. Without it every buffer is a tensor
// in order. `out_count` is 0 then.
og_status og_jax_given(const xla_attrs *attrs, const int64_t **out_given,
                       int64_t *out_count);
og_status og_jax_attrs(const xla_attrs *attrs, og_host_call *call,
                       og_jax_room *room, opgraft_error *error);

#endif  // OG_HOSTS_JAX_ATTRS_H
