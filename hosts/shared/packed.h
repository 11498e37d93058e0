// SPDX-License-Identifier: Apache-2.0
// A call as 64-bit words, but for its tensors: what an adapter's Python passes,
// and TensorFlow's nodes keep in their attribute `call`.
//
//   call  for each tensor argument 0 (absent) or 1, for a list its length and
//         as many of them; then for each other argument a kind (OG_ATTR_*) and:
//         an int, a bool; the bits of a double (two of a complex number); code
//         and bits of a type; a text; a count and as many entries
//   text  its bytes' number n, then n / 8 + 1 words with its bytes and zeros

#ifndef OG_HOSTS_SHARED_PACKED_H
#define OG_HOSTS_SHARED_PACKED_H

#include "shared/words.h"

typedef struct og_packed {
  const og_own_op *op;
  const int64_t *given;  // the words of tensor arguments
  int64_t given_count;
  int32_t input_count;  // the node's
  og_attr attr[OPGRAFT_ATTR_MAX];
  const char **texts[OPGRAFT_ATTR_MAX];  // of lists of texts, owned
} og_packed;

// `words` must outlive the node. og_packed_reset behind a failure too.
og_status og_packed_read(og_packed *node, const og_own_op *op, og_words *words,
                         opgraft_error *error);
void og_packed_reset(og_packed *node);

// Gives each input to the call: `input` has the node's input `index` for
// tensor argument t. It fails with a code other than OG_OK.
typedef og_status (*og_packed_input_fn)(void *state, int32_t t, int32_t index,
                                        int is_list, opgraft_error *error);
og_status og_packed_inputs(const og_packed *node, og_host_call *call,
                           og_packed_input_fn input, void *state,
                           opgraft_error *error);

// The words of the results, how many are returned; -1 and why in `text`. Behind
// the call's words stands each given tensor, as words.h has it.
int64_t og_packed_infer(int32_t op, const int64_t *words, int64_t count,
                        int64_t *out, int64_t out_size, char *text,
                        size_t size);

// opgraft_HOST_infer, for the adapter's Python.
#define OG_PACKED_EXPORTS(host)                                               \
  OG_EXPORT int64_t opgraft_##host##_infer(                                   \
      int32_t op, const int64_t *words, int64_t count, int64_t *out,          \
      int64_t out_size, char *text, size_t size);                             \
  int64_t opgraft_##host##_infer(int32_t op, const int64_t *words,            \
                                 int64_t count, int64_t *out,                 \
                                 int64_t out_size, char *text, size_t size) { \
    return og_packed_infer(op, words, count, out, out_size, text, size);      \
  }

#endif  // OG_HOSTS_SHARED_PACKED_H
