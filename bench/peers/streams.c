// SPDX-License-Identifier: Apache-2.0
// The machine's limit for a loop that reads and writes rows: as many streams,
// and one addition for each element that is read.

#include <opgraft/op.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

typedef float line __attribute__((vector_size(64), aligned(4), may_alias));
enum { K, N, M };  // dims of the shape rule: streams in, bytes, streams out
enum { LINE = 64, GRAIN = 1 << 12 };

static void line_write(char *to, line value, int32_t passes_caches) {
#if defined(__x86_64__)
  for (int32_t k = 0; passes_caches && k < LINE; k += 16)
    _mm_stream_ps((float *)(void *)(to + k),
                  _mm_loadu_ps((const float *)(const void *)&value + k / 4));
  if (passes_caches) return;
#else
  (void)passes_caches;
#endif
  *(line *)(void *)to = value;
}

static void lines_stream(const og_call *call, int64_t first, int64_t last) {
  const int64_t bytes = call->dim[N];
  const char *in = og_data(call->in[0]);
  char *out = og_data(call->out[0]);
  line all = {0};
  for (int64_t at = first * LINE; at < last * LINE; at += LINE) {
    line sum = *(const line *)(const void *)(in + at);
    for (int64_t k = 1; k < call->dim[K]; ++k)
      sum += *(const line *)(const void *)(in + k * bytes + at);
    for (int64_t m = 0; m < call->dim[M]; ++m)
      line_write(out + m * bytes + at, sum, (int32_t)call->attr[0].i);
    if (call->dim[M] == 0) all += sum;
  }
  volatile float sink = all[0];
  (void)sink;
}

static og_status stream(const og_call *call) {
  return og_parallel_for(call, call->dim[N] / LINE, GRAIN, lines_stream);
}

static const og_kernel stream_kernels[] = {{.device = OG_CPU, .run = stream}};

static const og_op ops[] = {
    {
        .schema = "stream(Tensor x, Tensor(a!) y, int passes_caches=0) -> ()",
        .shape = "x[K, N], y[M, N] ->",
        .where = "K > 0",
        .dtype = "x: u8, y: u8 ->",
        .backward = "none",
        .kernels = OG_KERNELS(stream_kernels),
    },
};
OG_MODULE(bench_streams, ops)
