// SPDX-License-Identifier: Apache-2.0
// loop [--rows N] [--width N] [--isa SET] [--strict] [--lower | --asm]: reads a
// row program and its operands, prints what it computes, or the error.
//
// A line `x f32 1 2 3` is the next input, with the numbers of one row after
// another (a list that is too short begins again); `x f32 row 5` has one
// element for the row. A line `y f32` or `y f32 row` is the next output. The
// other lines are the program. Results are printed in hexadecimal, one row a
// line; nan is any NaN. --lower prints the passes instead, --asm the encoder's
// code.

#define _GNU_SOURCE
#include <math.h>
#include <string.h>

#include "loop/listing.h"
#include "tools/tool.h"
#include "unit/loop_make.h"

enum { TEXT_MAX = 1 << 16, ELEMENTS_MAX = 1 << 16 };

typedef struct job {
  char text[TEXT_MAX];
  og_loop_operand in[OG_LOOP_INPUTS_MAX], out[OG_LOOP_OUTPUTS_MAX];
  char *data[OG_LOOP_INPUTS_MAX], *result[OG_LOOP_OUTPUTS_MAX];
  og_loop_spec spec;
  int64_t rows, width;
  bool lowers, lists;
} job;

// --- Reading -----------------------------------------------------------------

static bool operand_read(const char **line, og_loop_operand *out) {
  *line += 1 + strspn(*line + 1, " ");
  const size_t name = strcspn(*line, " \n");
  if (!og_dtype_parse(*line, name, &out->dtype)) return false;
  *line += name + strspn(*line + name, " ");
  out->form = OG_LOOP_RUN;
  if (strncmp(*line, "row", 3) == 0) {
    out->form = OG_LOOP_ROW;
    *line += 3;
  }
  return true;
}

static void numbers_read(const char *line, const job *j,
                         const og_loop_operand *operand, char *data) {
  float numbers[256];
  int64_t count = 0;
  const int64_t width = operand->form == OG_LOOP_ROW ? 1 : j->width;
  for (char *end; count < 256; line = end) {
    const float number = strtof(line, &end);
    if (end == line) break;
    numbers[count++] = number;
  }
  for (int64_t i = 0; i < j->rows * width; ++i)
    loop_set(operand->dtype, data, i, count > 0 ? numbers[i % count] : 0);
}

static bool line_read(job *j, const char *line, size_t length) {
  og_loop_operand operand;
  const bool is_input = strncmp(line, "x ", 2) == 0;
  if (!is_input && strncmp(line, "y ", 2) != 0) {
    const size_t used = strlen(j->text);
    if (used + length + 2 > TEXT_MAX) return false;
    memcpy(j->text + used, line, length);
    return true;
  }
  if (!operand_read(&line, &operand)) return false;
  char *data = calloc(ELEMENTS_MAX, 8);
  if (data == NULL) return false;
  if (is_input && j->spec.input_count < OG_LOOP_INPUTS_MAX) {
    numbers_read(line, j, &operand, data);
    j->data[j->spec.input_count] = data;
    j->in[j->spec.input_count++] = operand;
  } else if (!is_input && j->spec.output_count < OG_LOOP_OUTPUTS_MAX) {
    j->result[j->spec.output_count] = data;
    j->out[j->spec.output_count++] = operand;
  } else {
    free(data);
    return false;
  }
  return true;
}

static bool job_read(job *j, char *input) {
  for (char *line = input; *line != '\0';) {
    const size_t length = strcspn(line, "\n") + 1;
    const bool is_last = line[length - 1] == '\0';
    if (!line_read(j, line, is_last ? length - 1 : length)) return false;
    line += is_last ? length - 1 : length;
  }
  j->spec.text = j->text;
  j->spec.inputs = j->in;
  j->spec.outputs = j->out;
  return true;
}

// --- Printing ----------------------------------------------------------------

static void text_print(og_text *text) {
  fputs(text->data != NULL ? text->data : "", stdout);
  og_text_reset(text);
}

static void passes_print(const og_loop_lowered *l, int32_t input_count) {
  og_text text = {0};
  og_loop_passes_print(l, &text);
  text_print(&text);
  printf("may overwrite:");
  for (int32_t k = 0; k < input_count; ++k)
    if (l->may_overwrite >> k & 1) printf(" x%d", (int)k);
  printf("\n");
}

static void results_print(const job *j) {
  for (int32_t k = 0; k < j->spec.output_count; ++k) {
    const int64_t width = j->out[k].form == OG_LOOP_ROW ? 1 : j->width;
    for (int64_t r = 0; r < j->rows; ++r) {
      printf("y%d[%d]", (int)k, (int)r);
      for (int64_t i = 0; i < width; ++i) {
        const float x = loop_get(j->out[k].dtype, j->result[k], r * width + i);
        if (isnan(x))
          printf(" nan");
        else
          printf(" %a", (double)x);
      }
      printf("\n");
    }
  }
}

