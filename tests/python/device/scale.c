// SPDX-License-Identifier: Apache-2.0
// Operators with a kernel for the simulated NPU beside the CPU's, told apart by
// what they compute: y = a * x there, and a * x + 1000 on the CPU.

#include <opgraft/op.h>

static og_status scale(const og_call *call, float offset) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const float a = (float)call->attr[0].f;
  if (a == -1) return og_fail(call, OG_KERNEL, "a is -1");
  for (int64_t i = 0; i < og_numel(call->in[0]); ++i) y[i] = a * x[i] + offset;
  return OG_OK;
}

static og_status scale_cpu(const og_call *call) { return scale(call, 1000); }

static og_status scale_npu(const og_call *call) {
  if (call->stream == NULL) return og_fail(call, OG_KERNEL, "no stream");
  return scale(call, 0);
}

static const og_kernel scale_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = scale_cpu},
    {.device = OG_EXT_DEV, .dtypes = "f32", .run = scale_npu},
};

// y += the sum of all x, and the first entries of each x as a list.
static og_status gather_npu(const og_call *call) {
  float *y = og_f32_mut(call->out[0]);
  float *sums = (float *)call->workspace;
  const og_tensor_list *xs = &call->in_list[1];
  for (int64_t t = 0; t < xs->count; ++t) {
    sums[t] = 0;
    for (int64_t i = 0; i < og_numel(xs->tensors[t]); ++i)
      sums[t] += og_f32(xs->tensors[t])[i];
    og_f32_mut(call->out_list[1].tensors[t])[0] =
        sums[t] * (float)call->attr[0].ints[t];
  }
  for (int64_t i = 0; i < og_numel(call->in[0]); ++i)
    for (int64_t t = 0; t < xs->count; ++t) y[i] += sums[t];
  return OG_OK;
}

static const og_kernel gather_kernels[] = {
    {.device = OG_EXT_DEV, .run = gather_npu},
};

// The sum of the sums of each x.
static og_status total_npu(const og_call *call) {
  float *sums = (float *)call->workspace;
  const og_tensor_list *xs = &call->in_list[0];
  float *y = og_f32_mut(call->out[0]);
  y[0] = 0;
  for (int64_t t = 0; t < xs->count; ++t) {
    sums[t] = 0;
    for (int64_t i = 0; i < og_numel(xs->tensors[t]); ++i)
      sums[t] += og_f32(xs->tensors[t])[i];
    y[0] += sums[t];
  }
  return OG_OK;
}

static const og_kernel total_kernels[] = {
    {.device = OG_EXT_DEV, .run = total_npu},
};

static og_status only_cpu(const og_call *call) {
  og_f32_mut(call->out[0])[0] = og_f32(call->in[0])[0] * 2;
  return OG_OK;
}

static const og_kernel only_cpu_kernels[] = {
    {.device = OG_CPU, .run = only_cpu},
};

static const og_op ops[] = {
    {
        .schema = "scale(Tensor x, float a) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: f32 -> x",
        .backward = "scale(grad, a) -> x",
        .inplace = "x",
        .kernels = OG_KERNELS(scale_kernels),
    },
    {
        .schema = "gather(Tensor(a!) y, Tensor[] xs, int[] by) -> Tensor[]",
        .shape = "y[N], xs[][M~] -> {i < len(xs): [1]}",
        .dtype = "y: f32, xs: f32 -> f32",
        .workspace = "64 * 4",
        .kernels = OG_KERNELS(gather_kernels),
    },
    {
        .schema = "total(Tensor[] xs) -> Tensor",
        .shape = "xs[][M~] -> [1]",
        .dtype = "xs: f32 -> f32",
        .workspace = "64 * 4",
        .kernels = OG_KERNELS(total_kernels),
    },
    {
        .schema = "only_cpu(Tensor x) -> Tensor",
        .shape = "x[1] -> [1]",
        .dtype = "x: f32 -> x",
        .kernels = OG_KERNELS(only_cpu_kernels),
    },
};
OG_MODULE(scaling, ops)
