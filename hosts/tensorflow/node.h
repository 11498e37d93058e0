// SPDX-License-Identifier: Apache-2.0
// What a node says besides its inputs: its attribute `call`, a list of int64.
//
//   call  for each tensor argument 0 (absent) or 1, for a list its length and
//         as many of them; then for each other argument a kind (OG_ATTR_*) and:
//         an int, a bool; the bits of a double (two of a complex number); code
//         and bits of a type; a text; a count and as many entries
//   text  its bytes' number n, then n / 8 + 1 words with its bytes and zeros
//
// TensorFlow's own float attributes have 32 bits, which would change results.

#ifndef OG_HOSTS_TENSORFLOW_NODE_H
#define OG_HOSTS_TENSORFLOW_NODE_H

#include "shared/words.h"

typedef struct og_tf_node {
  const og_own_op *op;
  const int64_t *given;  // the words of tensor arguments
  int64_t given_count;
  int32_t input_count;  // the node's
  og_attr attr[OPGRAFT_ATTR_MAX];
  const char **texts[OPGRAFT_ATTR_MAX];  // of lists of texts, owned
} og_tf_node;

// `words` must outlive the node. og_tf_node_reset behind a failure too.
og_status og_tf_node_read(og_tf_node *node, const og_own_op *op,
                          og_words *words, opgraft_error *error);
void og_tf_node_reset(og_tf_node *node);

// Gives each input to the call: `input` has the node's input `index` for
// tensor argument t. It fails with a code other than OG_OK.
typedef og_status (*og_tf_input_fn)(void *state, int32_t t, int32_t index,
                                    int is_list, opgraft_error *error);
og_status og_tf_node_inputs(const og_tf_node *node, og_host_call *call,
                            og_tf_input_fn input, void *state,
                            opgraft_error *error);

#endif  // OG_HOSTS_TENSORFLOW_NODE_H
