// SPDX-License-Identifier: Apache-2.0
// Names of what a floating-point environment holds.

#include "base/float_env.h"

#include <stdio.h>

static const struct {
  og_float_env bits;
  const char *name;
} parts[] = {
#if defined(__SSE__)
    {0x8000, "flush-to-zero"},
    {0x0040, "denormals-are-zero"},
    {0x6000, "the rounding mode"},
    {0x1f80, "the masks of exceptions"},
    {0xffffull << 32, "the x87 control word"},
#elif defined(__aarch64__)
    {1u << 24, "flush-to-zero"},
    {3u << 22, "the rounding mode"},
    {0x9f00, "the traps of exceptions"},
    {~(og_float_env)(1u << 24 | 3u << 22 | 0x9f00), "the control register"},
#else
    {~(og_float_env)0, "the rounding mode"},
#endif
};

void og_float_env_name(og_float_env a, og_float_env b, char *out, size_t size) {
  size_t used = 0;
  out[0] = '\0';
  for (size_t i = 0; i < sizeof parts / sizeof *parts && used < size; ++i)
    if (((a ^ b) & parts[i].bits) != 0)
      used += (size_t)snprintf(out + used, size - used, "%s%s",
                               used > 0 ? ", " : "", parts[i].name);
}
