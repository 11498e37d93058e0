// SPDX-License-Identifier: Apache-2.0
// A C library as others ship it.

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT void silu_mul(float *out, const float *x, const float *gate, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] / (1 + expf(-x[i])) * gate[i];
}

EXPORT void nothing(float *out, const float *x, int64_t n) {
  (void)out;
  (void)x;
  (void)n;
}

EXPORT int row_sums(double *out, const float *x, int rows, int width) {
  if (width == 0) return 7;
  for (int r = 0; r < rows; ++r) {
    out[r] = 0;
    for (int i = 0; i < width; ++i) out[r] += x[r * width + i];
  }
  return 0;
}

EXPORT void scale_(float *x, double factor, size_t count) {
  for (size_t i = 0; i < count; ++i) x[i] *= (float)factor;
}

// More integers than go by register, with floats and narrow types among them.
EXPORT void nine(float *out, int8_t a, int16_t b, int32_t c, int64_t d,
                 uint8_t e, uint16_t f, float g, uint32_t h, double i) {
  *out = (float)(a + b + c + (double)d + e + f + g + h + i);
}

EXPORT float softsign(float x, double scale) {
  return x / (1 + fabsf(x)) * (float)scale;
}

EXPORT uint32_t add_bytes(const uint8_t *data, size_t size) {
  uint32_t sum = 0;
  for (size_t i = 0; i < size; ++i) sum += data[i];
  return sum;
}

typedef struct {
  int64_t n;
  float by;
} options;

typedef struct {
  const float *x;
  float *out;
  const options *more;
  int shift[2];
  options inner;
} params;

// out = x * (more->by, or 1) + shift[0] + shift[1] + inner.by
EXPORT int run_params(const params *p) {
  for (int64_t i = 0; i < p->inner.n; ++i)
    p->out[i] = p->x[i] * (p->more != NULL ? p->more->by : 1) +
                (float)(p->shift[0] + p->shift[1]) + p->inner.by;
  return p->inner.n < 0;
}

EXPORT void run_options(options by_value, const float *x, float *out) {
  for (int64_t i = 0; i < by_value.n; ++i) out[i] = x[i] * by_value.by;
}

EXPORT double times_data(double x, void *data) {
  return x * *(const double *)data;
}
