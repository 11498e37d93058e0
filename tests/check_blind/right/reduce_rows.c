// SPDX-License-Identifier: Apache-2.0
// reduce_rows: the sum, the largest or the smallest entry of each row.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

typedef double (*joining)(double a, double b);

static double add(double a, double b) { return a + b; }
static double larger(double a, double b) { return b > a ? b : a; }
static double smaller(double a, double b) { return b < a ? b : a; }

static const struct {
  const char *name;
  joining join;
} modes[] = {{"sum", add}, {"max", larger}, {"min", smaller}};

static og_status reduce_rows(const og_call *call) {
  joining join = NULL;
  for (size_t m = 0; m < sizeof modes / sizeof *modes; ++m)
    if (strcmp(call->attr[0].s, modes[m].name) == 0) join = modes[m].join;
  if (join == NULL)
    return og_fail(call, OG_INVALID,
                   "mode is none of \"sum\", \"max\", \"min\"");
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const double *x = og_f64(call->in[0]) + r * call->dim[D];
    double all = x[0];
    for (int64_t i = 1; i < call->dim[D]; ++i) all = join(all, x[i]);
    og_f64_mut(call->out[0])[r] = all;
  }
  return OG_OK;
}

MODULE(reduce_rows,
       {.schema = "reduce_rows(Tensor x, str mode=\"sum\") -> Tensor",
        .shape = "x[*N, D] -> [*N]",
        .where = "D > 0",
        .doc = "The last axis joined by the mode.",
        RUN("f64", reduce_rows)})
