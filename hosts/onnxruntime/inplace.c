// SPDX-License-Identifier: Apache-2.0
// Outputs that may take an input's memory: the new value of an argument that is
// written, and the result of an operator that declares `inplace`.
//
// The callback is given nothing of ours, so each different answer has a
// function of its own, of a fixed number that are made here. An answer beyond
// them is left out: the output then has memory of its own, and is copied to.

#include "onnxruntime/inplace.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct answer {
  int32_t count;
  int inputs[OPGRAFT_OUT_MAX];
  int outputs[OPGRAFT_OUT_MAX];
} answer;

#define EIGHT(X, a, b, c, d, e, f, g, h) X(a) X(b) X(c) X(d) X(e) X(f) X(g) X(h)
#define EACH(X)                            \
  EIGHT(X, 0, 1, 2, 3, 4, 5, 6, 7)         \
  EIGHT(X, 8, 9, 10, 11, 12, 13, 14, 15)   \
  EIGHT(X, 16, 17, 18, 19, 20, 21, 22, 23) \
  EIGHT(X, 24, 25, 26, 27, 28, 29, 30, 31)
enum { ANSWERS = 32 };

static answer answers[ANSWERS];
static int32_t answer_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// ONNX Runtime frees both by release.
static size_t reply(int32_t n, int **out_inputs, int **out_outputs) {
  const answer *own = &answers[n];
  const size_t bytes = (size_t)own->count * sizeof(int);
  int *inputs = malloc(bytes), *outputs = malloc(bytes);
  const int is_made = inputs != NULL && outputs != NULL;
  if (is_made) {
    memcpy(inputs, own->inputs, bytes);
    memcpy(outputs, own->outputs, bytes);
  } else {  // ONNX Runtime releases nothing where there is nothing
    free(inputs);
    free(outputs);
  }
  *out_inputs = is_made ? inputs : NULL;
  *out_outputs = is_made ? outputs : NULL;
  return is_made ? (size_t)own->count : 0;
}

static void release(int *inputs, int *outputs) {
  free(inputs);
  free(outputs);
}

#define FUNCTION(n)                                            \
  static size_t may_inplace_##n(int **inputs, int **outputs) { \
    return reply(n, inputs, outputs);                          \
  }
EACH(FUNCTION)
#undef FUNCTION

static size_t (*const functions[ANSWERS])(int **, int **) = {
#define ENTRY(n) may_inplace_##n,
    EACH(ENTRY)
#undef ENTRY
};

static void pair_add(answer *out, int32_t input, int32_t output) {
  out->inputs[out->count] = (int)input;
  out->outputs[out->count++] = (int)output;
}

static answer answer_make(const og_own_op *op) {
  answer out;
  memset(&out, 0, sizeof out);
  for (int32_t m = 0; m < op->info.mutated_count; ++m)
    pair_add(&out, op->mutated_tensors[m], op->info.fresh_count + m);
  if (op->info.inplace_param >= 0 && op->info.fresh_count == 1 &&
      op->info.mutated_count == 0)
    pair_add(&out, op->params[op->info.inplace_param].tensor, 0);
  return out;
}

void og_ort_inplace_set(og_ort_op *op) {
  const answer wanted = answer_make(op->op);
  int32_t at = 0;
  if (wanted.count == 0) return;
  pthread_mutex_lock(&lock);
  while (at < answer_count && memcmp(&answers[at], &wanted, sizeof wanted) != 0)
    ++at;
  if (at == answer_count && at < ANSWERS) answers[answer_count++] = wanted;
  pthread_mutex_unlock(&lock);
  if (at == ANSWERS) return;
  op->custom.may_inplace = functions[at];
  op->custom.release_inplace = release;
}
