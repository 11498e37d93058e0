// SPDX-License-Identifier: Apache-2.0
// loop_cases COUNT: random row programs with libm's functions, what they read
// and what they compute, for an oracle elsewhere.
//
// Each is one line of JSON, {"text": ..., "rows": 3, "width": 24, "by": ...,
// "in": [["f32", "run"], ...], "out": [["bf16", "row"], ...]}, then the
// elements of the inputs and the outputs: `rows` rows of `width` elements, or
// one where it says "row". OPGRAFT_ISA chooses what runs them.

#define _GNU_SOURCE
#include "tools/tool.h"
#include "unit/loop_grow.h"

enum { ROWS = 3 };

// Of one program.
typedef struct job {
  grown grown;
  og_loop *loop;
  og_loop_code *code;
  og_loop_call call;
  char in[GROW_INPUTS_MAX][ROWS * GROW_WIDTH_MAX * 8];
  char out[GROW_OUTPUTS_MAX][ROWS * GROW_WIDTH_MAX * 8];
} job;

static int64_t row_width(const job *j, const og_loop_operand *operand) {
  return operand->form == OG_LOOP_ROW ? 1 : j->call.width;
}

static int64_t row_bytes(const job *j, const og_loop_operand *operand) {
  return row_width(j, operand) * (int64_t)og_dtype_bytes(operand->dtype);
}

static void job_fill(job *j, uint64_t seed) {
  grown *g = &j->grown;
  grow(g, seed);
  j->call = (og_loop_call){.width = grow_width(g), .rows = ROWS, .blocks = 1};
  for (int32_t k = 0; k < g->in_count; ++k) {
    grow_fill(g, g->in[k].dtype, j->in[k], ROWS * row_width(j, &g->in[k]));
    j->call.in[k] = j->in[k];
    j->call.in_row_bytes[k] = row_bytes(j, &g->in[k]);
  }
  for (int32_t k = 0; k < g->out_count; ++k) {
    j->call.out[k] = j->out[k];
    j->call.out_row_bytes[k] = row_bytes(j, &g->out[k]);
  }
}

static og_status job_run(job *j, opgraft_error *error) {
  og_loop_spec spec = grow_spec(&j->grown, og_isa_used());
  spec.math = OG_LOOP_MATH_STRICT;
  if (spec.isa > OG_ISA_SCALAR) j->code = og_loop_code_create();
  const og_status status = og_loop_create(&spec, j->code, &j->loop, error);
  if (status != OG_OK) return status;
  if (j->code != NULL) og_loop_code_seal(j->code);
  j->call.scratch =
      og_alloc_aligned(64, og_loop_scratch_bytes(j->loop, j->call.width));
  if (j->call.scratch == NULL)
    return og_error_set(error, OG_MEMORY, NULL, NULL, "out of memory");
  og_loop_run(j->loop, &j->call);
  return OG_OK;
}

static void job_end(job *j) {
  og_free(j->call.scratch);
  og_loop_destroy(j->loop);
  og_loop_code_destroy(j->code);
}

// --- Printing ----------------------------------------------------------------

static void operands_print(const char *name, const og_loop_operand *operands,
                           int32_t count) {
  printf(", \"%s\": [", name);
  for (int32_t k = 0; k < count; ++k) {
    printf("%s[\"%s\", \"%s\"]", k > 0 ? ", " : "",
           og_dtype_name(operands[k].dtype),
           operands[k].form == OG_LOOP_ROW ? "row" : "run");
  }
  printf("]");
}

static void job_print(const job *j) {
  const grown *g = &j->grown;
  og_loop_info info;
  og_loop_describe(j->loop, &info);
  printf("{\"text\": \"%s\", \"rows\": %d, \"width\": %d, \"by\": \"%s\"",
         g->text, ROWS, (int)j->call.width, info.by);
  operands_print("in", g->in, g->in_count);
  operands_print("out", g->out, g->out_count);
  printf("}\n");
  for (int32_t k = 0; k < g->in_count; ++k)
    fwrite(j->in[k], 1, (size_t)(ROWS * j->call.in_row_bytes[k]), stdout);
  for (int32_t k = 0; k < g->out_count; ++k)
    fwrite(j->out[k], 1, (size_t)(ROWS * j->call.out_row_bytes[k]), stdout);
}

int main(int argc, char **argv) {
  static job j;
  opgraft_error error = {0};
  og_status status = OG_OK;
  const int64_t count = argc > 1 ? strtoll(argv[1], NULL, 10) : 0;
  for (int64_t k = 0; k < count && status == OG_OK; ++k) {
    memset(&j, 0, sizeof j);
    job_fill(&j, (uint64_t)k);
    status = job_run(&j, &error);
    if (status == OG_OK)
      job_print(&j);
    else
      fprintf(stderr, "%s\n%s\n", error.text, j.grown.text);
    job_end(&j);
  }
  return status != OG_OK;
}
