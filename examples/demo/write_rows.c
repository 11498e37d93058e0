// SPDX-License-Identifier: Apache-2.0
// write_rows_: cache[slots[i]] = rows[i], in place, as a decoder writes its new
// keys and values.

#include <opgraft/op.h>
#include <string.h>

enum { S, D, N };  // dims of the shape rule, in order of first appearance

static og_status write_rows(const og_call *call) {
  const float *rows = og_f32(call->in[1]);
  const int64_t *slots = og_i64(call->in[2]);
  float *cache = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t i = 0; i < call->dim[N]; ++i)
    if (slots[i] < 0 || slots[i] >= call->dim[S])
      return og_failf(call, OG_INVALID,
                      "slots[%lld] is %lld, expected 0 to %lld", (long long)i,
                      (long long)slots[i], (long long)call->dim[S] - 1);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    memcpy(cache + slots[i] * width, rows + i * width,
           (size_t)width * sizeof *rows);
  return OG_OK;
}

static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = write_rows}};

static const og_op ops[] = {
    {.schema = "write_rows_(Tensor(a!) cache, Tensor rows, Tensor slots) "
               "-> Tensor(a!)",
     .shape = "cache[S, D], rows[N, D], slots[N] ->",
     .dtype = "cache: f32, rows: f32, slots: i64 ->",
     .flags = OG_DETERMINISTIC,
     .kernels = OG_KERNELS(kernels)},
};
OG_MODULE(write_rows, ops)
