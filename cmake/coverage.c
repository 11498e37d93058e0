// SPDX-License-Identifier: Apache-2.0
// Where code built with ASan says that it is, outside the fuzzers: nothing. A
// fuzzer's own function of the name comes before it (tests/fuzz/driver.c).

void __sanitizer_cov_trace_pc(void);

#if defined(__clang__)
#define UNSEEN no_sanitize("coverage")
#else
#define UNSEEN no_sanitize_coverage
#endif

__attribute__((weak, visibility("default"), UNSEEN)) void
__sanitizer_cov_trace_pc(void) {}
