// SPDX-License-Identifier: Apache-2.0
// Lowered programs and their machine code as text.

#include "loop/listing.h"

#include <string.h>

#include <math.h>

#include "loop/encode.h"

// --- Steps -------------------------------------------------------------------

static void value_print(const og_loop_lowered *l, int32_t value, og_text *out) {
  if (value < 0) return;
  const og_loop_instr *i = &l->code[value];
  const og_loop_lane lane = {.u = i->imm};
  if (!og_loop_is_number(i))
    og_text_addf(out, " v%d", (int)value);
  else if (isfinite(lane.f) && (i->imm == 0 || fabsf(lane.f) > 1e-30f))
    og_text_addf(out, " %g", (double)lane.f);
  else
    og_text_addf(out, " 0x%x", (unsigned)i->imm);
}

static bool has_imm(og_loop_op op) {
  return op == OG_LANE_load || op == OG_LANE_joined || op == OG_LANE_summed ||
         (op >= OG_LANE_shift_left && op <= OG_LANE_pick);
}

static void compute_print(const og_loop_lowered *l, int32_t value,
                          og_text *out) {
  const og_loop_instr *i = &l->code[value];
  og_text_addf(out, "v%d = %s", (int)value, og_loop_op_name(i->op));
  if (i->op == OG_LANE_call)
    og_text_addf(out, " %s", og_scalar_name((int32_t)i->imm));
  else if (has_imm(i->op))
    og_text_addf(out, " %u", (unsigned)i->imm);
  value_print(l, i->a, out);
  value_print(l, i->b, out);
  value_print(l, i->c, out);
}

void og_loop_step_print(const og_loop_lowered *lowered,
                        const og_loop_step *step, og_text *out) {
  const int index = (int)step->index, value = (int)step->value;
  switch (step->action) {
    case OG_LOOP_COMPUTE:
      compute_print(lowered, step->value, out);
      break;
    case OG_LOOP_STORE:
      og_text_addf(out, "store y%d", index);
      value_print(lowered, step->value, out);
      break;
    case OG_LOOP_REDUCE:
      og_text_addf(
          out, "%s %d",
          og_loop_reduction_name(lowered->reductions[step->index].kind), index);
      value_print(lowered, step->value, out);
      break;
    case OG_LOOP_KEEP:
      og_text_addf(out, "keep %d v%d", index, value);
      break;
    case OG_LOOP_RELOAD:
      og_text_addf(out, "v%d = reload %d", value, index);
  }
}

// --- Passes ------------------------------------------------------------------

static void steps_print(const og_loop_lowered *l, const og_loop_step *steps,
                        int32_t count, og_text *out) {
  for (int32_t k = 0; k < count; ++k) {
    og_text_add(out, "  ");
    og_loop_step_print(l, &steps[k], out);
    og_text_add(out, "\n");
  }
}

void og_loop_passes_print(const og_loop_lowered *lowered, og_text *out) {
  for (int32_t p = 0; p < lowered->pass_count; ++p) {
    const og_loop_pass *pass = &lowered->passes[p];
    og_text_addf(out, "pass %d, row:\n", (int)p);
    steps_print(lowered, pass->row_steps, pass->row_count, out);
    og_text_addf(out, "pass %d, elements:\n", (int)p);
    steps_print(lowered, pass->steps, pass->count, out);
  }
}

// --- Code --------------------------------------------------------------------

static void origin_print(const og_loop_lowered *l, int32_t origin,
                         og_text *out) {
  int32_t at = origin - 1;
  for (int32_t p = 0; at >= 0 && p < l->pass_count; ++p) {
    const og_loop_pass *pass = &l->passes[p];
    const bool is_row = at < pass->row_count;
    if (at < pass->row_count + pass->count) {
      og_text_addf(out, "; pass %d, %s: ", (int)p, is_row ? "row" : "elements");
      og_loop_step_print(
          l, is_row ? &pass->row_steps[at] : &pass->steps[at - pass->row_count],
          out);
      og_text_add(out, "\n");
      return;
    }
    at -= pass->row_count + pass->count;
  }
  og_text_add(out, "; frame, loops, joined sums\n");
}

static void bytes_print(const og_x86 *x, size_t from, size_t to, og_text *out) {
  enum { SHOWN = 11 };
  og_text_addf(out, "%6zx ", from);
  for (size_t k = from; k < to; ++k)
    og_text_addf(out, " %02x", (unsigned)x->bytes[k]);
  for (size_t k = to - from; k < SHOWN; ++k) og_text_add(out, "   ");
}

static void records_print(const og_loop_lowered *l, const og_x86 *x,
                          og_text *out) {
  char line[256];
  int32_t origin = -1;
  for (size_t k = 0; k < x->record_count; ++k) {
    const og_x86_record *record = &x->records[k];
    const size_t next =
        k + 1 < x->record_count ? x->records[k + 1].at : x->code_count;
    if (record->origin != origin) origin_print(l, record->origin, out);
    origin = record->origin;
    og_x86_text(x, record, next, line, sizeof line);
    bytes_print(x, record->at, next, out);
    og_text_addf(out, "  %s\n", line);
  }
}

void og_loop_code_print(const og_loop_spec *spec,
                        const og_loop_lowered *lowered, og_isa isa,
                        og_text *out) {
  og_arena arena = {0};
  og_x86 x = {.record_capacity = 1};
  const char *reason = "the interpreter runs it";
  x.records = og_arena_array(&arena, 1, sizeof *x.records);
  if (x.records == NULL)
    out->failed = true;
  else if (isa >= OG_ISA_AVX2)
    reason = og_loop_encode(spec, lowered, isa, &arena, &x);
  if (reason != NULL) {
    og_text_addf(out, "no code: %s\n", reason);
    og_loop_passes_print(lowered, out);
  } else {
    og_text_addf(out, "%zu bytes of code, %zu of constants\n", x.code_count,
                 x.count - x.code_count);
    records_print(lowered, &x, out);
  }
  og_arena_destroy(&arena);
}

void og_loop_print(const og_loop *loop, og_isa isa, og_text *out) {
  const og_loop_lowered *l = og_loop_lowered_of(loop);
  const og_loop_spec *spec = og_loop_spec_of(loop);
  const og_isa most = isa < OG_ISA_AVX512 ? isa : OG_ISA_AVX512;
  for (const char *at = spec->text; *at != '\0';) {
    const size_t length = strcspn(at, ";");
    og_text_add(out, "  ");
    og_text_add_n(out, at, length);
    og_text_add(out, "\n");
    at += length;
    at += strspn(at, "; ");
  }
  og_text_addf(out, "%s, %d pass%s, %d instruction%s%s%s: ", og_isa_name(most),
               (int)l->pass_count, l->pass_count == 1 ? "" : "es",
               (int)l->count, og_plural(l->count),
               spec->prefetch ? ", prefetch" : "",
               spec->nontemporal != 0 ? ", non-temporal stores" : "");
  og_loop_code_print(spec, l, most, out);
}
