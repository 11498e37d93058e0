// SPDX-License-Identifier: Apache-2.0
// objdump reads the encoder's code as the encoder says that it
// wrote, instruction by instruction: programs of each kind and random ones, for
// sets that this machine lacks too. Every row of x86.def is met. Skipped where
// there is no objdump.

#define _GNU_SOURCE
#include "loop/encode.h"
#include "unit/loop_grow.h"

enum { PROGRAMS = 300, LINE = 512, CODE_MAX = 32 << 20 };

static bool is_met[OG_X86_COUNT];

typedef struct listing {
  uint8_t *code;
  size_t code_count;
  char (*lines)[LINE];
  size_t line_count, line_capacity;
} listing;

// --- What the encoder says ---------------------------------------------------

static bool listing_add(listing *l, const og_x86 *x) {
  if (l->code_count + x->code_count > CODE_MAX) return false;
  for (size_t k = 0; k < x->record_count; ++k) {
    const size_t next =
        k + 1 < x->record_count ? x->records[k + 1].at : x->code_count;
    if (l->line_count == l->line_capacity) {
      l->line_capacity = 2 * l->line_capacity + 4096;
      l->lines = realloc(l->lines, l->line_capacity * sizeof *l->lines);
      if (l->lines == NULL) return false;
    }
    og_x86_text(x, &x->records[k], next, l->lines[l->line_count++], LINE);
    is_met[x->records[k].instr.id] = true;
  }
  memcpy(l->code + l->code_count, x->bytes, x->code_count);
  l->code_count += x->code_count;
  return true;
}

static void encode(listing *l, const og_loop_spec *spec, og_isa isa) {
  og_arena arena = {0};
  og_loop_program program;
  og_loop_lowered lowered;
  opgraft_error error;
  bool is_row[OG_LOOP_INPUTS_MAX];
  og_x86 x = {.record_capacity = 1};
  for (int32_t k = 0; k < spec->input_count; ++k)
    is_row[k] = spec->inputs[k].form == OG_LOOP_ROW;
  x.records = og_arena_array(&arena, 1, sizeof *x.records);
  REQUIRE(x.records != NULL);
  REQUIRE(og_loop_parse(spec->text, is_row, spec->input_count,
                        spec->output_count, &arena, &program, &error) == OG_OK);
  REQUIRE(og_loop_lower(spec, &program, &arena, &lowered, &error) == OG_OK);
  CHECK_STR(og_loop_encode(spec, &lowered, isa, &arena, &x), NULL);
  CHECK(listing_add(l, &x));
done:
  og_arena_destroy(&arena);
}

// --- What objdump reads ------------------------------------------------------

// An instruction's text with single spaces, without the comment; a jump's
// target is made relative to its program by the caller. False at other lines.
static bool line_read(const char *from, char *to) {
  const char *at = strchr(from, '\t');
  if (at == NULL) return false;
  size_t n = 0;
  for (++at; *at != '\0' && *at != '#' && *at != '\n'; ++at) {
    if (*at == ' ' && (n == 0 || to[n - 1] == ' ')) continue;
    if (n + 1 < LINE) to[n++] = *at;
  }
  while (n > 0 && to[n - 1] == ' ') --n;
  to[n] = '\0';
  return true;
}

static bool is_same(const char *found, const char *said) {
  // Programs stand one behind the other, so objdump's targets are moved.
  const bool is_jump = said[0] == 'j';
  const size_t word = strcspn(said, " ");
  if (is_jump) return strncmp(found, said, word + 1) == 0;
  return strcmp(found, said) == 0;
}

static size_t compare(const listing *l, const char *path) {
  char command[256], line[LINE], text[LINE];
  size_t count = 0;
  snprintf(command, sizeof command,
           "objdump -D -b binary -m i386:x86-64 -M intel --no-show-raw-insn "
           "%s 2>/dev/null",
           path);
  FILE *pipe = popen(command, "r");
  if (pipe == NULL) return 0;
  while (fgets(line, sizeof line, pipe) != NULL) {
    if (!line_read(line, text)) continue;
    if (count < l->line_count && !CHECK(is_same(text, l->lines[count]))) {
      printf("objdump: %s\nencoder: %s\n", text, l->lines[count]);
      break;
    }
    ++count;
  }
  pclose(pipe);
  return count;
}

static void compare_all(const listing *l) {
  char path[] = "/tmp/opgraft_loop_XXXXXX";
  const int file = mkstemp(path);
  REQUIRE(file >= 0);
  const ssize_t wrote = write(file, l->code, l->code_count);
  close(file);
  if (CHECK((size_t)wrote == l->code_count))
    CHECK_EQ(compare(l, path), l->line_count);
  unlink(path);
done:
  return;
}

// --- Programs ----------------------------------------------------------------

// Each type and form, and what random programs rarely need: registers that run
// out, more reductions than registers for them, more rows than pointers.
static void encode_kinds(listing *l, og_isa isa) {
  const og_dtype types[] = {loop_f32, loop_bf16, loop_f16, loop_i64, loop_i32,
                            loop_i16, loop_i8,   loop_u8,  loop_bool};
  for (size_t k = 0; k < sizeof types / sizeof *types; ++k) {
    const og_loop_operand run = {types[k], OG_LOOP_RUN};
    const og_loop_operand row = {types[k], OG_LOOP_ROW};
    const og_loop_operand in[] = {run, row}, out[] = {run, row};
    const og_loop_spec spec = {
        .text =
            "s = row_max(sin(x0)); t = row_sum(x0 * s); u = row_min(x0);"
            "e = erf(x0 - u); y1 = t + x1; y0 = pow(e, x0) + x1",
        .inputs = in,
        .outputs = out,
        .input_count = 2,
        .output_count = 2,
        .prefetch = true};
    encode(l, &spec, isa);
  }
}

TEST(objdump_reads_what_was_written) {
  static grown g;
  listing l = {.code = malloc(CODE_MAX)};
  REQUIRE(l.code != NULL);
  if (system("objdump --version > /dev/null 2>&1") != 0) {
    printf("skipped: there is no objdump\n");
    goto done;
  }
  for (int isa = OG_ISA_AVX2; isa <= OG_ISA_AVX512; ++isa) {
    encode_kinds(&l, (og_isa)isa);
    for (int32_t k = 0; k < PROGRAMS; ++k) {
      grow(&g, (uint64_t)k);
      og_loop_spec spec = grow_spec(&g, (og_isa)isa);
      if (k % 4 == 0) spec.nontemporal = grow_whole_lines(&g);
      encode(&l, &spec, (og_isa)isa);
    }
  }
  compare_all(&l);
  for (int32_t id = 0; id < OG_X86_COUNT; ++id)
    if (!CHECK(is_met[id])) printf("%s\n", og_x86_rows[id].name);
done:
  free(l.code);
  free(l.lines);
}

TEST_MAIN("loop_objdump", CASE_NO_FAULTS(objdump_reads_what_was_written))
