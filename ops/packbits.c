// SPDX-License-Identifier: Apache-2.0
// packbits, segment_packbits: eight truth values to a byte.
// Source: numpy.packbits; FlashInfer's packbits and segment_packbits.

#include <inttypes.h>
#include <opgraft/op.h>
#include <string.h>

#include "base/grain.h"

static og_status order_read(const og_call *call, int *out_is_big) {
  const char *order = call->attr[0].s;
  *out_is_big = strcmp(order, "big") == 0;
  if (*out_is_big || strcmp(order, "little") == 0) return OG_OK;
  return og_fail(call, OG_INVALID,
                 "bitorder is unknown, expected \"big\" or \"little\"");
}

// The last byte's missing bits are 0.
static void bits_pack(const uint8_t *x, int64_t count, uint8_t *y, int is_big) {
  for (int64_t i = 0; i < count; i += 8) {
    const int64_t n = count - i < 8 ? count - i : 8;
    uint32_t byte = 0;
    for (int64_t j = 0; j < n; ++j)
      byte |= (uint32_t)(x[i + j] != 0) << (is_big ? 7 - j : j);
    y[i / 8] = (uint8_t)byte;
  }
}

typedef struct packing {
  const og_call *call;
  int is_big;
} packing;

static void bytes_pack(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  const packing *p = state;
  const int64_t total = p->call->in[0]->shape[0];
  const int64_t last = end * 8 < total ? end * 8 : total;
  (void)worker;
  bits_pack(og_u8(p->call->in[0]) + begin * 8, last - begin * 8,
            og_u8_mut(p->call->out[0]) + begin, p->is_big);
}

static og_status packbits(const og_call *call) {
  packing p = {.call = call};
  const og_status status = order_read(call, &p.is_big);
  if (status != OG_OK) return status;
  return og_parallel_tasks(call, call->out[0]->shape[0], OG_GRAIN_HEAVY,
                           bytes_pack, &p);
}

// --- Segments

enum { N, B1, K };  // dims of the shape rule

static void segments_pack(void *state, int64_t begin, int64_t end,
                          int32_t worker) {
  const packing *p = state;
  const int32_t *from = og_i32(p->call->in[1]);
  const int32_t *to = og_i32(p->call->out[1]);
  (void)worker;
  for (int64_t i = begin; i < end; ++i)
    bits_pack(og_u8(p->call->in[0]) + from[i], from[i + 1] - from[i],
              og_u8_mut(p->call->out[0]) + to[i], p->is_big);
}

static og_status segment_packbits(const og_call *call) {
  packing p = {.call = call};
  const og_status status = order_read(call, &p.is_big);
  if (status != OG_OK) return status;
  const int32_t *from = og_i32(call->in[1]);
  int32_t *to = og_i32_mut(call->out[1]);
  to[0] = 0;
  for (int64_t i = 0; i < call->dim[B1]; ++i) {
    const int32_t least = i > 0 ? from[i - 1] : 0;
    if (from[i] < least || from[i] > call->dim[N]) {
      return og_failf(call, OG_INVALID,
                      "input_indptr[%" PRId64 "] is %" PRId32
                      ", expected %" PRId32 " (the entry before it) to %" PRId64
                      " (the input's size)",
                      i, from[i], least, call->dim[N]);
    }
    if (i > 0) to[i] = to[i - 1] + (from[i] - least + 7) / 8;
  }
  og_set_dim(call, K, to[call->dim[B1] - 1]);
  return og_parallel_tasks(call, call->dim[B1] - 1, 1, segments_pack, &p);
}

static const og_kernel pack_kernels[] = {
    {.device = OG_CPU, .dtypes = "bool|u8", .run = packbits}};
static const og_kernel segment_kernels[] = {
    {.device = OG_CPU, .dtypes = "bool|u8", .run = segment_packbits}};

static const og_op ops[] = {
    {
        .schema = "packbits(Tensor x, *, str bitorder=\"big\") -> Tensor",
        .shape = "x[N] -> [ceildiv(N, 8)]",
        .dtype = "x: bool|u8 -> u8",
        .backward = "none",
        .flags = OG_DETERMINISTIC,
        .reduce = "N / 8",
        .doc = "Eight truth values to a byte, the first in its highest bit "
               "(\"big\") or its lowest (\"little\").",
        .kernels = OG_KERNELS(pack_kernels),
    },
    {
        .schema = "segment_packbits(Tensor x, Tensor input_indptr, *, "
                  "str bitorder=\"big\") -> (Tensor y, Tensor output_indptr)",
        .shape = "x[N], input_indptr[B1] -> [K <= ceildiv(N, 8) + B1], [B1]",
        .where = "B1 > 0, input_indptr in offsets(N)",
        .dtype = "x: bool|u8, input_indptr: i32 -> u8, i32",
        .backward = "none",
        .flags = OG_DETERMINISTIC,
        .doc = "packbits of each segment of x; each begins at a byte of y. "
               "\"little\" makes the mask that attention takes.",
        .kernels = OG_KERNELS(segment_kernels),
    },
};
OG_MODULE(packbits, ops)
