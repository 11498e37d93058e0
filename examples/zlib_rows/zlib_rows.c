// SPDX-License-Identifier: Apache-2.0
// zlib_rows: a library that everybody has, as operators over rows of bytes.
//
//   opgraft build zlib_rows.c -- -lz
//
// crc32: the checksum of each row. deflated_size: how many bytes each row takes
// when it is compressed, which says how much is in it.

#include <opgraft/op.h>
#include <zlib.h>

enum { N, W };  // dims of the shape rules, in order of first appearance

// --- crc32 -------------------------------------------------------------------

static void crc32_rows(const og_call *call, int64_t begin, int64_t end) {
  const uint8_t *data = og_u8(call->in[0]);
  int64_t *sum = og_i64_mut(call->out[0]);
  const int64_t width = call->dim[W];
  for (int64_t r = begin; r < end; ++r)
    sum[r] = (int64_t)crc32(0, data + r * width, (uInt)width);
}

static og_status crc32_u8(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 16, crc32_rows);
}

// --- deflated_size -----------------------------------------------------------

// zlib allocates for itself, so each row may fail.
static og_status row_deflate(const uint8_t *row, int64_t width, int level,
                             int64_t *out_bytes) {
  uint8_t part[4096];
  z_stream stream = {0};
  if (deflateInit(&stream, level) != Z_OK) return OG_MEMORY;
  stream.next_in = (Bytef *)(uintptr_t)row;
  stream.avail_in = (uInt)width;
  int state = Z_OK;
  while (state == Z_OK) {
    stream.next_out = part;
    stream.avail_out = sizeof part;
    state = deflate(&stream, Z_FINISH);
  }
  *out_bytes = (int64_t)stream.total_out;
  deflateEnd(&stream);
  return state == Z_STREAM_END ? OG_OK : OG_INVALID;
}

static og_status deflated_size_u8(const og_call *call) {
  const uint8_t *data = og_u8(call->in[0]);
  int64_t *bytes = og_i64_mut(call->out[0]);
  const int64_t width = call->dim[W];
  const int64_t level = call->attr[0].i;
  if (level < 0 || level > 9)
    return og_fail(call, OG_INVALID, "level is out of range, expected 0 to 9");
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const og_status status =
        row_deflate(data + r * width, width, (int)level, &bytes[r]);
    if (status != OG_OK) return og_fail(call, status, "zlib failed on a row");
  }
  return OG_OK;
}

// --- The declarations --------------------------------------------------------

static const og_kernel crc32_kernels[] = {
    {.device = OG_CPU, .dtypes = "u8", .run = crc32_u8},
};
static const og_kernel deflated_size_kernels[] = {
    {.device = OG_CPU, .dtypes = "u8", .run = deflated_size_u8},
};

static const og_op ops[] = {
    {
        .schema = "crc32(Tensor data) -> Tensor",
        .shape = "data[*N, W] -> [*N]",
        .where = "W < 4294967296",
        .dtype = "data: u8 -> i64",
        .flags = OG_DETERMINISTIC,
        .doc = "The CRC-32 of each row of bytes.",
        .kernels = OG_KERNELS(crc32_kernels),
    },
    {
        .schema = "deflated_size(Tensor data, int level=6) -> Tensor",
        .shape = "data[*N, W] -> [*N]",
        .where = "W < 4294967296",
        .dtype = "data: u8 -> i64",
        .flags = OG_DETERMINISTIC,
        .doc = "How many bytes zlib makes of each row, at a level from 0 to 9.",
        .kernels = OG_KERNELS(deflated_size_kernels),
    },
};
OG_MODULE(zlib_rows, ops)
