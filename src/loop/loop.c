// SPDX-License-Identifier: Apache-2.0
// Row programs as functions.

#include "loop/loop.h"

#include <string.h>

#include "base/clock.h"
#include "loop/code.h"
#include "loop/interpret.h"
#include "loop/lower.h"

struct og_loop {
  og_arena arena;
  og_loop_spec spec;  // what it points to lies in the arena
  og_loop_lowered lowered;
  og_loop_tiles tiles;
  const og_loop_code *code;
  og_loop_entry entry;        // NULL: none was encoded
  og_loop_entry nontemporal;  // with such stores; NULL: none was asked for
  const void *entry_bytes;
  const char *reason;  // why
  size_t code_bytes;
  og_isa isa;
  int64_t encode_ns;
};

// --- Creating ----------------------------------------------------------------

static og_status no_memory(opgraft_error *error) {
  return og_error_set(error, OG_MEMORY, NULL, NULL, "program: out of memory");
}

static bool operands_copy(og_arena *arena, const og_loop_operand **operands,
                          int32_t count) {
  og_loop_operand *copy = og_arena_array(arena, (size_t)count, sizeof *copy);
  if (copy == NULL) return false;
  for (int32_t i = 0; i < count; ++i) copy[i] = (*operands)[i];
  *operands = copy;
  return true;
}

static og_status loop_make(og_loop *loop, const og_loop_spec *spec,
                           opgraft_error *error) {
  og_loop_program program;
  bool is_row[OG_LOOP_INPUTS_MAX] = {false};
  for (int32_t i = 0; i < spec->input_count && i < OG_LOOP_INPUTS_MAX; ++i)
    is_row[i] = spec->inputs[i].form == OG_LOOP_ROW;
  OG_TRY(og_loop_parse(spec->text, is_row, spec->input_count,
                       spec->output_count, &loop->arena, &program, error));
  OG_TRY(og_loop_lower(spec, &program, &loop->arena, &loop->lowered, error));
  loop->spec = *spec;
  loop->spec.text =
      og_arena_strndup(&loop->arena, spec->text, strlen(spec->text));
  if (loop->spec.text == NULL ||
      !operands_copy(&loop->arena, &loop->spec.inputs, spec->input_count) ||
      !operands_copy(&loop->arena, &loop->spec.outputs, spec->output_count) ||
      !og_loop_tiles_init(&loop->tiles, &loop->lowered, &loop->arena))
    return no_memory(error);
  return OG_OK;
}

// Adds to the code's bytes; NULL, with the reason, where there is none.
static og_loop_entry entry_make(og_loop *loop, og_loop_code *code,
                                bool nontemporal) {
  og_arena arena = {0};
  og_x86 x = {0};
  og_loop_spec spec = loop->spec;
  og_loop_entry entry = NULL;
  if (!nontemporal) spec.nontemporal = 0;
  loop->reason =
      code->coder->encode(&spec, &loop->lowered, loop->isa, &arena, &x);
  if (loop->reason == NULL) {
    const void *at = code->coder->add(code, x.bytes, x.count);
    memcpy(&entry, &at, sizeof at);
    loop->reason = "no memory for code";
    if (entry != NULL) loop->code_bytes += x.count;
    if (!nontemporal) loop->entry_bytes = at;
  }
  og_arena_destroy(&arena);
  return entry;
}

static void loop_encode(og_loop *loop, og_loop_code *code) {
  const int64_t begin = og_now_ns();
  const og_isa used = og_isa_used();
  const og_isa most = loop->spec.isa < used ? loop->spec.isa : used;
  loop->isa = most < OG_ISA_AVX512 ? most : OG_ISA_AVX512;
  if (code == NULL) {
    loop->reason = "the encoder was not asked for";
  } else if (loop->isa < OG_ISA_AVX2) {
    loop->reason = "the machine has no AVX2";
  } else {
    loop->code = code;
    loop->entry = entry_make(loop, code, false);
    if (loop->entry != NULL && loop->spec.nontemporal != 0)
      loop->nontemporal = entry_make(loop, code, true);
    loop->encode_ns = og_now_ns() - begin;
  }
}

