// SPDX-License-Identifier: Apache-2.0
// The rival TVM-FFI: x + a * y behind its packed call, output given.

#include <stddef.h>
#include <stdint.h>

#include <opgraft/op.h>

typedef struct any {  // TVMFFIAny
  int32_t type;
  uint32_t padding;
  union {
    int64_t i;
    double f;
    void *p;
  } value;
} any;

enum {
  TYPE_FLOAT = 3,
  TYPE_DLTENSOR = 7,
  TYPE_TENSOR = 70,
  OBJECT_HEADER = 24
};

extern int TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message);

static og_tensor *tensor_get(const any *argument) {
  if (argument->type == TYPE_DLTENSOR) return argument->value.p;
  if (argument->type == TYPE_TENSOR)
    return (og_tensor *)(void *)((char *)argument->value.p + OBJECT_HEADER);
  return NULL;
}

static int64_t dense_count(const og_tensor *t) {
  int64_t count = 1;
  if (t->dtype.code != OG_CODE_FLOAT || t->dtype.bits != 32) return -1;
  for (int i = t->ndim - 1; i >= 0; --i) {
    if (t->shape[i] != 1 && t->strides[i] != count) return -1;
    count *= t->shape[i];
  }
  return count;
}

OG_EXPORT int __tvm_ffi_scale_add_out(void *handle, const any *arguments,
                                      int32_t count, any *result) {
  (void)handle;
  (void)result;
  og_tensor *out = count == 4 ? tensor_get(&arguments[0]) : NULL;
  og_tensor *x = count == 4 ? tensor_get(&arguments[1]) : NULL;
  og_tensor *y = count == 4 ? tensor_get(&arguments[2]) : NULL;
  if (out == NULL || x == NULL || y == NULL || dense_count(out) < 0 ||
      dense_count(out) != dense_count(x) || dense_count(x) != dense_count(y)) {
    TVMFFIErrorSetRaisedFromCStr("ValueError", "scale_add_out: bad arguments");
    return -1;
  }
  const float a =
      (float)(arguments[3].type == TYPE_FLOAT ? arguments[3].value.f
                                              : (double)arguments[3].value.i);
  const int64_t n = dense_count(x);
  for (int64_t i = 0; i < n; ++i)
    og_f32_mut(out)[i] = og_f32(x)[i] + a * og_f32(y)[i];
  return 0;
}
