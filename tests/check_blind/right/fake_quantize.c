// SPDX-License-Identifier: Apache-2.0
// fake_quantize: rounds to the numbers that eight bits and a scale can say.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rule

static void elements(const og_call *call, int64_t begin, int64_t end) {
  const double scale = call->attr[0].f, zero = (double)call->attr[1].i;
  for (int64_t i = begin; i < end; ++i) {
    double level = rint(og_f64(call->in[0])[i] / scale) + zero;
    level = level > 127 ? 127 : level < -128 ? -128 : level;
    og_f64_mut(call->out[0])[i] = (level - zero) * scale;
  }
}

static og_status fake_quantize(const og_call *call) {
  if (!(call->attr[0].f > 0))
    return og_fail(call, OG_INVALID, "scale is not above 0");
  return og_parallel_for(call, call->dim[N], 512, elements);
}

MODULE(fake_quantize,
       {.schema = "fake_quantize(Tensor x, float scale=0.05, int zero=0) -> "
                  "Tensor",
        .shape = "x[*N] -> [*N]",
        .where = "zero >= -128, zero <= 127",
        .inplace = "x",
        .backward = "none",
        .doc = "x / scale + zero, rounded half to even, clamped to [-128, "
               "127], and back.",
        RUN("f64", fake_quantize)})
