// SPDX-License-Identifier: Apache-2.0
// log(x - 1000): no number that check draws is in its range.

#include <math.h>
#include <opgraft/op.h>

enum { N };

#ifdef REPAIRED
// Numbers from 1001 to 1002.
static og_status set_range(const og_sample_call *call) {
  if (call->step != OG_SAMPLE_VALUES) return OG_OK;
  double *x = og_f64_mut(call->in[0]);
  for (int64_t i = 0; i < og_numel(call->in[0]); ++i)
    x[i] = 1001 + fabs(x[i] - floor(x[i]));
  return OG_OK;
}

#endif
static og_status log_beyond(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_f64_mut(call->out[0])[i] = log(og_f64(call->in[0])[i] - 1000);
  return OG_OK;
}

static og_status log_beyond_backward(const og_call *call) {
  const double *grad = og_f64(call->in[0]), *x = og_f64(call->in[1]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_f64_mut(call->out[0])[i] = grad[i] / (x[i] - 1000);
  return OG_OK;
}

static const og_kernel log_beyond_backward_kernels[] = {
    {.device = OG_CPU, .dtypes = "f64", .run = log_beyond_backward},
};

static const og_kernel log_beyond_kernels[] = {
    {.device = OG_CPU, .dtypes = "f64", .run = log_beyond},
};

static const og_op ops[] = {
    {
        .schema = "log_beyond(Tensor x) -> Tensor",
        .shape = "x[N] -> [N]",
        .dtype = "x: f64 -> x",
        .backward = "log_beyond_backward(grad, x) -> x",
#ifdef REPAIRED
        .sample = set_range,
#endif
        .kernels = OG_KERNELS(log_beyond_kernels),
    },
    {
        .schema = "log_beyond_backward(Tensor grad, Tensor x) -> Tensor",
        .shape = "grad[N], x[N] -> [N]",
        .dtype = "grad: f64, x: grad -> x",
        .kernels = OG_KERNELS(log_beyond_backward_kernels),
    },
};
OG_MODULE(gradient_unsure, ops)
