// SPDX-License-Identifier: Apache-2.0
// Random numbers that depend on their seed and nothing else.

#ifndef OG_CHECK_SAMPLE_RANDOM_H
#define OG_CHECK_SAMPLE_RANDOM_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct og_random {
  uint64_t state;
} og_random;

// SplitMix64. Source: Steele, Lea and Flood, "Fast Splittable Pseudorandom
// Number Generators", 2014.
static inline uint64_t og_random_next(og_random *r) {
  uint64_t z = (r->state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// A seed of its own for each pair, so that streams are independent.
static inline uint64_t og_seed_mix(uint64_t seed, uint64_t salt) {
  og_random r = {seed ^ (salt * 0xd6e8feb86659fd93u + 0x2545f4914f6cdd1du)};
  og_random_next(&r);
  return og_random_next(&r);
}

// In [0, n); n > 0.
static inline int64_t og_random_below(og_random *r, int64_t n) {
  return (int64_t)(og_random_next(r) % (uint64_t)n);
}

// In [low, high].
static inline int64_t og_random_between(og_random *r, int64_t low,
                                        int64_t high) {
  return low + og_random_below(r, high - low + 1);
}

static inline bool og_random_chance(og_random *r, int percent) {
  return og_random_below(r, 100) < percent;
}

// In (0, 1).
static inline double og_random_unit(og_random *r) {
  return ((double)(og_random_next(r) >> 11) + 0.5) * 0x1p-53;
}

// Normal, by Box and Muller's method.
static inline double og_random_normal(og_random *r) {
  const double radius = sqrt(-2 * log(og_random_unit(r)));
  return radius * cos(6.283185307179586 * og_random_unit(r));
}

#endif  // OG_CHECK_SAMPLE_RANDOM_H