og_status og_loop_create(const og_loop_spec *spec, og_loop_code *code,
                         og_loop **out_loop, opgraft_error *error) {
  *out_loop = NULL;
  og_loop *loop = og_alloc_zeroed(1, sizeof *loop);
  if (loop == NULL) return no_memory(error);
  const og_status status = loop_make(loop, spec, error);
  if (status != OG_OK) {
    og_loop_destroy(loop);
    return status;
  }
  loop_encode(loop, code);
  *out_loop = loop;
  return OG_OK;
}

void og_loop_destroy(og_loop *loop) {
  if (loop == NULL) return;
  og_arena_destroy(&loop->arena);
  og_free(loop);
}

static bool operands_are(const og_loop_operand *a, const og_loop_operand *b,
                         int32_t count) {
  for (int32_t i = 0; i < count; ++i)
    if (a[i].form != b[i].form || !og_dtype_equal(a[i].dtype, b[i].dtype))
      return false;
  return true;
}

bool og_loop_is_of(const og_loop *loop, const og_loop_spec *spec) {
  const og_loop_spec *own = &loop->spec;
  return own->input_count == spec->input_count &&
         own->output_count == spec->output_count &&
         own->number_inputs == spec->number_inputs && own->math == spec->math &&
         own->isa == spec->isa && own->nontemporal == spec->nontemporal &&
         own->prefetch == spec->prefetch &&
         operands_are(own->inputs, spec->inputs, spec->input_count) &&
         operands_are(own->outputs, spec->outputs, spec->output_count) &&
         strcmp(own->text, spec->text) == 0;
}

bool og_loop_has(int32_t scalar_op) {
  return og_scalar_classes(scalar_op) & OG_CLASSES_FLOAT;
}

// --- Running -----------------------------------------------------------------

static bool is_encoded(const og_loop *loop) {
  return loop->entry != NULL && og_loop_code_is_sealed(loop->code);
}

size_t og_loop_scratch_bytes(const og_loop *loop, int64_t width) {
  const size_t kept =
      (size_t)loop->lowered.keep_count * (size_t)og_loop_kept_width(width);
  const size_t tiles =
      is_encoded(loop) ? 0 : (size_t)loop->tiles.count * OG_LOOP_TILE;
  return (kept + tiles) * sizeof(og_loop_lane);
}

bool og_loop_may_overwrite(const og_loop *loop, int32_t input) {
  return loop->lowered.may_overwrite >> input & 1;
}

// Non-temporal stores are in no order with others until they are fenced.
static void stores_fence(void) {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#endif
}

void og_loop_run(const og_loop *loop, const og_loop_call *call) {
  if (!is_encoded(loop)) {
    og_loop_interpret(&loop->spec, &loop->lowered, &loop->tiles, call);
  } else if (call->nontemporal && loop->nontemporal != NULL) {
    loop->nontemporal(call);
    stores_fence();
  } else {
    loop->entry(call);
  }
}

void og_loop_describe(const og_loop *loop, og_loop_info *out) {
  memset(out, 0, sizeof *out);
  out->phases = loop->lowered.pass_count;
  out->instructions = loop->lowered.count;
  out->encode_ns = loop->encode_ns;
  if (!is_encoded(loop)) {
    out->by = "interpreter";
    out->reason =
        loop->entry != NULL ? "its code is not executable" : loop->reason;
    return;
  }
  out->by = og_isa_name(loop->isa);
  out->code = loop->entry_bytes;
  out->code_bytes = loop->code_bytes;
}

const og_loop_spec *og_loop_spec_of(const og_loop *loop) { return &loop->spec; }

const og_loop_lowered *og_loop_lowered_of(const og_loop *loop) {
  return &loop->lowered;
}
