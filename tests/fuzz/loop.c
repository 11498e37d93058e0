// SPDX-License-Identifier: Apache-2.0
// Any bytes as a row program, after some that choose its operands; where it is
// one, the interpreter and the encoder's code compute the same from operands
// that end where their memory does.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "loop/loop.h"

extern const int fuzz_is_reader;
const int fuzz_is_reader = 1;

enum { IN = 3, OUT = 2, ROWS = 2 };

static const og_dtype types[] = {
    {OG_CODE_FLOAT, 32, 1}, {OG_CODE_FLOAT, 16, 1},  {OG_CODE_BFLOAT, 16, 1},
    {OG_CODE_INT, 64, 1},   {OG_CODE_INT, 8, 1},     {OG_CODE_BOOL, 8, 1},
    {OG_CODE_INT, 32, 1},   {OG_CODE_COMPLEX, 64, 1}};

static og_loop_operand draw_operand(bytes *in) {
  const uint32_t draw = take(in, 64);
  return (og_loop_operand){types[draw % 8],
                           draw >= 40 ? OG_LOOP_ROW : OG_LOOP_RUN};
}

static int64_t bytes_of(const og_loop_operand *operand, int64_t width) {
  return (operand->form == OG_LOOP_ROW ? 1 : width) * operand->dtype.bits / 8;
}

// Exactly the bytes of the rows.
static void *exact(int64_t row_bytes) {
  const size_t size = (size_t)(ROWS * row_bytes);
  uint8_t *data = (uint8_t *)malloc(size > 0 ? size : 1);
  if (data == NULL) abort();
  for (size_t i = 0; i < size; ++i) data[i] = (uint8_t)(i * 37u + 11u);
  return data;
}

static void run(const og_loop *loop, const og_loop_spec *spec, int64_t width,
                void **out) {
  og_loop_call call = {.width = width, .rows = ROWS, .blocks = 1};
  call.scratch = og_alloc_aligned(64, og_loop_scratch_bytes(loop, width));
  if (call.scratch == NULL) abort();
  for (int k = 0; k < IN; ++k) {
    call.in_row_bytes[k] = bytes_of(&spec->inputs[k], width);
    call.in[k] = exact(call.in_row_bytes[k]);
    if (spec->inputs[k].dtype.code == OG_CODE_BOOL)
      memset((void *)call.in[k], 1, (size_t)(ROWS * call.in_row_bytes[k]));
  }
  for (int k = 0; k < OUT; ++k) {
    call.out_row_bytes[k] = bytes_of(&spec->outputs[k], width);
    call.out[k] = out[k] = exact(call.out_row_bytes[k]);
  }
  og_loop_run(loop, &call);
  for (int k = 0; k < IN; ++k) free((void *)call.in[k]);
  og_free(call.scratch);
}

static bool is_nan(og_dtype dtype, const uint8_t *at) {
  float number;
  uint16_t half;
  memcpy(&half, at, sizeof half);
  if (dtype.code == OG_CODE_BFLOAT) return (half & 0x7fff) > 0x7f80;
  if (dtype.code != OG_CODE_FLOAT) return false;
  if (dtype.bits == 16) return (half & 0x7fff) > 0x7c00;
  memcpy(&number, at, sizeof number);
  return isnan(number);
}

static void compare(const og_loop_operand *operand, int64_t width,
                    const uint8_t *a, const uint8_t *b) {
  const int64_t size = ROWS * bytes_of(operand, width);
  const int64_t item = operand->dtype.bits / 8;
  for (int64_t i = 0; i < size; i += item)
    if (memcmp(a + i, b + i, (size_t)item) != 0 &&
        !(is_nan(operand->dtype, a + i) && is_nan(operand->dtype, b + i)))
      abort();
}

static void compare_sets(const og_loop_spec *spec, int64_t width) {
  opgraft_error error;
  og_loop *plain = NULL, *encoded = NULL;
  void *a[OUT], *b[OUT];
  og_loop_code *code = og_loop_code_create();
  if (og_loop_create(spec, NULL, &plain, &error) == OG_OK) {
    if (og_loop_create(spec, code, &encoded, &error) != OG_OK) abort();
    og_loop_code_seal(code);
    run(plain, spec, width, a);
    run(encoded, spec, width, b);
    for (int k = 0; k < OUT; ++k) {
      compare(&spec->outputs[k], width, a[k], b[k]);
      free(a[k]);
      free(b[k]);
    }
  }
  og_loop_destroy(plain);
  og_loop_destroy(encoded);
  og_loop_code_destroy(code);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  bytes in = {data, size};
  og_loop_operand inputs[IN], outputs[OUT];
  for (int k = 0; k < IN; ++k) inputs[k] = draw_operand(&in);
  for (int k = 0; k < OUT; ++k) outputs[k] = draw_operand(&in);
  const int64_t width = take(&in, 40);
  char *text = (char *)malloc(in.left + 1);
  if (text == NULL) abort();
  memcpy(text, in.at, in.left);
  text[in.left] = '\0';
  const og_loop_spec spec = {.text = text,
                             .inputs = inputs,
                             .outputs = outputs,
                             .input_count = IN,
                             .output_count = OUT,
                             .isa = og_isa_used()};
  compare_sets(&spec, width);
  free(text);
  return 0;
}
