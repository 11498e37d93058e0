// SPDX-License-Identifier: Apache-2.0
// Each word of OPGRAFT_ISA reaches every table and every loop: a set that is
// asked for and ignored would leave the others untested.

#define _POSIX_C_SOURCE 200809L  // setenv, fork

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/isa.h"
#include "base/isa_check.h"
#include "base/loops.h"
#include "kernel/attention.h"
#include "kernel/tables.h"
#include "unit/test.h"

typedef struct set {
  const char *name;
  og_isa isa;
  const og_row_kernels *rows;
  const og_gemm_kernels *gemm;
  const og_attention_kernels *attention;
} set;

static const set sets[] = {
#define OG_ISA(name, level, machine, test)                          \
  machine({#name, OG_ISA_##level, &og_rows_##name, &og_gemm_##name, \
           &og_attention_##name}, )
#include "base/isa.def"
#undef OG_ISA
};
enum { SETS = sizeof sets / sizeof *sets };

// In a process of its own: the variable is read once.
static int look(int asked, og_isa machine) {
  setenv("OPGRAFT_ISA", sets[asked].name, 1);
  const int used = asked < (int)machine ? asked : (int)machine;
  // Only bf16 takes the dot product; other elements have the set before it.
  const int plain = used < OG_ISA_AVX512 ? used : OG_ISA_AVX512;
  if (og_isa_used() != sets[used].isa) return 1;
  if (og_rows() != sets[used].rows) return 2;
  if (og_gemm(OG_F32) != sets[plain].gemm) return 3;
  if (og_attention(OG_F32) != sets[plain].attention) return 4;
  const int dots = (int)og_contraction_isa(OG_BF16);
  const bool is_asked = asked == OG_ISA_AVX512_BF16 && used == asked;
  if (dots > used || (is_asked && dots != used)) return 5;
  if (og_gemm(OG_BF16) != sets[dots].gemm) return 6;
  if (og_attention(OG_BF16) != sets[dots].attention) return 7;
  if (og_loops_use_avx2() != (used >= OG_ISA_AVX2)) return 8;
  return 0;
}

TEST(every_set_is_reached) {
  unsetenv("OPGRAFT_ISA");
  int machine = 0;
  for (int s = -1; s < SETS; ++s) {
    const pid_t child = fork();
    if (child == 0)
      _exit(s < 0 ? (int)og_isa_used() : look(s, (og_isa)machine));
    int status = 0;
    if (!CHECK(child > 0 && waitpid(child, &status, 0) == child &&
               WIFEXITED(status)))
      return;
    if (s < 0)
      machine = WEXITSTATUS(status);
    else if (!CHECK(WEXITSTATUS(status) == 0))
      printf("%s: step %d\n", sets[s].name, WEXITSTATUS(status));
  }
}

TEST(another_word_is_an_error) {
  opgraft_error error;
  setenv("OPGRAFT_ISA", "sse9", 1);
  CHECK(og_isa_check(&error) == OG_INVALID);
  CHECK(strstr(error.text, "'sse9', expected scalar, ") != NULL);
  for (int i = 0; i < OG_ISA_UNKNOWN; ++i)
    CHECK(strstr(error.text, og_isa_name((og_isa)i)) != NULL);
  setenv("OPGRAFT_ISA", "", 1);
  CHECK(og_isa_check(&error) == OG_OK);
  unsetenv("OPGRAFT_ISA");
}

TEST_MAIN("isa_choice", CASE_NO_FAULTS(every_set_is_reached),
          CASE(another_word_is_an_error))
