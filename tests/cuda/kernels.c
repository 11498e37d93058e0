// SPDX-License-Identifier: Apache-2.0
// Host forms of the kernels of tests/unit/device_cuda.c, for the fake libcuda.

#include <opgraft/op.h>

typedef struct add_parameters {
  const float *x;
  float *y;
  float a;
  int32_t count;
} add_parameters;

OG_EXPORT const size_t opgraft_fake_axpy_sizes[] = {
    sizeof(float *), sizeof(float *), sizeof(float), sizeof(int32_t), 0};
OG_EXPORT void opgraft_fake_axpy(const unsigned grid[3],
                                 const unsigned block[3], unsigned shared_bytes,
                                 void **parameters);

// y = a * x + y, an element by each thread.
void opgraft_fake_axpy(const unsigned grid[3], const unsigned block[3],
                       unsigned shared_bytes, void **parameters) {
  const add_parameters p = {*(const float **)parameters[0],
                            *(float **)parameters[1], *(float *)parameters[2],
                            *(int32_t *)parameters[3]};
  (void)shared_bytes;
  for (unsigned i = 0; i < grid[0] * block[0]; ++i)
    if (i < (unsigned)p.count) p.y[i] += p.a * p.x[i];
}

OG_EXPORT const size_t opgraft_fake_scale_sizes[] = {
    sizeof(float *), sizeof(float), sizeof(int32_t), 0};
OG_EXPORT void opgraft_fake_scale(const unsigned grid[3],
                                  const unsigned block[3],
                                  unsigned shared_bytes, void **parameters);

// x = a * x
void opgraft_fake_scale(const unsigned grid[3], const unsigned block[3],
                        unsigned shared_bytes, void **parameters) {
  float *x = *(float **)parameters[0];
  const float a = *(float *)parameters[1];
  const int32_t count = *(int32_t *)parameters[2];
  (void)shared_bytes;
  for (unsigned i = 0; i < grid[0] * block[0]; ++i)
    if (i < (unsigned)count) x[i] *= a;
}
