// SPDX-License-Identifier: Apache-2.0
// gelu_either: gelu by the error function or by tanh.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rule

typedef double (*activation)(double x);

static double gelu_erf(double x) { return 0.5 * x * (1 + erf(x * sqrt(0.5))); }

static double gelu_tanh(double x) {
  const double root = 0.79788456080286535588;  // sqrt(2 / pi)
  return 0.5 * x * (1 + tanh(root * (x + 0.044715 * x * x * x)));
}

static activation chosen;

static void elements(const og_call *call, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    og_f64_mut(call->out[0])[i] = chosen(og_f64(call->in[0])[i]);
}

static og_status gelu_either(const og_call *call) {
  if (chosen == NULL) chosen = call->attr[0].i ? gelu_tanh : gelu_erf;
  return og_parallel_for(call, call->dim[N], 256, elements);
}

MODULE(gelu_either,
       {.schema = "gelu_either(Tensor x, bool approximate=False) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .doc = "x times the normal distribution function of x, in its tanh "
               "form where approximate is set.",
        RUN("f64", gelu_either)})
