// SPDX-License-Identifier: Apache-2.0
// A node's attributes.

#ifndef OG_HOSTS_ONNXRUNTIME_ATTRS_H
#define OG_HOSTS_ONNXRUNTIME_ATTRS_H

#include "onnxruntime/abi.h"
#include "shared/own.h"

// Values of a node's attributes, and what they point to.
typedef struct og_ort_attrs {
  og_attr attr[OPGRAFT_ATTR_MAX];
  void *memory[OPGRAFT_ATTR_MAX];
} og_ort_attrs;

// Reads one attribute; 0 where the node lacks it or it is of another kind.
// `out` has room for *size entries; with NULL, *size becomes their number.
typedef struct og_ort_source {
  int (*get_int)(const struct og_ort_source *s, const char *name, int64_t *out);
  int (*get_float)(const struct og_ort_source *s, const char *name, float *out);
  int (*get_ints)(const struct og_ort_source *s, const char *name, int64_t *out,
                  size_t *size);
  int (*get_floats)(const struct og_ort_source *s, const char *name, float *out,
                    size_t *size);
  // Texts: *size counts the NUL.
  int (*get_text)(const struct og_ort_source *s, const char *name, char *out,
                  size_t *size);
  ort_api api;
  const void *node;  // OrtKernelInfo, or the context of inference
} og_ort_source;

og_ort_source og_ort_kernel_source(ort_api api, const void *info);
og_ort_source og_ort_infer_source(ort_api api, const void *context);
og_status og_ort_attrs_read(const og_own_op *op, const og_ort_source *source,
                            og_ort_attrs *out_attrs, opgraft_error *error);
void og_ort_attrs_reset(og_ort_attrs *attrs);

#endif  // OG_HOSTS_ONNXRUNTIME_ATTRS_H