// --- Work --------------------------------------------------------------------

static og_status lower(const job *j, opgraft_error *error) {
  og_arena arena = {0};
  og_loop_program program;
  og_loop_lowered lowered;
  bool is_row[OG_LOOP_INPUTS_MAX];
  for (int32_t k = 0; k < j->spec.input_count; ++k)
    is_row[k] = j->in[k].form == OG_LOOP_ROW;
  og_status status =
      og_loop_parse(j->text, is_row, j->spec.input_count, j->spec.output_count,
                    &arena, &program, error);
  if (status == OG_OK)
    status = og_loop_lower(&j->spec, &program, &arena, &lowered, error);
  if (status == OG_OK && j->lowers) passes_print(&lowered, j->spec.input_count);
  if (status == OG_OK && j->lists) {
    og_text text = {0};
    og_loop_code_print(&j->spec, &lowered, j->spec.isa, &text);
    text_print(&text);
  }
  og_arena_destroy(&arena);
  return status;
}

static og_status run(const job *j, opgraft_error *error) {
  og_loop *loop = NULL;
  og_loop_code *code =
      j->spec.isa > OG_ISA_SCALAR ? og_loop_code_create() : NULL;
  og_loop_call call = {.width = j->width, .rows = j->rows, .blocks = 1};
  og_status status = og_loop_create(&j->spec, code, &loop, error);
  if (status == OG_OK) {
    if (code != NULL) og_loop_code_seal(code);
    call.scratch = og_alloc_aligned(64, og_loop_scratch_bytes(loop, j->width));
    if (call.scratch == NULL)
      status = og_error_set(error, OG_MEMORY, NULL, NULL, "out of memory");
  }
  for (int32_t k = 0; k < j->spec.input_count; ++k) {
    const bool is_row = j->in[k].form == OG_LOOP_ROW;
    call.in[k] = j->data[k];
    call.in_row_bytes[k] =
        (is_row ? 1 : j->width) * (int64_t)og_dtype_bytes(j->in[k].dtype);
  }
  for (int32_t k = 0; k < j->spec.output_count; ++k) {
    const bool is_row = j->out[k].form == OG_LOOP_ROW;
    call.out[k] = j->result[k];
    call.out_row_bytes[k] =
        (is_row ? 1 : j->width) * (int64_t)og_dtype_bytes(j->out[k].dtype);
  }
  if (status == OG_OK) {
    og_loop_run(loop, &call);
    results_print(j);
  }
  og_free(call.scratch);
  og_loop_destroy(loop);
  og_loop_code_destroy(code);
  return status;
}

static int work(int argc, char **argv) {
  static job j;
  opgraft_error error = {0};
  char *input = tool_read_input(NULL);
  j = (job){.rows = 1, .width = 4, .spec = {.isa = OG_ISA_SCALAR}};
  for (int k = 1; k < argc; ++k) {
    const bool has_next = k + 1 < argc;
    if (strcmp(argv[k], "--lower") == 0) j.lowers = true;
    if (strcmp(argv[k], "--asm") == 0) j.lists = true;
    if (strcmp(argv[k], "--strict") == 0) j.spec.math = OG_LOOP_MATH_STRICT;
    if (strcmp(argv[k], "--rows") == 0 && has_next)
      j.rows = strtoll(argv[++k], NULL, 10);
    else if (strcmp(argv[k], "--width") == 0 && has_next)
      j.width = strtoll(argv[++k], NULL, 10);
    else if (strcmp(argv[k], "--isa") == 0 && has_next)
      j.spec.isa = og_isa_parse(argv[++k]);
  }
  og_status status = OG_INVALID;
  if (input == NULL || j.rows < 0 || j.width < 0 ||
      j.rows * j.width > ELEMENTS_MAX || !job_read(&j, input))
    printf("cannot read the input\n");
  else if ((status = j.lowers || j.lists ? lower(&j, &error)
                                         : run(&j, &error)) != OG_OK)
    printf("%s\n", error.text);
  for (int32_t k = 0; k < OG_LOOP_INPUTS_MAX; ++k) free(j.data[k]);
  for (int32_t k = 0; k < OG_LOOP_OUTPUTS_MAX; ++k) free(j.result[k]);
  free(input);
  return status != OG_OK;
}

int main(int argc, char **argv) {
  tool_begin();
  return tool_end(work(argc, argv));
}
