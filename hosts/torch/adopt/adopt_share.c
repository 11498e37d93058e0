// SPDX-License-Identifier: Apache-2.0
// What the kinds of adopted callables share.

#include "torch/adopt/adopt_share.h"
#include "torch/base/shim.h"

#include <stdlib.h>
#include <string.h>

og_status adopt_fail(const adopted *self, opgraft_error *error, og_status code,
                     const char *text) {
  if (error == NULL) return code;
  *error = (opgraft_error){.code = code, .begin = -1, .end = -1};
  PyOS_snprintf(error->op, sizeof error->op, "%s", self->name);
  PyOS_snprintf(error->text, sizeof error->text, "%s: %s", self->name, text);
  return code;
}

typedef struct borrowed {
  dl_managed managed;
  int64_t sizes[];  // shape, then strides
} borrowed;

static void borrowed_end(dl_managed *managed) { free(managed->context); }

dl_managed *adopt_borrow(const og_tensor *tensor) {
  const size_t rank = (size_t)tensor->ndim;
  borrowed *b = malloc(sizeof *b + 2 * rank * sizeof(int64_t) + 1);
  if (b == NULL) return NULL;
  b->managed = (dl_managed){
      .major = exchange->major,
      .minor = exchange->minor,
      .context = b,
      .deleter = borrowed_end,
      .tensor = *tensor,
  };
  if (rank > 0) memcpy(b->sizes, tensor->shape, rank * sizeof(int64_t));
  int64_t dense = 1;
  for (size_t i = rank; i-- > 0;) {
    b->sizes[rank + i] = tensor->strides != NULL ? tensor->strides[i] : dense;
    dense *= tensor->shape[i];
  }
  b->managed.tensor.data = og_data(tensor);  // torch reads no byte_offset
  b->managed.tensor.byte_offset = 0;
  b->managed.tensor.shape = b->sizes;
  b->managed.tensor.strides = b->sizes + rank;
  return &b->managed;
}
